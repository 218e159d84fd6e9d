package bench

import "runtime"

// liveMemory is what this process keeps in use after a collection: heap and stacks.
func liveMemory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

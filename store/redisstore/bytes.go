package redisstore

import "unsafe"

// bytesOf and stringOf share memory: what the store hands out may be modified by neither side (see package store).

func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are drawn below the range from which the kernel takes the source ports of outgoing connections. A server that
// is down keeps its port that way, and a client that redials it cannot be connected to itself by accident.
const (
	portLow  = 12000
	portHigh = 32000
)

var ports struct {
	sync.Mutex
	taken map[int]bool // by servers of this process, running or stopped
}

func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	var last error
	for range 200 {
		port := portLow + rand.IntN(portHigh-portLow)
		if ports.taken[port] {
			continue
		}
		ln, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			last = err
			continue
		}
		if err := ln.Close(); err != nil {
			return 0, err
		}
		if ports.taken == nil {
			ports.taken = make(map[int]bool)
		}
		ports.taken[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("redistest: no free port: %w", last)
}

func hostPort(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

package proctest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between workers and a server. Cut off, it goes silent: connections stay open, nothing is forwarded, and no end is sent, as when a
// machine between them forgets a connection.
type proxy struct {
	listener net.Listener
	target   string

	over chan struct{} // closed with the proxy

	mu     sync.Mutex
	gate   chan struct{} // closed: bytes pass
	silent bool
	era    int // connections of an earlier one are dead
	conns  map[net.Conn]struct{}
	closed bool
	wg     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}, gate: make(chan struct{}), over: make(chan struct{})}
	close(p.gate)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) url() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(in) })
	}
}

func (p *proxy) serve(in net.Conn) {
	if !p.keep(in) {
		return
	}
	defer p.drop(in)
	era := p.wait(-1)
	out, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(out) {
		return
	}
	defer p.drop(out)
	var both sync.WaitGroup
	for _, way := range [2][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			p.forward(way[0], way[1], era)
			_ = way[0].Close() // an end of one side is an end of both
			_ = way[1].Close()
		})
	}
	both.Wait()
}

// forward copies bytes while the gate is open.
func (p *proxy) forward(from io.Reader, to io.Writer, era int) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.wait(era)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits for the gate that stands now and returns the era; with a connection of an earlier era it waits for the end of the proxy.
func (p *proxy) wait(era int) int {
	p.mu.Lock()
	gate := p.gate
	p.mu.Unlock()
	<-gate
	p.mu.Lock()
	now := p.era
	p.mu.Unlock()
	if era >= 0 && era < now {
		<-p.over
	}
	return now
}

// cut lets the proxy go silent.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.silent {
		p.silent, p.gate = true, make(chan struct{})
	}
}

// heal lets it forward again: what it has kept too, or, if it forgets, only what new connections bring.
func (p *proxy) heal(forget bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if forget {
		p.era++
	}
	if p.silent {
		p.silent = false
		close(p.gate)
	}
}

// keep registers a connection; it reports false, and closes it, if the proxy is closed.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	_ = c.Close()
}

func (p *proxy) close() {
	p.heal(false)
	close(p.over)
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

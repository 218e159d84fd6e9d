package inference

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane/inference/wire"
)

// Producers tell nobody that they have added a request. But a server tells a connection that tracks keys by prefix which of them change, for the price of a
// look-up per write and without any setting of the server: that wakes the intake, and tells of cancels. It only speeds things up.

// blindPoll is the longest time between two looks at a set whose changes are not told.
const blindPoll = 50 * time.Millisecond

// listen tracks the sets and the cancel marks until ctx ends.
func (p *Processor) listen(ctx context.Context, k *pokes) {
	failing := false
	for ctx.Err() == nil {
		names, changed := k.names()
		err := p.track(ctx, prefixes(append(names, wire.CancelPrefix)), changed, func(key string) {
			if id, ok := strings.CutPrefix(key, wire.CancelPrefix); ok {
				p.flights.marked(id)
				return
			}
			k.poke(key)
		})
		p.told.Store(false)
		p.session.end()
		k.poke("")
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failing = false
		case !failing:
			p.log.Warn("the Redis of the producers does not tell of changes: its sets are looked at more often instead", "error", err)
			failing = true
		}
		if err != nil && !pause(ctx, jitter(time.Second)) {
			return
		}
	}
}

// prefixes leaves out what another one covers, as the server wants it.
func prefixes(names []string) []string {
	slices.Sort(names)
	var out []string
	for _, n := range names {
		if len(out) == 0 || !strings.HasPrefix(n, out[len(out)-1]) {
			out = append(out, n)
		}
	}
	return out
}

// track calls changed for each key that changes, until ctx or stop ends or a connection breaks. changed("") stands for all keys.
func (p *Processor) track(ctx context.Context, prefixes []string, stop <-chan struct{}, changed func(key string)) error {
	nodes := []rueidis.Client{p.redis}
	if !p.single {
		nodes = nil
		for _, n := range p.redis.Nodes() {
			nodes = append(nodes, n)
		}
	}
	args := []string{"TRACKING", "ON", "BCAST"}
	for _, x := range prefixes {
		args = append(args, "PREFIX", x)
	}
	var once sync.Once
	broken, failed := make(chan struct{}), error(nil)
	end := func(err error) { once.Do(func() { failed = err; close(broken) }) }
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, n := range nodes {
		dc, release := n.Dedicate()
		defer release()
		lost := dc.SetOnInvalidations(func(keys []rueidis.RedisMessage) {
			if keys == nil {
				changed("")
			}
			for _, m := range keys {
				if key, err := m.ToString(); err == nil {
					changed(key)
				}
			}
		})
		if err := dc.Do(ctx, dc.B().Arbitrary("CLIENT").Args(args...).Build()).Error(); err != nil {
			end(err)
			return err
		}
		wg.Go(func() {
			select {
			case err := <-lost:
				end(err)
			case <-broken:
			}
		})
	}
	p.told.Store(true)
	p.session.begin()
	changed("") // what came before
	select {
	case <-ctx.Done():
	case <-stop:
	case <-broken:
	}
	end(nil)
	return failed
}

// session is a time in which no change of a cancel mark has escaped this process. A request that it has taken in the current session need not be asked
// about before it is sent: its mark was read after the store had it, and every later one was told.
type session struct{ name atomic.Pointer[string] }

func (s *session) begin() {
	name := rand.Text()[:8]
	s.name.Store(&name)
}

func (s *session) end() { s.name.Store(nil) }

// current is the name of the session; empty if there is none.
func (s *session) current() string {
	if name := s.name.Load(); name != nil {
		return *name
	}
	return ""
}

// escaped says that a change may have been missed: a new session begins.
func (s *session) escaped() {
	if s.name.Load() != nil {
		s.begin()
	}
}

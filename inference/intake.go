package inference

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store"
)

// peekBytes is about how much one look at a set may bring.
const peekBytes = 8 << 20

// source takes the members of one set.
type source struct {
	p       *Processor
	id      string        // of the queue
	set     string        // name of the set
	poke    chan struct{} // the set has changed
	average int           // bytes of a member, as last seen
}

// intake takes from the sets of all queues until ctx ends. Queues that are added later are taken up, and those that go are left alone.
func (p *Processor) intake(ctx context.Context) {
	type running struct {
		*source
		stop context.CancelFunc
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	now := map[string]running{}
	pokes := newPokes()
	wg.Go(func() { p.listen(ctx, pokes) })
	wg.Go(func() { p.migrate(ctx, pokes) })
	for {
		changed := p.changed()
		want := map[string]*queue{}
		for _, q := range p.all() {
			want[q.ID+"\x00"+q.Name] = q
		}
		for k, r := range now {
			if want[k] == nil {
				r.stop()
				delete(now, k)
			}
		}
		for k, q := range want {
			if _, ok := now[k]; !ok {
				s := &source{p: p, id: q.ID, set: q.Name, poke: make(chan struct{}, 1), average: 4 << 10}
				sub, stop := context.WithCancel(ctx)
				now[k] = running{s, stop}
				wg.Go(func() { s.run(sub) })
			}
		}
		sources := map[string]chan struct{}{}
		for _, r := range now {
			sources[r.set] = r.poke
		}
		pokes.set(sources)
		select {
		case <-ctx.Done():
			for r := range maps.Values(now) {
				r.stop()
			}
			return
		case <-changed:
		}
	}
}

// run takes until ctx ends.
func (s *source) run(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		n, more, err := s.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !failing {
				s.p.log.Warn("requests cannot be taken from their set; they stay there", "queue", s.id, "set", s.set, "error", err)
			}
			failing = true
			if !pause(ctx, jitter(500*time.Millisecond)) {
				return
			}
			continue
		case failing:
			s.p.log.Info("requests are taken again", "queue", s.id, "set", s.set)
			failing = false
		}
		if n > 0 && more {
			continue
		}
		poll := s.p.cfg.Intake.Poll
		if !s.p.told.Load() {
			poll = min(poll, blindPoll)
		}
		t := time.NewTimer(jitter(poll))
		select {
		case <-ctx.Done():
		case <-s.poke:
		case <-t.C:
		}
		t.Stop()
	}
}

// step takes one look at the set: what is there is copied into the store, and what the store has is removed. more says that the look was full.
func (s *source) step(ctx context.Context) (n int, more bool, err error) {
	q := s.p.queue(s.id)
	if q == nil {
		return 0, false, nil
	}
	most := min(s.p.cfg.Intake.Batch, max(1, peekBytes/max(1, s.average)))
	if room, err := s.p.room(ctx, q); err != nil || room == 0 {
		return 0, false, err
	} else {
		most = min(most, room)
	}
	members, err := s.p.redis.Do(ctx, s.p.redis.B().Zrange().Key(s.set).Min("0").Max(strconv.Itoa(most-1)).Build()).AsStrSlice()
	if err != nil || len(members) == 0 {
		return 0, false, err
	}
	bytes := 0
	for _, m := range members {
		bytes += len(m)
	}
	s.average = max(bytes/len(members), s.average/2)
	kept, err := s.p.keepAll(ctx, q, s.set, members, time.Time{})
	if len(kept) > 0 {
		cmd := s.p.redis.B().Zrem().Key(s.set).Member(kept...).Build()
		if e := s.p.redis.Do(ctx, cmd).Error(); e != nil {
			err = errors.Join(err, e)
		}
	}
	return len(kept), len(members) == most, err
}

// keepAll brings members into the store and returns those that it has.
func (p *Processor) keepAll(ctx context.Context, q *queue, set string, members []string, notBefore time.Time) (kept []string, err error) {
	classes, err := p.classify(ctx, q, members)
	if err != nil {
		return nil, err
	}
	ts := make([]taken, len(members))
	for i, m := range members {
		ts[i] = p.ticket(q, set, []byte(m), classes[i], 0)
	}
	if err := p.putBlobs(ctx, ts, members); err != nil {
		return nil, err
	}
	subs := make([]twolane.Submission, len(ts))
	for i := range ts {
		subs[i] = ts[i].sub
		if !notBefore.IsZero() && notBefore.Before(subs[i].Deadline) {
			subs[i].NotBefore = notBefore
		}
	}
	results, err := p.client.SubmitMany(ctx, subs, nil)
	var created []*taken
	for i, r := range results {
		switch {
		case r.Err == nil && r.Created:
			p.numbers.taken(q, subs[i].Type == deadName)
			if subs[i].Type == deadName {
				p.log.Warn("a member is no request and is kept as a dead letter", "queue", q.ID, "set", set, "id", subs[i].ID, "why", subs[i].Metadata[metaWhy])
			}
			kept, created = append(kept, members[i]), append(created, &ts[i])
		case r.Err == nil:
			again, e := p.known(ctx, q, set, members[i], &ts[i], r)
			if e != nil {
				err = errors.Join(err, e)
			} else if again {
				kept = append(kept, members[i])
			}
		case errors.Is(r.Err, twolane.ErrIDConflict):
			p.numbers.duplicate(q)
			p.log.Warn("a request has the id and token of another one with other contents; the first one stands, the second is removed", "queue", q.ID, "id", subs[i].ID)
			kept = append(kept, members[i])
		case errors.Is(r.Err, store.ErrInvalid) && subs[i].Type != deadName:
			dead := p.deadLetter(q, set, []byte(members[i]), r.Err.Error())
			if e := p.putBlobs(ctx, []taken{dead}, members[i:i+1]); e != nil {
				err = errors.Join(err, e)
			} else if _, e := p.client.Submit(ctx, dead.sub); e != nil {
				err = errors.Join(err, e)
			} else {
				p.numbers.taken(q, true)
				kept = append(kept, members[i])
			}
		default:
			err = errors.Join(err, r.Err)
		}
	}
	p.flights.taken(ctx, created)
	return kept, err
}

// known deals with a member whose command is known: by an earlier try, by another processor, or because it was submitted before. A request without a
// token has nothing else to be told by, so if its command has ended it is a new one.
func (p *Processor) known(ctx context.Context, q *queue, set, member string, t *taken, r twolane.SubmitResult) (done bool, err error) {
	if t.sub.Metadata[metaToken] != "" || t.sub.Type == deadName || !r.Status.Terminal() {
		p.numbers.duplicate(q)
		return true, nil
	}
	for generation := 1; generation < 1<<16; generation++ {
		// The one who took it may just be removing it: only what is still there is new.
		if err := p.redis.Do(ctx, p.redis.B().Zscore().Key(set).Member(member).Build()).Error(); rueidis.IsRedisNil(err) {
			return true, nil
		} else if err != nil {
			return false, err
		}
		next := p.ticket(q, set, []byte(member), t.sub.Metadata[metaClass], generation)
		if err := p.putBlobs(ctx, []taken{next}, []string{member}); err != nil {
			return false, err
		}
		r, err := p.client.Submit(ctx, next.sub)
		switch {
		case err != nil:
			return false, err
		case r.Created:
			p.numbers.taken(q, false)
			return true, nil
		case !r.Status.Terminal():
			p.numbers.duplicate(q)
			return true, nil
		}
	}
	return false, errors.New("a request without a token was submitted too often")
}

// putBlobs leaves members that are too large for the store in keys of the producers' Redis, before their commands refer to them. The keys end by
// themselves some time after the request.
func (p *Processor) putBlobs(ctx context.Context, ts []taken, members []string) error {
	var cmds rueidis.Commands
	for i := range ts {
		if ts[i].blob != "" {
			ttl := max(time.Until(ts[i].until), 0) + time.Hour
			cmds = append(cmds, p.redis.B().Set().Key(ts[i].blob).Value(members[i]).Px(ttl).Build())
		}
	}
	for _, r := range p.redis.DoMulti(ctx, cmds...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}

// room is how many more requests of a queue may wait in the store.
func (p *Processor) room(ctx context.Context, q *queue) (int, error) {
	most := p.cfg.Intake.MaxWaiting
	if most == 0 {
		return store.MaxItems, nil
	}
	var names []string
	for _, lane := range p.lanes() {
		names = append(names, queueName(q.Pool, lane))
	}
	st, err := p.client.Stats(ctx, names...)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, x := range st.Queues {
		n += x.Lanes[twolane.Intake].InLine + x.Scheduled
	}
	return max(0, most-n), nil
}

// pokes tells sources that their sets have changed.
type pokes struct {
	mu      sync.Mutex
	sources map[string]chan struct{}
	changed chan struct{} // closed when the names have changed
}

func newPokes() *pokes { return &pokes{changed: make(chan struct{})} }

func (k *pokes) set(sources map[string]chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sources = sources
	close(k.changed)
	k.changed = make(chan struct{})
}

// names lists the sets, and a channel that is closed when they change.
func (k *pokes) names() ([]string, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.sources)), k.changed
}

// poke wakes the source of a set; "" wakes all.
func (k *pokes) poke(set string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, c := range k.sources {
		if set == "" || set == name {
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}
}

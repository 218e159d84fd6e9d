package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// filedLine is a line that waits under the one key that stopped it. Its commands are no candidates until it is opened.
type filedLine struct {
	line   string
	queue  string
	lane   store.Lane
	since  store.Millis // run clock
	retest store.Millis // run clock
	opened bool         // it has the turn
	passed int          // how often it let room stand
}

// members sums the costs of the members of a key.
func (s *Store) members(k store.LimitKey) int {
	n := 0
	s.live(func(c *store.Command) {
		if slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.LimitKey == k }) {
			n += c.Cost
		}
	})
	return n
}

// limit is the configured limit of a key, or nil if it is not in force any more.
func (s *Store) limit(now rule.Now, k store.LimitKey) *store.Limit {
	for i := range s.cfg.Limits {
		if l := &s.cfg.Limits[i]; l.Name == k.Limit && (l.Until == 0 || now.Wall < l.Until) {
			return l
		}
	}
	return nil
}

// room reports whether the key could admit a command of the given cost now, and if not, how long until time alone may change that.
func (s *Store) room(now rule.Now, k store.LimitKey, l *store.Limit, cost int) (bool, time.Duration) {
	if l == nil || l.Classify {
		return true, 0
	}
	wait := time.Duration(0)
	if l.Until != 0 {
		wait = l.Until.Sub(now.Wall)
	}
	if l.Rate > 0 {
		r, closed := rule.RateOf(l, k.Value)
		if closed {
			return false, wait
		}
		_, got, next := s.limitBuckets[k].Take(r, now.Run, 1)
		return got > 0, sooner(wait, next)
	}
	return s.members(k)+cost <= rule.MaxOf(l, k.Value), wait
}

// admit says whether c may be granted under its limits, all or none; if not, which key stopped it, and when time alone may change that. It
// files the line of c under that key.
func (cl *claim) admit(c *store.Command, as []rule.Applied) (ok bool, stopped store.LimitKey, wait time.Duration) {
	line := rule.Line(c)
	for i := range as {
		a := &as[i]
		if !rule.Waits(c, a) {
			continue
		}
		room, next := cl.s.room(cl.now, a.LimitKey, a.Limit, c.Cost)
		filed := cl.s.filed[a.LimitKey]
		first := len(filed) > 0 && !slices.ContainsFunc(filed, func(f *filedLine) bool { return f.line == line })
		if !room || first { // room belongs to those that were filed before
			cl.s.file(cl.now, a.LimitKey, c, line, next)
			return false, a.LimitKey, next
		}
	}
	return true, store.LimitKey{}, 0
}

// file puts a line under the key that stopped it, at the tail unless it stands there already, and takes it from any other.
func (s *Store) file(now rule.Now, k store.LimitKey, c *store.Command, line string, wait time.Duration) {
	s.unfile(now, line, k)
	retest := now.Run + rule.Retest
	if wait > 0 {
		retest = min(retest, now.Run.Add(wait))
	}
	for _, f := range s.filed[k] {
		if f.line == line {
			f.opened, f.retest = false, retest
			return
		}
	}
	s.filed[k] = append(s.filed[k], &filedLine{line: line, queue: c.Queue, lane: c.Lane(), since: now.Run, retest: retest})
}

// unfile takes a line from every key but one; whoever stands behind it there gets its turn.
func (s *Store) unfile(now rule.Now, line string, but store.LimitKey) {
	for _, k := range s.filedKeys() {
		if k == but {
			continue
		}
		before := len(s.filed[k])
		s.filed[k] = slices.DeleteFunc(s.filed[k], func(f *filedLine) bool { return f.line == line })
		if len(s.filed[k]) < before {
			s.openNext(now, k)
		}
	}
}

// openNext opens the oldest line filed under a key that has room, a hint on which nothing depends; lines without commands go.
func (s *Store) openNext(now rule.Now, k store.LimitKey) {
	l := s.limit(now, k)
	for len(s.filed[k]) > 0 {
		i := slices.IndexFunc(s.filed[k], func(f *filedLine) bool { return !f.opened && !s.stops(now, f) })
		if i < 0 {
			return
		}
		f := s.filed[k][i]
		head := s.head(f.line)
		if head == nil {
			s.filed[k] = slices.Delete(s.filed[k], i, i+1)
			continue
		}
		if ok, _ := s.room(now, k, l, head.Cost); ok {
			f.opened, f.retest = true, now.Run+rule.Retest
			s.wake(store.Wake{Kind: store.WakeWork, Queue: f.queue, Lane: f.lane})
		}
		return
	}
	delete(s.filed, k)
}

// stops reports whether the queue of a filed line is paused for it: room is not offered to it meanwhile.
func (s *Store) stops(now rule.Now, f *filedLine) bool {
	p := s.cfg.Queue(f.queue).Paused(now.Wall)
	return p == store.PauseAll || p == store.PauseIntake && f.lane == store.Intake
}

// head is some command in line of a line, or nil.
func (s *Store) head(line string) *store.Command {
	var head *store.Command
	s.live(func(c *store.Command) {
		if c.Place == store.InLine && rule.Line(c) == line && (head == nil || c.Seq < head.Seq) {
			head = c
		}
	})
	return head
}

// retest goes through the filed lines whose time has come: those of a limit that is gone are opened, one that let room stand goes to the tail, and
// the oldest is opened if there is room.
func (s *Store) retest(now rule.Now) {
	for _, k := range s.filedKeys() {
		l := s.limit(now, k)
		if l == nil {
			for _, f := range s.filed[k] {
				s.wake(store.Wake{Kind: store.WakeWork, Queue: f.queue, Lane: f.lane})
			}
			delete(s.filed, k)
			continue
		}
		var stay, tail []*filedLine
		due := false
		for _, f := range s.filed[k] {
			if now.Run < f.retest {
				stay = append(stay, f)
				continue
			}
			due = true
			f.retest = now.Run + rule.Retest
			if f.opened {
				f.opened = false
				f.passed++
				tail = append(tail, f)
				continue
			}
			stay = append(stay, f)
		}
		if s.filed[k] = append(stay, tail...); due {
			s.openNext(now, k)
		}
	}
}

// closed reports whether a line is filed and has no turn.
func (s *Store) closedLines() map[string]bool {
	m := map[string]bool{}
	for _, fs := range s.filed {
		for _, f := range fs {
			if !f.opened {
				m[f.line] = true
			}
		}
	}
	return m
}

func (s *Store) filedKeys() []store.LimitKey {
	return slices.SortedFunc(maps.Keys(s.filed), func(a, b store.LimitKey) int {
		return strings.Compare(a.Limit+" "+a.Value, b.Limit+" "+b.Value)
	})
}

// left lets those who wait for the memberships that c has given up have their turn.
func (s *Store) left(now rule.Now, before []store.Hold, c *store.Command) {
	for _, h := range before {
		if !slices.Contains(c.Holds, h) {
			s.openNext(now, h.LimitKey)
		}
	}
}

// taken makes a granted command a member, takes the tokens of its rate limits, and gives its line's place under every key to the next.
func (cl *claim) taken(c *store.Command, as []rule.Applied, first bool) {
	over := false
	for i := range as {
		a := &as[i]
		if a.Limit.Rate > 0 {
			if first {
				r, _ := rule.RateOf(a.Limit, a.Value)
				cl.s.limitBuckets[a.LimitKey], _, _ = cl.s.limitBuckets[a.LimitKey].Take(r, cl.now.Run, 1)
			}
			continue
		}
		over = over || a.Limit.Classify && cl.s.members(a.LimitKey)+c.Cost > a.Max
	}
	line := rule.Line(c) // a suspect that joins stands in another line from now on
	rule.Join(c, as, over)
	cl.s.unfile(cl.now, line, store.LimitKey{})
	for _, a := range as {
		cl.s.openNext(cl.now, a.LimitKey)
	}
}

// Limit implements [store.Store].
func (s *Store) Limit(ctx context.Context, k store.LimitKey) (store.LimitState, error) {
	if err := s.begin(ctx); err != nil {
		return store.LimitState{}, err
	}
	defer s.mu.Unlock()
	now := s.look()
	l := s.limit(now, k)
	if l == nil {
		return store.LimitState{}, store.ErrNotFound
	}
	st := store.LimitState{Key: k, Max: rule.MaxOf(l, k.Value), Members: s.members(k), Lines: len(s.filed[k])}
	s.live(func(c *store.Command) {
		if slices.ContainsFunc(c.Holds, func(h store.Hold) bool { return h.LimitKey == k }) {
			st.Holders = append(st.Holders, c.ID)
		}
	})
	slices.Sort(st.Holders)
	st.Holders = st.Holders[:min(len(st.Holders), store.MaxItems)]
	for _, f := range s.filed[k] {
		st.Next = sooner(st.Next, max(time.Millisecond, f.retest.Sub(now.Run)))
		if len(st.Filed) >= 100 {
			continue
		}
		fl := store.FiledLine{Line: f.line, Queue: f.queue, Since: f.since, Passed: f.passed}
		s.live(func(c *store.Command) {
			if c.Place == store.InLine && rule.Line(c) == f.line {
				fl.Type, fl.Group = c.Type, c.Group
				fl.Waiting++
			}
		})
		st.Filed = append(st.Filed, fl)
	}
	return st, nil
}

package memstore

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twolane/twolane/internal/mutant"
	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// filed are the lines that wait under one key, oldest first.
type filed struct {
	lines []*filedLine
	stood store.Millis // run clock since when room stands for the oldest line; 0 if none does
}

// filedLine is a line that one key has stopped. Its commands are no candidates until it is opened.
type filedLine struct {
	line   string
	like   store.Command // some command of it: all are alike to limits
	since  store.Millis  // run clock
	retest store.Millis  // run clock
	opened bool          // it may take room
	never  bool          // its cost is over the limit: it has no claim to room
}

// members sums the costs of the members of a key.
func (s *Store) members(k store.LimitKey) int {
	n := 0
	s.live(func(c *store.Command) {
		if rule.Holds(c, k) {
			n += c.Cost
		}
	})
	return n
}

// limit is the configured limit of a key, or nil if it is not in force any more.
func (s *Store) limit(now rule.Now, k store.LimitKey) *store.Limit {
	for i := range s.cfg.Limits {
		if l := &s.cfg.Limits[i]; l.Name == k.Limit && l.At(now.Wall) {
			return l
		}
	}
	return nil
}

// room reports whether the key could admit a command of the given cost now, and if not, how long until time alone may change that.
func (s *Store) room(now rule.Now, k store.LimitKey, cost int) (bool, time.Duration) {
	l := s.limit(now, k)
	if l == nil || l.Classify || mutant.On(mutant.SkipRoomTest) {
		return true, 0
	}
	wait := time.Duration(0)
	if l.Until != 0 {
		wait = l.Until.Sub(now.Wall)
	}
	if l.Rate > 0 {
		r, closed := l.RateOf(k.Value)
		if closed {
			return false, wait
		}
		_, got, next := s.limitBuckets[k].Take(r, now.Run, 1)
		return got > 0, sooner(wait, next)
	}
	return s.members(k)+cost <= l.MaxOf(k.Value), wait
}

// stopper says which of its limits stops c, if one does, and when time alone may change that. Nothing is taken: all or none.
func (s *Store) stopper(now rule.Now, c *store.Command, as []rule.Applied) (k store.LimitKey, stopped bool, wait time.Duration) {
	line := rule.Line(c)
	for i := range as {
		a := &as[i]
		if !rule.Waits(c, a) {
			continue
		}
		if room, next := s.room(now, a.LimitKey, c.Cost); !room {
			return a.LimitKey, true, next
		}
		if s.behind(now, a.LimitKey, line) {
			return a.LimitKey, true, 0
		}
		if mutant.On(mutant.FirstLimitOnly) {
			break
		}
	}
	return store.LimitKey{}, false, 0
}

// behind reports whether older lines are filed under the key, to whom its room belongs. Room that was left for a second is anybody's.
func (s *Store) behind(now rule.Now, k store.LimitKey, line string) bool {
	f := s.front(now, k)
	if f == nil || s.filed[k].left(now) || mutant.On(mutant.NewcomerTakesRoom) {
		return false
	}
	i := slices.IndexFunc(s.filed[k].lines, func(g *filedLine) bool { return g.line == line })
	return i < 0 || f.line != line && !s.filed[k].lines[i].opened
}

// front is the line that room of the key belongs to, or nil: the oldest. What has no command to run, or stands in a paused queue, is filed no
// more; what never fits is passed by.
func (s *Store) front(now rule.Now, k store.LimitKey) *filedLine {
	fs := s.filed[k]
	if fs == nil {
		return nil
	}
	for _, f := range slices.Clone(fs.lines) {
		switch {
		case !s.claimable(now, f) || s.pausedLine(now, f):
			fs.remove(f)
		case !s.never(now, k, f):
			return f
		}
	}
	fs.stood = 0
	if len(fs.lines) == 0 {
		delete(s.filed, k)
	}
	return nil
}

// left reports whether room has stood for so long that whoever can use it may have it.
func (fs *filed) left(now rule.Now) bool {
	return fs.stood != 0 && now.Run-fs.stood >= rule.Retest && !mutant.On(mutant.RoomIsKept)
}

func (fs *filed) remove(f *filedLine) {
	fs.lines = slices.DeleteFunc(fs.lines, func(g *filedLine) bool { return g == f })
}

// never notes whether a line could not have room even if nothing held any.
func (s *Store) never(now rule.Now, k store.LimitKey, f *filedLine) bool {
	l := s.limit(now, k)
	f.never = l != nil && rule.Never(l, k.Value, f.like.Cost)
	return f.never
}

func (s *Store) pausedLine(now rule.Now, f *filedLine) bool {
	p := s.cfg.Queue(f.like.Queue).Paused(now.Wall)
	return p == store.PauseAll || p == store.PauseIntake && f.like.Lane() == store.Intake
}

// claimable reports whether a command of the line could run now.
func (s *Store) claimable(now rule.Now, f *filedLine) bool {
	for _, c := range s.cmds {
		if !c.Status.Terminal() && f.has(c) && rule.Claimable(now, c) {
			return true
		}
	}
	return false
}

// has reports whether c stands in the line.
func (f *filedLine) has(c *store.Command) bool {
	return c.Place == store.InLine && c.Type == f.like.Type && c.Group == f.like.Group && rule.Line(c) == f.line
}

// file puts the line of c under the key that stopped it: at the tail, or where it stands there already. It leaves every other key.
func (s *Store) file(now rule.Now, k store.LimitKey, c *store.Command, wait time.Duration) {
	line := rule.Line(c)
	s.unfile(now, line, k)
	fs := s.filed[k]
	if fs == nil {
		fs = &filed{}
		s.filed[k] = fs
	}
	i := slices.IndexFunc(fs.lines, func(f *filedLine) bool { return f.line == line })
	if i < 0 {
		i = len(fs.lines)
		fs.lines = append(fs.lines, &filedLine{line: line, like: *c, since: now.Run})
	}
	f := fs.lines[i]
	f.opened, f.retest = false, retestAt(now, wait)
	s.never(now, k, f)
}

func retestAt(now rule.Now, wait time.Duration) store.Millis {
	at := now.Run + rule.Retest
	if wait > 0 {
		at = min(at, now.Run.Add(wait))
	}
	return at
}

// unfile opens a line: it is filed under no key but one. Whoever stood behind it has its turn.
func (s *Store) unfile(now rule.Now, line string, but store.LimitKey) {
	for _, k := range s.filedKeys() {
		if k == but {
			continue
		}
		fs := s.filed[k]
		if i := slices.IndexFunc(fs.lines, func(f *filedLine) bool { return f.line == line }); i >= 0 {
			fs.remove(fs.lines[i])
			s.hint(now, k)
		}
	}
}

// hint opens the oldest line filed under a key that has room for it. Nothing depends on it.
func (s *Store) hint(now rule.Now, k store.LimitKey) {
	f := s.front(now, k)
	if f == nil || mutant.On(mutant.DropHint) {
		return
	}
	fs := s.filed[k]
	if ok, _ := s.room(now, k, f.like.Cost); !ok {
		fs.stood = 0
		return
	}
	if fs.stood == 0 {
		fs.stood = now.Run
	}
	if !f.opened {
		s.open(now, f)
	}
}

func (s *Store) open(now rule.Now, f *filedLine) {
	f.opened, f.retest = true, now.Run+rule.Retest
	s.wakeLine(f)
}

func (s *Store) wakeLine(f *filedLine) {
	s.wake(store.Wake{Kind: store.WakeWork, Queue: f.like.Queue, Lane: f.like.Lane()})
}

// retest looks again at the filed lines whose time has come.
func (s *Store) retest(now rule.Now) {
	if mutant.On(mutant.ForgetRetest) {
		return
	}
	for _, k := range s.filedKeys() {
		for _, f := range slices.Clone(s.filed[k].lines) {
			if fs := s.filed[k]; fs != nil && now.Run >= f.retest && slices.Contains(fs.lines, f) {
				s.retestLine(now, k, fs, f)
			}
		}
	}
	for line := range s.passed {
		if !s.waits(line) {
			delete(s.passed, line)
		}
	}
}

func (s *Store) retestLine(now rule.Now, k store.LimitKey, fs *filed, f *filedLine) {
	never := f.never
	room, wait := s.room(now, k, f.like.Cost)
	switch {
	case !rule.WaitsFor(now, &s.cfg, &f.like, k) || never && !s.never(now, k, f):
		fs.remove(f) // what stopped it is gone
		s.wakeLine(f)
		s.hint(now, k)
		return
	case !room:
		f.opened, f.retest = false, retestAt(now, wait)
		s.hint(now, k) // room for the oldest may have gone too
		return
	}
	f.retest = now.Run + rule.Retest
	s.hint(now, k)
	switch {
	case !slices.Contains(fs.lines, f):
	case f.opened && fs.left(now): // it let room stand: it loses its place, and comes to the tail when it is next refused
		fs.remove(f)
		s.passed[f.line]++
		s.hint(now, k)
	case f.opened && fs.stood != 0:
		f.retest = fs.stood + rule.Retest
	case fs.left(now): // the oldest did not use it: whoever waits may
		s.open(now, f)
	}
}

func (s *Store) waits(line string) bool {
	found := false
	s.live(func(c *store.Command) { found = found || c.Place == store.InLine && rule.Line(c) == line })
	return found
}

// closedLines are those that are filed and not opened.
func (s *Store) closedLines() map[string]bool {
	m := map[string]bool{}
	for _, fs := range s.filed {
		for _, f := range fs.lines {
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
			s.hint(now, h.LimitKey)
		}
	}
}

// taken makes a granted command a member of its limits, takes the tokens of its rates, and opens what is left of its line: that queues anew.
func (cl *claim) taken(c *store.Command, as []rule.Applied, first bool) {
	s := cl.s
	for i := range as {
		a := &as[i]
		if a.Limit.Rate == 0 {
			continue
		}
		if r, closed := a.Limit.RateOf(a.Value); first && !closed && !mutant.On(mutant.ForgetLimitToken) {
			s.limitBuckets[a.LimitKey] = s.limitBuckets[a.LimitKey].Force(r, cl.now.Run)
		}
	}
	line, before := rule.Line(c), slices.Clone(c.Holds) // a suspect that joins stands in another line from now on
	joins, over := rule.Reserve(c, as, s.members)
	rule.Join(c, joins, over)
	delete(s.passed, line)
	if !mutant.On(mutant.ForgetUnfile) {
		s.unfile(cl.now, line, store.LimitKey{})
	}
	for i := range as {
		if fs := s.filed[as[i].LimitKey]; fs != nil && (as[i].Limit.Rate > 0 || rule.Holds(c, as[i].LimitKey)) {
			fs.stood = 0
			s.hint(cl.now, as[i].LimitKey)
		}
	}
	s.left(cl.now, before, c)
}

// filedFor is a key under which a line of the want is filed, and when it is tested next.
func (s *Store) filedFor(now rule.Now, w *store.Want, types map[string]*store.TypeWant) (key store.LimitKey, next time.Duration, ok bool) {
	for _, k := range s.filedKeys() {
		for _, f := range s.filed[k].lines {
			if f.like.Queue != w.Queue || f.like.Lane() != w.Lane || types[f.like.Type] == nil || !s.claimable(now, f) {
				continue
			}
			if !ok {
				key, ok = k, true
			}
			next = sooner(next, max(time.Millisecond, f.retest.Sub(now.Run)))
		}
	}
	return key, next, ok
}

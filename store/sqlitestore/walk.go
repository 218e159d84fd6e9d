package sqlitestore

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/twolane/twolane/store"
)

// cursor is a place in a walk over the commands of a queue and status. Finished ones have the index cmd_ended; live ones have no list of
// their own, which every command would have to pay for: the walk goes over the places instead, each in an order in which a command that stays where it
// is keeps its place.
type cursor struct {
	phase     int64
	major     int64 // finished: the end; scheduled: waits; in line: the type
	line      int64
	minor     int64 // scheduled: at; in line: the score
	n         int64
	passed    int64 // see actPiece
	beginning bool
}

const (
	phaseFinished = iota
	phaseLeased
	phaseScheduled
	phaseInLine
	phaseOver
)

func (c cursor) String() string {
	parts := make([]string, 0, 6)
	for _, n := range [...]int64{c.phase, c.major, c.line, c.minor, c.n, c.passed} {
		parts = append(parts, strconv.FormatInt(n, 36))
	}
	return strings.Join(parts, ".")
}

func parseCursor(s string, status store.Status) (cursor, error) {
	c := cursor{beginning: s == ""}
	if !status.Terminal() {
		c.phase = phaseLeased
	}
	if s == "" {
		return c, nil
	}
	parts := strings.Split(s, ".")
	bad := len(parts) != 6
	for i, p := range [...]*int64{&c.phase, &c.major, &c.line, &c.minor, &c.n, &c.passed} {
		if !bad {
			n, err := strconv.ParseInt(parts[i], 36, 64)
			*p, bad = n, err != nil
		}
	}
	if bad || c.phase < 0 || c.phase > phaseOver || (c.phase == phaseFinished) != status.Terminal() {
		return c, &store.InvalidError{Field: "cursor", Detail: fmt.Sprintf("%q is not one of this store's", s)}
	}
	return c, nil
}

// walk returns the next places after from, at most limit, and where to go on; done says that there are none behind.
func walk(q query, queue int64, status store.Status, from cursor, limit int) (at []cursor, next cursor, done bool, err error) {
	w := walker{q: q, queue: queue, status: status, at: from, limit: limit}
	for len(w.found) < limit && w.at.phase < phaseOver && !w.tired {
		if err := [...]func() error{w.finished, w.leased, w.scheduled, w.inLine}[w.at.phase](); err != nil {
			return nil, w.at, false, err
		}
	}
	return w.found, w.at, w.at.phase == phaseOver, nil
}

type walker struct {
	q      query
	queue  int64
	status store.Status
	at     cursor
	limit  int
	found  []cursor
	tired  bool // it has looked at enough that was nothing
}

// follow takes the rows of st, of which place makes cursors, up to the limit. It reports whether there were fewer.
func (w *walker) follow(st stmt, place func() cursor) (bool, error) {
	for len(w.found) < w.limit {
		ok, err := st.Step()
		if err != nil || !ok {
			return true, err
		}
		c := place()
		w.found, w.at = append(w.found, c), c
	}
	st.Reset()
	return false, nil
}

// enter begins the next phase.
func (w *walker) enter(phase int64) {
	w.at = cursor{phase: phase, major: -1, line: -1, minor: math.MinInt64, n: -1}
}

func (w *walker) finished() error {
	if w.at.beginning {
		w.at = cursor{major: math.MaxInt64, n: math.MaxInt64}
	}
	st := w.q.q("SELECT ended, n FROM cmd WHERE q=? AND status=? AND ended IS NOT NULL AND (ended, n) < (?,?) ORDER BY ended DESC, n DESC LIMIT ?").
		Int(w.queue).Int(int64(w.status)).Int(w.at.major).Int(w.at.n).Int(int64(w.limit))
	over, err := w.follow(st, func() cursor { return cursor{major: st.ColInt(0), n: st.ColInt(1)} })
	if over && len(w.found) < w.limit {
		w.at.phase = phaseOver
	}
	return err
}

// maxLeased is how many leases a walk can tell apart.
const maxLeased = 50_000

// leased goes over all leases by number, since their order by end changes with every renewal.
func (w *walker) leased() error {
	var ns []int64
	st := w.q.q("SELECT n, q, status FROM cmd WHERE waits=1 LIMIT ?").Int(maxLeased)
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if n := st.ColInt(0); n > w.at.n && st.ColInt(1) == w.queue && store.Status(st.ColInt(2)) == w.status {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	for _, n := range ns {
		if len(w.found) == w.limit {
			return nil
		}
		w.at = cursor{phase: phaseLeased, n: n}
		w.found = append(w.found, w.at)
	}
	if len(w.found) < w.limit {
		w.enter(phaseScheduled)
	}
	return nil
}

func (w *walker) scheduled() error {
	for _, waits := range [...]int64{8*w.queue + waitsRun, 8*w.queue + waitsWall} {
		if w.status != store.Pending || w.at.major > waits {
			continue
		}
		if w.at.major < waits {
			w.at.major, w.at.minor, w.at.n = waits, math.MinInt64, -1
		}
		st := w.q.q("SELECT at, n FROM cmd WHERE waits=? AND (at, n) > (?,?) ORDER BY at, n LIMIT ?").
			Int(waits).Int(w.at.minor).Int(w.at.n).Int(int64(w.limit - len(w.found)))
		if _, err := w.follow(st, func() cursor {
			return cursor{phase: phaseScheduled, major: waits, minor: st.ColInt(0), n: st.ColInt(1)}
		}); err != nil || len(w.found) == w.limit {
			return err
		}
	}
	w.enter(phaseInLine)
	return nil
}

// maxWalked bounds how many lines one walk goes through.
const maxWalked = 1000

// inLine goes over the types of the queue, their lines, and what stands in these.
func (w *walker) inLine() error {
	var kinds []int64
	st := w.q.q("SELECT k FROM kind WHERE q=?").Int(w.queue)
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		kinds = append(kinds, st.ColInt(0))
	}
	slices.Sort(kinds)
	walked := 0
	for _, k := range kinds {
		if k < w.at.major {
			continue
		}
		if k > w.at.major {
			w.at = cursor{phase: phaseInLine, major: k, line: -1, minor: math.MinInt64, n: -1}
		}
		for {
			line, ok, err := w.line(k)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if line != w.at.line {
				w.at = cursor{phase: phaseInLine, major: k, line: line, minor: math.MinInt64, n: -1}
			}
			st := w.q.q("SELECT score, n FROM cmd WHERE line=? AND (score, n) > (?,?) ORDER BY score, n LIMIT ?").
				Int(line).Int(w.at.minor).Int(w.at.n).Int(int64(w.limit - len(w.found)))
			passed := w.at.passed
			if _, err := w.follow(st, func() cursor {
				return cursor{phase: phaseInLine, major: k, line: line, minor: st.ColInt(0), n: st.ColInt(1), passed: passed}
			}); err != nil || len(w.found) == w.limit {
				return err
			}
			w.at.line++ // the next one
			w.at.minor, w.at.n, w.at.passed = math.MinInt64, -1, 0
			if walked++; walked == maxWalked {
				w.tired = true
				return nil
			}
		}
	}
	w.at.phase = phaseOver
	return nil
}

// line is the next line of a type at or after the place of the walk.
func (w *walker) line(k int64) (ln int64, ok bool, err error) {
	lane := int64(laneOf(w.status))
	st := w.q.q("SELECT ln FROM line WHERE k=? AND lane=? AND ln>=? AND head IS NOT NULL ORDER BY ln LIMIT 1").Int(k).Int(lane).Int(w.at.line)
	if ok, err = st.Step(); err != nil || !ok {
		return 0, false, err
	}
	ln = st.ColInt(0)
	st.Reset()
	return ln, true, nil
}

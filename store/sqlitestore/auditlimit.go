package sqlitestore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// auditMember is a command that holds limits, as its record says.
type auditMember struct {
	id    string
	cost  int
	place store.Place
	holds []store.Hold
}

// member adds a command to the members of its limits.
func (a *audit) member(w *row) {
	c := w.c
	if len(c.Holds) == 0 {
		return
	}
	a.members[w.n] = auditMember{c.ID, c.Cost, c.Place, c.Holds}
	for _, h := range c.Holds {
		a.sums[h.LimitKey] += c.Cost
	}
}

// limits checks that what is counted and indexed of memberships follows from the records.
func (a *audit) limits() error {
	ns := &a.r.ns
	if err := a.r.rows(a.r.q(selectRoom+"r>0"), func(st stmt) {
		rm := roomOf(st)
		a.rooms[rm.r], a.roomsBy[rm.key] = rm, rm
	}); err != nil {
		return err
	}
	for r, rm := range a.rooms {
		if rm.members != a.sums[rm.key] {
			a.bad("limit "+rm.key.String(), "says %d members; the costs of the commands that hold it are %d", rm.members, a.sums[rm.key])
		}
		if at := rm.at; rm.lines > 0 && at != 0 && at+rule.Retest < ns.clocks.Run {
			a.bad("limit "+rm.key.String(), "number %d was to be tested again at %d; it is %d", r, at, ns.clocks.Run)
		}
	}
	for key, n := range a.sums {
		if a.roomsBy[key] == nil {
			a.bad("limit "+key.String(), "is not counted; commands that hold it cost %d", n)
		}
	}
	if n := int64(len(a.members)); n != ns.held {
		a.bad("limits", "say that %d commands are members; there are %d", ns.held, n)
	}
	if n := int64(len(a.rooms)); n != ns.rooms {
		a.bad("limits", "say that %d values are counted; there are %d", ns.rooms, n)
	}
	if ns.filed > 0 && ns.sweep == 0 && ns.clocks.Run-ns.swept > 2*rule.Retest {
		a.bad("limits", "the last round over the lines that wait was at %d; it is %d", ns.swept, ns.clocks.Run)
	}
	return a.holders()
}

// holders checks the columns by which the members of a limit are found.
func (a *audit) holders() error {
	type found struct {
		holds string
		hold  int64
	}
	columns, also := map[int64]found{}, map[[2]int64]bool{}
	if err := a.r.rows(a.r.q("SELECT n, holds, hold FROM cmd WHERE holds IS NOT NULL OR hold IS NOT NULL"), func(st stmt) {
		columns[st.ColInt(0)] = found{st.ColText(1), st.ColInt(2)}
	}); err != nil {
		return err
	}
	if err := a.r.rows(a.r.q("SELECT r, n FROM also"), func(st stmt) { also[[2]int64{st.ColInt(0), st.ColInt(1)}] = true }); err != nil {
		return err
	}
	for n, m := range a.members {
		want := found{holds: fmt.Sprint(m.cost)}
		var rest []int64
		for _, h := range m.holds {
			rm := a.roomsBy[h.LimitKey]
			if rm == nil {
				continue // said before
			}
			want.holds += fmt.Sprint(" ", rm.r)
			if h.Scope == store.ScopeCommand && m.place != store.Leased {
				rest = append(rest, rm.r)
			}
		}
		for i, r := range rest {
			if i == 0 {
				want.hold = r
			} else if !also[[2]int64{r, n}] {
				a.bad(m.id, "is not listed with the members of limit number %d", r)
			}
			delete(also, [2]int64{r, n})
		}
		if got := columns[n]; got != want {
			a.bad(m.id, "is indexed as a member with %+v, but its record says %+v", got, want)
		}
		delete(columns, n)
	}
	for n, f := range columns {
		a.bad(fmt.Sprint("row ", n), "is indexed as a member of limits with %+v, but its record says that it holds none", f)
	}
	for k := range also {
		a.bad(fmt.Sprint("row ", k[1]), "is listed with the members of limit number %d, but its record does not say so", k[0])
	}
	return nil
}

// auditGroup is a stream of one group.
type auditGroup struct {
	groupKey
	q int64
}

// filed checks the lines that wait for limits, as of the last step that moved the clocks, and which lines know their group.
func (a *audit) filed() error {
	now := a.r.ns.clocks.Now()
	fair, queueOf := map[int64]int64{}, map[int64]int64{}
	if err := a.r.rows(a.r.q("SELECT k, kind.q, fair FROM kind JOIN queue ON queue.q=kind.q"), func(st stmt) {
		queueOf[st.ColInt(0)], fair[st.ColInt(0)] = st.ColInt(1), st.ColInt(2)
	}); err != nil {
		return err
	}
	filed, heads := map[int64]int{}, map[auditGroup]int64{}
	total := int64(0)
	var bad []error
	if err := a.r.rows(a.r.q("SELECT ln, name, k, lane, class, head, shut, grp, room, ord FROM line"), func(st stmt) {
		name, k, lane, head, shut := st.ColText(1), st.ColInt(2), store.Lane(st.ColInt(3)), st.ColInt(5), st.ColInt(6) != 0
		some := !st.ColNull(5)
		like, ok := rule.ParseLine(name)
		if !ok {
			a.bad(name, "is no name of a line")
			return
		}
		if !st.ColNull(7) {
			if st.ColText(7) != like.Group {
				a.bad(name, "is listed with group %q", st.ColText(7))
			}
			if g := (auditGroup{groupKey{k, lane, store.Class(st.ColInt(4)), like.Group}, queueOf[k]}); some && !shut && (heads[g] == 0 || head < heads[g]) {
				heads[g] = head
			}
		} else if fair[k] == groupsAll && some {
			a.bad(name, "does not know its group, but its queue is fair")
		}
		if st.ColNull(8) {
			return
		}
		rm := a.rooms[st.ColInt(8)]
		if rm == nil {
			a.bad(name, "is filed under counted value number %d, which does not exist", st.ColInt(8))
			return
		}
		filed[rm.r]++
		total++
		if err := a.stands(now, st.ColInt(0), name, like, lane, rm, shut && st.ColInt(9) < neverFits); err != nil {
			bad = append(bad, err)
		}
	}); err != nil || len(bad) > 0 {
		return errors.Join(append(bad, err)...)
	}
	for r, rm := range a.rooms {
		if rm.lines != filed[r] {
			a.bad("limit "+rm.key.String(), "says that %d lines are filed; there are %d", rm.lines, filed[r])
		}
	}
	if total != a.r.ns.filed {
		a.bad("limits", "say that %d lines are filed; there are %d", a.r.ns.filed, total)
	}
	return a.turns(heads)
}

// stands says if a line stands filed though its key has had room for two seconds.
func (a *audit) stands(now rule.Now, ln int64, name string, like *store.Command, lane store.Lane, rm *roomRow, shut bool) error {
	if !shut || rm.stood == 0 || rm.stood+2*rule.Retest >= now.Run {
		return nil
	}
	i := slices.IndexFunc(a.r.cfg.Limits, func(l store.Limit) bool { return l.Name == rm.key.Limit && l.At(now.Wall) })
	if i < 0 {
		return nil
	}
	if ok, _ := rm.fits(now, &a.r.cfg.Limits[i], like.Cost); !ok || isPaused(now, a.r.cfg.Queue(like.Queue), lane) {
		return nil
	}
	ok, err := claimable(a.r, now, ln, lane)
	if ok {
		a.bad(rm.key.String(), "line %q stands filed though the key has had room for two seconds", name)
	}
	return err
}

// turns checks the groups of fair queues.
func (a *audit) turns(heads map[auditGroup]int64) error {
	v, last := map[turnKey]float64{}, map[turnKey]float64{}
	if err := a.r.rows(a.r.q("SELECT q, v0, v1 FROM queue"), func(st stmt) {
		v[turnKey{st.ColInt(0), 0, ""}], v[turnKey{st.ColInt(0), 1, ""}] = st.ColFloat(1), st.ColFloat(2)
	}); err != nil {
		return err
	}
	if err := a.r.rows(a.r.q("SELECT q, lane, grp, k, class, last, head FROM turn"), func(st stmt) {
		key := turnKey{st.ColInt(0), store.Lane(st.ColInt(1)), st.ColText(2)}
		g := auditGroup{groupKey{st.ColInt(3), key.lane, store.Class(st.ColInt(4)), key.grp}, key.q}
		start := max(v[turnKey{key.q, key.lane, ""}], st.ColFloat(5))
		if other, ok := last[key]; ok && other != start {
			a.bad("group "+key.grp, "has its next turn at %v and at %v", other, start)
		}
		last[key] = start
		if head := heads[g]; head != st.ColInt(6) {
			a.bad("group "+key.grp, "says that its first line in stream %+v has head %d; it has %d", g, st.ColInt(6), head)
		}
		delete(heads, g)
	}); err != nil {
		return err
	}
	for g, head := range heads {
		a.bad("group "+g.grp, "has no turn in stream %+v, where its first line has head %d", g, head)
	}
	return nil
}

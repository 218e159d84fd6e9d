package sqlitestore

// turns is the source of a queue with fair turns: one stream for each group that has the next turns.
type turns struct {
	base   *stream // what is common to the groups
	groups map[string]*stream
	list   []*stream // groups that have a command, in no order

	lastTurn float64 // where the next look for groups goes on; -1 before the first
	lastHead int64
	lastGrp  string
	over     bool // there are no further groups
}

const groupsAtOnce = 16

// peek implements [source].
func (t *turns) peek() (*stream, *reading, float64, error) {
	v := t.base.k.q.v[t.base.lane]
	for {
		var best *stream
		var first *reading
		var start float64
		for i := 0; i < len(t.list); i++ {
			g := t.list[i]
			rd, err := g.first()
			if err != nil {
				return nil, nil, 0, err
			}
			if rd == nil {
				t.list = append(t.list[:i], t.list[i+1:]...)
				i--
				continue
			}
			at := g.turn.start()
			if first == nil || at < start || at == start && rd.rows[0].cols.score < first.rows[0].cols.score {
				best, first, start = g, rd, at
			}
		}
		if t.over || first != nil && t.lastTurn >= 0 && start <= max(v, t.lastTurn) {
			return best, first, start, nil
		}
		if err := t.look(); err != nil {
			return nil, nil, 0, err
		}
	}
}

// look reads further groups, in the order of their turns.
func (t *turns) look() error {
	b := t.base
	st := b.w.q("SELECT last, head, grp FROM turn WHERE k=? AND lane=? AND class=? AND head IS NOT NULL AND (last, head, grp) > (?,?,?) ORDER BY last, head, grp LIMIT ?").
		Int(b.k.k).Int(int64(b.lane)).Int(int64(b.class)).Float(t.lastTurn).Int(t.lastHead).Text(t.lastGrp).Int(groupsAtOnce)
	var found [groupsAtOnce]string
	n := 0
	for {
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		t.lastTurn, t.lastHead, t.lastGrp = st.ColFloat(0), st.ColInt(1), st.ColText(2)
		found[n] = t.lastGrp
		n++
	}
	t.over = n < groupsAtOnce
	for _, grp := range found[:n] {
		if _, err := t.group(grp); err != nil {
			return err
		}
	}
	return nil
}

// group returns the stream of a group, which is looked at from now on.
func (t *turns) group(grp string) (*stream, error) {
	g := t.groups[grp]
	if g == nil {
		b := t.base
		turn, err := b.w.st.turn(b.k.q, b.lane, grp)
		if err != nil {
			return nil, err
		}
		s := *b
		if g = &s; g.budget != nil {
			g.refused, g.seen = map[*lineRow]*reading{}, map[*lineRow]bool{}
		}
		g.turn = turn
		t.groups[grp] = g
		t.list = append(t.list, g)
	}
	return g, nil
}

// admit implements [source].
func (t *turns) admit(l *lineRow) error {
	g, err := t.group(l.group)
	if err != nil {
		return err
	}
	for _, o := range t.list {
		if o == g {
			return g.admit(l)
		}
	}
	t.list = append(t.list, g)
	return g.admit(l)
}

// skipped implements [source].
func (t *turns) skipped() (n int) {
	for _, g := range t.groups {
		n += g.skips
	}
	return n
}

// close implements [source].
func (t *turns) close() {
	for _, g := range t.groups {
		g.close()
	}
}

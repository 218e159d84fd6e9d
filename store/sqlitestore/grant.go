package sqlitestore

import (
	"encoding/binary"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// grant leases the first command of a line, and with it those behind it that one invocation takes. It answers false if none of them could be
// read.
func (cl *claim) grant(p pick, as []applied) (bool, error) {
	g := store.Grant{Lane: p.s.lane, Class: p.s.class}
	batch := max(1, p.c.want.Batch)
	if p.s.class.Suspect() {
		batch = 1
	}
	rd := p.rd
	for {
		r := p.s.take(rd)
		if err := cl.lease(&r, rd.l, as, len(g.Items) == 0); err != nil {
			return false, err
		}
		if r != nil {
			g.Items = append(g.Items, r.c)
		}
		if len(g.Items) >= batch {
			break
		}
		if err := p.s.more(rd); err != nil {
			return false, err
		}
		if len(rd.rows) == 0 || !rule.Claimable(cl.now, rd.rows[0].c) || cl.bytes < rd.rows[0].size() {
			break
		}
		if len(as) > 0 && len(g.Items) > 0 { // its rates were asked before: they count invocations
			st, err := cl.stopper(rd.l, as, false)
			if err != nil {
				return false, err
			}
			if st.rm != nil {
				break
			}
		}
	}
	if len(g.Items) == 0 {
		return false, nil
	}
	cl.suspect = cl.suspect || g.Class.Suspect()
	cl.grants = append(cl.grants, g)
	return true, nil
}

// lease makes the mark. The row becomes nil if one of its values cannot be read.
func (cl *claim) lease(r **row, l *lineRow, as []applied, first bool) error {
	w, c := cl.w, (*r).c
	err := (*r).fill(w, valError, valEvents, valParams, valState, valProgress, valMetadata)
	if err = w.readable(r, err); err != nil || *r == nil {
		return err
	}
	ns := w.st.change()
	ns.token++
	rule.Grant(cl.now, c, store.LeaseName{Token: ns.token, Nonce: cl.req.Nonce}, cl.req.Worker, w.st.cfg.V())
	cl.join(c, as, first)
	if err := w.save(*r); err != nil {
		return err
	}
	if err := cl.taken(c, l, as); err != nil {
		return err
	}
	w.numbers.note(c.ID, (*r).n)
	cl.bytes -= (*r).size()
	cl.got = binary.LittleEndian.AppendUint64(cl.got, uint64((*r).n))
	return (*r).unfold()
}

// size is what a command counts for in a reply.
func (r *row) size() int { return r.vals[valParams].size + r.vals[valState].size + 256 }

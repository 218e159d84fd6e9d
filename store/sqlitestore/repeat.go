package sqlitestore

import (
	"encoding/binary"
	"slices"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// gone stands for the last claim of a worker that has taken itself off. No nonce is like it.
const gone = "-"

// lastClaim is the nonce of the worker's last claim, and what it got.
func (w *writer) lastClaim(worker string) (nonce string, got []byte, err error) {
	st := w.q("SELECT nonce, got FROM claimed WHERE worker=?").Text(worker)
	ok, err := st.Step()
	if err != nil || !ok {
		return "", nil, err
	}
	nonce, got = st.ColText(0), st.ColBlob(1)
	st.Reset()
	return nonce, got, nil
}

func (w *writer) noteClaim(worker, nonce string, now rule.Now, got []byte) error {
	return w.q("INSERT INTO claimed (worker, nonce, at, got) VALUES (?1,?2,?3,?4) ON CONFLICT DO UPDATE SET nonce=?2, at=?3, got=?4").
		Text(worker).Text(nonce).Int(int64(now.Lease)).Blob(got).Run()
}

// repeat answers a claim that was made before: those of its leases that are still current.
func (w *writer) repeat(req *store.ClaimRequest, got []byte) ([]store.Grant, error) {
	var grants []store.Grant
	for ; len(got) >= 8; got = got[8:] {
		r, err := w.byNumber(int64(binary.LittleEndian.Uint64(got)))
		if err != nil {
			return nil, err
		}
		if r == nil || r.c.Place != store.Leased || r.c.Owner != req.Worker || r.c.Lease.Nonce != req.Nonce {
			continue
		}
		err = r.fill(w, valParams, valState, valProgress, valMetadata)
		if err == nil {
			err = r.unfold()
		}
		if err = w.readable(&r, err); err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		c, class, n := r.c, rule.Class(r.c), len(grants)-1
		if n >= 0 && len(grants[n].Items) < batchOf(req.Wants, c) && !class.Suspect() && rule.Line(grants[n].Items[0]) == rule.Line(c) {
			grants[n].Items = append(grants[n].Items, c)
			continue
		}
		grants = append(grants, store.Grant{Lane: c.Lane(), Class: class, Items: []*store.Command{c}})
	}
	return grants, nil
}

func batchOf(wants []store.Want, c *store.Command) int {
	for _, w := range wants {
		if w.Queue != c.Queue || w.Lane != c.Lane() {
			continue
		}
		if i := slices.IndexFunc(w.Types, func(t store.TypeWant) bool { return t.Type == c.Type }); i >= 0 {
			return max(1, w.Types[i].Batch)
		}
	}
	return 1
}

package sqlitestore

import (
	"time"

	"github.com/twolane/twolane/store"
)

// abroad is what was seen when this process last looked at what others had written.
type abroad struct {
	arrived map[string][2]int64 // by queue
	version uint64
	entry   uint64         // last outbox entry
	cancels map[int64]bool // leased commands with a cancel request that were told
}

// maxAwaited bounds how many ids and groups one look compares; with more, everybody is woken.
const maxAwaited = 1000

// lookAbroad finds out whether another process has written, and wakes who waits for what it wrote. It runs in the writer, outside a
// transaction, so that our own commits do not count: data_version tells a connection only what others did. While nobody writes, a look is a look at
// some bytes of shared memory.
func (w *writer) lookAbroad() {
	log, ok := w.c.LogState()
	if ok && log == w.log && !w.foreign {
		return
	}
	v, err := w.pragma("PRAGMA data_version")
	if err != nil {
		return // the next call will say so
	}
	w.log = log
	if v == w.version && !w.foreign {
		return
	}
	w.foreign, w.looked = false, time.Now()
	if v != w.version {
		w.version = v
		w.st = nil // read anew by the next transaction
	}
	wakes, err := w.news()
	if err != nil {
		wakes = []store.Wake{{Kind: store.WakeAll}}
	}
	if len(wakes) == 0 {
		return
	}
	for _, to := range w.s.watch.list() {
		to.send(wakes)
	}
}

// news compares the store with what was seen last.
func (w *writer) news() ([]store.Wake, error) {
	if err := w.exec("BEGIN"); err != nil {
		return nil, err
	}
	wakes, err := w.compare()
	if e := w.exec("ROLLBACK"); err == nil {
		err = e
	}
	return wakes, err
}

func (w *writer) compare() ([]store.Wake, error) {
	a := &w.seen
	var wakes []store.Wake
	arrived := map[string][2]int64{}
	if err := w.rows(w.q("SELECT name, arrived0, arrived1 FROM queue"), func(st stmt) {
		q, n := st.ColText(0), [2]int64{st.ColInt(1), st.ColInt(2)}
		arrived[q] = n
		for lane := range n {
			if n[lane] != a.arrived[q][lane] {
				wakes = append(wakes, store.Wake{Kind: store.WakeWork, Queue: q, Lane: store.Lane(lane)})
			}
		}
	}); err != nil {
		return nil, err
	}
	var version, entry uint64
	if err := w.rows(w.q("SELECT version, entry FROM ns"), func(st stmt) { version, entry = uint64(st.ColInt(0)), uint64(st.ColInt(1)) }); err != nil {
		return nil, err
	}
	if entry != a.entry {
		if err := w.rows(w.q("SELECT name FROM topic WHERE n>0"), func(st stmt) {
			wakes = append(wakes, store.Wake{Kind: store.WakeOutbox, ID: st.ColText(0)})
		}); err != nil {
			return nil, err
		}
	}
	if version != a.version {
		wakes = append(wakes, store.Wake{Kind: store.WakeConfig})
	}
	cancels := map[int64]bool{}
	if err := w.rows(w.q("SELECT n, id FROM cmd WHERE flag>=4 LIMIT 10000"), func(st stmt) {
		n := st.ColInt(0)
		if cancels[n] = true; !a.cancels[n] {
			wakes = append(wakes, store.Wake{Kind: store.WakeCancel, ID: st.ColText(1)})
		}
	}); err != nil {
		return nil, err
	}
	a.arrived, a.version, a.entry, a.cancels = arrived, version, entry, cancels
	ids, groups := w.s.watch.awaited(maxAwaited + 1)
	if len(ids) > maxAwaited || len(groups) > maxAwaited {
		return append(wakes, store.Wake{Kind: store.WakeAll}), nil
	}
	for _, id := range ids {
		over := true
		if err := w.rows(w.q("SELECT status FROM cmd WHERE id=?").Text(id), func(st stmt) { over = store.Status(st.ColInt(0)).Terminal() }); err != nil {
			return nil, err
		}
		if over {
			wakes = append(wakes, store.Wake{Kind: store.WakeEnd, ID: id})
		}
	}
	for _, g := range groups {
		over := true
		if err := w.rows(w.q("SELECT live FROM grp WHERE name=?").Text(g), func(stmt) { over = false }); err != nil {
			return nil, err
		}
		if over {
			wakes = append(wakes, store.Wake{Kind: store.WakeGroup, ID: g})
		}
	}
	return wakes, nil
}

// rows calls f for each row of st.
func (w *writer) rows(st stmt, f func(stmt)) error {
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		f(st)
	}
}

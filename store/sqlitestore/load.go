package sqlitestore

import (
	"github.com/twolane/twolane/store"
)

// kindName implements kindNamer for the writer.
func (w *writer) kindName(n int64) (string, string, error) {
	k, err := w.st.kindBy(n)
	if err != nil {
		return "", "", err
	}
	return k.q.name, k.name, nil
}

// get returns the row that a statement of selectRow finds, ready to be changed; nil if there is none. One that cannot be read is set aside.
func (w *writer) get(st stmt) (*row, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	r, err := w.scan(st)
	st.Reset()
	if err == nil {
		err = r.fill(w, valError, valEvents)
	}
	return r, w.readable(&r, err)
}

// scan reads the row that st stands at.
func (w *writer) scan(st stmt) (*row, error) {
	r, err := scanRow(st, w)
	if err != nil {
		return nil, err
	}
	r.k = w.st.kindsBy[st.ColInt(2)]
	r.stored()
	return r, nil
}

// readable sets a row aside that err says cannot be read: to the caller there is none.
func (w *writer) readable(r **row, err error) error {
	u, ok := err.(*unreadable)
	if !ok {
		return err
	}
	*r = nil
	if err := lookAgain(w, u); err != nil {
		return err
	}
	return w.setAside(u)
}

// byNumber returns the row with a number, or nil.
func (w *writer) byNumber(n int64) (*row, error) { return w.get(w.q(selectRow + "n=?").Int(n)) }

// byID returns the row of a command, or nil.
func (w *writer) byID(id string) (*row, error) {
	if n, ok := w.numbers.of(id); ok {
		if r, err := w.byNumber(n); err != nil || r != nil && r.c.ID == id {
			return r, err
		}
	}
	r, err := w.get(w.q(selectRow + "id=?").Text(id))
	if err != nil || r == nil {
		return nil, err
	}
	if r.c.ID != id {
		return nil, misled("ids", id, r.c.ID)
	}
	w.numbers.note(id, r.n)
	return r, nil
}

// numbers remembers the numbers of commands by id, which saves a search in the index of ids. A number is given to another command only if its
// transaction was rolled back; who uses an entry compares the id. It holds the last of many in two halves, the older of which is dropped when the younger is full.
type numbers struct {
	young, old map[string]int64
	newLines   int   // lines made since the last look for empty ones
	lineAfter  int64 // where that look stopped
	roomAfter  int64 // where the look for unused counted values stopped
}

const maxNumbers = 32 << 10

func (m *numbers) of(id string) (int64, bool) {
	if n, ok := m.young[id]; ok {
		return n, true
	}
	n, ok := m.old[id]
	return n, ok
}

func (m *numbers) note(id string, n int64) {
	if m.young == nil || len(m.young) >= maxNumbers {
		m.young, m.old = make(map[string]int64, maxNumbers), m.young
	}
	m.young[id] = n
}

// setAside moves a row that cannot be read out of the way: it is kept for people, counted, and never claimed.
func (w *writer) setAside(u *unreadable) error {
	st := w.q(selectRow + "n=?").Int(u.n)
	ok, err := st.Step()
	if err != nil || !ok {
		return err
	}
	r := row{n: u.n, c: &store.Command{Status: store.Status(st.ColInt(3)), Place: store.Place(st.ColInt(4))}}
	kind := st.ColInt(2)
	r.scanColumns(st)
	_, _, _ = decode(st.ColBlob(17), r.c) // for the reason of its end, if that much can be read
	r.c.Tombstone, r.c.Holds = r.cols.ended == 0, nil
	for i := range r.vals {
		r.vals[i].out = true // whatever is there
	}
	st.Reset()
	w.s.log.Error("a record was set aside: it cannot be read", "id", u.id, "why", u.why)
	if err := w.q("INSERT OR REPLACE INTO lost (n, id, at, why, sum, rec) SELECT n, id, ?, ?, sum, rec FROM cmd WHERE n=?").
		Int(int64(w.server())).Text(u.why).Int(u.n).Run(); err != nil {
		return err
	}
	if err := w.dropEntry(u.n); err != nil {
		return err
	}
	if err := w.unhold(u.n); err != nil {
		return err
	}
	if r.k, err = w.st.kindBy(kind); err != nil { // not even its queue is known: no number can be put right
		return w.q("DELETE FROM cmd WHERE n=?").Int(u.n).Run()
	}
	r.stored()
	return w.remove(&r)
}

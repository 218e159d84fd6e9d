package sqlitestore

import (
	"fmt"
	"hash/crc32"

	"github.com/twolane/twolane/store"
)

// row is a row of table cmd: a command, where its large values lie, and the columns as they are stored.
type row struct {
	n    int64
	c    *store.Command
	q    int64    // number of its queue
	k    *kindRow // nil for readers
	vals [values]value
	tail []byte

	was  tallied
	held []store.Hold // as stored
	cols columns
	line *lineRow // that cols.line names, once it was asked for
}

// tallied is what numbers count about a command.
type tallied struct {
	k         *kindRow
	status    store.Status
	place     store.Place
	reason    store.Reason
	tombstone bool
}

// columns are those beside the record, 0 for NULL, except that score and since go with line, and at with waits.
type columns struct {
	ended        int64
	line         int64
	score, since int64
	waits, at    int64
	ends         int64
	flag         int64
	ukey         string
}

// What column waits says.
const (
	waitsLease = 1
	waitsPurge = 2
	waitsRun   = 1 // + 8 times the queue: scheduled
	waitsWall  = 2
)

// unreadable is what is known of a row whose record does not fit its checksum.
type unreadable struct {
	n   int64
	id  string
	why string
}

func (u *unreadable) Error() string { return fmt.Sprintf("command %s: %s", u.id, u.why) }

// misled is the error of a search that a damaged index has led to another row. The row itself is as it should be.
func misled(what, want, got string) error {
	return fmt.Errorf("the file is damaged: the index of %s leads from %q to %q", what, want, got)
}

// lookAgain reads the row of u by its number. A search by an index sees what the index has of a row: if that is what does not fit, the error says so,
// and nothing is wrong with the row.
func lookAgain(q interface {
	query
	kindNamer
}, u *unreadable) error {
	st := q.q(selectRow + "n=?").Int(u.n)
	ok, err := st.Step()
	if err != nil || !ok {
		return err
	}
	r, err := scanRow(st, q)
	st.Reset()
	if err == nil && r.c.ID != u.id {
		return misled("ids", u.id, r.c.ID)
	}
	return nil
}

const selectRow = "SELECT n, id, k, status, place, q, ended, line, score, since, waits, at, ends, flag, ukey, grp, sum, rec FROM cmd WHERE "

// kindNamer says what a number of table kind stands for.
type kindNamer interface {
	kindName(k int64) (queue, typ string, err error)
}

// scanRow reads the row that st (of selectRow) stands at. A record that cannot be read is an *unreadable.
func scanRow(st stmt, names kindNamer) (*row, error) {
	c := &store.Command{ID: st.ColText(1), Status: store.Status(st.ColInt(3)), Place: store.Place(st.ColInt(4))}
	r := &row{n: st.ColInt(0), c: c, q: st.ColInt(5)}
	r.scanColumns(st)
	if c.Place == store.Leased {
		c.LeaseUntil = store.Millis(r.cols.at)
	}
	k, sum, rec := st.ColInt(2), st.ColInt(16), st.ColBlob(17)
	var err error
	if c.Queue, c.Type, err = names.kindName(k); err != nil {
		return nil, &unreadable{r.n, c.ID, err.Error()}
	}
	if checksum(c.ID, c.Group, k, c, rec) != sum {
		return nil, &unreadable{r.n, c.ID, "the checksum does not fit the record"}
	}
	if r.vals, r.tail, err = decode(rec, c); err != nil {
		return nil, &unreadable{r.n, c.ID, err.Error()}
	}
	return r, nil
}

func (r *row) scanColumns(st stmt) {
	r.cols.ended = st.ColInt(6)
	if r.c.Place == store.InLine {
		r.cols.line, r.cols.score, r.cols.since = st.ColInt(7), st.ColInt(8), st.ColInt(9)
	} else {
		r.cols.waits, r.cols.at = st.ColInt(10), st.ColInt(11)
	}
	r.cols.ends, r.cols.flag = st.ColInt(12), st.ColInt(13)
	if !st.ColNull(14) {
		r.cols.ukey = st.ColText(14)
	}
	if !st.ColNull(15) {
		r.c.Group = st.ColText(15)
	}
}

// fill reads values of a row from table body, if they lie there.
func (r *row) fill(q query, which ...int) error {
	for _, i := range which {
		v := &r.vals[i]
		if !v.out || !isElsewhere(v.data) {
			continue
		}
		st := q.q("SELECT data FROM body WHERE b=?").Int(bodyRow(r.n, i))
		ok, err := st.Step()
		if err != nil {
			return err
		}
		if !ok {
			return &unreadable{r.n, r.c.ID, "its " + valueNames[i] + " is missing"}
		}
		b := st.ColBlob(0)
		st.Reset()
		if len(b) != v.size || crc32.Checksum(b, castagnoli) != v.sum {
			return &unreadable{r.n, r.c.ID, "the checksum does not fit its " + valueNames[i]}
		}
		v.data = b
		switch i {
		case valParams:
			r.c.Params = b
		case valState:
			r.c.State = b
		case valResult:
			r.c.Result = b
		case valProgress:
			r.c.Progress = b
		case valError:
			r.c.Error = string(b)
		}
	}
	return nil
}

// unfold makes the command complete: events and metadata are unpacked. It must not be saved after.
func (r *row) unfold() error {
	var err error
	if r.c.Events, err = decodeEvents(r.vals[valEvents].data); err != nil {
		return &unreadable{r.n, r.c.ID, err.Error()}
	}
	if v := &r.vals[valMetadata]; v.there {
		if r.c.Metadata, err = decodeMetadata(v.data); err != nil {
			return &unreadable{r.n, r.c.ID, err.Error()}
		}
	}
	return nil
}

func bodyRow(n int64, which int) int64 { return n<<3 | int64(which) }

// stored notes how the row is counted.
func (r *row) stored() {
	r.was = tallied{r.k, r.c.Status, r.c.Place, r.c.Reason, r.c.Tombstone}
	r.held = r.c.Holds
}

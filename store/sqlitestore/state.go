package sqlitestore

import (
	"encoding/json"
	"fmt"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// namespace is the row of table ns.
type namespace struct {
	clocks rule.Clocks
	clockView
	seq, token uint64
	entry      uint64
	version    uint64 // of the configuration
	limitCounts
}

// limitCounts are the counters of a namespace that change only while it has limits.
type limitCounts struct {
	held    int64 // commands that are members
	rooms   int64 // rows of table room
	filed   int64 // lines that wait
	filings int64
	swept   store.Millis // run clock
	sweep   int64
}

const selectNS = "SELECT last, run, lease, shift, fixed, seq, token, entry, version, held, rooms, filed, filings, swept, sweep FROM ns"

func (ns *namespace) read(q query) error {
	st := q.q(selectNS)
	ok, err := st.Step()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: table ns is empty", store.ErrSchema)
	}
	ns.clocks = rule.Clocks{Last: store.Millis(st.ColInt(0)), Run: store.Millis(st.ColInt(1)), Lease: store.Millis(st.ColInt(2))}
	ns.shift, ns.fixed = store.Millis(st.ColInt(3)), store.Millis(st.ColInt(4))
	ns.seq, ns.token, ns.entry, ns.version = uint64(st.ColInt(5)), uint64(st.ColInt(6)), uint64(st.ColInt(7)), uint64(st.ColInt(8))
	ns.limitCounts = limitCounts{
		held: st.ColInt(9), rooms: st.ColInt(10), filed: st.ColInt(11), filings: st.ColInt(12), swept: store.Millis(st.ColInt(13)), sweep: st.ColInt(14),
	}
	st.Reset()
	return nil
}

// readConfig reads the configuration.
func readConfig(q query) (store.Config, error) {
	var cfg store.Config
	st := q.q("SELECT json FROM config")
	ok, err := st.Step()
	if err != nil || !ok {
		return cfg, err
	}
	text := st.ColText(0)
	st.Reset()
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return cfg, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	return cfg, nil
}

// state is what the writer has read of the tables that every step needs. It is changed here first and written at the end of the transaction:
// a hundred commands of one line write the line once. It is true as long as no other connection writes, and dropped when one has.
type state struct {
	w       *writer
	ns      namespace
	nsDirty bool
	counted limitCounts // as they are stored
	cfg     store.Config
	limits  map[string]*store.Limit // of cfg
	ends    []store.Millis          // when some of them end

	queues   map[string]*queueRow
	queuesBy map[int64]*queueRow
	kinds    map[kindKey]*kindRow
	kindsBy  map[int64]*kindRow
	lines    map[string]*lineRow
	linesBy  map[int64]*lineRow
	rooms    map[store.LimitKey]*roomRow
	roomsBy  map[int64]*roomRow
	lastRoom int64 // the highest number of a room; 0 until asked for
	turns    map[turnKey]*turnRow
	rates    map[laneKey]*bucketRow

	dirtyQueues []*queueRow
	dirtyKinds  []*kindRow
	dirtyLines  []*lineRow
	dirtyRooms  []*roomRow
	dirtyTurns  []*turnRow
	dirtyGroups map[groupKey]*lineRow // a line of each group whose first line may be another now
	lefts       []*roomRow            // that members have left
	claiming    bool
	free        []*lineRow // that came open in the claim under way
	dirtyRates  []*bucketRow
	dirtyThrots []*throttleRow
	groups      map[string]int64 // change of live commands
	topics      map[string]int64 // change of outbox entries
	reasons     map[reasonKey]int64
}

// queueRow is a row of table queue.
type queueRow struct {
	q         int64
	name      string
	ready     int64
	scheduled int64
	succeeded int64
	failed    int64
	cancelled int64
	arrived   [2]int64
	v         [2]float64 // virtual time of fair turns
	fair      int64      // up to which line its lines know their group
	turned    bool       // v or fair differ from the table
	dirty     bool
	hit       [2]bool // work to wake for came in this transaction
	cfg       store.QueueConfig
}

func (q *queueRow) finished() int64 { return q.succeeded + q.failed + q.cancelled }

type kindKey struct {
	q    int64
	kind string
}

// kindRow is a row of table kind, and the throttles of the type.
type kindRow struct {
	k         int64
	q         *queueRow
	name      string
	inline    [2]int64
	leased    [2]int64
	scheduled int64
	dirty     bool
	throttles [2]*throttleRow // nil until read
}

type laneKey struct {
	q    int64
	lane store.Lane
}

type reasonKey struct {
	q    int64
	name store.Reason
}

func newState(w *writer) *state {
	return &state{
		w: w, queues: map[string]*queueRow{}, queuesBy: map[int64]*queueRow{}, kinds: map[kindKey]*kindRow{}, kindsBy: map[int64]*kindRow{},
		lines: map[string]*lineRow{}, linesBy: map[int64]*lineRow{}, rates: map[laneKey]*bucketRow{},
		rooms: map[store.LimitKey]*roomRow{}, roomsBy: map[int64]*roomRow{}, turns: map[turnKey]*turnRow{}, dirtyGroups: map[groupKey]*lineRow{},
		groups: map[string]int64{}, topics: map[string]int64{}, reasons: map[reasonKey]int64{},
	}
}

// load reads what every step needs.
func (s *state) load() error {
	if err := s.ns.read(s.w); err != nil {
		return err
	}
	s.counted = s.ns.limitCounts
	if old := &s.w.config; old.Version != s.ns.version || s.ns.version == 0 {
		cfg, err := readConfig(s.w)
		if err != nil {
			return err
		}
		*old = cfg
		old.Version = s.ns.version
	}
	s.setConfig(s.w.config)
	st := s.w.q("SELECT q, name, ready, succeeded, failed, cancelled, arrived0, arrived1, scheduled, v0, v1, fair FROM queue")
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		q := &queueRow{
			q: st.ColInt(0), name: st.ColText(1), ready: st.ColInt(2), succeeded: st.ColInt(3), failed: st.ColInt(4), cancelled: st.ColInt(5),
			arrived: [2]int64{st.ColInt(6), st.ColInt(7)}, scheduled: st.ColInt(8), v: [2]float64{st.ColFloat(9), st.ColFloat(10)}, fair: st.ColInt(11),
		}
		q.cfg = s.cfg.Queue(q.name)
		s.queues[q.name], s.queuesBy[q.q] = q, q
	}
}

// change returns the namespace to be changed.
func (s *state) change() *namespace {
	s.nsDirty = true
	return &s.ns
}

// queue returns the row of a queue, made if need be.
func (s *state) queue(name string) (*queueRow, error) {
	if q := s.queues[name]; q != nil {
		return q, nil
	}
	if err := s.w.q("INSERT INTO queue (name) VALUES (?)").Text(name).Run(); err != nil {
		return nil, err
	}
	q := &queueRow{q: s.w.c.LastRow(), name: name, cfg: s.cfg.Queue(name)}
	if q.cfg.Fair {
		q.fair, q.turned = groupsAll, true
		s.touchQueue(q)
	}
	s.queues[name], s.queuesBy[q.q] = q, q
	return q, nil
}

func (s *state) touchQueue(q *queueRow) {
	if !q.dirty {
		q.dirty = true
		s.dirtyQueues = append(s.dirtyQueues, q)
	}
}

const selectKind = "SELECT k, q, type, inline0, inline1, leased0, leased1, scheduled FROM kind WHERE "

// kind returns the row of a type of a queue, or nil if there is none and it is not to be made.
func (s *state) kind(q *queueRow, name string, create bool) (*kindRow, error) {
	key := kindKey{q.q, name}
	if k, ok := s.kinds[key]; ok && (k != nil || !create) {
		return k, nil
	}
	k, err := s.readKind(s.w.q(selectKind + "q=? AND type=?").Int(q.q).Text(name))
	if err != nil || k != nil {
		return k, err
	}
	if !create {
		s.kinds[key] = nil
		return nil, nil
	}
	if err := s.w.q("INSERT INTO kind (q, type) VALUES (?,?)").Int(q.q).Text(name).Run(); err != nil {
		return nil, err
	}
	k = &kindRow{k: s.w.c.LastRow(), q: q, name: name}
	s.kinds[key], s.kindsBy[k.k] = k, k
	return k, nil
}

// kindBy returns the row of a type by its number.
func (s *state) kindBy(n int64) (*kindRow, error) {
	if k := s.kindsBy[n]; k != nil {
		return k, nil
	}
	k, err := s.readKind(s.w.q(selectKind + "k=?").Int(n))
	if err == nil && k == nil {
		err = fmt.Errorf("there is no type number %d", n)
	}
	return k, err
}

func (s *state) readKind(st stmt) (*kindRow, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return nil, err
	}
	k := &kindRow{
		k: st.ColInt(0), q: s.queuesBy[st.ColInt(1)], name: st.ColText(2), inline: [2]int64{st.ColInt(3), st.ColInt(4)},
		leased: [2]int64{st.ColInt(5), st.ColInt(6)}, scheduled: st.ColInt(7),
	}
	n := st.ColInt(1)
	st.Reset()
	if k.q == nil {
		return nil, fmt.Errorf("type %q is of queue number %d, which does not exist", k.name, n)
	}
	s.kinds[kindKey{k.q.q, k.name}], s.kindsBy[k.k] = k, k
	return k, nil
}

func (s *state) touchKind(k *kindRow) {
	if !k.dirty {
		k.dirty = true
		s.dirtyKinds = append(s.dirtyKinds, k)
	}
}

const maxCached = 16 << 10 // rows of one table

// trim forgets what has grown too large; everything has been written.
func (s *state) trim() {
	if len(s.kinds) <= maxCached && len(s.linesBy) <= maxCached && len(s.rooms) <= maxCached && len(s.turns) <= maxCached {
		return
	}
	if len(s.kinds) > maxCached {
		clear(s.kinds)
		clear(s.kindsBy)
	}
	clear(s.lines) // they point to kinds and rooms, and rooms to lines
	clear(s.linesBy)
	clear(s.rooms)
	clear(s.roomsBy)
	clear(s.turns)
	s.lastRoom = 0
}

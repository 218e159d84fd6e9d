package sqlitestore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

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
}

const selectNS = "SELECT last, run, lease, shift, fixed, seq, token, entry, version FROM ns"

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
	cfg     store.Config

	queues   map[string]*queueRow
	queuesBy map[int64]*queueRow
	kinds    map[kindKey]*kindRow
	kindsBy  map[int64]*kindRow
	lines    map[string]*lineRow
	linesBy  map[int64]*lineRow
	rates    map[laneKey]*bucketRow

	dirtyQueues []*queueRow
	dirtyKinds  []*kindRow
	dirtyLines  []*lineRow
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
		groups: map[string]int64{}, topics: map[string]int64{}, reasons: map[reasonKey]int64{},
	}
}

// load reads what every step needs.
func (s *state) load() error {
	if err := s.ns.read(s.w); err != nil {
		return err
	}
	var err error
	if s.cfg, err = readConfig(s.w); err != nil {
		return err
	}
	s.cfg.Version = s.ns.version
	st := s.w.q("SELECT q, name, ready, succeeded, failed, cancelled, arrived0, arrived1, scheduled FROM queue")
	for {
		ok, err := st.Step()
		if err != nil || !ok {
			return err
		}
		q := &queueRow{
			q: st.ColInt(0), name: st.ColText(1), ready: st.ColInt(2), succeeded: st.ColInt(3), failed: st.ColInt(4), cancelled: st.ColInt(5),
			arrived: [2]int64{st.ColInt(6), st.ColInt(7)}, scheduled: st.ColInt(8),
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

// flush writes everything that has changed here.
func (s *state) flush() error {
	if err := s.flushLines(); err != nil {
		return err
	}
	for _, q := range s.dirtyQueues {
		q.dirty = false
		if err := s.w.q("UPDATE queue SET ready=?, succeeded=?, failed=?, cancelled=?, arrived0=?, arrived1=?, scheduled=? WHERE q=?").
			Int(q.ready).Int(q.succeeded).Int(q.failed).Int(q.cancelled).Int(q.arrived[0]).Int(q.arrived[1]).Int(q.scheduled).Int(q.q).Run(); err != nil {
			return err
		}
	}
	s.dirtyQueues = s.dirtyQueues[:0]
	for _, k := range s.dirtyKinds {
		k.dirty = false
		if err := s.w.q("UPDATE kind SET inline0=?, inline1=?, leased0=?, leased1=?, scheduled=? WHERE k=?").
			Int(k.inline[0]).Int(k.inline[1]).Int(k.leased[0]).Int(k.leased[1]).Int(k.scheduled).Int(k.k).Run(); err != nil {
			return err
		}
	}
	s.dirtyKinds = s.dirtyKinds[:0]
	if err := s.flushRates(); err != nil {
		return err
	}
	if err := s.flushTallies(); err != nil {
		return err
	}
	if !s.nsDirty {
		return nil
	}
	s.nsDirty = false
	ns := &s.ns
	return s.w.q("UPDATE ns SET last=?, run=?, lease=?, shift=?, fixed=?, seq=?, token=?, entry=?, version=?").
		Int(int64(ns.clocks.Last)).Int(int64(ns.clocks.Run)).Int(int64(ns.clocks.Lease)).Int(int64(ns.shift)).Int(int64(ns.fixed)).
		Int(int64(ns.seq)).Int(int64(ns.token)).Int(int64(ns.entry)).Int(int64(ns.version)).Run()
}

// flushTallies writes what is only ever added up: live commands by group, outbox entries by topic, failures by reason.
func (s *state) flushTallies() error {
	for _, name := range slices.Sorted(maps.Keys(s.groups)) {
		d := s.groups[name]
		if d == 0 {
			continue
		}
		live, err := s.tally(s.w.q("INSERT INTO grp (name, live) VALUES (?1,?2) ON CONFLICT DO UPDATE SET live=live+?2 RETURNING live").Text(name).Int(d))
		if err != nil {
			return err
		}
		if live <= 0 {
			if err := s.w.q("DELETE FROM grp WHERE name=?").Text(name).Run(); err != nil {
				return err
			}
			s.w.wakes = append(s.w.wakes, store.Wake{Kind: store.WakeGroup, ID: name})
		}
	}
	clear(s.groups)
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		n, err := s.tally(s.w.q("INSERT INTO topic (name, n) VALUES (?1,?2) ON CONFLICT DO UPDATE SET n=n+?2 RETURNING n").Text(name).Int(s.topics[name]))
		if err != nil {
			return err
		}
		if n <= 0 {
			if err := s.w.q("DELETE FROM topic WHERE name=?").Text(name).Run(); err != nil {
				return err
			}
		}
	}
	clear(s.topics)
	for _, k := range slices.SortedFunc(maps.Keys(s.reasons), func(a, b reasonKey) int { return cmp.Or(cmp.Compare(a.q, b.q), cmp.Compare(a.name, b.name)) }) {
		if _, err := s.tally(s.w.q("INSERT INTO reason (q, name, n) VALUES (?1,?2,?3) ON CONFLICT DO UPDATE SET n=n+?3 RETURNING n").
			Int(k.q).Text(string(k.name)).Int(s.reasons[k])); err != nil {
			return err
		}
	}
	clear(s.reasons)
	return nil
}

func (s *state) tally(st stmt) (int64, error) {
	ok, err := st.Step()
	if err != nil || !ok {
		return 0, err
	}
	n := st.ColInt(0)
	for ok {
		if ok, err = st.Step(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

const maxCached = 8192 // rows of one table

// trim forgets what has grown too large; everything has been written.
func (s *state) trim() {
	if len(s.linesBy) > maxCached {
		clear(s.lines)
		clear(s.linesBy)
	}
	if len(s.kinds) > maxCached {
		clear(s.kinds)
		clear(s.kindsBy)
		clear(s.lines) // they point to kinds
		clear(s.linesBy)
	}
}

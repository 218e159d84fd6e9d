package sqlitestore

import (
	"time"

	"github.com/twolane/twolane/store"
	"github.com/twolane/twolane/store/rule"
)

// bucketRow is a row of table bucket: the rate of a lane of a queue.
type bucketRow struct {
	key   laneKey
	b     rule.Bucket
	dirty bool
}

// throttleRow is a row of table throttle: the lowered rate of a type in a lane. Rate 0 is none.
type throttleRow struct {
	rule.Throttle
	k      *kindRow
	lane   store.Lane
	stored bool
	dirty  bool
}

func (s *state) bucket(q *queueRow, lane store.Lane) (*bucketRow, error) {
	key := laneKey{q.q, lane}
	if b := s.rates[key]; b != nil {
		return b, nil
	}
	b := &bucketRow{key: key}
	st := s.w.q("SELECT tat FROM bucket WHERE q=? AND lane=?").Int(q.q).Int(int64(lane))
	ok, err := st.Step()
	if err != nil {
		return nil, err
	}
	if ok {
		b.b = rule.Bucket(st.ColFloat(0))
		st.Reset()
	}
	s.rates[key] = b
	return b, nil
}

func (s *state) setBucket(b *bucketRow, v rule.Bucket) {
	if b.b == v {
		return
	}
	if b.b = v; !b.dirty {
		b.dirty = true
		s.dirtyRates = append(s.dirtyRates, b)
	}
}

func (s *state) throttle(k *kindRow, lane store.Lane) (*throttleRow, error) {
	if t := k.throttles[lane]; t != nil {
		return t, nil
	}
	t := &throttleRow{k: k, lane: lane}
	st := s.w.q(selectThrottle).Int(k.k).Int(int64(lane))
	ok, err := st.Step()
	if err != nil {
		return nil, err
	}
	if ok {
		t.stored = true
		t.Throttle = scanThrottle(st)
		st.Reset()
	}
	k.throttles[lane] = t
	return t, nil
}

const selectThrottle = "SELECT rate, ceil, at, halved, tat FROM throttle WHERE k=? AND lane=?"

func scanThrottle(st stmt) rule.Throttle {
	return rule.Throttle{
		Rate: st.ColFloat(0), Ceil: st.ColFloat(1), At: store.Millis(st.ColInt(2)), Halved: store.Millis(st.ColInt(3)), Bucket: rule.Bucket(st.ColFloat(4)),
	}
}

func (s *state) setThrottle(t *throttleRow, v rule.Throttle) {
	if t.Throttle == v {
		return
	}
	if t.Throttle = v; !t.dirty {
		t.dirty = true
		s.dirtyThrots = append(s.dirtyThrots, t)
	}
}

func (s *state) flushRates() error {
	for _, b := range s.dirtyRates {
		b.dirty = false
		if err := s.w.q("INSERT OR REPLACE INTO bucket (q, lane, tat) VALUES (?,?,?)").Int(b.key.q).Int(int64(b.key.lane)).Float(float64(b.b)).Run(); err != nil {
			return err
		}
	}
	s.dirtyRates = s.dirtyRates[:0]
	for _, t := range s.dirtyThrots {
		t.dirty = false
		st := s.w.q("DELETE FROM throttle WHERE k=? AND lane=?").Int(t.k.k).Int(int64(t.lane))
		if t.stored = t.Rate > 0; t.stored {
			st.Reset()
			st = s.w.q("INSERT OR REPLACE INTO throttle (k, lane, rate, ceil, at, halved, tat) VALUES (?,?,?,?,?,?,?)").
				Int(t.k.k).Int(int64(t.lane)).Float(t.Rate).Float(t.Ceil).Int(int64(t.At)).Int(int64(t.Halved)).Float(float64(t.Bucket))
		}
		if err := st.Run(); err != nil {
			return err
		}
	}
	s.dirtyThrots = s.dirtyThrots[:0]
	return nil
}

// token takes a token of the type's throttle and of the lane's rate, both or none; a cancel visit takes them without waiting.
func (w *writer) token(now rule.Now, k *kindRow, lane store.Lane, class store.Class) (store.WhyNot, time.Duration, error) {
	rate := k.q.cfg.Rates[lane]
	b, err := w.st.bucket(k.q, lane)
	if err != nil {
		return "", 0, err
	}
	t, err := w.st.throttle(k, lane)
	if err != nil {
		return "", 0, err
	}
	if class.Visit() {
		w.st.setThrottle(t, t.Force(now.Run))
		w.st.setBucket(b, b.b.Force(rate, now.Run))
		return "", 0, nil
	}
	nt, got, wait := t.Take(now.Run, 1)
	if got == 0 {
		w.st.setThrottle(t, nt)
		return store.WhyThrottled, wait, nil
	}
	nb, got, wait := b.b.Take(rate, now.Run, 1)
	if got == 0 {
		w.st.setBucket(b, nb)
		return store.WhyRate, wait, nil
	}
	w.st.setThrottle(t, nt)
	w.st.setBucket(b, nb)
	return "", 0, nil
}

package sqlitestore

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/twolane/twolane/store"
)

var errRecord = errors.New("the record cannot be read")

// decoder reads a packed record; the first thing that does not fit makes it bad.
type decoder struct {
	b    []byte
	bits uint64
	bad  bool
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	return skip(d, v, n)
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	return skip(d, v, n)
}

func skip[T any](d *decoder, v T, n int) T {
	if n <= 0 {
		d.bad, d.b = true, nil
		var zero T
		return zero
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) str() string            { return string(d.take(d.uint())) }
func (d *decoder) has(bit uint64) bool    { return d.bits&bit != 0 }
func (d *decoder) millis() store.Millis   { return store.Millis(d.int()) }
func (d *decoder) lease() store.LeaseName { return store.LeaseName{Token: d.uint(), Nonce: d.str()} }

func (d *decoder) optInt(bit uint64) int64 {
	if d.has(bit) {
		return d.int()
	}
	return 0
}

func (d *decoder) optStr(bit uint64) string {
	if d.has(bit) {
		return d.str()
	}
	return ""
}

// decode unpacks rec into c, whose ID, Queue, Type, Group, Status, Place and LeaseUntil are set. Small values of c share memory with rec;
// those in table body stand elsewhere; events and metadata are left packed (see events and metadata).
func decode(rec []byte, c *store.Command) (vals [values]value, tail []byte, err error) {
	if len(rec) < 25 || rec[0] != recordFormat {
		return vals, nil, errRecord
	}
	d := decoder{b: rec[9:], bits: binary.LittleEndian.Uint64(rec[1:])}
	d.fields(c)
	for i := range vals {
		if vals[i] = d.value(i); vals[i].there && vals[i].out {
			vals[i].data = elsewhere
		}
	}
	if d.bad {
		return vals, nil, errRecord
	}
	c.Params, c.State, c.Result, c.Progress = vals[valParams].data, vals[valState].data, vals[valResult].data, vals[valProgress].data
	if v := &vals[valError]; v.there && !v.out {
		c.Error = string(v.data)
	}
	return vals, d.b, nil
}

func (d *decoder) fields(c *store.Command) {
	if b := d.take(8); b != nil {
		c.Fingerprint = binary.LittleEndian.Uint64(b)
	}
	if b := d.take(8); b != nil {
		c.Seq = binary.LittleEndian.Uint64(b)
	}
	c.Created = d.millis()
	c.BatchKey = d.optStr(bitBatchKey)
	if d.has(bitKeys) {
		n := d.uint()
		for i := uint64(0); i < n && !d.bad; i++ {
			c.Keys = append(c.Keys, store.Key{Name: d.str(), Value: d.str()})
		}
	}
	c.Cost = 1
	if d.has(bitCost) {
		c.Cost = int(d.int())
	}
	c.UniqueKey = d.optStr(bitUniqueKey)
	c.Notify = d.optStr(bitNotify)
	c.Priority = uint8(d.optInt(bitPriority))
	c.NotBefore = store.Millis(d.optInt(bitNotBefore))
	c.StartBy = store.Millis(d.optInt(bitStartBy))
	c.Deadline = store.Millis(d.optInt(bitDeadline))
	c.MaxFailures = int(d.optInt(bitMaxFailures))
	c.Retention = time.Duration(d.optInt(bitRetention))
	if d.has(bitEnd) {
		c.Ended = d.millis()
		c.Reason = store.Reason(d.str())
		c.Was = store.Status(d.uint())
	}
	c.PurgeAt = store.Millis(d.optInt(bitPurgeAt))
	c.Eligible = store.Millis(d.optInt(bitEligible))
	c.Due = store.Millis(d.optInt(bitDue))
	if d.has(bitCounts) {
		for _, p := range [...]*int{&c.Starts, &c.Failures, &c.Losses, &c.Polls, &c.Decodes} {
			*p = int(d.int())
		}
	}
	c.Tombstone = d.has(bitTombstone)
	if d.has(bitLease) {
		c.Lease = d.lease()
		c.Owner = d.str()
		c.LeasedAt = d.millis()
	}
	c.Overdue = d.has(bitOverdue)
	if d.has(bitSettled) {
		c.Settled = d.lease()
	}
	c.HasHook = d.has(bitHasHook)
	if d.has(bitCancel) {
		c.CancelAsked = d.millis()
		c.CancelUntil = d.millis()
		c.CancelReason = d.str()
		c.CancelEnds = store.Reason(d.str())
	}
	if d.has(bitHolds) {
		n := d.uint()
		for i := uint64(0); i < n && !d.bad; i++ {
			c.Holds = append(c.Holds, store.Hold{LimitKey: store.LimitKey{Limit: d.str(), Value: d.str()}, Scope: store.Scope(d.uint())})
		}
	}
	c.Unknown, c.Overflow = d.has(bitUnknown), d.has(bitOverflow)
}

func (d *decoder) value(which int) value {
	if !d.has(bitValues << which) {
		return value{}
	}
	n := d.uint()
	v := value{there: true, out: n&1 == 1, size: int(n >> 1)}
	if v.out {
		if b := d.take(4); b != nil {
			v.sum = binary.LittleEndian.Uint32(b)
		}
		return v
	}
	v.data = d.take(n >> 1)
	if v.data == nil {
		v.data = []byte{}
	}
	return v
}

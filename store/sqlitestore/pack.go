package sqlitestore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"github.com/twolane/twolane/store"
)

// out is a value to be written to table body; nil data removes it.
type out struct {
	which int
	data  []byte
}

// encode packs c. Values that c does not touch are taken from old, the values of the record as it was stored. It returns the packed
// record, where its values lie now, and what has to change in table body.
func encode(c *store.Command, old *[values]value, tail []byte) (rec []byte, now [values]value, outs []out) {
	give := [values][]byte{valParams: c.Params, valState: c.State, valResult: c.Result, valProgress: c.Progress}
	if c.Error != "" {
		give[valError] = unsafe.Slice(unsafe.StringData(c.Error), len(c.Error))
	}
	give[valEvents] = encodeEvents(c, old[valEvents].data)
	switch {
	case c.Tombstone:
	case old[valMetadata].there:
		give[valMetadata] = old[valMetadata].data
		if old[valMetadata].out {
			give[valMetadata] = elsewhere
		}
	case c.Metadata != nil:
		give[valMetadata] = encodeMetadata(c.Metadata)
	}
	size := 160
	for i, b := range give {
		switch {
		case b == nil:
		case isElsewhere(b):
			now[i] = old[i]
		case len(b) > maxInline:
			now[i] = value{there: true, out: true, size: len(b), sum: crc32.Checksum(b, castagnoli), data: b}
			if !old[i].out || !bytes.Equal(old[i].data, b) {
				outs = append(outs, out{i, b})
			}
		default:
			now[i] = value{there: true, size: len(b), data: b}
			size += len(b) + 3
		}
		if old[i].out && !now[i].out {
			outs = append(outs, out{i, nil})
		}
	}
	e := encoder{b: make([]byte, 9, size)}
	e.fields(c)
	for i := range now {
		e.value(i, &now[i])
	}
	e.b[0] = recordFormat
	binary.LittleEndian.PutUint64(e.b[1:], e.bits)
	return append(e.b, tail...), now, outs
}

type encoder struct {
	b    []byte
	bits uint64
}

func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) str(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// if notes a field that is there.
func (e *encoder) has(bit uint64, there bool) bool {
	if there {
		e.bits |= bit
	}
	return there
}

func (e *encoder) optInt(bit uint64, v int64) {
	if e.has(bit, v != 0) {
		e.int(v)
	}
}

func (e *encoder) optStr(bit uint64, s string) {
	if e.has(bit, s != "") {
		e.str(s)
	}
}

func (e *encoder) lease(bit uint64, l store.LeaseName) bool {
	if !e.has(bit, l != store.LeaseName{}) {
		return false
	}
	e.uint(l.Token)
	e.str(l.Nonce)
	return true
}

func (e *encoder) fields(c *store.Command) {
	e.b = binary.LittleEndian.AppendUint64(e.b, c.Fingerprint)
	e.b = binary.LittleEndian.AppendUint64(e.b, c.Seq)
	e.int(int64(c.Created))
	e.optStr(bitBatchKey, c.BatchKey)
	if e.has(bitKeys, len(c.Keys) > 0) {
		e.uint(uint64(len(c.Keys)))
		for _, k := range c.Keys {
			e.str(k.Name)
			e.str(k.Value)
		}
	}
	if e.has(bitCost, c.Cost != 1) {
		e.int(int64(c.Cost))
	}
	e.optStr(bitUniqueKey, c.UniqueKey)
	e.optStr(bitNotify, c.Notify)
	e.optInt(bitPriority, int64(c.Priority))
	e.optInt(bitNotBefore, int64(c.NotBefore))
	e.optInt(bitStartBy, int64(c.StartBy))
	e.optInt(bitDeadline, int64(c.Deadline))
	e.optInt(bitMaxFailures, int64(c.MaxFailures))
	e.optInt(bitRetention, int64(c.Retention))
	if e.has(bitEnd, c.Ended != 0 || c.Reason != "" || c.Was != 0) {
		e.int(int64(c.Ended))
		e.str(string(c.Reason))
		e.uint(uint64(c.Was))
	}
	e.optInt(bitPurgeAt, int64(c.PurgeAt))
	e.optInt(bitEligible, int64(c.Eligible))
	e.optInt(bitDue, int64(c.Due))
	if e.has(bitCounts, c.Starts|c.Failures|c.Losses|c.Polls|c.Decodes != 0) {
		for _, n := range [...]int{c.Starts, c.Failures, c.Losses, c.Polls, c.Decodes} {
			e.int(int64(n))
		}
	}
	e.has(bitTombstone, c.Tombstone)
	if e.lease(bitLease, c.Lease) {
		e.str(c.Owner)
		e.int(int64(c.LeasedAt))
	}
	e.has(bitOverdue, c.Overdue)
	e.lease(bitSettled, c.Settled)
	e.has(bitHasHook, c.HasHook)
	if e.has(bitCancel, c.CancelAsked != 0 || c.CancelUntil != 0 || c.CancelReason != "" || c.CancelEnds != "") {
		e.int(int64(c.CancelAsked))
		e.int(int64(c.CancelUntil))
		e.str(c.CancelReason)
		e.str(string(c.CancelEnds))
	}
	if e.has(bitHolds, len(c.Holds) > 0) {
		e.uint(uint64(len(c.Holds)))
		for _, h := range c.Holds {
			e.str(h.Limit)
			e.str(h.Value)
			e.uint(uint64(h.Scope))
		}
	}
	e.has(bitUnknown, c.Unknown)
	e.has(bitOverflow, c.Overflow)
}

// setSeq changes the number of arrival in a packed record.
func setSeq(rec []byte, seq uint64) { binary.LittleEndian.PutUint64(rec[17:], seq) }

func (e *encoder) value(which int, v *value) {
	if !e.has(bitValues<<which, v.there) {
		return
	}
	if v.out {
		e.uint(uint64(v.size)<<1 | 1)
		e.b = binary.LittleEndian.AppendUint32(e.b, v.sum)
		return
	}
	e.uint(uint64(v.size) << 1)
	e.b = append(e.b, v.data...)
}

package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/twolane/twolane/store"
)

// A record is one string: a fixed head, then blocks that are there if their flag is set, in this order, then the params. Numbers are
// little-endian; times take six bytes. The scripts (script/lib/record.lua) read and write the same.
//
//	 0 version 1        1 status       2 place (terminal: 8 + status before + 16 x reason)
//	 3 seq 6            9 created 6   15 flags 4    19 priority 1   20 line 16   36 fingerprint 8   44 blocks
//
//	run       eligible 6, due 6 (terminal: ended, purge), starts 4, polls 4, failures 4, losses 2, decodes 1
//	holds     memberships that stay while no lease stands: length 2; see script/holds.lua
//	settled   the lease name: length 1
//	times     not_before 6, start_by 6, deadline 6
//	opts      max failures 4, retention in ms (float64), retention in ns 8
//	cancel    asked 6, until 6, ends 1, reason: length 4
//	names     unique key: length 1; notify: length 1
//	meta, state, error, result, progress: length 4 and the bytes; state, error and result may be in a key of their own: only the length
//	events    number 1, length 2; each: at 6, kind 1, worker: length 1, text: length 1
//	params    the rest; or, in a key of their own, their length 4; of a tombstone the definition of its line
//
// A command that is leased has the record that it had in line, with starts not yet counted; the lease stands in the hash of leases, and says of
// which limits the command is a member.
const (
	recordVersion = 1
	headLen       = 44
	runLen        = 27

	flagRun      = 1 << 0
	flagSettled  = 1 << 1
	flagTimes    = 1 << 2
	flagCancel   = 1 << 3
	flagXParams  = 1 << 4
	flagXState   = 1 << 5
	flagTomb     = 1 << 6
	flagHook     = 1 << 7
	flagOpts     = 1 << 8
	flagNames    = 1 << 9
	flagMeta     = 1 << 10
	flagState    = 1 << 11
	flagError    = 1 << 12
	flagResult   = 1 << 13
	flagProgress = 1 << 14
	flagEvents   = 1 << 15
	flagXError   = 1 << 16
	flagXResult  = 1 << 17
	flagNoParams = 1 << 20 // nil, not empty
	flagOverdue  = 1 << 21
	flagUnknown  = 1 << 22
	flagHolds    = 1 << 23

	inlineParams = 1024
)

// eventKinds are the events by their code.
var eventKinds = [...]store.EventKind{
	"", store.EventProcessing, store.EventError, store.EventSnoozed, store.EventThrottled, store.EventGivenBack, store.EventLost,
	store.EventClaimLost, store.EventOverdue, store.EventCancelAsk, store.EventCancelErr, store.EventRetried, store.EventMoved, store.EventEnded,
}

// reasonCode is the code of a reason; 0 is none, false is one that no record can hold.
func reasonCode(r store.Reason) (byte, bool) {
	if r == "" {
		return 0, true
	}
	for i, known := range store.Reasons {
		if known == r {
			return byte(i + 1), true
		}
	}
	return 0, false
}

func reasonOf(code byte) (store.Reason, bool) {
	if code == 0 {
		return "", true
	}
	if int(code) > len(store.Reasons) {
		return "", false
	}
	return store.Reasons[code-1], true
}

func put48(b []byte, v uint64) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40))
}

// appendSubmission appends the record of a new command from its flags on: the script puts version, status, place, seq and created before it.
func appendSubmission(b []byte, s *store.Submission, d *lineDef, fingerprint uint64) []byte {
	var flags uint32
	if s.NotBefore != 0 || s.StartBy != 0 || s.Deadline != 0 || s.Delay > 0 {
		flags |= flagTimes
	}
	if s.MaxFailures != 0 || s.Retention != 0 {
		flags |= flagOpts
	}
	if s.UniqueKey != "" || s.Notify != "" {
		flags |= flagNames
	}
	if s.Metadata != nil {
		flags |= flagMeta
	}
	switch {
	case len(s.Params) > inlineParams:
		flags |= flagXParams
	case s.Params == nil:
		flags |= flagNoParams
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = append(b, s.Priority)
	b = append(b, d.base...)
	b = binary.LittleEndian.AppendUint64(b, fingerprint)
	if flags&flagTimes != 0 {
		b = put48(put48(put48(b, uint64(s.NotBefore)), uint64(s.StartBy)), uint64(s.Deadline))
	}
	if flags&flagOpts != 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.MaxFailures))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(retentionMillis(s.Retention)))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Retention))
	}
	if flags&flagNames != 0 {
		b = append(append(b, byte(len(s.UniqueKey))), s.UniqueKey...)
		b = append(append(b, byte(len(s.Notify))), s.Notify...)
	}
	if flags&flagMeta != 0 {
		meta := appendMetadata(nil, s.Metadata)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(meta)))
		b = append(b, meta...)
	}
	if flags&flagXParams != 0 {
		return binary.LittleEndian.AppendUint32(b, uint32(len(s.Params)))
	}
	return append(b, s.Params...)
}

// appendMetadata packs metadata: name and value, each with its length in two bytes.
func appendMetadata(b []byte, m map[string]string) []byte {
	for k, v := range m {
		for _, s := range [...]string{k, v} {
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
		}
	}
	return b
}

func parseMetadata(s string) (map[string]string, bool) {
	m := make(map[string]string)
	r := reader{s: s}
	for len(r.s) > r.at && !r.bad {
		k := r.str(int(r.uint(2)))
		m[k] = r.str(int(r.uint(2)))
	}
	return m, !r.bad
}

// ceilMillis is d in milliseconds, rounded up as store.Millis.Add does.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// retentionMillis is a retention in ms; a negative one stays negative however small it is, and any other one positive.
func retentionMillis(d time.Duration) float64 {
	switch {
	case d < 0:
		return -1
	case d == 0:
		return 0
	}
	return float64(ceilMillis(d))
}

var errRecord = errors.New("record cannot be read")

// reader reads a packed string; bad is set by a read beyond its end.
type reader struct {
	s   string
	at  int
	bad bool
}

func (r *reader) str(n int) string {
	if n < 0 || n > len(r.s)-r.at {
		r.bad = true
		r.at = len(r.s)
		return ""
	}
	s := r.s[r.at : r.at+n]
	r.at += n
	return s
}

func (r *reader) uint(n int) uint64 {
	s := r.str(n)
	var v uint64
	for i := len(s) - 1; i >= 0; i-- {
		v = v<<8 | uint64(s[i])
	}
	return v
}

func (r *reader) time() store.Millis { return store.Millis(r.uint(6)) }

// ext hands out blobs that are in keys of their own, in the order in which records name them. A nil ext leaves them out.
type ext struct{ vals []string }

func (e *ext) next() []byte {
	if e == nil || len(e.vals) == 0 {
		return nil
	}
	v := e.vals[0]
	e.vals = e.vals[1:]
	return bytesOf(v)
}

// decodeRecord reads a record. The command shares the bytes of rec. d is its line; x has its blobs in keys of their own, as many as ownBlobs
// says, or none; noBlobs leaves blobs, metadata and events out.
func decodeRecord(id, rec string, d *lineDef, x *ext, noBlobs bool) (*store.Command, error) {
	if len(rec) < headLen || rec[0] != recordVersion {
		return nil, errRecord
	}
	r := reader{s: rec, at: 3}
	c := &store.Command{ID: id, Status: store.Status(rec[1])}
	c.Seq, c.Created = r.uint(6), r.time()
	flags := uint32(r.uint(4))
	c.Priority = rec[19]
	r.at = 36
	c.Fingerprint = r.uint(8)
	place := rec[2]
	switch {
	case c.Status.Terminal() && c.Status <= store.Cancelled:
		c.Was = store.Status(place&15) - 8
		reason, ok := reasonOf(place >> 4)
		if !ok {
			return nil, errRecord
		}
		c.Reason = reason
	case c.Status == store.Pending || c.Status == store.Processing:
		if c.Place = store.Place(place); c.Place != store.InLine && c.Place != store.Scheduled {
			return nil, errRecord
		}
	default:
		return nil, errRecord
	}
	if flags&flagRun != 0 {
		c.Eligible, c.Due = r.time(), r.time()
		c.Starts, c.Polls, c.Failures = int(r.uint(4)), int(r.uint(4)), int(r.uint(4))
		c.Losses, c.Decodes = int(r.uint(2)), int(r.uint(1))
		if c.Status.Terminal() {
			c.Ended, c.PurgeAt, c.Eligible, c.Due = c.Eligible, c.Due, 0, 0
		}
	} else if c.Place == store.InLine {
		c.Eligible = c.Created
	}
	if flags&flagHolds != 0 {
		var ok bool
		if c.Holds, _, ok = parseHolds(r.str(int(r.uint(2)))); !ok {
			return nil, errRecord
		}
	}
	if flags&flagSettled != 0 {
		name, err := store.ParseLeaseName(r.str(int(r.uint(1))))
		if err != nil {
			return nil, errRecord
		}
		c.Settled = name
	}
	if flags&flagTimes != 0 {
		c.NotBefore, c.StartBy, c.Deadline = r.time(), r.time(), r.time()
	}
	if flags&flagOpts != 0 {
		c.MaxFailures = int(r.uint(4))
		r.str(8)
		c.Retention = time.Duration(r.uint(8))
	}
	if flags&flagCancel != 0 {
		c.CancelAsked, c.CancelUntil = r.time(), r.time()
		ends, ok := reasonOf(byte(r.uint(1)))
		c.CancelEnds = ends
		c.CancelReason = r.str(int(r.uint(4)))
		if !ok {
			return nil, errRecord
		}
	}
	if flags&flagNames != 0 {
		c.UniqueKey = r.str(int(r.uint(1)))
		c.Notify = r.str(int(r.uint(1)))
	}
	c.HasHook, c.Overdue, c.Tombstone, c.Unknown = flags&flagHook != 0, flags&flagOverdue != 0, flags&flagTomb != 0, flags&flagUnknown != 0
	decodeBlobs(&r, c, flags, x, noBlobs)
	if c.Tombstone {
		text := r.str(len(rec) - r.at)
		var ok bool
		if d, ok = parseLine(text); !ok {
			return nil, errRecord
		}
	} else if flags&flagXParams != 0 {
		r.uint(4)
		if !noBlobs {
			c.Params = x.next()
		}
	} else if p := r.str(len(rec) - r.at); !noBlobs && flags&flagNoParams == 0 {
		c.Params = bytesOf(p)
	}
	if r.bad || d == nil || d.base != rec[20:36] {
		return nil, errRecord
	}
	c.Queue, c.Type, c.Group, c.BatchKey, c.Cost = d.queue, d.typ, d.group, d.batch, d.cost
	if len(d.keys) > 0 {
		c.Keys = append([]store.Key(nil), d.keys...)
	}
	return c, nil
}

// decodeBlobs reads metadata, state, error, result, progress and events.
func decodeBlobs(r *reader, c *store.Command, flags uint32, x *ext, noBlobs bool) {
	if flags&(flagMeta|flagState|flagError|flagResult|flagProgress|flagEvents) == 0 {
		return
	}
	blob := func(there, own uint32, read bool) []byte {
		if flags&there == 0 {
			return nil
		}
		n := int(r.uint(4))
		if flags&own == 0 {
			if b := r.str(n); read {
				return bytesOf(b)
			}
			return nil
		}
		if !read {
			return nil
		}
		return x.next()
	}
	meta := blob(flagMeta, 0, !noBlobs)
	if meta != nil {
		m, ok := parseMetadata(stringOf(meta))
		c.Metadata = m
		r.bad = r.bad || !ok
	}
	c.State = blob(flagState, flagXState, !noBlobs)
	c.Error = stringOf(blob(flagError, flagXError, true))
	c.Result = blob(flagResult, flagXResult, !noBlobs)
	c.Progress = blob(flagProgress, 0, !noBlobs)
	if flags&flagEvents == 0 {
		return
	}
	n, e := int(r.uint(1)), reader{}
	e.s = r.str(int(r.uint(2)))
	if noBlobs {
		return
	}
	c.Events = make([]store.Event, 0, n)
	for range n {
		at, kind := e.time(), e.uint(1)
		worker := e.str(int(e.uint(1)))
		text := e.str(int(e.uint(1)))
		if e.bad || int(kind) >= len(eventKinds) {
			r.bad = true
			return
		}
		c.Events = append(c.Events, store.Event{At: at, Kind: eventKinds[kind], Worker: worker, Text: text})
	}
}

package sqlitestore

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"github.com/twolane/twolane/store"
)

// A record is packed: a format byte, a word of bits that say which fields follow, then these in order. Numbers are varints. Values over
// maxInline lie in table body, and the record keeps their length and checksum. Bytes after the last field that we know belong to a later
// program and are kept.

const (
	recordFormat = 1
	maxInline    = 1024
)

// The values of a record that may lie in table body, by the row there.
const (
	valParams = iota
	valState
	valResult
	valError
	valProgress
	valEvents
	valMetadata
	values
)

var valueNames = [values]string{"params", "state", "result", "error", "progress", "events", "metadata"}

// The bits, in the order of the fields.
const (
	bitBatchKey = 1 << iota
	bitKeys
	bitCost
	bitUniqueKey
	bitNotify
	bitPriority
	bitNotBefore
	bitStartBy
	bitDeadline
	bitMaxFailures
	bitRetention
	bitEnd
	bitPurgeAt
	bitEligible
	bitDue
	bitCounts
	bitTombstone
	bitLease
	bitOverdue
	bitSettled
	bitHasHook
	bitCancel
	bitHolds
	bitUnknown
	bitOverflow
	bitValues // of valParams; the others follow
)

// value is where a value of a stored record lies.
type value struct {
	there bool
	out   bool // in table body
	size  int
	sum   uint32
	data  []byte // elsewhere if out and not read
}

// elsewhere stands in a command for a value in table body that was not read: a step that does not touch it keeps it. It is known by its address.
var elsewhere = []byte{0}

func isElsewhere(b []byte) bool {
	return len(b) == 1 && unsafe.SliceData(b) == unsafe.SliceData(elsewhere)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers a record and the columns that say what and where it is.
func checksum(id, grp string, k int64, c *store.Command, rec []byte) int64 {
	h := crc32.Update(0, castagnoli, unsafe.Slice(unsafe.StringData(id), len(id)))
	h = crc32.Update(h, castagnoli, unsafe.Slice(unsafe.StringData(grp), len(grp)))
	var b [18]byte
	b[0], b[1] = byte(c.Status), byte(c.Place)
	binary.LittleEndian.PutUint64(b[2:], uint64(k))
	binary.LittleEndian.PutUint64(b[10:], uint64(c.LeaseUntil))
	h = crc32.Update(h, castagnoli, b[:])
	return int64(crc32.Update(h, castagnoli, rec))
}

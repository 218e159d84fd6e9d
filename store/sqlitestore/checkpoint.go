package sqlitestore

import (
	"fmt"
	"sync"

	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

const (
	pageSize = 4096
	// frameSize is what one page takes in the log.
	frameSize = pageSize + 24
	// checkpointAt is the length of the log, in frames, at which it is copied to the database.
	checkpointAt = 4000
)

// walState is what is known of the log.
type walState struct {
	mu      sync.Mutex
	frames  int // that it holds
	copied  int // that are in the database already
	blocked bool
	failing bool // nobody has copied it for long, which was said
}

// muchTooLong is how many times its limit the log may grow while every try to copy it fails before that is said.
const muchTooLong = 4

// warning says that the log has outgrown its limit because somebody reads an old snapshot.
func (s *walState) warning(limit int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.blocked {
		return ""
	}
	return fmt.Sprintf("the write-ahead log has %d MiB, limit %d: a long read holds it; find the process that reads and end its transaction",
		int64(s.frames)*frameSize>>20, limit>>20)
}

// checkpoint copies the log to the database when it is long enough; then the next commit begins the log anew, unless somebody still reads
// what is in it. It runs between transactions and never waits for a reader.
func (w *writer) checkpoint() {
	frames := w.c.Frames()
	if frames < w.checkAt {
		return
	}
	w.checkpointed(frames, w.c.Checkpoint)
}

// checkpointed does what follows from a try to copy the log.
func (w *writer) checkpointed(frames int, try func() (all, copied int, err error)) {
	all, copied, err := try()
	s := &w.s.wal
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil { // as a rule another process is just copying it
		w.checkAt = frames + checkpointAt/4
		if bytes := int64(frames) * frameSize; !s.failing && (!lite.Is(err, lite.Busy) || bytes > muchTooLong*w.s.opt.WALLimit) {
			s.failing = true
			w.s.log.Warn("the write-ahead log cannot be copied to the database", "err", err, "bytes", bytes, "limit", w.s.opt.WALLimit)
		}
		return
	}
	w.checkAt, s.failing = checkpointAt, false
	if copied < all {
		w.checkAt = frames + checkpointAt/4
	}
	s.frames, s.copied = all, copied
	over := copied < all && int64(all)*frameSize > w.s.opt.WALLimit
	if over && !s.blocked {
		w.s.log.Warn("the write-ahead log outgrows its limit: a long read holds it", "bytes", int64(all)*frameSize, "limit", w.s.opt.WALLimit)
	}
	if s.blocked && !over {
		w.s.log.Info("the write-ahead log is in its limit again", "bytes", int64(all)*frameSize)
	}
	s.blocked = over
}

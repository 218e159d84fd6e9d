package sqlitestore

import (
	"math/rand/v2"
	"time"

	"github.com/twolane/twolane/store/sqlitestore/internal/lite"
)

// begin starts a transaction once no other process is in one, and makes sure that what is cached is true in it.
func (w *writer) begin(durable bool) error {
	if err := w.synchronous(durable && !w.s.opt.Relaxed); err != nil {
		return err
	}
	for pause := 100 * time.Microsecond; ; pause = min(pause*3/2, 2*time.Millisecond) {
		err := w.exec("BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if !lite.Is(err, lite.Busy) {
			return err
		}
		if !w.wanted() {
			return errAbandoned
		}
		time.Sleep(pause/2 + rand.N(pause))
	}
	w.tick, w.tickAt = machineClock(), time.Now()
	if err := w.fresh(); err != nil {
		w.rollback()
		return err
	}
	return nil
}

// fresh drops what is cached if another process has written.
func (w *writer) fresh() error {
	v, err := w.pragma("PRAGMA data_version")
	if err != nil || v == w.version && w.st != nil {
		return err
	}
	w.foreign = w.foreign || w.version != 0 && v != w.version
	w.st, w.version = newState(w), v
	if err := checkSchema(w.c); err != nil {
		return err
	}
	return w.st.load()
}

// synchronous says whether the next commit flushes the log to the disk. Without a buffered log it cannot be changed within a transaction.
func (w *writer) synchronous(full bool) error {
	if w.buffered {
		w.full = full
		return nil
	}
	if full == w.full && w.synced {
		return nil
	}
	sql := "PRAGMA synchronous=NORMAL"
	if full {
		sql = "PRAGMA synchronous=FULL"
	}
	if err := w.exec(sql); err != nil {
		return err
	}
	w.full, w.synced = full, true
	return nil
}

// commit ends the transaction, and flushes the log if a call in it needs that.
func (w *writer) commit(durable bool) error {
	if f := w.s.opt.beforeCommit; f != nil {
		f(w, durable)
	}
	if w.buffered {
		w.c.Lazy(!w.full)
		defer w.c.Lazy(false)
	}
	if err := w.exec("COMMIT"); err != nil {
		w.rollback()
		return err
	}
	return nil
}

func (w *writer) rollback() {
	w.wakes, w.hits, w.st, w.version = w.wakes[:0], w.hits[:0], nil, 0
	if w.c.InTx() {
		_ = w.exec("ROLLBACK") // it fails only if there is no transaction any more
	}
}

package lite

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// SQLite writes each page of a transaction to the log in two system calls, one after the other in place. A connection that has called
// BufferLog gathers them and writes them at once when SQLite flushes the log in its commit, before other connections are told of them. What
// reads the log through this connection writes it first.
//
// This rests on two things that BufferLog makes sure of: with synchronous=FULL every commit flushes the log before it is published, and no
// page is written behind the flush to fill up a sector (powersafe overwrite, the default).

// logBuffer is what a connection has not written to its log yet.
type logBuffer struct {
	old   uintptr // methods of the file
	mem   uintptr // logSize bytes
	at    int64   // where in the file they belong
	n     int32
	lazy  bool // flushes write, and no more
	syncs int  // flushes to the disk
}

const logSize = 31 * 4120 // SQLite's files take less than 128 KiB in one call

// logs finds the buffer of a file; each belongs to one connection and is used by its goroutine alone.
var logs sync.Map

type ioMethods = sqlite3.Tsqlite3_io_methods

func (b *logBuffer) methods() *ioMethods { return (*ioMethods)(ptr(b.old)) }

// BufferLog gathers what the connection writes to its log, and reports whether it can. The connection must have the file open with
// journal_mode=WAL; synchronous is set to FULL and must stay so: see Lazy.
func (c *Conn) BufferLog() (bool, error) {
	if err := c.Exec("PRAGMA synchronous=FULL; BEGIN; SELECT count(*) FROM sqlite_schema; ROLLBACK"); err != nil { // opens the log
		return false, err
	}
	arg := (*int32)(ptr(c.out))
	*arg = -1
	if sqlite3.Xsqlite3_file_control(c.tls, c.db, 0, sqlite3.SQLITE_FCNTL_POWERSAFE_OVERWRITE, c.out) != sqlite3.SQLITE_OK || *arg != 1 {
		return false, nil
	}
	file := (*uintptr)(ptr(c.out))
	*file = 0
	if sqlite3.Xsqlite3_file_control(c.tls, c.db, 0, sqlite3.SQLITE_FCNTL_JOURNAL_POINTER, c.out) != sqlite3.SQLITE_OK || *file == 0 {
		return false, nil
	}
	slot := (*uintptr)(ptr(*file)) // the first field of a file are its methods
	if *slot == 0 {
		return false, nil
	}
	b := &logBuffer{old: *slot, mem: libc.Xmalloc(c.tls, logSize)}
	c.methods = libc.Xmalloc(c.tls, libcSize(int(unsafe.Sizeof(ioMethods{}))))
	if b.mem == 0 || c.methods == 0 {
		return false, nil
	}
	m := (*ioMethods)(ptr(c.methods))
	*m = *b.methods()
	m.FxClose = fnPtr(logClose)
	m.FxRead = fnPtr(logRead)
	m.FxWrite = fnPtr(logWrite)
	m.FxTruncate = fnPtr(logTruncate)
	m.FxSync = fnPtr(logSync)
	m.FxFileSize = fnPtr(logFileSize)
	m.FiVersion = min(m.FiVersion, 2) // without fetches past the buffer
	logs.Store(*file, b)
	*slot = c.methods
	c.log = b
	return true, nil
}

// Lazy says whether flushes of the log, which commits make, reach the disk (false) or only the operating system.
func (c *Conn) Lazy(on bool) { c.log.lazy = on }

// Syncs is how often the log was flushed to the disk.
func (c *Conn) Syncs() int { return c.log.syncs }

// fnPtr is how transpiled C sees a function of Go; f must not be a closure.
func fnPtr[F any](f F) uintptr {
	return *(*uintptr)(unsafe.Pointer(&struct{ f F }{f}))
}

// fn is the reverse of fnPtr.
func fn[F any](p uintptr) F {
	return *(*F)(unsafe.Pointer(&struct{ p uintptr }{p}))
}

type (
	fileFn     = func(*libc.TLS, uintptr) int32
	transferFn = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	syncFn     = func(*libc.TLS, uintptr, int32) int32
	truncateFn = func(*libc.TLS, uintptr, int64) int32
	sizeFn     = func(*libc.TLS, uintptr, uintptr) int32
)

func logOf(file uintptr) *logBuffer {
	b, _ := logs.Load(file)
	return b.(*logBuffer)
}

// write writes what was gathered.
func (b *logBuffer) write(tls *libc.TLS, file uintptr) int32 {
	if b.n == 0 {
		return sqlite3.SQLITE_OK
	}
	n := b.n
	b.n = 0
	return fn[transferFn](b.methods().FxWrite)(tls, file, b.mem, n, b.at)
}

func logWrite(tls *libc.TLS, file, from uintptr, n int32, at int64) int32 {
	b := logOf(file)
	if b.n > 0 && (at != b.at+int64(b.n) || b.n+n > logSize) {
		if rc := b.write(tls, file); rc != sqlite3.SQLITE_OK {
			return rc
		}
	}
	if n > logSize {
		return fn[transferFn](b.methods().FxWrite)(tls, file, from, n, at)
	}
	if b.n == 0 {
		b.at = at
	}
	copy(unsafe.Slice((*byte)(ptr(b.mem)), logSize)[b.n:], unsafe.Slice((*byte)(ptr(from)), n))
	b.n += n
	return sqlite3.SQLITE_OK
}

func logRead(tls *libc.TLS, file, to uintptr, n int32, at int64) int32 {
	b := logOf(file)
	if rc := b.write(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return fn[transferFn](b.methods().FxRead)(tls, file, to, n, at)
}

func logSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	b := logOf(file)
	if rc := b.write(tls, file); rc != sqlite3.SQLITE_OK || b.lazy {
		return rc
	}
	b.syncs++
	return fn[syncFn](b.methods().FxSync)(tls, file, flags)
}

func logTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	b := logOf(file)
	if rc := b.write(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return fn[truncateFn](b.methods().FxTruncate)(tls, file, size)
}

func logFileSize(tls *libc.TLS, file, size uintptr) int32 {
	b := logOf(file)
	if rc := b.write(tls, file); rc != sqlite3.SQLITE_OK {
		return rc
	}
	return fn[sizeFn](b.methods().FxFileSize)(tls, file, size)
}

func logClose(tls *libc.TLS, file uintptr) int32 {
	b := logOf(file)
	rc := b.write(tls, file)
	logs.Delete(file)
	libc.Xfree(tls, b.mem)
	if r := fn[fileFn](b.methods().FxClose)(tls, file); rc == sqlite3.SQLITE_OK {
		rc = r
	}
	return rc
}

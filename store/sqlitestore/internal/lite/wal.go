package lite

import (
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// CountFrames lets the connection note, at each of its commits, how long the log has become.
func (c *Conn) CountFrames() {
	hook := func(_ *libc.TLS, arg, _, _ uintptr, frames int32) int32 {
		*(*int32)(ptr(arg)) = frames
		return sqlite3.SQLITE_OK
	}
	*(*int32)(ptr(c.out + 16)) = 0
	sqlite3.Xsqlite3_wal_hook(c.tls, c.db, *(*uintptr)(unsafe.Pointer(&struct {
		f func(*libc.TLS, uintptr, uintptr, uintptr, int32) int32
	}{hook})), c.out+16)
}

// Frames is how many frames the log had after the last commit of this connection; see CountFrames.
func (c *Conn) Frames() int { return int(*(*int32)(ptr(c.out + 16))) }

// LogState is the state of the write-ahead log as all connections see it.
type LogState [12]uint32

// LogState reads the state of the log: it differs after each commit of any connection to the file, in whatever process. It takes no lock and makes no
// system call, and may see the state of a commit that is being published in part. ok is false if the state is not in memory: the connection has read
// nothing yet, or the file has no write-ahead log.
func (c *Conn) LogState() (s LogState, ok bool) {
	if c.index == 0 {
		c.index = c.logIndex()
	}
	if c.index == 0 {
		return s, false
	}
	return *(*LogState)(ptr(c.index)), true
}

// logIndex is where the index of the log, which processes share, lies in memory as long as the connection is open; 0 if there is none. It begins
// with the state: see WalIndexHdr in https://sqlite.org/walformat.html.
func (c *Conn) logIndex() uintptr {
	file := (*uintptr)(ptr(c.out))
	*file = 0
	if sqlite3.Xsqlite3_file_control(c.tls, c.db, 0, sqlite3.SQLITE_FCNTL_FILE_POINTER, c.out) != sqlite3.SQLITE_OK || *file == 0 {
		return 0
	}
	f := *file
	methods := *(*uintptr)(ptr(f))
	if methods == 0 {
		return 0
	}
	m := (*ioMethods)(ptr(methods))
	if m.FiVersion < 2 || m.FxShmMap == 0 {
		return 0
	}
	index := (*uintptr)(ptr(c.out))
	*index = 0
	const block = 32 << 10 // in which SQLite maps the index
	if fn[shmMapFn](m.FxShmMap)(c.tls, f, 0, block, 0, c.out) != sqlite3.SQLITE_OK {
		return 0
	}
	return *index
}

type shmMapFn = func(_ *libc.TLS, file uintptr, block, size, extend int32, to uintptr) int32

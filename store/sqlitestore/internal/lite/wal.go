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

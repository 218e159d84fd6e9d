package lite

import (
	"unsafe"

	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

func libcSize(n int) types.Size_t { return types.Size_t(n) }

// Stmt is a prepared statement. Bind all of its parameters in order, then call Run, or Step until it answers false and Reset if the loop
// ends early. Errors of binding are kept until Run or Step.
type Stmt struct {
	c    *Conn
	h    uintptr
	sql  string
	next int32 // the parameter bound last
	rc   int32 // the first error of binding
	on   bool  // bound or stepped, and not reset since
	err  error // of preparing it
}

func (s *Stmt) begin() {
	if s.h == 0 {
		return
	}
	if !s.on {
		s.on = true
		s.c.active++
	}
}

// Int binds the next parameter.
func (s *Stmt) Int(v int64) *Stmt {
	s.begin()
	s.next++
	s.bound(sqlite3.Xsqlite3_bind_int64(s.c.tls, s.h, s.next, v))
	return s
}

// IntOrNull binds the next parameter to NULL for 0.
func (s *Stmt) IntOrNull(v int64) *Stmt {
	if v == 0 {
		return s.Null()
	}
	return s.Int(v)
}

// Float binds the next parameter.
func (s *Stmt) Float(v float64) *Stmt {
	s.begin()
	s.next++
	s.bound(sqlite3.Xsqlite3_bind_double(s.c.tls, s.h, s.next, v))
	return s
}

// Text binds the next parameter.
func (s *Stmt) Text(v string) *Stmt {
	s.begin()
	s.next++
	s.bound(sqlite3.Xsqlite3_bind_text(s.c.tls, s.h, s.next, put(s.c, v), int32(len(v)), 0))
	return s
}

// TextOrNull binds the next parameter to NULL for the empty string.
func (s *Stmt) TextOrNull(v string) *Stmt {
	if v == "" {
		return s.Null()
	}
	return s.Text(v)
}

// Blob binds the next parameter; nil is the empty blob.
func (s *Stmt) Blob(v []byte) *Stmt {
	s.begin()
	s.next++
	s.bound(sqlite3.Xsqlite3_bind_blob(s.c.tls, s.h, s.next, put(s.c, v), int32(len(v)), 0))
	return s
}

// Null binds the next parameter.
func (s *Stmt) Null() *Stmt {
	s.begin()
	s.next++
	s.bound(sqlite3.Xsqlite3_bind_null(s.c.tls, s.h, s.next))
	return s
}

func (s *Stmt) bound(rc int32) {
	if rc != sqlite3.SQLITE_OK && s.rc == sqlite3.SQLITE_OK {
		s.rc = rc
	}
}

// Run executes a statement whose rows nobody reads.
func (s *Stmt) Run() error {
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
	}
}

// Step goes to the next row. After false or an error the statement is ready to be bound again.
func (s *Stmt) Step() (bool, error) {
	if s.err != nil {
		s.Reset()
		return false, s.err
	}
	if s.rc != sqlite3.SQLITE_OK {
		rc := s.rc
		s.Reset()
		return false, s.c.err(rc, s.sql)
	}
	s.begin()
	switch rc := sqlite3.Xsqlite3_step(s.c.tls, s.h); rc {
	case sqlite3.SQLITE_ROW:
		return true, nil
	case sqlite3.SQLITE_DONE:
		s.Reset()
		return false, nil
	default:
		err := s.c.err(rc, s.sql)
		s.Reset()
		return false, err
	}
}

// Reset ends the statement before its last row.
func (s *Stmt) Reset() {
	s.rc, s.next = sqlite3.SQLITE_OK, 0
	if !s.on {
		return
	}
	s.on = false
	sqlite3.Xsqlite3_reset(s.c.tls, s.h) // answers with the error that Step has told
	if s.c.active--; s.c.active == 0 {
		s.c.arena.reset(s.c.tls)
	}
}

// ColInt reads a column of the row; NULL is 0.
func (s *Stmt) ColInt(i int32) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.h, i) }

// ColFloat reads a column of the row; NULL is 0.
func (s *Stmt) ColFloat(i int32) float64 { return sqlite3.Xsqlite3_column_double(s.c.tls, s.h, i) }

// ColNull reports whether a column of the row is NULL.
func (s *Stmt) ColNull(i int32) bool {
	return sqlite3.Xsqlite3_column_type(s.c.tls, s.h, i) == sqlite3.SQLITE_NULL
}

// ColText reads a column of the row; NULL is empty.
func (s *Stmt) ColText(i int32) string {
	p := sqlite3.Xsqlite3_column_text(s.c.tls, s.h, i)
	if p == 0 {
		return ""
	}
	return string(unsafe.Slice((*byte)(ptr(p)), sqlite3.Xsqlite3_column_bytes(s.c.tls, s.h, i)))
}

// ColBlob copies a column of the row; NULL and the empty blob are empty, not nil.
func (s *Stmt) ColBlob(i int32) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.h, i)
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.h, i)
	b := make([]byte, n)
	if p != 0 {
		copy(b, unsafe.Slice((*byte)(ptr(p)), n))
	}
	return b
}

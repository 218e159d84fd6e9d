//go:build unix

package sqlitestore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileLock says who has the store open: everybody shares it, or one has it alone. It is a file of its own, since closing any descriptor
// of the database would drop the locks that SQLite holds on it.
type fileLock struct {
	f    *os.File
	made bool // by this process
}

func lockFile(path string, exclusive bool) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	made := err == nil
	if errors.Is(err, os.ErrExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	}
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	for {
		if err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		return &fileLock{f, made}, nil
	}
	_ = f.Close() // nothing was written
	if errors.Is(err, unix.EWOULDBLOCK) {
		if exclusive {
			return nil, fmt.Errorf("%s: the store is open elsewhere and cannot be opened exclusively", path)
		}
		return nil, fmt.Errorf("%s: the store is opened exclusively elsewhere", path)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// release lets others in.
func (l *fileLock) release() error { return l.f.Close() }

// forget removes the file of a lock that was made for what is no store. It is empty: nothing is lost if that fails.
func (l *fileLock) forget() {
	if l.made {
		_ = os.Remove(l.f.Name())
	}
}

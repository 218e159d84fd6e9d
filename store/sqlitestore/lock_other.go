//go:build !unix

package sqlitestore

import (
	"fmt"
	"os"
)

// fileLock says who has the store open. Where there is no flock, only exclusive opening is told: by a file that must not exist.
type fileLock struct {
	f    *os.File
	path string
}

func lockFile(path string, exclusive bool) (*fileLock, error) {
	if !exclusive {
		if _, err := os.Stat(path); err == nil {
			return nil, fmt.Errorf("%s: the store is opened exclusively elsewhere, or was not closed; remove this file if nobody has it", path)
		}
		return &fileLock{}, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: the store is opened exclusively elsewhere, or was not closed: %w", path, err)
	}
	return &fileLock{f, path}, nil
}

// forget has nothing to do: release has removed the file.
func (l *fileLock) forget() {}

// release lets others in.
func (l *fileLock) release() error {
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	if e := os.Remove(l.path); err == nil {
		err = e
	}
	return err
}

//go:build unix

package mmapfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock that RocksDB takes: an fcntl write lock on the whole file.
func lockFile(name string, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|noFollow|noWait, mode)
	if err != nil {
		return nil, linkError("lock", name, err)
	}
	want := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err = unix.FcntlFlock(f.Fd(), unix.F_SETLK, &want)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		e := &LockError{File: name, Holder: "another process"}
		who := want
		if unix.FcntlFlock(f.Fd(), unix.F_GETLK, &who) == nil && who.Type != unix.F_UNLCK && who.Pid > 0 {
			e.Holder = fmt.Sprintf("process %d", who.Pid)
		}
		err = e
	} else {
		err = &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	f.Close()
	return nil, err
}

package mmapfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func writeback(f *os.File, off, n int64, wait bool) error {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE
	}
	for {
		err := unix.SyncFileRange(int(f.Fd()), off, n, flags)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ESPIPE):
			return nil // a file system without it
		case err != nil:
			return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
		}
		return nil
	}
}

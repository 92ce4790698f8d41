//go:build !nonuma

package numa

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// populate faults b's pages in on the calling thread. The system call releases
// Go's processor while it waits; the loop for old kernels does not.
func populate(b []byte, write bool) error {
	advice := unix.MADV_POPULATE_READ
	if write {
		advice = unix.MADV_POPULATE_WRITE
	}
	for {
		err := unix.Madvise(b, advice)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case errors.Is(err, unix.EINVAL): // before Linux 5.14
			if write {
				touchForWrite(b, os.Getpagesize())
			} else {
				touch(b, os.Getpagesize())
			}
			return nil
		}
		return err
	}
}

//go:build unix

package mmapfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

var (
	errNotDir error = unix.ENOTDIR
	errIsDir  error = unix.EISDIR
)

// noFollow makes opening a symbolic link an error.
const noFollow = unix.O_NOFOLLOW

// noWait makes opening a named pipe return at once, instead of when somebody opens its other end.
// For files it is nothing.
const noWait = unix.O_NONBLOCK

// refusedLink reports whether err is what noFollow gives; FreeBSD has its own.
func refusedLink(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EMLINK)
}

// refuseLink has nothing to do: noFollow does it, with no moment in between.
func refuseLink(string, string) error { return nil }

func isNoSpace(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func releaseMemory(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic("mmapfs: munmap of a region of ours: " + err.Error())
	}
}

func protectReadOnly(b []byte) { unix.Mprotect(b, unix.PROT_READ) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // file systems that keep their directories by themselves say so
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return &fs.PathError{Op: "syncdir", Path: dir, Err: err}
	}
	return nil
}

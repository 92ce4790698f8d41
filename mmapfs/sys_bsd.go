//go:build unix && !linux

package mmapfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func reserveMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return b, nil
}

func adviseHuge([]byte)                           {}
func adviseWillNeed(b []byte)                     { unix.Madvise(b, unix.MADV_WILLNEED) }
func bindMemory([]byte, Placement) error          { return nil } // one node, as far as we can tell
func populateRead([]byte) error                   { return ErrNotSupported }
func populateWrite([]byte) error                  { return nil }
func isAddressFault(error) bool                   { return false }
func residentBytes([]byte) (int64, error)         { return 0, ErrNotSupported }
func syncData(f *os.File) error                   { return f.Sync() }
func reservesForGood(*os.File) bool               { return false }
func dropPageCache(*os.File, int64, int64)        {}
func allocate(*os.File, int64, int64, bool) error { return ErrNotSupported }

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

func lockMemoryError(file string, n int64, err error) error {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil {
		return fmt.Errorf("mlock %d bytes of %s: %w", n, file, err)
	}
	return fmt.Errorf("mlock %d bytes of %s: %w: RLIMIT_MEMLOCK is %d bytes: at least %d are needed beyond what is locked already",
		n, file, err, r.Cur, n)
}

package mmapfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

var (
	errNotDir error = syscall.ENOTDIR
	errIsDir  error = syscall.EISDIR
)

// noFollow is nothing here: refuseLink looks before.
const noFollow = 0

// noWait is nothing here: opening does not wait.
const noWait = 0

func refusedLink(error) bool { return false }

// refuseLink refuses a name that is a symbolic link.
func refuseLink(op, name string) error {
	if IsLink(OS, name) {
		return &os.PathError{Op: op, Path: name, Err: errLink}
	}
	return nil
}

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, syscall.ENOSPC)
}

func adviseHuge([]byte)                           {}
func adviseWillNeed([]byte)                       {}
func bindMemory([]byte, Placement) error          { return nil } // one node, as far as we can tell
func populateRead([]byte) error                   { return ErrNotSupported }
func populateWrite([]byte) error                  { return nil }
func isAddressFault(error) bool                   { return false }
func residentBytes([]byte) (int64, error)         { return 0, ErrNotSupported }
func protectReadOnly([]byte)                      {}
func syncData(f *os.File) error                   { return f.Sync() }
func syncDir(string) error                        { return nil } // NTFS journals its directories
func reservesForGood(*os.File) bool               { return false }
func dropPageCache(*os.File, int64, int64)        {}
func allocate(*os.File, int64, int64, bool) error { return ErrNotSupported }

func freeBytes(dir string) (uint64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return free, nil
}

func lockMemoryError(file string, n int64, err error) error {
	return fmt.Errorf("VirtualLock %d bytes of %s: %w: the process's working set must be larger", n, file, err)
}

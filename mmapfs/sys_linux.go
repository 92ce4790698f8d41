package mmapfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func reserveMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	unix.Madvise(b, unix.MADV_DONTDUMP) // a core dump of a database would not fit, nor should it hold the data
	return b, nil
}

// adviseHuge asks for huge pages. A kernel that has none serves small ones.
func adviseHuge(b []byte) { unix.Madvise(b, unix.MADV_HUGEPAGE) }

func adviseWillNeed(b []byte) { unix.Madvise(b, unix.MADV_WILLNEED) }

func populateRead(b []byte) error {
	err := populate(b, unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.14
		return ErrNotSupported
	}
	return err
}

func populateWrite(b []byte) error {
	err := populate(b, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

func populate(b []byte, advice int) error {
	if len(b) == 0 {
		return nil
	}
	for {
		err := unix.Madvise(b, advice)
		if err != unix.EINTR && err != unix.EAGAIN {
			return err
		}
	}
}

// isAddressFault reports populate's errors for a page that would be SIGBUS to touch.
func isAddressFault(err error) bool {
	return errors.Is(err, unix.EFAULT) || errors.Is(err, unix.EHWPOISON)
}

func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return err
		}
	}
}

func allocate(f *os.File, off, n int64, keepSize bool) error {
	mode := uint32(0)
	if keepSize {
		mode = unix.FALLOC_FL_KEEP_SIZE
	}
	for {
		err := unix.Fallocate(int(f.Fd()), mode, off, n)
		switch err {
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return ErrNotSupported
		}
		return err
	}
}

// reservesForGood reports whether blocks that fallocate reserved can be written later even when the disk is full.
// Copy-on-write file systems allocate again at each write, and network file systems may not allocate at all. One gap is
// left: blocks of a reused XFS file that a backup shares (cp --reflink) are copied on write. A full disk is then a
// FaultError of the write.
func reservesForGood(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC: // ext2 and ext3 share the first, and have no fallocate
		return true
	}
	return false
}

func dropPageCache(f *os.File, off, n int64) { unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED) }

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	unit := st.Frsize
	if unit == 0 {
		unit = st.Bsize
	}
	return st.Bavail * uint64(unit), nil
}

// lockedNow returns how much memory this process has locked, in bytes, or 0 if the kernel does not say.
func lockedNow() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(status) {
		if rest, ok := strings.CutPrefix(string(line), "VmLck:"); ok {
			kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

func lockMemoryError(file string, n int64, err error) error {
	var r unix.Rlimit
	if e := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); e != nil {
		return fmt.Errorf("mlock %d bytes of %s: %w", n, file, err)
	}
	already := lockedNow()
	return fmt.Errorf("mlock %d bytes of %s: %w: RLIMIT_MEMLOCK is %s and %d bytes are locked already: at least %d bytes are needed (ulimit -l, LimitMEMLOCK=, or CAP_IPC_LOCK)",
		n, file, err, limitString(r.Cur), already, already+uint64(n))
}

func limitString(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return fmt.Sprintf("%d bytes", n)
}

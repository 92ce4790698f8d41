//go:build !nonuma

package numa

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mapping is one line of /proc/self/maps.
type mapping struct {
	start, end uint64
	perms      string // "rw-p", "r--s"
	device     string // "08:01", "00:00" for anonymous memory
	inode      uint64
	name       string
}

// parseMapping reads "7f12a000-7f12b000 rw-s 00000000 00:1a 15   /dev/shm/x".
func parseMapping(line string) (m mapping, ok bool) {
	// The name is the rest of the line and may hold spaces.
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return m, false
	}
	from, to, ok := strings.Cut(f[0], "-")
	if !ok {
		return m, false
	}
	var err1, err2, err3 error
	m.start, err1 = strconv.ParseUint(from, 16, 64)
	m.end, err2 = strconv.ParseUint(to, 16, 64)
	m.inode, err3 = strconv.ParseUint(f[4], 10, 64)
	m.perms, m.device = f[1], f[3]
	if len(f) == 6 {
		m.name = strings.TrimSpace(f[5])
	}
	return m, err1 == nil && err2 == nil && err3 == nil && len(m.perms) == 4
}

// mappings calls f for each mapping that overlaps [start, end), in order.
func mappings(maps io.Reader, start, end uint64, f func(mapping) error) error {
	lines := bufio.NewScanner(maps)
	lines.Buffer(nil, 1<<16) // a path is at most 4 KiB, escaped 16
	for lines.Scan() {
		m, ok := parseMapping(lines.Text())
		if !ok {
			return &TreeError{Path: "proc/self/maps", Reason: fmt.Sprintf("expected a mapping, found %q", clip(lines.Text()))}
		}
		if m.start >= end {
			break
		}
		if m.end > start {
			if err := f(m); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// follows returns ErrIgnored if a policy on b would not decide where its pages go.
func follows(b []byte) error {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("numa: what b is a mapping of: %w", err)
	}
	defer f.Close()
	start := uint64(address(b))
	return mappings(f, start, start+uint64(len(b)), mapping.follows)
}

// follows is decided by the kind of memory. The kernel lets a file system say
// that its mappings have policies of their own, and only shmem (tmpfs, memfd,
// shared anonymous memory, System V) and hugetlbfs do.
func (m mapping) follows() error {
	if m.inode == 0 {
		if strings.HasPrefix(m.name, "[anon: Go: heap") {
			return fmt.Errorf("numa: policy on Go's heap, whose pages the runtime hands on: use mapped memory: %w", ErrIgnored)
		}
		return nil
	}
	if m.perms[3] == 's' && m.onMemory() {
		return nil
	}
	kind := "shared"
	if m.perms[3] == 'p' {
		// Also of a tmpfs file: until written, its pages are the file's own.
		kind = "private"
	}
	return fmt.Errorf("numa: policy on a %s mapping of file %s: its pages go where the thread that reads them in says "+
		"(use Populate, a copy in anonymous memory, or a shared mapping of a file on tmpfs): %w", kind, clip(m.name), ErrIgnored)
}

// onMemory reports whether the mapping's file is on shmem or hugetlbfs. The
// kernel's internal mounts (device number absent from mountinfo) are told by the
// names that it gives their files, which cannot be mistaken for paths of the same
// device: those would be in mountinfo.
func (m mapping) onMemory() bool {
	switch fsType(os.DirFS("/"), m.device) {
	case "tmpfs", "hugetlbfs", "devtmpfs": // devtmpfs is a tmpfs
		return true
	case "":
		for _, prefix := range []string{"/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"} {
			if strings.HasPrefix(m.name, prefix) {
				return true
			}
		}
		// A mount of another namespace: ask the file itself.
		var st unix.Statfs_t
		if unix.Statfs(m.name, &st) == nil {
			return int64(st.Type) == unix.TMPFS_MAGIC || uint32(st.Type) == unix.HUGETLBFS_MAGIC
		}
	}
	return false
}

// fsType is the type of the mounted file system with that device number, or "".
func fsType(tree fs.FS, device string) string {
	r := reader{tree: tree}
	for line := range strings.Lines(r.text("proc/self/mountinfo", false)) {
		left, right, ok := strings.Cut(line, " - ")
		l, s := strings.Fields(left), strings.Fields(right)
		if ok && len(l) > 2 && len(s) > 0 && sameDevice(l[2], device) {
			return s[0]
		}
	}
	return ""
}

// sameDevice compares "0:26" of mountinfo, decimal, with "00:1a" of maps, hexadecimal.
func sameDevice(decimal, hex string) bool {
	d1, d2, _ := strings.Cut(decimal, ":")
	h1, h2, _ := strings.Cut(hex, ":")
	return sameNumber(d1, h1) && sameNumber(d2, h2)
}

func sameNumber(decimal, hex string) bool {
	d, err1 := strconv.ParseUint(decimal, 10, 32)
	h, err2 := strconv.ParseUint(hex, 16, 32)
	return err1 == nil && err2 == nil && d == h
}

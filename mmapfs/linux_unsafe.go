//go:build linux

package mmapfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's memory policies (linux/mempolicy.h).
var mempolicies = map[PlacementMode]uintptr{
	PlacementDefault:    0,
	PlacementPrefer:     1,
	PlacementBind:       2,
	PlacementInterleave: 3,
}

// bindMemory gives untouched memory its placement. The address is passed as a number: b is mapped, and does not move;
// the node mask is on the stack, kept alive over the call.
func bindMemory(b []byte, p Placement) error {
	const wordBits = 8 * unsafe.Sizeof(uintptr(0))
	var mask [maxNodes / wordBits]uintptr
	nodes := p.Nodes
	if p.Mode == PlacementPrefer {
		nodes = nodes[:1]
	}
	for _, n := range nodes {
		mask[uintptr(n)/wordBits] |= 1 << (uintptr(n) % wordBits)
	}
	// maxnode counts one more than the bits that the kernel reads.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, addressOf(b), uintptr(len(b)), mempolicies[p.Mode],
		uintptr(unsafe.Pointer(&mask)), maxNodes+1, 0)
	runtime.KeepAlive(&mask)
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS:
		return fmt.Errorf("mbind to nodes %v: %w", nodes, errors.Join(ErrNotSupported, errno))
	case unix.EPERM:
		return fmt.Errorf("mbind to nodes %v: %w (a container's seccomp profile may forbid it)", nodes, errno)
	case unix.EINVAL:
		return fmt.Errorf("mbind to nodes %v: %w (does this machine have these nodes?)", nodes, errno)
	}
	return fmt.Errorf("mbind to nodes %v: %w", nodes, errno)
}

// residentBytes asks mincore. The address is passed as a number: b is mapped, and does not move.
func residentBytes(b []byte) (int64, error) {
	const step = 64 << 10 // pages a call
	vec := make([]byte, min(step, (len(b)+pageSize-1)/pageSize))
	pages := int64(0)
	for off := 0; off < len(b); off += step * pageSize {
		n := min(len(b)-off, step*pageSize)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(b)+uintptr(off), uintptr(n), uintptr(unsafe.Pointer(unsafe.SliceData(vec))))
		if errno != 0 {
			return 0, errno
		}
		for _, v := range vec[:(n+pageSize-1)/pageSize] {
			pages += int64(v & 1)
		}
	}
	return min(pages*int64(pageSize), int64(len(b))), nil
}

// canCollapse: mapOver and collapse do something here.
const canCollapse = true

// mapOver puts a shared read-only mapping of the file's first bytes in the place of b, a part of a region of ours that
// begins on a page. It stays valid until the region is released, which unmaps it.
func mapOver(f *os.File, b []byte) error {
	_, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED)
	return err
}

// collapse asks for huge pages under a mapping that is aligned for them, a few at a time, since the kernel holds
// locks meanwhile. It is advice: the first refusal ends it.
func collapse(b []byte) {
	const step = 8 * hugePageSize
	b = b[:len(b)&^(hugePageSize-1)]
	for len(b) > 0 {
		n := min(step, len(b))
		if err := unix.Madvise(b[:n], unix.MADV_COLLAPSE); err != nil && err != unix.EAGAIN && err != unix.EBUSY && err != unix.EINTR {
			return
		}
		b = b[n:]
	}
}

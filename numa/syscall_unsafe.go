//go:build linux && !nonuma

package numa

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file makes the memory policy calls that x/sys has no wrapper for. Every
// pointer handed to the kernel is either to a local variable, whose conversion
// stands in the call expression itself (rule 4 of package unsafe), or an address
// inside a caller's slice that runtime.KeepAlive holds until after the call.
// The kernel keeps none of them.

// nodeMask is a set of nodes as the kernel takes it: one bit a node, in words.
type nodeMask [maxNodes / 64]uint64

func maskOf(nodes []int) (m nodeMask) {
	for _, id := range nodes {
		m[id/64] |= 1 << (id % 64)
	}
	return m
}

func (m *nodeMask) list() []int {
	var ids []int
	for id := range maxNodes {
		if m[id/64]&(1<<(id%64)) != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// maskBits is the size that the kernel wants to be told: it takes one off.
const maskBits = maxNodes + 1

// address is where b begins. It stays true as long as b's memory is mapped:
// mappings do not move, nor does Go's heap; only a goroutine's stack does, and
// no function here promises anything about that.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func mbind(b []byte, mode int, nodes []int, flags int) error {
	mask := maskOf(nodes)
	ptr := unsafe.Pointer(&mask)
	bits := uintptr(maskBits)
	if len(nodes) == 0 {
		ptr, bits = nil, 0
	}
	_, _, e := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		uintptr(mode), uintptr(ptr), bits, uintptr(flags))
	runtime.KeepAlive(&mask)
	runtime.KeepAlive(b)
	return errno(e)
}

func setMempolicy(mode int, nodes []int) error {
	mask := maskOf(nodes)
	ptr := unsafe.Pointer(&mask)
	bits := uintptr(maskBits)
	if len(nodes) == 0 {
		ptr, bits = nil, 0
	}
	_, _, e := unix.Syscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(ptr), bits)
	runtime.KeepAlive(&mask)
	return errno(e)
}

// getMempolicy asks about the thread (flags 0), the nodes the thread may use
// (MPOL_F_MEMS_ALLOWED), or the range that b begins (MPOL_F_ADDR).
func getMempolicy(b []byte, flags int) (mode int, nodes []int, err error) {
	var mask nodeMask
	var mode32 int32
	var addr unsafe.Pointer
	if flags&unix.MPOL_F_ADDR != 0 {
		addr = unsafe.Pointer(unsafe.SliceData(b))
	}
	_, _, e := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode32)),
		uintptr(unsafe.Pointer(&mask)), maskBits, uintptr(addr), uintptr(flags), 0)
	runtime.KeepAlive(b)
	if e != 0 {
		return 0, nil, errno(e)
	}
	return int(mode32), mask.list(), nil
}

// movePages asks where each page is (nodes nil) or moves it to its node. The
// answers are one status a page: a node, or minus an errno.
func movePages(pages []uintptr, nodes, status []int32, flags int) error {
	_, _, e := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(len(pages)),
		uintptr(unsafe.Pointer(unsafe.SliceData(pages))),
		uintptr(unsafe.Pointer(unsafe.SliceData(nodes))),
		uintptr(unsafe.Pointer(unsafe.SliceData(status))), uintptr(flags))
	return errno(e)
}

// getcpu is where the calling thread ran at that moment.
func getcpu() (cpu, node int, err error) {
	var c, n uint32
	_, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&c)), uintptr(unsafe.Pointer(&n)), 0)
	return int(c), int(n), errno(e)
}

func errno(e unix.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

// touchForWrite takes a write fault on each page and changes nothing, also when
// others write at the same time: adding zero atomically. Pages begin aligned, and
// b holds each of them alive for the length of the loop.
func touchForWrite(b []byte, page int) {
	for i := 0; i+4 <= len(b); i += page {
		atomic.AddUint32((*uint32)(unsafe.Pointer(&b[i])), 0)
	}
}

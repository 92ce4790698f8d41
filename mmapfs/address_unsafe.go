package mmapfs

import "unsafe"

// addressOf returns where b begins. It is a number to compare and to name memory to the kernel, never turned back
// into a pointer; b is mapped memory or an object of the heap, neither of which moves.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Base returns the address of offset 0. The memory is mapped, not the collector's: it stays valid, and does not
// move, until Free.
func (a *Arena) Base() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(a.data)) }

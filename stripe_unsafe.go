package flatrock

import "unsafe"

// stripeCount is how many counters a read state spreads its readers over: a
// power of two, several times the number of processors of a large machine.
const stripeCount = 64

// currentStripe picks a counter for the calling goroutine. Goroutines have
// stacks of their own, so the address of a local variable tells them apart and
// stays the same while a goroutine runs a loop; that keeps each reader on a
// cache line that no other core writes. Two goroutines on one stripe are slower,
// never wrong. The address is only hashed, never dereferenced.
func currentStripe() uint32 {
	var here byte
	a := uint64(uintptr(unsafe.Pointer(&here))) >> 11
	return uint32(a*0x9E3779B97F4A7C15>>58) & (stripeCount - 1)
}

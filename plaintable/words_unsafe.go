package plaintable

import "unsafe"

// words is b as 64-bit words, for the bit set of a bloom filter in an arena. b
// must begin at a multiple of 8 and have a multiple of 8 bytes, which Arena.Alloc
// with alignment 8 gives. The pointer stays valid as b's does: until the arena is
// freed, which Reader.Close does when nobody reads any more. The memory is not
// the collector's, and holds no pointers.
func words(b []byte) []uint64 {
	if len(b) < 8 {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
}

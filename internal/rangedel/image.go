package rangedel

import (
	"bytes"
	"encoding/binary"
)

// image is the eight bytes of key from skip on as a number that orders as they do;
// zeros stand for what a short key lacks. Where images are equal, keys may differ.
func image(key []byte, skip int) uint64 {
	if skip+8 <= len(key) {
		return binary.BigEndian.Uint64(key[skip:])
	}
	n := len(key) - skip
	switch {
	case n <= 0:
		return 0
	case len(key) >= 8: // the last eight bytes, without what comes before skip
		return binary.BigEndian.Uint64(key[len(key)-8:]) << (8 * (8 - n))
	}
	var b [8]byte
	copy(b[:], key[skip:])
	return binary.BigEndian.Uint64(b[:])
}

// imageLimit searches ascending images and returns how many are at most want. No
// branch depends on what it finds, so that it does not wait for wrong guesses.
func imageLimit(images []uint64, want uint64) int {
	if len(images) == 0 || images[0] > want {
		return 0
	}
	base, n := 0, len(images)
	for n > 1 {
		half := n >> 1
		if images[base+half] <= want {
			base += half
		}
		n -= half
	}
	return base + 1
}

// comparePrefix orders key against a prefix: 0 if key begins with it.
func comparePrefix(key, prefix []byte) int {
	return bytes.Compare(key[:min(len(key), len(prefix))], prefix)
}

// sharedLen is the length of the longest common prefix.
func sharedLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// Package coding holds the primitive encodings that RocksDB's formats share:
// varints (LEB128, as encoding/binary's Uvarint) and length-prefixed slices.
// Fixed-width integers are little-endian and come from encoding/binary.
//
// The Get functions take hostile bytes: they return ok false, never panic, and
// accept only encodings that fit the type.
package coding

import "encoding/binary"

// MaxVarint32Len and MaxVarint64Len bound the encoded sizes in bytes.
const (
	MaxVarint32Len = 5
	MaxVarint64Len = 10
)

// AppendUvarint appends v in varint form.
func AppendUvarint(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }

// AppendSlice appends the length of b as a varint, then b.
func AppendSlice(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendString is AppendSlice for a string.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// Uvarint64 reads a varint64 from the front of b and returns the rest.
func Uvarint64(b []byte) (v uint64, rest []byte, ok bool) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, b, false
	}
	return v, b[n:], true
}

// Uvarint32 reads a varint32 from the front of b and returns the rest. It
// refuses values and encodings that do not fit 32 bits.
func Uvarint32(b []byte) (v uint32, rest []byte, ok bool) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint32(b[0]), b[1:], true
	}
	if len(b) > MaxVarint32Len {
		w, n := binary.Uvarint(b[:MaxVarint32Len])
		if n <= 0 || w > 1<<32-1 {
			return 0, b, false
		}
		return uint32(w), b[n:], true
	}
	w, n := binary.Uvarint(b)
	if n <= 0 || w > 1<<32-1 {
		return 0, b, false
	}
	return uint32(w), b[n:], true
}

// Slice reads a length-prefixed slice, borrowed from b, and returns the rest.
func Slice(b []byte) (s, rest []byte, ok bool) {
	n, rest, ok := Uvarint32(b)
	if !ok || uint64(n) > uint64(len(rest)) {
		return nil, b, false
	}
	return rest[:n:n], rest[n:], true
}

// UvarintLen is the encoded size of v in bytes.
func UvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// Package block holds what the files of both table formats share: block
// handles, footers, blocks of prefix-compressed entries with restart points,
// the metaindex, the properties block, and the trailer that follows each block
// of a block-based table (plain tables have no trailers).
//
//	handle  := varint64 offset ‖ varint64 size       size leaves the trailer out
//	block   := entry* ‖ fixed32 restart[R] ‖ fixed32 R
//	entry   := varint32 shared ‖ varint32 nonshared ‖ varint32 valuelen ‖
//	           key[shared:] ‖ value
//	trailer := compression type, 1 byte ‖ fixed32 checksum
//
// Each encoder sits beside its decoder. Decoders take hostile bytes: damage is
// a keys.CorruptionError that names file and offset.
//
// Fact sheets: block-table sections 2, 3, 5, 8 and 10; plain-table sections 1
// and 6. Proved by the golden files, read and written again.
package block

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/coding"
)

// Handle says where a block lies: the offset of its first byte in the file and
// its size in bytes without the trailer. The zero Handle stands for no block.
type Handle struct{ Offset, Size uint64 }

// MaxHandleLen is the largest encoded size of a Handle in bytes.
const MaxHandleLen = 2 * coding.MaxVarint64Len

// TrailerLen is the size in bytes of the trailer after each block of a
// block-based table.
const TrailerLen = 5

// IsZero reports whether h stands for no block.
func (h Handle) IsZero() bool { return h == Handle{} }

// String gives offset and size for messages.
func (h Handle) String() string { return fmt.Sprintf("[offset %d, size %d]", h.Offset, h.Size) }

// End is the offset after the contents and trailerLen bytes. ok is false when
// that does not fit the address space of a file.
func (h Handle) End(trailerLen uint64) (end uint64, ok bool) {
	const limit = 1 << 62
	if h.Offset > limit || h.Size > limit {
		return 0, false
	}
	return h.Offset + h.Size + trailerLen, true
}

// AppendHandle appends the encoding of h.
func AppendHandle(dst []byte, h Handle) []byte {
	return coding.AppendUvarint(coding.AppendUvarint(dst, h.Offset), h.Size)
}

// DecodeHandle reads a handle from the front of b and returns the rest.
func DecodeHandle(b []byte) (h Handle, rest []byte, ok bool) {
	off, rest, ok := coding.Uvarint64(b)
	if !ok {
		return Handle{}, b, false
	}
	size, rest, ok := coding.Uvarint64(rest)
	if !ok {
		return Handle{}, b, false
	}
	return Handle{off, size}, rest, true
}

package compress

import (
	"encoding/binary"
	"math/bits"
)

const (
	lz4Window    = 64 << 10 // how far back a match may lie
	lz4MinMatch  = 4
	lz4LastBytes = 5  // the last bytes of a block are literals
	lz4MatchEnd  = 12 // the last match starts at least so far before the end
	lz4HashBits  = 14
)

// lz4DictEncoder makes LZ4 blocks that refer back into a dictionary, which the
// LZ4 library reads but does not write:
//
//	block    := sequence*
//	sequence := token ‖ length bytes ‖ literals ‖ fixed16 distance ‖ length bytes
//	token    := literal count (4 bits, 15 means more bytes) ‖ match length − 4
//
// It lays dictionary and block side by side and searches greedily.
type lz4DictEncoder struct {
	dict  []byte
	buf   []byte // dictionary, then the block
	base  []int32
	table []int32 // position + 1 of the last place with this hash of four bytes
}

func (e *lz4DictEncoder) init(dict []byte) {
	if len(dict) == 0 {
		return
	}
	e.dict = dict[max(0, len(dict)-lz4Window):]
	e.buf = append(e.buf[:0], e.dict...)
	e.base = make([]int32, 1<<lz4HashBits)
	e.table = make([]int32, 1<<lz4HashBits)
	for i := 0; i+lz4MinMatch <= len(e.dict); i++ {
		e.base[lz4Hash(e.dict[i:])] = int32(i + 1)
	}
}

func lz4Hash(b []byte) uint32 {
	return binary.LittleEndian.Uint32(b) * 2654435761 >> (32 - lz4HashBits)
}

// encode writes the block of src to dst, which has lz4's bound of room.
func (e *lz4DictEncoder) encode(dst, src []byte) int {
	copy(e.table, e.base)
	b := append(e.buf[:len(e.dict)], src...)
	e.buf = b
	out := dst[:0]
	pos, anchor := len(e.dict), len(e.dict)
	for pos+lz4MatchEnd <= len(b) {
		h := lz4Hash(b[pos:])
		at := int(e.table[h]) - 1
		e.table[h] = int32(pos + 1)
		if at < 0 || pos-at >= lz4Window || binary.LittleEndian.Uint32(b[at:]) != binary.LittleEndian.Uint32(b[pos:]) {
			pos += 1 + (pos-anchor)>>6 // move faster through what does not compress
			continue
		}
		for pos > anchor && at > 0 && b[pos-1] == b[at-1] {
			pos, at = pos-1, at-1
		}
		n := lz4MinMatch + matchLen(b[at+lz4MinMatch:], b[pos+lz4MinMatch:len(b)-lz4LastBytes])
		out = appendLZ4Sequence(out, b[anchor:pos], pos-at, n)
		pos += n
		anchor = pos
		if pos+lz4MatchEnd <= len(b) {
			e.table[lz4Hash(b[pos-2:])] = int32(pos - 2 + 1)
		}
	}
	out = appendLZ4Sequence(out, b[anchor:], 0, 0)
	return len(out)
}

// matchLen is the length of the common prefix of a and b; a may run on into b.
func matchLen(a, b []byte) int {
	n := 0
	for len(b)-n >= 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// appendLZ4Sequence appends literals and a match; without a match (n zero) the
// sequence ends the block.
func appendLZ4Sequence(dst, literals []byte, distance, n int) []byte {
	token := byte(min(len(literals), 15)) << 4
	if n > 0 {
		token |= byte(min(n-lz4MinMatch, 15))
	}
	dst = append(dst, token)
	if len(literals) >= 15 {
		dst = appendLZ4Length(dst, len(literals)-15)
	}
	dst = append(dst, literals...)
	if n > 0 {
		dst = append(dst, byte(distance), byte(distance>>8))
		if n-lz4MinMatch >= 15 {
			dst = appendLZ4Length(dst, n-lz4MinMatch-15)
		}
	}
	return dst
}

func appendLZ4Length(dst []byte, n int) []byte {
	for ; n >= 255; n -= 255 {
		dst = append(dst, 255)
	}
	return append(dst, byte(n))
}

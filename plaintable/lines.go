package plaintable

import (
	"encoding/binary"
	"iter"
	"math/bits"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
)

// lineIndex is the meta block metaIndexLines: a second hash index, whose buckets
// are cache lines. RocksDB's index answers a lookup of a prefix that shares its bucket
// only after another miss for the sub-index, and then with rows that must be looked
// at; at a hash table ratio of 0.75 that is more than half of all prefixes. A line
// answers at once, and its tags, unlike a bucket, also tell what is not there, so
// that the bloom filter need not be asked.
//
//	line := fixed32 first[10] ‖ fixed16 tag[10] ‖ fixed32 flags
//
// A prefix has a slot in its line: the offset of its first row and its tag, or
// the offset with lineSeveral if the index has several records of its hash in a row.
// Free slots are the last ones, and have tag 0. Prefixes that found their line full
// are in the other line of its pair, which processors fetch along with it, and the line
// has lineOver; if that was full, too, lineLost, and only the buckets have them.
type lineIndex []byte

const (
	lineSize    = 64
	lineSlots   = 10
	lineTags    = 4 * lineSlots
	lineFlags   = lineTags + 2*lineSlots
	lineSeveral = 1 << 31 // in an offset
	lineOver    = 1       // in the flags
	lineLost    = 2

	// lineFill is how many prefixes there are for each line. At seven, one in 30
	// is in the other line of the pair, and one in 200 in none.
	lineFill = 7
)

// linesFor is the number of lines for so many prefixes: even.
func linesFor(prefixes uint32) int { return (int(prefixes/lineFill) + 2) &^ 1 }

// linesSize is the size of the lines in bytes.
func linesSize(prefixes uint32) int64 { return lineSize * int64(linesFor(prefixes)) }

// lineOf is where the line of a prefix hash begins, and its tag, never 0. The hash of
// one line's prefixes has its high bits in common after the multiplication, and
// the tag is the low ones.
func (x lineIndex) lineOf(hash uint32) (line int, tag uint16) {
	h := hash * 0x9E3779B1
	line = int(uint64(h) * uint64(len(x)/lineSize) >> 32)
	return line * lineSize, max(uint16(h), 1)
}

// found is what a line says of a prefix.
type found uint8

const (
	foundNone  found = iota // it is not in the file
	foundRow                // if it is in the file, then at the offset
	foundMaybe              // as foundRow; but if it is not there, ask the buckets
	foundAsk                // ask the buckets
)

// find looks for a prefix hash. x must not be empty.
func (x lineIndex) find(hash uint32) (off int, f found) {
	at, tag := x.lineOf(hash)
	off, n, flags := x.match(at, tag)
	switch {
	case n == 1:
		if flags == 0 {
			return off, foundRow
		}
		return off, foundMaybe
	case n == 0:
		if flags == 0 {
			return 0, foundNone
		}
		return x.findOver(at, tag, flags)
	}
	return 0, foundAsk
}

// findOver looks into the other line of a pair.
func (x lineIndex) findOver(at int, tag uint16, flags uint32) (off int, f found) {
	switch off, n, _ := x.match(at^lineSize, tag); {
	case n == 1:
		return off, foundMaybe // of this line's prefixes or of that one's
	case n == 0 && flags&lineLost == 0:
		return 0, foundNone
	}
	return 0, foundAsk
}

// match looks for a tag in the line at byte at: how many slots have it, 2 standing for
// all numbers above, and for a slot that does not say all; and what the only one leads to.
func (x lineIndex) match(at int, tag uint16) (off, n int, flags uint32) {
	line := x[at : at+lineSize : at+lineSize]
	t := uint64(tag) * eachTag
	a := zeroTags(binary.LittleEndian.Uint64(line[lineTags:]) ^ t)
	b := zeroTags(binary.LittleEndian.Uint64(line[lineTags+8:]) ^ t)
	last := binary.LittleEndian.Uint64(line[lineTags+16:]) // two tags and the flags
	c := zeroTags(last^t) & (1<<32 - 1)
	flags = uint32(last >> 32)
	// A bit each, bit 16·i + j for slot 4·j + i: one word for all ten.
	m := a>>15 | b>>14 | c>>13
	if m == 0 {
		return 0, 0, flags
	}
	bit := uint(bits.TrailingZeros64(m))
	slot := (bit&3)<<2 | bit>>4
	off = int(binary.LittleEndian.Uint32(line[4*(slot&15):]))
	if m&(m-1) != 0 || off >= lineSeveral {
		return 0, 2, flags
	}
	return off, 1, flags
}

// eachTag repeats a tag in the four lanes of a word.
const eachTag = 1<<48 | 1<<32 | 1<<16 | 1

// zeroTags has the high bit of each lane set that is zero in w.
func zeroTags(w uint64) uint64 {
	const low = 0x7fff * eachTag
	return ^((w&low + low) | w | low)
}

// prefetch asks for the line of a prefix hash.
func (x lineIndex) prefetch(hash uint32) {
	at, _ := x.lineOf(hash)
	prefetch.At(x, at)
}

// fill puts the records of an index, in row order, into x: zero memory of linesSize.
func (x lineIndex) fill(records iter.Seq[uint64]) {
	first, pending := uint64(0), false
	for rec := range records {
		if pending && first>>32 == rec>>32 {
			first |= lineSeveral
			continue
		}
		if pending {
			x.add(uint32(first>>32), uint32(first))
		}
		first, pending = rec, true
	}
	if pending {
		x.add(uint32(first>>32), uint32(first))
	}
}

func (x lineIndex) add(hash, off uint32) {
	at, tag := x.lineOf(hash)
	if x.put(at, tag, off) {
		return
	}
	x[at+lineFlags] |= lineOver
	if !x.put(at^lineSize, tag, off) {
		x[at+lineFlags] |= lineLost
	}
}

// put takes a free slot of the line at byte at, if there is one.
func (x lineIndex) put(at int, tag uint16, off uint32) bool {
	line := x[at:][:lineSize]
	for i := range lineSlots {
		if t := line[lineTags+2*i:]; binary.LittleEndian.Uint16(t) == 0 {
			binary.LittleEndian.PutUint16(t, tag)
			binary.LittleEndian.PutUint32(line[4*i:], off)
			return true
		}
	}
	return false
}

// decodeLines checks the size of a block of lines for so many prefixes. Offsets are
// checked when they are used.
func decodeLines(file string, off int64, b []byte, prefixes uint32) (lineIndex, error) {
	if int64(len(b)) != linesSize(prefixes) {
		return nil, keys.Corruptf(file, off, "index lines: expected %d bytes for %d prefixes, found %d", linesSize(prefixes), prefixes, len(b))
	}
	return b, nil
}

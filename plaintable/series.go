package plaintable

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// A series is a stretch of rows of one size whose keys count up evenly: identifiers
// that were given out one after the other, samples of a clock, records of a table.
// Where a file is made of few of them, the place of any row is a matter of arithmetic: a
// lookup has the cache miss of its row and no other, and learns without any that a key
// is not there. The meta block metaSeries holds them:
//
//	fixed32 skip ‖ fixed32 series ‖ series*
//	series := fixed64 word ‖ fixed64 step ‖ fixed32 offset ‖ fixed32 size ‖ fixed32 rows
//
// All keys of the file begin with the same skip bytes. Row i of a series, from 0 on, is at
// offset + i·size, and the eight bytes of its key after skip are, big-endian, word + i·step.
// A series of one row has step and size 0. The series are in order, they have every
// row of the file, and no two rows have the same word.
//
// Invariants of seriesIndex, which decodeSeries checks and lookups rely on: words ascend over
// all rows; offsets too, and are inside the rows; skip leaves eight bytes of a key.
type seriesIndex struct {
	skip  int
	words []uint64 // of the first row of each; a search touches nothing else
	list  []series
}

type series struct {
	step         uint64
	off, size, n uint32
	shift        uint8 // of a step that is a power of two; else notPower
}

const (
	seriesHeader = 8
	seriesLen    = 28
	notPower     = 64

	// maxSeries keeps the words of a file in the first cache.
	maxSeries = 4096
	// seriesRows is how many rows there are to a series at least. Below that the lines
	// of the index serve better than a search.
	seriesRows = 32
)

// find is the offset of the row that has the key, if any row of the file has.
func (x *seriesIndex) find(key []byte) (off int, ok bool) {
	w := binary.BigEndian.Uint64(key[x.skip:])
	at := x.search(w)
	if at < 0 {
		return 0, false
	}
	s := &x.list[at]
	i, exact := s.rank(w - x.words[at])
	return int(s.off) + int(i)*int(s.size), exact && i < uint64(s.n)
}

// search is the last series that does not begin after w, or -1.
func (x *seriesIndex) search(w uint64) int {
	at, left := 0, len(x.words)
	for left > 1 {
		half := left >> 1
		if x.words[at+half] <= w {
			at += half
		}
		left -= half
	}
	if x.words[at] > w {
		return -1
	}
	return at
}

// rank is how many rows of the series have a word less than word + d, if exact;
// else one more has.
func (s *series) rank(d uint64) (i uint64, exact bool) {
	switch {
	case s.shift != notPower:
		return d >> s.shift, d&(s.step-1) == 0
	case s.step == 0:
		return 0, d == 0
	}
	i = d / s.step
	return i, i*s.step == d
}

// lowerBound is the offset of a row before which all keys are less than key, and no
// row between it and the first that is not can be told apart by its word: at most one.
// It is the number of bytes of rows if all keys are less.
func (x *seriesIndex) lowerBound(rows, key []byte) int {
	head := min(x.skip, len(key))
	switch c := bytes.Compare(key[:head], rows[:head]); {
	case c < 0 || c == 0 && head < x.skip:
		return 0
	case c > 0:
		return len(rows)
	}
	var w uint64
	if rest := key[head:]; len(rest) >= 8 {
		w = binary.BigEndian.Uint64(rest)
	} else {
		var b [8]byte
		copy(b[:], rest)
		w = binary.BigEndian.Uint64(b[:])
	}
	at := x.search(w)
	if at < 0 {
		return 0
	}
	s := &x.list[at]
	i, exact := s.rank(w - x.words[at])
	if !exact {
		i++
	}
	switch {
	case i < uint64(s.n):
		return int(s.off) + int(i)*int(s.size)
	case at+1 < len(x.list):
		return int(x.list[at+1].off)
	}
	return len(rows)
}

// decodeSeries decodes the block b at offset off of file, for a file of so many
// bytes of rows, and entries, with keys of keyLen bytes.
func decodeSeries(file string, off int64, b []byte, rows, keyLen int, entries uint64) (*seriesIndex, error) {
	if len(b) < seriesHeader {
		return nil, keys.Corruptf(file, off, "key series: expected a header of %d bytes, found %d", seriesHeader, len(b))
	}
	x := &seriesIndex{skip: int(binary.LittleEndian.Uint32(b))}
	n := int(binary.LittleEndian.Uint32(b[4:]))
	if n == 0 || n > maxSeries || len(b) != seriesHeader+n*seriesLen {
		return nil, keys.Corruptf(file, off, "key series: expected 1 to %d of %d bytes each, found %d in %d bytes", maxSeries, seriesLen, n, len(b))
	}
	if keyLen < 8 || x.skip > keyLen-8 {
		return nil, keys.Corruptf(file, off, "key series: expected words inside keys of %d bytes, found them after %d", keyLen, x.skip)
	}
	total, lastWord, lastOff := uint64(0), uint64(0), int64(-1)
	for i := range n {
		at := seriesHeader + i*seriesLen
		e := b[at:]
		word := binary.LittleEndian.Uint64(e)
		s := series{
			step: binary.LittleEndian.Uint64(e[8:]),
			off:  binary.LittleEndian.Uint32(e[16:]), size: binary.LittleEndian.Uint32(e[20:]), n: binary.LittleEndian.Uint32(e[24:]),
			shift: notPower,
		}
		if bits.OnesCount64(s.step) == 1 {
			s.shift = uint8(bits.TrailingZeros64(s.step))
		}
		fits := s.n > 0 && (i == 0 || word > lastWord) && int64(s.off) > lastOff && (s.n == 1) == (s.step == 0) && (s.n == 1) == (s.size == 0)
		if fits {
			high, span := bits.Mul64(s.step, uint64(s.n-1))
			sum, carry := bits.Add64(word, span, 0)
			fits = high == 0 && carry == 0
			lastWord, lastOff = sum, int64(s.off)+int64(s.n-1)*int64(s.size)
			fits = fits && lastOff < int64(rows)
		}
		if !fits {
			return nil, keys.Corruptf(file, off+int64(at), "key series: expected rows in order inside %d bytes, found word %#x step %#x offset %d size %d rows %d", rows, word, s.step, s.off, s.size, s.n)
		}
		total += uint64(s.n)
		x.words, x.list = append(x.words, word), append(x.list, s)
	}
	if total != entries || x.list[0].off != 0 {
		return nil, keys.Corruptf(file, off, "key series: expected %d rows from offset 0 on, found %d from %d on", entries, total, x.list[0].off)
	}
	return x, nil
}

// seriesBuilder finds the series of the rows that are added to a file.
type seriesBuilder struct {
	off   bool   // the keys are no series, or too many
	first []byte // key
	skip  int
	words []uint64 // of the first row of each series
	list  []series
	rows  uint64
}

// row adds a row at an offset. All keys have the same length, at least 8.
func (b *seriesBuilder) row(key []byte, off uint32) {
	if b.off {
		return
	}
	if b.rows++; b.rows == 1 {
		b.first, b.skip = bytes.Clone(key), len(key)-8
		b.begin(binary.BigEndian.Uint64(key[b.skip:]), off)
		return
	}
	if string(key[:b.skip]) != string(b.first[:b.skip]) && !b.widen(key) {
		b.stop()
		return
	}
	if !b.extend(binary.BigEndian.Uint64(key[b.skip:]), off) {
		b.stop()
	}
}

func (b *seriesBuilder) stop() { *b = seriesBuilder{off: true} }

func (b *seriesBuilder) begin(word uint64, off uint32) {
	b.words, b.list = append(b.words, word), append(b.list, series{off: off, n: 1})
}

// widen lets the words begin where key differs from the keys before it. What the words of
// those lose at their end they must have in common.
func (b *seriesBuilder) widen(key []byte) bool {
	skip := 0
	for key[skip] == b.first[skip] {
		skip++
	}
	by := 8 * (b.skip - skip)
	head := binary.BigEndian.Uint64(b.first[skip:])
	if by >= 64 {
		if b.rows > 2 { // with this one
			return false
		}
		b.skip, b.words[0] = skip, head
		return true
	}
	lost := uint64(1)<<by - 1
	for i, s := range b.list {
		if s.step&lost != 0 || (b.words[i]^b.words[0])&lost != 0 {
			return false
		}
		b.words[i] = b.words[i]>>by | head&^(1<<(64-by)-1)
		b.list[i].step >>= by
	}
	b.skip = skip
	return true
}

// extend adds a row to the last series, or begins one with it.
func (b *seriesBuilder) extend(word uint64, off uint32) bool {
	at := len(b.list) - 1
	s, start := &b.list[at], b.words[at]
	last := start + uint64(s.n-1)*s.step
	switch {
	case word <= last:
		return false // two versions of a key, or keys that differ after the word
	case s.n == 1:
		s.step, s.size, s.n = word-start, off-s.off, 2
		return true
	case word-last == s.step && uint64(off) == uint64(s.off)+uint64(s.n)*uint64(s.size):
		s.n++
		return true
	case s.n == 2:
		// Two rows may be anything: perhaps the second one goes with this one.
		second := series{off: s.off + s.size, step: word - last, size: off - s.off - s.size, n: 2}
		*s = series{off: s.off, n: 1}
		b.words, b.list = append(b.words, last), append(b.list, second)
	default:
		b.begin(word, off)
	}
	// Give up early on keys that are none: then a file costs no memory for this.
	return len(b.list) <= maxSeries && uint64(len(b.list)) <= 64+b.rows/seriesRows
}

// serve reports whether the series are few enough to look rows up by.
func (b *seriesBuilder) serve() bool {
	return !b.off && b.rows > 0 && len(b.list) <= max(1, int(b.rows/seriesRows))
}

// size bounds what the block would take now.
func (b *seriesBuilder) size() int64 { return seriesHeader + seriesLen*int64(len(b.list)) }

// append appends the block.
func (b *seriesBuilder) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.skip))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.list)))
	for i, s := range b.list {
		dst = binary.LittleEndian.AppendUint64(dst, b.words[i])
		dst = binary.LittleEndian.AppendUint64(dst, s.step)
		dst = binary.LittleEndian.AppendUint32(dst, s.off)
		dst = binary.LittleEndian.AppendUint32(dst, s.size)
		dst = binary.LittleEndian.AppendUint32(dst, s.n)
	}
	return dst
}

package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// bounds gathers the smallest and largest internal key of a file, its sequence
// numbers and timestamps.
type bounds struct {
	hasPoint      bool
	first, last   []byte
	firstT, lastT uint64

	order                keys.Order // set with the first tombstone
	hasTomb              bool
	tombStart, tombEnd   []byte
	tombStartT, tombEndT uint64

	hasSeq           bool
	minSeq, maxSeq   uint64
	hasTime          bool
	timeMin, timeMax []byte
	oldestBlob       uint64
}

func (b *bounds) point(userKey []byte, trailer uint64) {
	if !b.hasPoint {
		b.hasPoint = true
		b.first, b.firstT = append(b.first[:0], userKey...), trailer
	}
	b.last, b.lastT = append(b.last[:0], userKey...), trailer
	b.seq(keys.Seq(trailer))
}

func (b *bounds) seq(seq uint64) {
	if !b.hasSeq {
		b.hasSeq, b.minSeq, b.maxSeq = true, seq, seq
	}
	b.minSeq, b.maxSeq = min(b.minSeq, seq), max(b.maxSeq, seq)
}

func (b *bounds) seqs() (smallest, largest uint64) { return b.minSeq, b.maxSeq }

// tombstone widens the bounds. The end is exclusive, which the largest sequence
// number expresses: it sorts before every entry of that key.
func (b *bounds) tombstone(o keys.Order, t table.Tombstone) {
	startT := keys.Pack(t.Seq, keys.KindRangeDelete)
	endT := keys.Pack(keys.MaxSeq, keys.KindRangeDelete)
	if !b.hasTomb || o.CompareInternal(t.Start, startT, b.tombStart, b.tombStartT) < 0 {
		b.tombStart, b.tombStartT = bytes.Clone(t.Start), startT
	}
	if !b.hasTomb || o.CompareInternal(t.End, endT, b.tombEnd, b.tombEndT) > 0 {
		b.tombEnd, b.tombEndT = bytes.Clone(t.End), endT
	}
	b.hasTomb, b.order = true, o
	b.seq(t.Seq)
}

// timestamp takes the timestamp at the end of a user key, little-endian.
func (b *bounds) timestamp(ts []byte) {
	if len(ts) != 8 {
		return
	}
	v := binary.LittleEndian.Uint64(ts)
	if !b.hasTime || v < binary.LittleEndian.Uint64(b.timeMin) {
		b.timeMin = bytes.Clone(ts)
	}
	if !b.hasTime || v > binary.LittleEndian.Uint64(b.timeMax) {
		b.timeMax = bytes.Clone(ts)
	}
	b.hasTime = true
}

// blob notes the file that a blob reference names.
func (b *bounds) blob(value []byte) {
	rest := value
	switch {
	case len(value) == 0:
		return
	case value[0] == 1:
		rest = value[1:]
	case value[0] == 2:
		var ok bool
		if _, rest, ok = coding.Uvarint64(value[1:]); !ok {
			return
		}
	default:
		return // inlined
	}
	if n, _, ok := coding.Uvarint64(rest); ok && (b.oldestBlob == 0 || n < b.oldestBlob) {
		b.oldestBlob = n
	}
}

func (b *bounds) summary() table.Summary {
	s := table.Summary{
		SmallestUserKey: b.first, SmallestTrailer: b.firstT,
		LargestUserKey: b.last, LargestTrailer: b.lastT,
		SmallestSeq: b.minSeq, LargestSeq: b.maxSeq,
		OldestBlobNumber: b.oldestBlob,
	}
	if b.hasTomb && (!b.hasPoint || b.order.CompareInternal(b.tombStart, b.tombStartT, s.SmallestUserKey, s.SmallestTrailer) < 0) {
		s.SmallestUserKey, s.SmallestTrailer = b.tombStart, b.tombStartT
	}
	if b.hasTomb && (!b.hasPoint || b.order.CompareInternal(b.tombEnd, b.tombEndT, s.LargestUserKey, s.LargestTrailer) > 0) {
		s.LargestUserKey, s.LargestTrailer = b.tombEnd, b.tombEndT
	}
	return s
}

// Package keys defines internal keys, sequence numbers, kinds, comparators and
// the corruption error: the words that every other package speaks.
//
// An internal key is a user key followed by eight bytes, the little-endian
// trailer seq<<8 | kind. Internal keys order by user key ascending (by the
// family's comparator), then by trailer descending, so that the newest entry of
// a user key comes first. Inside the engine a key travels as the pair
// (user key, trailer), since plain tables and memtables do not store the two
// side by side; the joined form appears only in MANIFEST bounds and in block
// based tables.
//
// Fact sheet: block-table, section 6.
package keys

import (
	"encoding/binary"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/perf"
)

// Kind is the low byte of a trailer: what an entry does.
type Kind uint8

// Kinds that occur in memtables and tables. The column family variants of the
// WAL become these when they are applied.
const (
	KindDelete              Kind   = 0x00
	KindValue               Kind   = 0x01
	KindMerge               Kind   = 0x02
	KindSingleDelete        Kind   = 0x07
	KindRangeDelete         Kind   = 0x0f
	KindBlobIndex           Kind   = 0x11
	KindDeleteWithTimestamp Kind   = 0x14
	KindEntity              Kind   = 0x16
	KindValuePreferredSeqno Kind   = 0x18
	KindSeek                Kind   = 0x7f // sorts before every real kind of the same sequence number
	MaxSeq                         = uint64(1)<<56 - 1
	TrailerLen                     = 8
	trailerKindMask         uint64 = 0xff
)

// String names the kind the way RocksDB's documentation does.
func (k Kind) String() string {
	switch k {
	case KindDelete:
		return "Deletion"
	case KindValue:
		return "Value"
	case KindMerge:
		return "Merge"
	case KindSingleDelete:
		return "SingleDeletion"
	case KindRangeDelete:
		return "RangeDeletion"
	case KindBlobIndex:
		return "BlobIndex"
	case KindDeleteWithTimestamp:
		return "DeletionWithTimestamp"
	case KindEntity:
		return "WideColumnEntity"
	case KindValuePreferredSeqno:
		return "ValuePreferredSeqno"
	}
	return fmt.Sprintf("Kind(%#02x)", uint8(k))
}

// ValidInTable reports whether k may be the kind of a point entry in a table.
func (k Kind) ValidInTable() bool {
	switch k {
	case KindDelete, KindValue, KindMerge, KindSingleDelete, KindBlobIndex,
		KindDeleteWithTimestamp, KindEntity, KindValuePreferredSeqno:
		return true
	}
	return false
}

// Pack joins a sequence number and a kind into a trailer.
func Pack(seq uint64, k Kind) uint64 { return seq<<8 | uint64(k) }

// Seq is the sequence number of a trailer.
func Seq(trailer uint64) uint64 { return trailer >> 8 }

// KindOf is the kind of a trailer.
func KindOf(trailer uint64) Kind { return Kind(trailer & trailerKindMask) }

// AppendInternal appends the joined form of (userKey, trailer) to dst.
func AppendInternal(dst, userKey []byte, trailer uint64) []byte {
	dst = append(dst, userKey...)
	return binary.LittleEndian.AppendUint64(dst, trailer)
}

// Split cuts a joined internal key. ok is false when it is shorter than a trailer.
// The user key is borrowed from internal.
func Split(internal []byte) (userKey []byte, trailer uint64, ok bool) {
	n := len(internal) - TrailerLen
	if n < 0 {
		return nil, 0, false
	}
	return internal[:n:n], binary.LittleEndian.Uint64(internal[n:]), true
}

// Lookup is one point read, prepared once and passed down to every source.
// Hash and PrefixLen are computed once from the family's prefix extractor.
type Lookup struct {
	UserKey   []byte
	Seq       uint64 // newest sequence number that the read may see
	PrefixLen int    // length of UserKey's prefix; -1 without an extractor or outside its domain
	Hash      uint32 // hash.Slice of UserKey[:PrefixLen]; meaningless when PrefixLen is -1

	NoFill   bool // blocks that the read loads stay out of the block cache
	NoVerify bool // blocks that come from storage are trusted

	Found        FoundIn       // where the search ended
	Perf         *perf.Context // what the read did is added to it; nil for nothing
	Tallying     bool          // statistics take Tally, and files count there
	Tally        perf.Tally
	Many         bool   // part of a MultiGet
	FromSnapshot bool   // Seq was chosen by the caller
	TraceID      uint64 // links the accesses of one Get in a block cache trace; 0 before the first
}

// FoundIn says where a point read found the newest entry of its key: Nowhere, in
// Memory, or in level l of the files, as InLevel(l).
type FoundIn uint8

// Where a search ends.
const (
	Nowhere FoundIn = iota
	Memory
	level0
)

// InLevel is the FoundIn of a level.
func InLevel(l int) FoundIn { return level0 + FoundIn(l) }

// Level is the level of a FoundIn that is InLevel of it.
func (f FoundIn) Level() int { return int(f - level0) }

// Trailer is the trailer to seek to: the newest entry that the lookup may see.
func (l *Lookup) Trailer() uint64 { return Pack(l.Seq, KindSeek) }

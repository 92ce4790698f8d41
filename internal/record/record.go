// Package record frames records of any length inside 32 KiB blocks: the layer
// that WAL and MANIFEST files share.
//
//	file  := block*               32768 bytes each; the last may be short
//	block := fragment* zeros?     a tail too short for a header is zero
//
//	fragment, by offset and size in bytes, little-endian:
//	  0  4  checksum    masked CRC32C of everything from the type on
//	  4  2  length      of the data alone
//	  6  1  type        see Type
//	  7  4  log number  recyclable types only: the low 32 bits of the file's number
//	     …  data
//
// A record is one full fragment, or a first, any number of middles and a last;
// its payload is their data joined. A fragment never crosses a block boundary. A
// block tail of exactly one header holds an empty first fragment.
//
// The types above 8 carry facts about the log itself, one fragment each. They are
// framed here and understood by package wal.
//
// Damage never panics and never ends reading by itself: Reader.Next returns a
// *Damage that names the condition, and may be called again to read on behind it.
// What a condition means (a torn tail that is the end, or an error) is the
// caller's rule: package wal applies RocksDB's four recovery modes, and MANIFEST
// reading accepts exactly Damage.Tail.
//
// Fact sheet: wal, sections 1 and 2. Proved by every WAL and MANIFEST of the
// golden databases.
package record

import (
	"encoding/binary"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/hash"
)

// Sizes in bytes.
const (
	BlockSize            = 32768
	HeaderSize           = 7
	RecyclableHeaderSize = 11
	// MaxHeaderSize bounds every header.
	MaxHeaderSize = RecyclableHeaderSize
)

// Type says which part of a record a fragment is.
type Type uint8

// The types on disk. Recyclable types carry the log number, so that the leftover
// fragments of a reused file are told apart from new ones.
const (
	Zero             Type = 0 // preallocated space
	Full             Type = 1
	First            Type = 2
	Middle           Type = 3
	Last             Type = 4
	RecyclableFull   Type = 5
	RecyclableFirst  Type = 6
	RecyclableMiddle Type = 7
	RecyclableLast   Type = 8

	SetCompression            Type = 9  // fixed32 compression type; only as the first fragment of a file
	TimestampSizes            Type = 10 // repeated fixed32 column family, fixed16 timestamp size
	RecyclableTimestampSizes  Type = 11
	PredecessorInfo           Type = 130 // fixed64 log number, fixed64 file size, fixed64 last sequence number
	RecyclablePredecessorInfo Type = 131

	// recyclableStep leads from a data type to its recyclable twin.
	recyclableStep = RecyclableFull - Full
	// safeToIgnore is set in unknown types that a reader may skip.
	safeToIgnore Type = 0x80
)

// Recyclable reports whether fragments of type t carry a log number.
func (t Type) Recyclable() bool {
	return t >= RecyclableFull && t <= RecyclableLast ||
		t == RecyclableTimestampSizes || t == RecyclablePredecessorInfo
}

// HeaderSize is the size of the header before data of type t.
func (t Type) HeaderSize() int {
	if t.Recyclable() {
		return RecyclableHeaderSize
	}
	return HeaderSize
}

// plain maps a recyclable type to its twin without a log number.
func (t Type) plain() Type {
	switch {
	case t >= RecyclableFull && t <= RecyclableLast:
		return t - recyclableStep
	case t == RecyclableTimestampSizes:
		return TimestampSizes
	case t == RecyclablePredecessorInfo:
		return PredecessorInfo
	}
	return t
}

// String names the type as the fact sheet does.
func (t Type) String() string {
	switch t.plain() {
	case Zero:
		return "zero"
	case Full:
		return "full"
	case First:
		return "first"
	case Middle:
		return "middle"
	case Last:
		return "last"
	case SetCompression:
		return "set compression type"
	case TimestampSizes:
		return "timestamp sizes"
	case PredecessorInfo:
		return "predecessor info"
	}
	return fmt.Sprintf("type %d", uint8(t))
}

// Framer turns records into fragments: it knows where in the block the log ends,
// and holds no bytes. Writer frames a record at once, for one write; the mapped WAL
// writer goes fragment by fragment. Not safe for concurrent use.
type Framer struct {
	number     uint32 // low 32 bits of the log number
	header     int    // size of a data fragment's header
	left       int    // bytes left in the current block
	recyclable bool
	seeds      [Last + 1]uint32 // CRC of a data type (and the log number), by plain type
}

// NewFramer begins at the start of a file.
func NewFramer(logNumber uint64, recyclable bool) Framer {
	f := Framer{number: uint32(logNumber), header: HeaderSize, left: BlockSize, recyclable: recyclable}
	if recyclable {
		f.header = RecyclableHeaderSize
	}
	for t := Full; t <= Last; t++ {
		f.seeds[t] = f.seed(f.dataType(t))
	}
	return f
}

func (f *Framer) dataType(t Type) Type {
	if f.recyclable {
		return t + recyclableStep
	}
	return t
}

func (f *Framer) seed(t Type) uint32 {
	b := [5]byte{byte(t)}
	if !t.Recyclable() {
		return hash.CRC32C(b[:1])
	}
	binary.LittleEndian.PutUint32(b[1:], f.number)
	return hash.CRC32C(b[:])
}

// HeaderSize is the size of every data fragment's header.
func (f *Framer) HeaderSize() int { return f.header }

// SetOffset goes on at offset bytes from the start of the file.
func (f *Framer) SetOffset(offset int64) { f.left = BlockSize - int(offset%BlockSize) }

// fragment is one step of a record: after Pad zero bytes, a header and Data bytes
// of data. Its Type is plain.
type fragment struct {
	Pad  int
	Data int
	Type Type
}

// next places the next fragment of a record of which rest bytes are not yet
// placed; begun says that it has fragments already.
func (f *Framer) next(rest int, begun bool) fragment {
	var fr fragment
	if f.left < f.header {
		fr.Pad = f.left
		f.left = BlockSize
	}
	fr.Data = min(rest, f.left-f.header)
	f.left -= f.header + fr.Data
	switch end := fr.Data == rest; {
	case end && begun:
		fr.Type = Last
	case end:
		fr.Type = Full
	case begun:
		fr.Type = Middle
	default:
		fr.Type = First
	}
	return fr
}

// Len is how many bytes a record of n bytes of payload takes from here on,
// padding and headers included. It moves nothing.
func (f *Framer) Len(n int) int {
	probe := Framer{header: f.header, left: f.left}
	total := 0
	for begun := false; ; begun = true {
		fr := probe.next(n, begun)
		total += fr.Pad + f.header + fr.Data
		if n -= fr.Data; n == 0 {
			return total
		}
	}
}

// Payload walks the parts of a record that is being framed. It begins with Parts
// and Rest set; they are borrowed until the record is framed, and hold what is left
// of it. (It is filled in place: a constructor would copy it, and a method that
// stores the parts would make them escape to the heap.)
type Payload struct {
	Parts [][]byte // not begun yet
	Rest  int      // bytes not framed yet; TotalLen(Parts) at first
	begun bool
	part  []byte // what is left of the part in progress
}

// TotalLen is the length of the parts joined.
func TotalLen(parts [][]byte) int {
	n := 0
	for _, b := range parts {
		n += len(b)
	}
	return n
}

// AppendFragment appends the next fragment of p to dst: pad bytes of zeros to the
// end of the block, then a header and data. The record is complete when p.Rest
// is zero; an empty one needs one call too.
func (f *Framer) AppendFragment(dst []byte, p *Payload) (framed []byte, pad int) {
	fr := f.next(p.Rest, p.begun)
	dst = append(dst, zeros[:fr.Pad]...)
	at := len(dst)
	dst = append(dst, zeros[:f.header]...)
	for want := fr.Data; want > 0; {
		for len(p.part) == 0 {
			p.part, p.Parts = p.Parts[0], p.Parts[1:]
		}
		n := min(want, len(p.part))
		dst = append(dst, p.part[:n]...)
		p.part = p.part[n:]
		want -= n
	}
	p.Rest -= fr.Data
	p.begun = true
	h := dst[at : at+f.header]
	f.putHeader(h, fr.Type, fr.Data, hash.ExtendCRC32C(f.seeds[fr.Type&7], dst[at+f.header:]))
	return dst, fr.Pad
}

func (f *Framer) putHeader(h []byte, t Type, n int, crc uint32) {
	t = f.dataType(t)
	binary.LittleEndian.PutUint32(h, hash.Mask(crc))
	binary.LittleEndian.PutUint16(h[4:], uint16(n))
	h[6] = byte(t)
	if f.recyclable {
		binary.LittleEndian.PutUint32(h[7:], f.number)
	}
}

// AppendRecord appends the fragments of one record, whose payload is the parts
// joined, to dst.
func (f *Framer) AppendRecord(dst []byte, parts ...[]byte) []byte {
	p := Payload{Parts: parts, Rest: TotalLen(parts)}
	for {
		if dst, _ = f.AppendFragment(dst, &p); p.Rest == 0 {
			return dst
		}
	}
}

// AppendMeta appends a fact about the log (SetCompression, TimestampSizes or
// PredecessorInfo; the recyclable twin is chosen where there is one) to dst, in
// one fragment. The payload must fit a block.
func (f *Framer) AppendMeta(dst []byte, t Type, payload []byte) []byte {
	if f.recyclable && (t == TimestampSizes || t == PredecessorInfo) {
		t++
	}
	n := t.HeaderSize() + len(payload)
	if n > BlockSize {
		panic("record: meta record larger than a block")
	}
	if n > f.left {
		for ; f.left > 0; f.left -= min(f.left, len(zeros)) {
			dst = append(dst, zeros[:min(f.left, len(zeros))]...)
		}
		f.left = BlockSize
	}
	f.left -= n
	crc := hash.ExtendCRC32C(f.seed(t), payload)
	dst = binary.LittleEndian.AppendUint32(dst, hash.Mask(crc))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(payload)))
	dst = append(dst, byte(t))
	if t.Recyclable() {
		dst = binary.LittleEndian.AppendUint32(dst, f.number)
	}
	return append(dst, payload...)
}

var zeros [64]byte

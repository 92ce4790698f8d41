package tracefile

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// The version of RocksDB whose block cache traces we write: it says how to decode them.
const (
	Major = 7
	Minor = 8
)

// UnknownLevel is the level of a file that no level holds.
const UnknownLevel = 0xffffffff

// BlockAccess is one access of a block cache trace. Slices are borrowed until the
// next Read.
type BlockAccess struct {
	Micros   uint64
	Type     Type   // IndexBlock … RangeDeletionBlock
	BlockKey []byte // opaque: names the block
	Size     uint64 // of the block in the cache, in bytes
	Family   uint64
	Name     []byte // of the family
	Level    uint32
	File     uint64 // number of the table file
	Caller   table.Caller
	Hit      bool
	NoInsert bool

	// For point reads only.
	GetID         uint64 // the accesses of one Get have one number; 0 for none
	FromSnapshot  bool
	ReferencedKey []byte // internal key: found, or looked for

	// For point reads of data blocks only.
	DataSize  uint64 // of the entry that was found
	KeyCount  uint64 // keys in the block
	KeyExists bool
}

// PointData reports whether the fields about an entry are there.
func (a *BlockAccess) PointData() bool { return a.Type == DataBlock && a.Caller.PointRead() }

// AppendBlockHeader appends the first record of a block cache trace.
func AppendBlockHeader(dst []byte, micros uint64) []byte {
	dst = AppendHeader(dst, micros, Begin, 1+len(magic)+8)
	dst = coding.AppendString(dst, magic)
	dst = binary.LittleEndian.AppendUint32(dst, Major)
	return binary.LittleEndian.AppendUint32(dst, Minor)
}

// AppendBlockAccess appends the record of an access:
//
//	payload := str block key ‖ fixed64 size ‖ file ‖ caller ‖ hit ‖ no insert ‖
//	           [fixed64 get id ‖ from snapshot ‖ str referenced key ‖     point reads
//	           [fixed64 data size ‖ fixed64 keys ‖ key exists]]           of data blocks
//	file    := fixed64 family ‖ str name ‖ fixed32 level ‖ fixed64 file
func AppendBlockAccess(dst []byte, a *BlockAccess) []byte {
	return AppendBlockAccessOf(dst, AppendBlockFile(nil, a.Family, a.Name, a.Level, a.File), a)
}

// AppendBlockFile appends what all accesses of one file say about it, for AppendBlockAccessOf.
func AppendBlockFile(dst []byte, family uint64, name []byte, level uint32, file uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, family)
	dst = coding.AppendSlice(dst, name)
	dst = binary.LittleEndian.AppendUint32(dst, level)
	return binary.LittleEndian.AppendUint64(dst, file)
}

// accessRoom is the most that a record takes beside its two keys and its file.
const accessRoom = headerLen + 2*coding.MaxVarint32Len + 8 + 3 + 8 + 1 + 8 + 8 + 1

// AppendBlockAccessOf is AppendBlockAccess with a file that was encoded once, instead
// of a's. It is what the writer of a trace does for each record: it makes room once and fills it.
func AppendBlockAccessOf(dst, file []byte, a *BlockAccess) []byte {
	start := len(dst)
	dst = slices.Grow(dst, accessRoom+len(a.BlockKey)+len(file)+len(a.ReferencedKey))
	b := dst[start:cap(dst)]
	binary.LittleEndian.PutUint64(b, a.Micros)
	b[8] = byte(a.Type)
	n := headerLen
	n += putSlice(b[n:], a.BlockKey)
	binary.LittleEndian.PutUint64(b[n:], a.Size)
	n += 8
	n += copy(b[n:], file)
	b[n], b[n+1], b[n+2] = byte(a.Caller), flagByte(a.Hit), flagByte(a.NoInsert)
	n += 3
	if a.Caller.PointRead() {
		binary.LittleEndian.PutUint64(b[n:], a.GetID)
		b[n+8] = flagByte(a.FromSnapshot)
		n += 9
		n += putSlice(b[n:], a.ReferencedKey)
		if a.Type == DataBlock {
			f := b[n : n+17]
			binary.LittleEndian.PutUint64(f, a.DataSize)
			binary.LittleEndian.PutUint64(f[8:], a.KeyCount)
			f[16] = flagByte(a.KeyExists)
			n += 17
		}
	}
	binary.LittleEndian.PutUint32(b[9:], uint32(n-headerLen))
	return dst[:start+n]
}

// putSlice is coding.AppendSlice into room that is there.
func putSlice(dst, s []byte) int {
	n := 1
	if len(s) < 1<<7 {
		dst[0] = byte(len(s))
	} else {
		n = binary.PutUvarint(dst, uint64(len(s)))
	}
	return n + copy(dst[n:], s)
}

func flagByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// era is how the payload of an access looked at some time.
type era uint8

const (
	eraFirst era = iota // 6.2 in development
	era63
	eraNow // 6.4 and later
)

// BlockReader reads a block cache trace of any version.
type BlockReader struct {
	r            *Reader
	era          era
	Micros       uint64 // when the trace began
	Major, Minor uint32 // the RocksDB that wrote it
}

// NewBlockReader reads the header. in should be buffered; the name is for errors.
func NewBlockReader(in io.Reader, name string) (*BlockReader, error) {
	b := &BlockReader{r: NewReader(in, name)}
	rec, err := b.r.begin()
	if err != nil {
		return nil, err
	}
	f := fields{name: name, at: rec.Offset + headerLen, b: rec.Payload}
	if len(f.b) > len(magic) && string(f.b[:len(magic)]) == magic {
		return nil, fmt.Errorf("%s is a query trace, not a block cache trace: %w", name, ErrKind)
	}
	m := f.str("the magic string")
	if f.err == nil && string(m) != magic {
		return nil, keys.Corruptf(name, headerLen, "expected the magic string %q of a trace, found %.32q", magic, m)
	}
	b.Micros = rec.Micros
	b.Major, b.Minor = f.fixed32("the major version"), f.fixed32("the minor version")
	if err := f.end(); err != nil {
		return nil, err
	}
	switch {
	case b.Major < 6 || b.Major == 6 && b.Minor < 2:
		return nil, keys.Corruptf(name, f.at-8, "expected the version of RocksDB to be 6.2 or later, found %d.%d", b.Major, b.Minor)
	case b.Major == 6 && b.Minor == 2:
		b.era = eraFirst
	case b.Major == 6 && b.Minor == 3:
		b.era = era63
	default:
		b.era = eraNow
	}
	return b, nil
}

// Offset is how many bytes of the file have been read.
func (b *BlockReader) Offset() int64 { return b.r.Offset() }

// Read reads the next access into a, or returns io.EOF after the last one.
func (b *BlockReader) Read(a *BlockAccess) error {
	rec, err := b.r.Read()
	if err != nil {
		return err
	}
	if rec.Type == IO {
		return fmt.Errorf("%s is an IO trace, not a block cache trace: %w", b.r.name, ErrKind)
	}
	if !rec.Type.IsBlock() {
		return keys.Corruptf(b.r.name, rec.Offset+8, "expected a block access of type %d to %d, found %d", IndexBlock, RangeDeletionBlock, rec.Type)
	}
	return b.decode(a, &rec)
}

func (b *BlockReader) decode(a *BlockAccess, rec *Record) error {
	f := fields{name: b.r.name, at: rec.Offset + headerLen, b: rec.Payload}
	*a = BlockAccess{Micros: rec.Micros, Type: rec.Type}
	a.BlockKey = f.str("a block key")
	a.Size = f.fixed64("a block size")
	if b.era == eraFirst {
		a.Family = uint64(f.fixed32("a column family id"))
	} else {
		a.Family = f.fixed64("a column family id")
	}
	a.Name = f.str("a column family name")
	a.Level = f.fixed32("a level")
	if b.era == eraFirst {
		a.File = uint64(f.fixed32("a file number"))
	} else {
		a.File = f.fixed64("a file number")
	}
	if c := f.byte("a caller"); c < uint8(table.NumCallers) {
		a.Caller = table.Caller(c)
	} else if f.err == nil {
		return keys.Corruptf(b.r.name, f.at-1, "expected a caller of 1 to %d, found %d", table.NumCallers-1, c)
	}
	a.Hit, a.NoInsert = f.flag("the hit flag"), f.flag("the no-insert flag")
	if b.era == eraNow && a.Caller.PointRead() {
		a.GetID = f.fixed64("a get id")
		a.FromSnapshot = f.flag("the snapshot flag")
		a.ReferencedKey = f.str("a referenced key")
	}
	if a.PointData() {
		if b.era != eraNow {
			a.ReferencedKey = f.str("a referenced key")
		}
		if b.era != eraFirst {
			a.DataSize = f.fixed64("the size of the data")
		}
		a.KeyCount = f.fixed64("the number of keys")
		a.KeyExists = f.flag("the key-exists flag")
	}
	return f.end()
}

// BlockHash is the hash that sampling goes by: of the block at an offset of a file.
func BlockHash(file, offset uint64) uint64 {
	h := (offset ^ file*0x9E3779B97F4A7C15) * 0xC2B2AE3D27D4EB4F
	h ^= h >> 32
	h *= 0x9E3779B185EBCA87
	h ^= h >> 29
	h *= 0x165667B19E3779F9
	return h ^ h>>32
}

// BlockKeyLen is the length of the block keys that we write.
const BlockKeyLen = 16

// AppendBlockKey appends the key of a block in our traces: fixed64 file ‖ fixed64 offset.
func AppendBlockKey(dst []byte, file, offset uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, file)
	return binary.LittleEndian.AppendUint64(dst, offset)
}

// SplitBlockKey undoes AppendBlockKey. Keys of RocksDB's traces give other numbers, which
// name the block as well.
func SplitBlockKey(key []byte) (file, offset uint64, ok bool) {
	if len(key) != BlockKeyLen {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(key), binary.LittleEndian.Uint64(key[8:]), true
}

// Threshold is the hash below which a block is kept when one of every blocks is: with
// one, all of them.
func Threshold(every uint64) uint64 {
	if every <= 1 {
		return ^uint64(0)
	}
	return ^uint64(0) / every
}

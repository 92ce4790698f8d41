package block

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Magic numbers, the last eight bytes of a table file, little-endian. Every
// released RocksDB writes LegacyPlainMagic into plain tables; block-based tables
// carry LegacyBlockMagic at format version 0 and BlockMagic from 1 on.
const (
	LegacyPlainMagic = uint64(0x4f3418eb7a8f13b8)
	PlainMagic       = uint64(0x8242229663bf9564)
	LegacyBlockMagic = uint64(0xdb4775248b80fb57)
	BlockMagic       = uint64(0x88e241b785f4cff7)
)

// Footer lengths in bytes: format version 0, and all others.
const (
	LegacyFooterLen = 48
	FooterLen       = 53
)

// MaxVersion is the newest block-based format version that is understood.
const MaxVersion = 7

// extendedMagic marks the footers of format version 6 and later.
var extendedMagic = [4]byte{0x3e, 0x00, 0x7a, 0x00}

// ChecksumType is the kind of checksum in block trailers.
type ChecksumType = hash.ChecksumType

// Footer is the decoded end of a table file.
type Footer struct {
	Magic    uint64 // as stored
	Version  uint32 // format_version
	Checksum ChecksumType
	// MetaIndex locates the metaindex block.
	MetaIndex Handle
	// Index locates the index block. From version 6 on it is zero here and lies
	// in the metaindex; in plain tables it is always zero.
	Index Handle
	// BaseContextChecksum seeds the context modifier of every checksum of the
	// file; zero before version 6.
	BaseContextChecksum uint32
}

// Plain reports whether the footer ends a plain table.
func (f Footer) Plain() bool { return f.Magic == LegacyPlainMagic || f.Magic == PlainMagic }

// Len is the encoded length in bytes.
func (f Footer) Len() int {
	if f.Magic == LegacyPlainMagic || f.Magic == LegacyBlockMagic {
		return LegacyFooterLen
	}
	return FooterLen
}

// Modifier is what is added to the checksum of a block whose contents start at
// offset off of the file.
func (f Footer) Modifier(off uint64) uint32 { return ContextModifier(f.BaseContextChecksum, off) }

// ContextModifier is the modifier of format version 6 and later: zero when base is.
func ContextModifier(base uint32, off uint64) uint32 {
	if base == 0 {
		return 0
	}
	return base ^ (uint32(off) + uint32(off>>32))
}

// Append appends the encoded footer:
//
//	version 0       metaindex ‖ index ‖ zeros to 40 bytes ‖ magic
//	version 1 to 5  checksum type ‖ the same 40 bytes ‖ fixed32 version ‖ magic
//	version 6, 7    checksum type ‖ 3e 00 7a 00 ‖ fixed32 footer checksum ‖
//	                fixed32 base context checksum ‖ fixed32 metaindex size ‖
//	                24 zeros ‖ fixed32 version ‖ magic
//
// From version 6 on the footer must come right after the metaindex's trailer.
func (f Footer) Append(dst []byte) []byte {
	start := len(dst)
	if f.Len() == LegacyFooterLen {
		dst = f.appendHandles(dst)
		return binary.LittleEndian.AppendUint64(dst, f.Magic)
	}
	dst = append(dst, byte(f.Checksum))
	if f.Plain() || f.Version < 6 {
		dst = f.appendHandles(dst)
	} else {
		dst = append(dst, extendedMagic[:]...)
		dst = append(dst, 0, 0, 0, 0) // the footer checksum, below
		dst = binary.LittleEndian.AppendUint32(dst, f.BaseContextChecksum)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(f.MetaIndex.Size))
		dst = append(dst, make([]byte, 24)...)
	}
	dst = binary.LittleEndian.AppendUint32(dst, f.Version)
	dst = binary.LittleEndian.AppendUint64(dst, f.Magic)
	if !f.Plain() && f.Version >= 6 {
		off := f.MetaIndex.Offset + f.MetaIndex.Size + TrailerLen
		sum := hash.ChecksumWhole(f.Checksum, dst[start:]) + f.Modifier(off)
		binary.LittleEndian.PutUint32(dst[start+5:], sum)
	}
	return dst
}

func (f Footer) appendHandles(dst []byte) []byte {
	start := len(dst)
	dst = AppendHandle(dst, f.MetaIndex)
	dst = AppendHandle(dst, f.Index)
	return append(dst, make([]byte, 40-(len(dst)-start))...)
}

// DecodeFooter decodes the footer of a plain or block-based table. tail is the
// end of the file, at least FooterLen bytes or the whole of a shorter file;
// fileSize is the size of the whole file. Handles are checked to lie inside the
// file. An unknown version, magic or checksum type is an error.
func DecodeFooter(file string, tail []byte, fileSize int64) (Footer, error) {
	var f Footer
	if len(tail) < LegacyFooterLen || fileSize < int64(len(tail)) {
		return f, keys.Corruptf(file, 0, "expected a table file of at least %d bytes, found %d", LegacyFooterLen, fileSize)
	}
	magicOff := fileSize - 8
	f.Magic = binary.LittleEndian.Uint64(tail[len(tail)-8:])
	switch f.Magic {
	case LegacyPlainMagic, PlainMagic, LegacyBlockMagic, BlockMagic:
	default:
		return f, keys.Corruptf(file, magicOff, "expected a table's magic number, found %#016x", f.Magic)
	}
	n := f.Len()
	if len(tail) < n {
		return f, keys.Corruptf(file, 0, "expected a footer of %d bytes, found a file of %d", n, fileSize)
	}
	b := tail[len(tail)-n:]
	start := fileSize - int64(n)
	if n == LegacyFooterLen {
		if f.Magic == LegacyBlockMagic {
			f.Checksum = hash.ChecksumCRC32C
		}
		return f, f.decodeHandles(file, b[:40], start, start)
	}
	f.Checksum = ChecksumType(b[0])
	f.Version = binary.LittleEndian.Uint32(b[41:])
	if f.Plain() {
		if f.Version > 1 {
			return f, keys.Corruptf(file, start+41, "expected plain table format version 0 or 1, found %d", f.Version)
		}
		return f, f.decodeHandles(file, b[1:41], start+1, start)
	}
	if f.Version < 1 || f.Version > MaxVersion {
		return f, keys.Corruptf(file, start+41, "expected format version 1 to %d, found %d", MaxVersion, f.Version)
	}
	if !f.Checksum.Valid() {
		return f, keys.Corruptf(file, start, "expected a known checksum type, found %d", b[0])
	}
	if f.Version < 6 {
		return f, f.decodeHandles(file, b[1:41], start+1, start)
	}
	return f, f.decodeExtended(file, b, start)
}

func (f *Footer) decodeHandles(file string, b []byte, off, footerStart int64) error {
	var ok bool
	rest := b
	if f.MetaIndex, rest, ok = DecodeHandle(rest); !ok {
		return keys.Corruptf(file, off, "expected the metaindex handle in the footer, found % x", b)
	}
	if f.Index, _, ok = DecodeHandle(rest); !ok {
		return keys.Corruptf(file, off, "expected the index handle in the footer, found % x", b)
	}
	trailer := uint64(TrailerLen)
	if f.Plain() {
		trailer = 0
	}
	for _, h := range []Handle{f.MetaIndex, f.Index} {
		if end, ok := h.End(trailer); !h.IsZero() && (!ok || end > uint64(footerStart)) {
			return keys.Corruptf(file, off, "expected handles before the footer at %d, found %v", footerStart, h)
		}
	}
	return nil
}

func (f *Footer) decodeExtended(file string, b []byte, start int64) error {
	if [4]byte(b[1:5]) != extendedMagic {
		return keys.Corruptf(file, start+1, "expected extended magic % x, found % x", extendedMagic, b[1:5])
	}
	stored := binary.LittleEndian.Uint32(b[5:])
	f.BaseContextChecksum = binary.LittleEndian.Uint32(b[9:])
	if f.BaseContextChecksum == 0 {
		return keys.Corruptf(file, start+9, "expected a base context checksum, found 0")
	}
	size := uint64(binary.LittleEndian.Uint32(b[13:]))
	for i, c := range b[33:41] {
		if c != 0 {
			return keys.Corruptf(file, start+33+int64(i), "expected zero in the footer's reserved bytes, found %#02x (a feature of a newer version)", c)
		}
	}
	var whole [FooterLen]byte
	copy(whole[:], b)
	clear(whole[5:9])
	if sum := hash.ChecksumWhole(f.Checksum, whole[:]) + f.Modifier(uint64(start)); sum != stored {
		return keys.Corruptf(file, start+5, "expected footer checksum %#08x, found %#08x", sum, stored)
	}
	if size+TrailerLen > uint64(start) {
		return keys.Corruptf(file, start+13, "expected a metaindex that fits before the footer at %d, found size %d", start, size)
	}
	f.MetaIndex = Handle{uint64(start) - TrailerLen - size, size}
	return nil
}

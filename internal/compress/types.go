// Package compress holds the block compressors of RocksDB's files, chosen by
// the type byte that is stored with each block.
//
//	type  name          stored when format_version ≥ 2      when ≤ 1
//	0x00  none          the block                           the block
//	0x01  Snappy        Snappy block format                 same
//	0x02  Zlib          varint32 size ‖ raw deflate         raw deflate
//	0x03  BZip2         varint32 size ‖ bzip2 stream        bzip2 stream
//	0x04  LZ4           varint32 size ‖ LZ4 block           fixed64 size ‖ LZ4 block
//	0x05  LZ4HC         as LZ4                              as LZ4
//	0x07  ZSTD          varint32 size ‖ zstd frame          same
//	0x40  ZSTDNotFinal  as ZSTD                             same
//
// size is that of the uncompressed block. Every size is checked before memory
// is allocated for it. BZip2 is only read; Xpress (0x06, Windows) and custom
// types are refused by name.
//
// Fact sheet: block-table, section 4. Proved by golden/block comp_*, dict_*,
// legacy_* and golden/block11.
package compress

import "fmt"

// Type is the stored type byte.
type Type uint8

// The compression types.
const (
	None         Type = 0x00
	Snappy       Type = 0x01
	Zlib         Type = 0x02
	BZip2        Type = 0x03
	LZ4          Type = 0x04
	LZ4HC        Type = 0x05
	Xpress       Type = 0x06
	ZSTD         Type = 0x07
	ZSTDNotFinal Type = 0x40
)

// names are what the property rocksdb.compression holds, what OPTIONS files
// hold, and what RocksDB's tools take.
var names = []struct {
	t                      Type
	property, option, tool string
}{
	{None, "NoCompression", "kNoCompression", "none"},
	{Snappy, "Snappy", "kSnappyCompression", "snappy"},
	{Zlib, "Zlib", "kZlibCompression", "zlib"},
	{BZip2, "BZip2", "kBZip2Compression", "bzip2"},
	{LZ4, "LZ4", "kLZ4Compression", "lz4"},
	{LZ4HC, "LZ4HC", "kLZ4HCCompression", "lz4hc"},
	{Xpress, "Xpress", "kXpressCompression", "xpress"},
	{ZSTD, "ZSTD", "kZSTD", "zstd"},
	{ZSTDNotFinal, "ZSTDNotFinal", "kZSTDNotFinalCompression", "zstdnotfinal"},
}

// String is the name in the property rocksdb.compression, such as "LZ4".
func (t Type) String() string {
	for _, n := range names {
		if n.t == t {
			return n.property
		}
	}
	return fmt.Sprintf("Compression(%#02x)", uint8(t))
}

// OptionName is the name in OPTIONS files, such as "kLZ4Compression".
func (t Type) OptionName() string {
	for _, n := range names {
		if n.t == t {
			return n.option
		}
	}
	return t.String()
}

// ParseType accepts the name in properties, in OPTIONS files ("kLZ4Compression")
// and of RocksDB's tools ("lz4").
func ParseType(s string) (Type, bool) {
	for _, n := range names {
		if s == n.property || s == n.option || s == n.tool {
			return n.t, true
		}
	}
	return 0, false
}

// CanWrite reports whether an Encoder for t exists.
func (t Type) CanWrite() bool {
	switch t {
	case None, Snappy, Zlib, LZ4, LZ4HC, ZSTD, ZSTDNotFinal:
		return true
	}
	return false
}

// CanRead reports whether blocks of type t can be decompressed.
func (t Type) CanRead() bool { return t.CanWrite() || t == BZip2 }

// DefaultLevel stands for the algorithm's own default level (RocksDB's
// CompressionOptions::kDefaultCompressionLevel).
const DefaultLevel = 32767

// Package blob reads RocksDB's blob files: values that lie beside the table files,
// whose entries hold an index of where.
//
//	file   := header record* footer?     the footer only once the file is closed
//
//	header, by offset and size in bytes, little-endian:
//	  0  4  magic        0x00248f37
//	  4  4  version      1
//	  8  4  family       id
//	 12  1  flags        1: records have expiration times
//	 13  1  compression  as in block trailers
//	 14 16  expiration   fixed64, fixed64: range, 0 without
//
//	record:
//	  0  8  key length
//	  8  8  value length, as stored
//	 16  8  expiration, 0 for none
//	 24  4  header checksum   masked CRC32C of the 24 bytes before
//	 28  4  blob checksum     masked CRC32C of key and value
//	 32  …  key, value
//
//	footer:
//	  0  4  magic
//	  4  8  count of blobs
//	 12 16  expiration range
//	 28  4  masked CRC32C of the 28 bytes before
//
//	index := byte kind, fields by kind
//	  0 inlined   varint64 expiration, value
//	  1 blob      varint64 file number, varint64 offset of the value, varint64 its stored size, byte compression
//	  2 blob with expiration    varint64 expiration, then as 1
//
// A compressed value is one block in the form of format version 2: the raw size in
// front, but for Snappy, which has its own.
//
// Fact sheet: manifest, section 8. Proved by the blob files of the golden database d08.
package blob

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// IndexKind says what an index holds.
type IndexKind uint8

// The kinds. Those with expiration come from RocksDB's stacked BlobDB.
const (
	Inlined  IndexKind = 0
	Plain    IndexKind = 1
	Expiring IndexKind = 2
)

// Index says where a value lies.
type Index struct {
	Kind        IndexKind
	Expiration  uint64 // unix seconds; only Inlined and Expiring
	File        uint64
	Offset      uint64 // of the value in the file
	Size        uint64 // as stored
	Compression compress.Type
	Value       []byte // of Inlined, borrowed
}

// DecodeIndex reads an index, the value of an entry of kind KindBlobIndex.
func DecodeIndex(b []byte) (i Index, err error) {
	whole := len(b)
	fail := func(what string) (Index, error) {
		return Index{}, keys.Corruptf("blob index", int64(whole-len(b)), "expected %s, found % x", what, b[:min(len(b), 16)])
	}
	if len(b) == 0 {
		return fail("a kind")
	}
	i.Kind = IndexKind(b[0])
	b = b[1:]
	var ok bool
	switch i.Kind {
	case Inlined, Expiring:
		if i.Expiration, b, ok = coding.Uvarint64(b); !ok {
			return fail("an expiration time")
		}
		if i.Kind == Inlined {
			i.Value = b
			return i, nil
		}
	case Plain:
	default:
		return Index{}, keys.Corruptf("blob index", 0, "expected kind 0, 1 or 2, found %d", i.Kind)
	}
	for _, f := range []struct {
		to   *uint64
		what string
	}{{&i.File, "a file number"}, {&i.Offset, "an offset"}, {&i.Size, "a size"}} {
		if *f.to, b, ok = coding.Uvarint64(b); !ok {
			return fail(f.what)
		}
	}
	if len(b) != 1 {
		return fail("a compression type and no more")
	}
	i.Compression = compress.Type(b[0])
	return i, nil
}

// Append appends the encoding of i to dst.
func (i *Index) Append(dst []byte) []byte {
	dst = append(dst, byte(i.Kind))
	if i.Kind != Plain {
		dst = coding.AppendUvarint(dst, i.Expiration)
	}
	if i.Kind == Inlined {
		return append(dst, i.Value...)
	}
	dst = coding.AppendUvarint(dst, i.File)
	dst = coding.AppendUvarint(dst, i.Offset)
	dst = coding.AppendUvarint(dst, i.Size)
	return append(dst, byte(i.Compression))
}

// String is RocksDB's text of an index, the value of an inlined one as it is.
func (i *Index) String() string { return i.Text(false) }

// Text is RocksDB's text of an index, the value of an inlined one in hex if asked for.
func (i *Index) Text(hex bool) string {
	text := fmt.Sprintf("[blob ref] file:%d offset:%d size:%d compression: %v", i.File, i.Offset, i.Size, i.Compression)
	if i.Kind == Inlined {
		text = fmt.Sprintf("[inlined blob] value:%s", i.Value)
		if hex {
			text = fmt.Sprintf("[inlined blob] value:%X", i.Value)
		}
	}
	if i.Kind != Plain {
		text += fmt.Sprintf(" exp:%d", i.Expiration)
	}
	return text
}

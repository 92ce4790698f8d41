package plaintable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Meta blocks of our own. RocksDB ignores names that it does not know.
const (
	metaChecksums  = "flatrock.checksums"
	metaTombstones = "flatrock.range_deletes"
	metaRowIndex   = "flatrock.row_index"
	metaIndexLines = "flatrock.index_lines"
	metaSeries     = "flatrock.key_series"
)

// propChecksums is a property of files that have metaChecksums, so that damage to
// its name in the metaindex does not make it a file without.
const propChecksums = "flatrock.checksums"

// rowIndexEvery is how many rows share an entry of the row index, at least.
const rowIndexEvery = 16

// rowIndex is the meta block metaRowIndex: offsets of seekable rows, fixed32
// each, ascending; the first is 0, and the block of an empty table is empty.
type rowIndex []byte

func (x rowIndex) len() int        { return len(x) / 4 }
func (x rowIndex) at(i int) int    { return int(binary.LittleEndian.Uint32(x[4*i:])) }
func (x rowIndex) size() int64     { return int64(len(x)) }
func (x *rowIndex) add(off uint32) { *x = binary.LittleEndian.AppendUint32(*x, off) }

// rowIndexBuilder picks the rows of a row index.
type rowIndexBuilder struct {
	rowIndex
	since int // rows since the last one taken
}

func (b *rowIndexBuilder) row(off uint32, seekable bool) {
	if b.since++; seekable && (len(b.rowIndex) == 0 || b.since >= rowIndexEvery) {
		b.add(off)
		b.since = 0
	}
}

// decodeRowIndex checks the length and the first offset. What lies behind an
// offset is checked when it is used, and order as far as a search relies on it.
func decodeRowIndex(file string, off int64, b []byte, rows int) (rowIndex, error) {
	if len(b)%4 != 0 || (len(b) == 0) != (rows == 0) || len(b)/4 > rows {
		return nil, keys.Corruptf(file, off, "row index: expected offsets of 4 bytes into %d bytes of rows, found %d bytes", rows, len(b))
	}
	if x := rowIndex(b); len(b) > 0 && x.at(0) != 0 {
		return nil, keys.Corruptf(file, off, "row index: expected the first row at 0, found %d", x.at(0))
	}
	return b, nil
}

// appendTombstones appends the meta block metaTombstones: for each, in the order
// given, start and end with varint32 lengths, and fixed64 sequence number.
func appendTombstones(dst []byte, list []table.Tombstone) []byte {
	for _, t := range list {
		dst = coding.AppendSlice(coding.AppendSlice(dst, t.Start), t.End)
		dst = binary.LittleEndian.AppendUint64(dst, t.Seq)
	}
	return dst
}

func tombstoneSize(t table.Tombstone) int64 {
	return int64(2*coding.MaxVarint32Len + len(t.Start) + len(t.End) + 8)
}

// decodeTombstones returns copies.
func decodeTombstones(file string, off int64, b []byte) ([]table.Tombstone, error) {
	var list []table.Tombstone
	all := append([]byte(nil), b...)
	for rest := all; len(rest) > 0; {
		at := off + int64(len(all)-len(rest))
		start, r, ok := coding.Slice(rest)
		end, r, ok2 := coding.Slice(r)
		if !ok || !ok2 || len(r) < 8 {
			return nil, keys.Corruptf(file, at, "range deletes: expected start, end and sequence number, found % x", rest[:min(len(rest), 24)])
		}
		t := table.Tombstone{Start: start, End: end, Seq: binary.LittleEndian.Uint64(r)}
		if t.Seq > keys.MaxSeq {
			return nil, keys.Corruptf(file, at, "range deletes: expected a sequence number of 56 bits, found %#x", t.Seq)
		}
		list = append(list, t)
		rest = r[8:]
	}
	return list, nil
}

// noExtractor is the property of a file without a prefix extractor.
const noExtractor = "nullptr"

// properties of a finished file, as RocksDB's builder writes them.
func (w *Writer) properties(indexSize, filterSize int, bloomLines uint32) *table.Properties {
	id := &w.o.Identity
	p := &table.Properties{
		OriginalFileNumber: id.FileNumber, ColumnFamilyID: uint64(id.ColumnFamilyID), ColumnFamilyName: id.ColumnFamilyName,
		DBID: id.DBID, DBSessionID: id.DBSessionID, DBHostID: id.DBHostID,
		CreationTime: id.CreationTime, OldestKeyTime: id.OldestKeyTime, FileCreationTime: id.FileCreationTime,
		DataSize: uint64(w.rowsSize), IndexSize: uint64(indexSize), FilterSize: uint64(filterSize),
		RawKeySize: w.sum.RawKeySize, RawValueSize: w.sum.RawValueSize,
		NumDataBlocks: 1, NumEntries: w.sum.Entries, NumDeletions: w.sum.Deletes, NumMergeOperands: w.merges,
		NumRangeDeletions:   w.sum.Tombstones,
		FixedKeyLen:         uint64(w.o.UserKeyLen),
		PrefixExtractorName: w.o.Extractor.Name(),
		User:                make(map[string][]byte),
	}
	if w.o.EncodingType == Prefix {
		p.FormatVersion = 1
	}
	encoding := Plain
	if w.enc.prefix {
		encoding = Prefix
	}
	p.User[block.PropPlainEncoding] = binary.LittleEndian.AppendUint32(nil, uint32(encoding))
	if w.o.StoreIndexInFile {
		p.User[block.PropPlainBloomVersion] = []byte("1")
		if filterSize > 0 {
			p.User[block.PropPlainBloomBlocks] = coding.AppendUvarint(nil, uint64(bloomLines))
		}
	}
	if w.o.ChunkChecksums {
		p.User[propChecksums] = []byte("1")
	}
	if id.ExternalFile {
		p.User[block.PropExternalVersion] = binary.LittleEndian.AppendUint32(nil, 2)
		p.User[block.PropGlobalSeqno] = make([]byte, 8)
	}
	return p
}

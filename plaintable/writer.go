package plaintable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	// flushSize is how many bytes go to the file at once; a multiple of checksumChunk.
	flushSize = 4 * checksumChunk
	// tailBound bounds what EstimatedSize does not count one by one: padding, a
	// properties block without its strings, metaindex, footer, checksum header.
	tailBound = 4 << 10
	// blockAlign is the alignment of bloom lines and of the bucket array: a cache line.
	blockAlign = 64
	// maxBloomBits keeps the number of bits, rounded up, in 32 bits.
	maxBloomBits = 1<<32 - 1024
)

// Writer writes one plain table. It implements table.Writer.
type Writer struct {
	f    mmapfs.File
	o    WriterOptions
	enc  rowEncoder
	max  int64
	more int64 // rowOverhead
	err  error // sticky
	done bool

	buf       []byte // rows not yet written; begins at a multiple of checksumChunk
	written   int64  // bytes in the file
	rowsSize  int64
	chunkSums []byte

	index     indexBuilder
	rowIdx    rowIndexBuilder
	series    seriesBuilder
	rowHashes packed // of user keys, for the bloom filter in total order
	merges    uint64

	lastKey     []byte
	lastTrailer uint64
	lastPrefix  int    // length of lastKey's prefix
	lastHash    uint32 // of lastKey's prefix

	tombstones     []table.Tombstone
	tombstoneBytes int64
	sum            table.Summary
}

var _ table.Writer = (*Writer)(nil)

// NewWriter begins a table in f, which must be empty, and takes f over. Options
// that no plain table can serve are refused here, with f left to the caller.
func NewWriter(f mmapfs.File, o WriterOptions) (*Writer, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	w := &Writer{f: f, o: o, max: o.MaxFileSize}
	if w.max == 0 {
		w.max = MaxFileSize
	}
	w.enc.keyLen = int(o.UserKeyLen)
	w.enc.prefix = o.EncodingType == Prefix && o.Extractor != nil
	w.enc.fullEvery = max(1, o.IndexSparseness)
	w.index.sparseness = o.IndexSparseness
	w.series.off = o.RocksDBLayout || w.enc.prefix || o.UserKeyLen < 8 || !o.Order.Bytewise()
	w.more = w.rowOverhead()
	w.sum.SmallestSeq = keys.MaxSeq
	return w, nil
}

// Add appends a row. The file is unchanged after an error that matches
// ErrFileFull, ErrInvalidArgument or ErrNotSupported; any other is final.
func (w *Writer) Add(userKey []byte, trailer uint64, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(userKey, trailer, value); err != nil {
		return err
	}
	prefixLen, newPrefix := 0, w.sum.Entries == 0
	if w.o.Extractor != nil {
		if prefixLen = w.o.Extractor.PrefixLen(userKey); prefixLen < 0 {
			return fmt.Errorf("%w: plain table: key %q is outside the domain of prefix extractor %s", ErrInvalidArgument, userKey, w.o.Extractor.Name())
		}
		newPrefix = newPrefix || !bytes.Equal(userKey[:prefixLen], w.lastKey[:w.lastPrefix])
	}
	if size, more := w.EstimatedSize(), rowBound(userKey, value)+w.more; size+more > w.max {
		return fmt.Errorf("%w: %d bytes and %d for a row would pass %d", ErrFileFull, size, more, w.max)
	}

	off := uint32(w.rowsSize)
	before := len(w.buf)
	var seekable bool
	w.buf, seekable = w.enc.append(w.buf, userKey, trailer, value, prefixLen, newPrefix)
	w.rowsSize += int64(len(w.buf) - before)
	if newPrefix {
		w.lastHash = hash.Slice(userKey[:prefixLen])
		if w.o.Extractor == nil {
			w.lastHash = 0
		}
		w.index.begins()
	}
	w.index.row(w.lastHash, off, seekable)
	if !w.o.RocksDBLayout {
		w.rowIdx.row(off, seekable)
	}
	w.series.row(userKey, off)
	if w.o.Extractor == nil && w.storesBloom() {
		w.rowHashes.add(uint64(hash.Slice(userKey)))
	}
	w.count(userKey, trailer, value, prefixLen)
	if len(w.buf) >= flushSize {
		w.flushChunks()
	}
	return w.err
}

func (w *Writer) check(userKey []byte, trailer uint64, value []byte) error {
	switch kind := keys.KindOf(trailer); {
	case w.done:
		return errors.New("plain table: Add after Finish or Abandon")
	case kind == keys.KindRangeDelete:
		return fmt.Errorf("%w: Range deletion unsupported", ErrNotSupported)
	case !kind.ValidInTable():
		return fmt.Errorf("%w: plain table: an entry of kind %v", ErrInvalidArgument, kind)
	case w.o.UserKeyLen != 0 && len(userKey) != int(w.o.UserKeyLen):
		return fmt.Errorf("%w: plain table: expected keys of %d bytes (user_key_len), found key %q of %d", ErrInvalidArgument, w.o.UserKeyLen, userKey, len(userKey))
	case w.sum.Entries > 0 && w.o.Order.CompareInternal(w.lastKey, w.lastTrailer, userKey, trailer) >= 0:
		return fmt.Errorf("%w: plain table: keys out of order: %q seq %d after %q seq %d", ErrInvalidArgument,
			userKey, keys.Seq(trailer), w.lastKey, keys.Seq(w.lastTrailer))
	}
	return nil
}

func (w *Writer) count(userKey []byte, trailer uint64, value []byte, prefixLen int) {
	s := &w.sum
	if s.Entries == 0 {
		s.SmallestUserKey, s.SmallestTrailer = bytes.Clone(userKey), trailer
	}
	w.lastKey = append(w.lastKey[:0], userKey...)
	w.lastTrailer, w.lastPrefix = trailer, prefixLen
	s.Entries++
	s.RawKeySize += uint64(len(userKey)) + keys.TrailerLen
	s.RawValueSize += uint64(len(value))
	switch keys.KindOf(trailer) {
	case keys.KindDelete, keys.KindSingleDelete, keys.KindDeleteWithTimestamp:
		s.Deletes++
	case keys.KindMerge:
		w.merges++
	}
	w.countSeq(keys.Seq(trailer))
}

func (w *Writer) countSeq(seq uint64) {
	w.sum.SmallestSeq = min(w.sum.SmallestSeq, seq)
	w.sum.LargestSeq = max(w.sum.LargestSeq, seq)
}

// AddTombstone stores a range delete if RangeTombstones is set. Tombstones may
// come at any time, and keep the order in which they come.
func (w *Writer) AddTombstone(t table.Tombstone) error {
	switch {
	case w.err != nil:
		return w.err
	case !w.o.RangeTombstones:
		return fmt.Errorf("%w: Range deletion unsupported", ErrNotSupported)
	case w.done:
		return errors.New("plain table: AddTombstone after Finish or Abandon")
	case t.Seq > keys.MaxSeq:
		return fmt.Errorf("%w: plain table: sequence number %d", ErrInvalidArgument, t.Seq)
	case w.EstimatedSize()+tombstoneSize(t) > w.max:
		return fmt.Errorf("%w: %d bytes and a range delete of %d would pass %d", ErrFileFull, w.EstimatedSize(), tombstoneSize(t), w.max)
	}
	w.tombstones = append(w.tombstones, table.Tombstone{Start: bytes.Clone(t.Start), End: bytes.Clone(t.End), Seq: t.Seq})
	w.tombstoneBytes += tombstoneSize(t)
	w.sum.Tombstones++
	w.sum.Deletes++
	w.countSeq(t.Seq)
	return nil
}

func (w *Writer) storesBloom() bool { return w.o.StoreIndexInFile && w.o.BloomBitsPerKey > 0 }

// rowOverhead bounds what one more row adds to the file beside itself.
func (w *Writer) rowOverhead() int64 {
	n := int64(4 + 8 + seriesLen) // row index, a chunk checksum, a series
	if w.o.StoreIndexInFile {
		n += 8 + int64(w.o.BloomBitsPerKey)/8 + 1 + lineSize/lineFill + 1
		if r := w.o.HashTableRatio; r > 0 {
			n += int64(min(4/r, 4*maxBuckets)) + 4
		}
	}
	return n
}

// EstimatedSize bounds the size in bytes of the file if it were finished now,
// index, bloom filter and other meta blocks included.
func (w *Writer) EstimatedSize() int64 {
	n := w.rowsSize + tailBound + w.rowIdx.size() + w.series.size() + w.tombstoneBytes
	id := &w.o.Identity
	n += int64(len(id.ColumnFamilyName) + len(id.DBID) + len(id.DBSessionID) + len(id.DBHostID) + len(w.o.Extractor.Name()))
	if w.o.ChunkChecksums {
		n += 8 * (w.rowsSize/checksumChunk + 1)
	}
	if w.o.StoreIndexInFile && w.sum.Entries > 0 {
		buckets := bucketsFor(w.index.prefixes, w.hashRatio())
		if buckets == 0 {
			return MaxFileSize + 1
		}
		n += w.index.sizeBound(buckets)
		if w.storesLines() {
			n += linesSize(w.index.prefixes)
		}
		if w.storesBloom() {
			size, _ := bloomSize(w.bloomBits(), w.o.BloomLocality)
			n += size
		}
	}
	return n
}

// storesLines: in total order all rows have one prefix, and lines tell nothing apart. Nor
// are they needed where there are series, which is known at the end.
func (w *Writer) storesLines() bool { return !w.o.RocksDBLayout && w.o.Extractor != nil }

func (w *Writer) hashRatio() float64 {
	if w.o.Extractor == nil {
		return 0
	}
	return w.o.HashTableRatio
}

func (w *Writer) bloomBits() uint32 {
	return uint32(min(w.sum.Entries*uint64(w.o.BloomBitsPerKey), maxBloomBits))
}

// flushChunks writes the whole chunks of buf.
func (w *Writer) flushChunks() {
	n := len(w.buf) / checksumChunk * checksumChunk
	w.sumChunks(w.buf[:n])
	w.write(w.buf[:n])
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
}

func (w *Writer) sumChunks(b []byte) {
	if !w.o.ChunkChecksums {
		return
	}
	for len(b) > 0 {
		n := min(len(b), checksumChunk)
		w.chunkSums = binary.LittleEndian.AppendUint64(w.chunkSums, xxh3.Hash(b[:n]))
		b = b[n:]
	}
}

func (w *Writer) write(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	n, err := w.f.Write(b)
	w.written += int64(n)
	if err != nil {
		w.err = fmt.Errorf("plain table: write %s: %w", w.f.Name(), err)
	}
}

// Finish writes the meta blocks, syncs and closes the file.
func (w *Writer) Finish() (table.Summary, error) {
	if w.done {
		return table.Summary{}, errors.Join(errors.New("plain table: Finish after Finish or Abandon"), w.err)
	}
	w.done = true
	if w.err == nil {
		w.sumChunks(w.buf)
		w.write(w.buf)
		w.buf = nil
		w.writeTail()
	}
	if w.err == nil {
		if err := w.f.Sync(); err != nil {
			w.err = fmt.Errorf("plain table: sync %s: %w", w.f.Name(), err)
		}
	}
	if err := w.f.Close(); err != nil && w.err == nil {
		w.err = fmt.Errorf("plain table: close %s: %w", w.f.Name(), err)
	}
	if w.err != nil {
		return table.Summary{}, w.err
	}
	w.finishBounds()
	w.sum.Size = w.written
	w.sum.TailSize = w.written - w.rowsSize
	return w.sum, nil
}

// finishBounds sets the largest key, and widens the bounds over the tombstones:
// a start counts as it is, an end as the last possible key before it.
func (w *Writer) finishBounds() {
	s := &w.sum
	some := s.Entries > 0
	if some {
		s.LargestUserKey, s.LargestTrailer = bytes.Clone(w.lastKey), w.lastTrailer
	}
	for _, t := range w.tombstones {
		start := keys.Pack(t.Seq, keys.KindRangeDelete)
		end := keys.Pack(keys.MaxSeq, keys.KindRangeDelete)
		if !some || w.o.Order.CompareInternal(t.Start, start, s.SmallestUserKey, s.SmallestTrailer) < 0 {
			s.SmallestUserKey, s.SmallestTrailer = bytes.Clone(t.Start), start
		}
		if !some || w.o.Order.CompareInternal(t.End, end, s.LargestUserKey, s.LargestTrailer) > 0 {
			s.LargestUserKey, s.LargestTrailer = bytes.Clone(t.End), end
		}
		some = true
	}
	if !some {
		s.SmallestSeq = 0
	}
}

// Abandon closes the file without finishing it.
func (w *Writer) Abandon() {
	if !w.done {
		w.done = true
		w.buf = nil
		_ = w.f.Close() // the file is garbage either way
	}
}

// tail collects what follows the rows, with the checksums of its parts.
type tail struct {
	w     *Writer
	meta  []block.MetaEntry
	spans []span
}

// put writes a block at an offset that is lead bytes before a multiple of align,
// and names it in the metaindex if it has a name.
func (t *tail) put(name string, b []byte, align, lead int) block.Handle {
	w := t.w
	start := w.written
	pad := 0
	if align > 1 && !w.o.RocksDBLayout {
		pad = int(-(start + int64(lead)) & int64(align-1))
	}
	sum := xxh3.New()
	if pad > 0 {
		zeros := make([]byte, pad)
		w.write(zeros)
		_, _ = sum.Write(zeros) // hashes do not fail
	}
	if w.o.ChunkChecksums {
		_, _ = sum.Write(b)
		t.spans = append(t.spans, span{uint32(start), uint32(pad + len(b)), sum.Sum64()})
	}
	w.write(b)
	h := block.Handle{Offset: uint64(start) + uint64(pad), Size: uint64(len(b))}
	if name != "" {
		t.meta = append(t.meta, block.MetaEntry{Name: name, Handle: h})
	}
	return h
}

// writeTail writes bloom, index, our own blocks, properties, checksums, metaindex
// and footer, in this order.
func (w *Writer) writeTail() {
	t := tail{w: w}
	indexSize, filterSize, lines := 0, 0, uint32(0)
	if w.o.StoreIndexInFile && w.sum.Entries > 0 {
		if w.storesBloom() {
			var b []byte
			b, lines = w.buildBloom()
			filterSize = len(b)
			t.put(block.MetaPlainTableBloom, b, blockAlign, 0)
		}
		buckets := bucketsFor(w.index.prefixes, w.hashRatio())
		b := w.index.build(make([]byte, w.index.sizeBound(buckets)), buckets)
		indexSize = len(b)
		t.put(block.MetaPlainTableIndex, b, blockAlign, w.index.headerLen(buckets))
		if w.storesLines() && !w.series.serve() {
			lines := make(lineIndex, linesSize(w.index.prefixes))
			lines.fill(w.index.records.all())
			t.put(metaIndexLines, lines, lineSize, 0)
		}
	}
	if w.series.serve() {
		t.put(metaSeries, w.series.append(nil), 8, 0)
	}
	w.series.stop()
	w.index, w.rowHashes = indexBuilder{prefixes: w.index.prefixes}, packed{}
	if !w.o.RocksDBLayout && w.o.Extractor != nil {
		t.put(metaRowIndex, w.rowIdx.rowIndex, 4, 0)
	}
	if len(w.tombstones) > 0 {
		t.put(metaTombstones, appendTombstones(nil, w.tombstones), 1, 0)
	}
	t.put(block.MetaProperties, block.EncodeProperties(w.properties(indexSize, filterSize, lines)), 1, 0)
	if w.o.ChunkChecksums {
		w.writeChecksums(&t)
		return
	}
	metaIndex := block.EncodeMetaIndex(t.meta)
	h := t.put("", metaIndex, 1, 0)
	w.write(footer(h))
}

// writeChecksums writes checksums, metaindex and footer. Its size is known from
// the start, so the last two can be encoded, and their checksums stored, before it is.
func (w *Writer) writeChecksums(t *tail) {
	size := checksumBlockSize(len(w.chunkSums)/8, len(t.spans)+1)
	own := block.Handle{Offset: uint64(w.written), Size: uint64(size)}
	t.meta = append(t.meta, block.MetaEntry{Name: metaChecksums, Handle: own})
	metaIndex := block.EncodeMetaIndex(t.meta)
	after := own.Offset + own.Size
	end := append(metaIndex, footer(block.Handle{Offset: after, Size: uint64(len(metaIndex))})...)
	t.spans = append(t.spans, span{uint32(after), uint32(len(end)), xxh3.Hash(end)})
	c := checksums{chunk: checksumChunk, rows: uint32(w.rowsSize), chunks: w.chunkSums, spans: t.spans}
	w.write(c.append(make([]byte, 0, size)))
	w.write(end)
}

func footer(metaIndex block.Handle) []byte {
	return block.Footer{Magic: block.LegacyPlainMagic, MetaIndex: metaIndex}.Append(nil)
}

func (w *Writer) buildBloom() (b []byte, lines uint32) {
	size, lines := bloomSize(w.bloomBits(), w.o.BloomLocality)
	b = make([]byte, size)
	f := newFlatBloom(b)
	if lines > 0 {
		f = newLinesBloom(b, lines, 9)
	}
	if w.o.Extractor == nil {
		for h := range w.rowHashes.all() {
			f.add(uint32(h))
		}
		return b, lines
	}
	for rec := range w.index.records.all() { // each prefix has a record
		f.add(uint32(rec >> 32))
	}
	return b, lines
}

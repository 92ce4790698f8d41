package blocktable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// ErrOutOfOrder matches Add's refusal of an entry that does not come after the one before.
var ErrOutOfOrder = errors.New("blocktable: entries must come in internal key order")

// Writer builds a block-based table. It implements table.Writer. Not safe for
// concurrent use. After an error every method returns it.
type Writer struct {
	o   WriterOptions
	out *fileWriter
	err error

	data    *dataBuilder
	index   *indexWriter
	filter  *filterWriter
	pipe    *pipeline // compresses in parallel, or nil
	hold    *heldBlocks
	rdel    *block.Builder
	timeLen int // bytes of timestamp at the end of user keys

	last []byte // internal key added last
	next []byte // internal key being added

	props     table.Properties
	tailStart uint64
	bounds    bounds
	finished  bool
}

// NewWriter begins a table in the empty file f. The file is the Writer's once
// NewWriter has succeeded: Finish and Abandon close it.
func NewWriter(f mmapfs.File, o WriterOptions) (*Writer, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	w := &Writer{o: o}
	if t, ok := o.Order.Comparator().(timestamped); ok {
		w.timeLen = t.TimestampSize()
	}
	var err error
	if w.out, err = newFileWriter(f, &w.o); err != nil {
		return nil, err
	}
	w.data = newDataBuilder(&w.o)
	w.index = newIndexWriter(&w.o)
	w.filter = newFilterWriter(&w.o, w.index)
	w.rdel = block.NewBuilder(1)
	switch {
	case o.CompressionOptions.MaxDictBytes > 0 && o.Compression != compress.None:
		w.hold = &heldBlocks{}
	default:
		if err := w.startPipeline(false); err != nil {
			w.out.close()
			return nil, err
		}
	}
	return w, nil
}

// Add appends a point entry. Both slices are copied.
func (w *Writer) Add(userKey []byte, trailer uint64, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(userKey, trailer, value); err != nil {
		w.err = err
		return err
	}
	w.next = keys.AppendInternal(w.next[:0], userKey, trailer)
	if w.data.full(len(w.next), len(value)) {
		w.flush(w.next)
		if w.err != nil {
			return w.err
		}
	}
	w.last, w.next = w.next, w.last
	if w.inline() {
		if w.filter != nil {
			w.filter.add(userKey[:len(userKey)-w.timeLen])
		}
		w.index.keyAdded(w.last)
	}
	w.data.add(w.last, value)
	w.count(userKey, trailer, value)
	return nil
}

// inline says that filter and index see keys as they are added, rather than when
// their block is written.
func (w *Writer) inline() bool { return w.hold == nil && w.pipe == nil }

func (w *Writer) check(userKey []byte, trailer uint64, value []byte) error {
	if w.finished {
		return errors.New("blocktable: Add after Finish")
	}
	if !keys.KindOf(trailer).ValidInTable() {
		return fmt.Errorf("blocktable: an entry of kind %v cannot be in a table", keys.KindOf(trailer))
	}
	if uint64(len(userKey)) > math.MaxUint32-64 || uint64(len(value)) > math.MaxUint32-64 {
		return fmt.Errorf("blocktable: a key of %d or a value of %d bytes is too long", len(userKey), len(value))
	}
	if len(userKey) < w.timeLen {
		return fmt.Errorf("blocktable: a key of %d bytes has no timestamp of %d", len(userKey), w.timeLen)
	}
	if n := len(w.last) - keys.TrailerLen; n >= 0 &&
		w.o.Order.CompareInternal(w.last[:n], binary.LittleEndian.Uint64(w.last[n:]), userKey, trailer) >= 0 {
		return fmt.Errorf("%w: %q #%x after %q #%x", ErrOutOfOrder, userKey, trailer, w.last[:n], binary.LittleEndian.Uint64(w.last[n:]))
	}
	return nil
}

func (w *Writer) count(userKey []byte, trailer uint64, value []byte) {
	p := &w.props
	p.NumEntries++
	p.RawKeySize += uint64(len(userKey) + keys.TrailerLen)
	p.RawValueSize += uint64(len(value))
	switch keys.KindOf(trailer) {
	case keys.KindDelete, keys.KindSingleDelete:
		p.NumDeletions++
	case keys.KindDeleteWithTimestamp:
		if w.o.FormatVersion >= 6 {
			p.NumDeletions++
		}
	case keys.KindMerge:
		p.NumMergeOperands++
	case keys.KindBlobIndex:
		w.bounds.blob(value)
	}
	w.bounds.point(userKey, trailer)
	if w.timeLen > 0 {
		w.bounds.timestamp(userKey[len(userKey)-w.timeLen:])
	}
	for _, c := range w.o.Collectors {
		c.Add(userKey, trailer, value)
	}
}

// AddTombstone appends a range delete. Tombstones may come in any order.
func (w *Writer) AddTombstone(t table.Tombstone) error {
	if w.err != nil {
		return w.err
	}
	if w.finished {
		return errors.New("blocktable: AddTombstone after Finish")
	}
	if w.o.Order.Compare(t.Start, t.End) > 0 {
		return fmt.Errorf("blocktable: a range delete from %q to %q is backward", t.Start, t.End)
	}
	w.rdel.Add(keys.AppendInternal(nil, t.Start, keys.Pack(t.Seq, keys.KindRangeDelete)), t.End)
	p := &w.props
	p.NumEntries++
	p.NumDeletions++
	p.NumRangeDeletions++
	p.RawKeySize += uint64(len(t.Start) + keys.TrailerLen)
	p.RawValueSize += uint64(len(t.End))
	w.bounds.tombstone(w.o.Order, t)
	return nil
}

// flush ends the data block. next is the first internal key of the next block,
// nil at the end of the file.
func (w *Writer) flush(next []byte) {
	if w.data.empty() {
		return
	}
	raw := w.data.finish()
	switch {
	case w.hold != nil:
		w.hold.add(raw)
		if w.hold.full(&w.o) {
			w.releaseHeld()
		}
	case w.pipe != nil:
		w.err = w.pipe.submit(raw)
	default:
		h, err := w.out.writeBlock(raw, blockData)
		if err != nil {
			w.err = err
			break
		}
		w.blockWritten()
		w.index.blockDone(w.last, next, h)
	}
	w.data.reset()
}

func (w *Writer) blockWritten() {
	w.props.NumDataBlocks++
	w.out.pad()
	w.props.DataSize = w.out.off
}

// EstimatedSize is the size in bytes that the file would have if finished now.
func (w *Writer) EstimatedSize() int64 {
	n := int64(w.out.written()) + int64(w.data.size())
	if w.hold != nil {
		n += w.hold.bytes
	}
	if w.pipe != nil {
		n += w.pipe.flying.Load()
	}
	return n
}

// Finish writes filter, index, meta blocks and footer, syncs and closes the file.
func (w *Writer) Finish() (table.Summary, error) {
	if w.err == nil && w.finished {
		return table.Summary{}, errors.New("blocktable: Finish was called before")
	}
	if w.err == nil {
		w.err = w.finish()
	}
	w.finished = true
	w.stopPipeline()
	closeErr := w.out.close()
	if w.err != nil {
		return table.Summary{}, w.err
	}
	if closeErr != nil {
		w.err = closeErr
		return table.Summary{}, closeErr
	}
	return w.summary(), nil
}

// Abandon closes the file without finishing it.
func (w *Writer) Abandon() {
	w.stopPipeline()
	if !w.finished {
		w.finished = true
		w.out.close()
	}
	if w.err == nil {
		w.err = errors.New("blocktable: the table was abandoned")
	}
}

func (w *Writer) finish() error {
	w.flush(nil)
	if w.err == nil && w.hold != nil {
		w.releaseHeld()
	}
	if w.err == nil && w.pipe != nil {
		w.err = w.pipe.drain()
	}
	if w.err != nil {
		return w.err
	}
	w.tailStart = w.out.off
	var metas []block.MetaEntry
	if err := w.writeFilter(&metas); err != nil {
		return err
	}
	indexHandle, err := w.writeIndex(&metas)
	if err != nil {
		return err
	}
	if len(w.out.dict) > 0 {
		if err := w.writeMeta(&metas, block.MetaCompressionDict, w.out.dict); err != nil {
			return err
		}
	}
	if !w.rdel.Empty() {
		if err := w.writeMeta(&metas, block.MetaRangeDel, w.rdel.Finish()); err != nil {
			return err
		}
	}
	w.fillProperties()
	if err := w.writeMeta(&metas, block.MetaProperties, block.EncodeProperties(&w.props)); err != nil {
		return err
	}
	if w.o.FormatVersion >= 6 {
		metas = append(metas, block.MetaEntry{Name: block.MetaIndexBlock, Handle: indexHandle})
	}
	metaHandle, err := w.out.writeBlock(block.EncodeMetaIndex(metas), blockMeta)
	if err != nil {
		return err
	}
	f := w.out.footer
	f.MetaIndex = metaHandle
	if w.o.FormatVersion < 6 {
		f.Index = indexHandle
	}
	w.out.append(f.Append(nil))
	return w.out.sync()
}

func (w *Writer) writeMeta(metas *[]block.MetaEntry, name string, contents []byte) error {
	h, err := w.out.writeBlock(contents, blockMeta)
	*metas = append(*metas, block.MetaEntry{Name: name, Handle: h})
	return err
}

func (w *Writer) writeFilter(metas *[]block.MetaEntry) error {
	if w.filter == nil {
		return nil
	}
	w.props.NumFilterEntries = 0
	entries := w.filter.entries()
	h, size, ok, err := w.filter.finish(&w.o, func(b []byte) (block.Handle, error) { return w.out.writeBlock(b, blockMeta) })
	if err != nil || !ok {
		return err
	}
	w.props.NumFilterEntries, w.props.FilterSize = entries, size
	name := block.MetaFullFilter
	if w.o.PartitionFilters {
		name = block.MetaPartitionedFilter
	}
	*metas = append(*metas, block.MetaEntry{Name: name + block.MetaFilterName, Handle: h})
	return nil
}

func (w *Writer) writeIndex(metas *[]block.MetaEntry) (block.Handle, error) {
	if p := w.index.prefixes; p != nil {
		p.flush()
		for _, m := range []struct {
			name string
			b    []byte
		}{{block.MetaHashIndexMetadata, p.metadata}, {block.MetaHashIndexPrefixes, p.prefixes}} {
			h, err := w.out.writeBlock(m.b, blockIndex)
			if err != nil {
				return h, err
			}
			*metas = append(*metas, block.MetaEntry{Name: m.name, Handle: h})
			w.index.size += uint64(len(m.b))
		}
	}
	return w.index.finish(func(b []byte) (block.Handle, error) { return w.out.writeBlock(b, blockIndex) })
}

// unknownFamily is the column family id of files made outside of a database.
const unknownFamily = math.MaxInt32

func (w *Writer) fillProperties() {
	p, id := &w.props, &w.o.Identity
	p.User = make(map[string][]byte)
	p.Present = make(map[string]bool)
	p.IndexSize = w.index.size + block.TrailerLen
	p.IndexPartitions, p.TopLevelIndexSize = w.index.partCount, w.index.topSize
	p.IndexKeyIsUserKey = flag(!w.index.sep.internal)
	p.IndexValueIsDelta = flag(w.o.deltaValues())
	p.OriginalFileNumber = id.FileNumber
	p.ColumnFamilyID, p.ColumnFamilyName = uint64(id.ColumnFamilyID), id.ColumnFamilyName
	if id.ExternalFile && id.ColumnFamilyName == "" {
		p.ColumnFamilyID = unknownFamily
	}
	p.CreationTime, p.OldestKeyTime, p.FileCreationTime = id.CreationTime, id.OldestKeyTime, id.FileCreationTime
	p.DBID, p.DBSessionID, p.DBHostID = id.DBID, id.DBSessionID, id.DBHostID
	p.FilterPolicyName = w.o.FilterPolicy.name()
	if w.o.SkipFilter {
		p.FilterPolicyName = ""
	}
	p.ComparatorName = w.o.Order.Comparator().Name()
	p.MergeOperatorName = orNullptr(id.MergeOperator)
	p.PrefixExtractorName = w.o.Extractor.Name()
	p.CompressionName = w.out.compressionName()
	p.CompressionOptions = w.o.CompressionOptions.String()
	p.User[block.PropIndexType] = binary.LittleEndian.AppendUint32(nil, uint32(w.o.IndexType))
	p.User[block.PropWholeKeyFiltering] = digit(w.o.WholeKeyFiltering)
	p.User[block.PropPrefixFiltering] = digit(w.o.Extractor != nil)
	var names []string
	for _, c := range w.o.Collectors {
		names = append(names, c.Name())
		maps.Copy(p.User, c.Finish())
	}
	p.PropertyCollectorNames = "[" + strings.Join(names, ",") + "]"
	if id.ExternalFile {
		p.User[block.PropExternalVersion] = []byte{2, 0, 0, 0}
		p.User[block.PropGlobalSeqno] = make([]byte, 8)
	}
	if w.timeLen > 0 && w.bounds.hasTime {
		p.User[block.PropTimestampMin] = w.bounds.timeMin
		p.User[block.PropTimestampMax] = w.bounds.timeMax
	}
	if w.o.FormatVersion >= 6 {
		w.newerProperties()
	}
}

// newerProperties are those that RocksDB 7 does not know, written with the
// formats that it cannot read.
func (w *Writer) newerProperties() {
	p := &w.props
	p.TailStartOffset = w.tailStart
	p.NewestKeyTime = w.o.Identity.NewestKeyTime
	p.KeySmallestSeqno, p.KeyLargestSeqno = w.bounds.seqs()
	for _, name := range []string{"rocksdb.tail.start.offset", "rocksdb.key.smallest.seqno", "rocksdb.key.largest.seqno", "rocksdb.newest.key.time"} {
		p.Present[name] = true
	}
	p.User[block.PropDataRestart] = binary.AppendUvarint(nil, uint64(w.o.BlockRestartInterval))
	p.User[block.PropIndexRestart] = binary.AppendUvarint(nil, uint64(w.o.IndexBlockRestartInterval))
	p.User[block.PropUniformBlocks] = []byte{0}
	p.FormatVersion = uint64(w.o.FormatVersion) // older RocksDB always wrote 0
	p.CompressionOptions += fmt.Sprintf("max_compressed_bytes_per_kb=896; checksum=0; _type=%d; ", w.o.Compression)
	if !w.o.PartitionFilters { // ours end with the index's partitions
		p.User[block.PropDecoupledFilters] = []byte("1")
	}
	if w.out.rejected > 0 {
		p.User[block.PropBlocksRejected] = binary.AppendUvarint(nil, w.out.rejected)
	}
	if w.o.Compression == compress.None && p.NumDataBlocks > 0 {
		p.User[block.PropBlocksBypassed] = binary.AppendUvarint(nil, p.NumDataBlocks)
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func digit(b bool) []byte { return []byte{'0' + byte(flag(b))} }

func orNullptr(s string) string {
	if s == "" {
		return "nullptr"
	}
	return s
}

// Properties returns what Finish wrote as the properties, owned by the Writer.
func (w *Writer) Properties() *table.Properties { return &w.props }

// CompressedBlocks counts the blocks of data and index that were compressed, and those that were tried and
// stored as they are, since little was saved. Known once Finish has returned.
func (w *Writer) CompressedBlocks() (compressed, not uint64) { return w.out.packed, w.out.unpacked }

func (w *Writer) summary() table.Summary {
	s := w.bounds.summary()
	s.Size = int64(w.out.off)
	s.Entries = w.props.NumEntries
	s.Deletes = w.props.NumDeletions
	s.Tombstones = w.props.NumRangeDeletions
	s.RawKeySize, s.RawValueSize = w.props.RawKeySize, w.props.RawValueSize
	s.TailSize = int64(w.out.off - w.tailStart)
	return s
}

package flatrock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
)

// SstFileReaderOptions says how an SstFileReader reads. Nil means all zero.
type SstFileReaderOptions struct {
	// ColumnFamily holds what the file does not: the comparator if it is not one of the
	// built-in ones (plain tables name none: for them, if it is not Bytewise), the merge operator,
	// the prefix extractor if it is not one of RocksDB's, and of Table what concerns reads. Nil is
	// enough for most files.
	ColumnFamily *ColumnFamilyOptions
	// BlockCacheSize is the capacity in bytes of a cache for the blocks of a block-based
	// file. Zero means none: each read takes its block from the file.
	BlockCacheSize int64
	// AllowMmapReads reads a block-based file through a mapping. Plain tables always are.
	AllowMmapReads bool
	// MaxDecompressedSize is the largest block in bytes that is decompressed; see Options.
	// Zero means what the format allows, 2 GiB.
	MaxDecompressedSize int64
	// FS is where the file lies. Nil means the operating system (mmapfs.OS).
	FS mmapfs.FS
}

// SstFileReader reads one table file of either format without its database: files of
// an SstFileWriter, or table files in a database's directory, RocksDB's included. Safe for
// concurrent use, apart from Close. RocksDB: SstFileReader.
type SstFileReader struct {
	handle tableHandle
	order  keys.Order
	opts   *ColumnFamilyOptions
	size   int64
	cache  *blockcache.Cache // nil for none
}

// TableProperties is what a table file says about itself. RocksDB: TableProperties.
type TableProperties = table.Properties

// EntryKind is what an entry of a table file does. RocksDB: EntryType.
type EntryKind = keys.Kind

// The kinds of entries in table files.
const (
	EntryPut          = keys.KindValue
	EntryDelete       = keys.KindDelete
	EntrySingleDelete = keys.KindSingleDelete
	EntryMerge        = keys.KindMerge
	EntryRangeDelete  = keys.KindRangeDelete
	EntryBlobIndex    = keys.KindBlobIndex
	EntryWideColumns  = keys.KindEntity
	EntryTimedPut     = keys.KindValuePreferredSeqno
	EntryTimedDelete  = keys.KindDeleteWithTimestamp
)

// SstEntry is an entry as it is stored. The slices are borrowed until the next one.
type SstEntry struct {
	Key []byte
	// Seq is the sequence number: of an ingested file, the one it was given.
	Seq  uint64
	Kind EntryKind
	// Value is as stored: the end (exclusive) of a range delete, the encoded columns of an entity.
	Value []byte
}

// OpenSstFile opens the table file at path, of the format that its footer says. Errors
// match ErrCorruption or ErrInvalidArgument, or come from the file system.
func OpenSstFile(path string, o *SstFileReaderOptions) (*SstFileReader, error) {
	if o == nil {
		o = &SstFileReaderOptions{}
	}
	given := o.ColumnFamily
	if given == nil {
		given = &ColumnFamilyOptions{}
	}
	r := &SstFileReader{opts: given.withDefaults()}
	err := r.open(path, o)
	if wrong := new(blocktable.ComparatorError); errors.As(err, &wrong) {
		if given.Comparator != nil || wrong.Written != ReverseBytewise.Name() {
			return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
		}
		r.opts.Comparator = ReverseBytewise
		err = r.open(path, o)
	}
	if err != nil {
		return nil, tableRefusal(err)
	}
	if ts := r.reader().Tombstones(); len(ts) > 0 {
		r.handle.tombs = rangedel.New(r.order, ts)
	}
	return r, nil
}

func (r *SstFileReader) open(path string, o *SstFileReaderOptions) error {
	fsys := o.FS
	if fsys == nil {
		fsys = mmapfs.OS
	}
	r.order = keys.NewOrder(r.opts.Comparator)
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	plain, err := r.peek(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if plain {
		return r.openPlain(f)
	}
	ro := blocktable.ReaderOptions{
		Order: r.order, Extractor: r.opts.PrefixExtractor,
		VerifyChecksums: true, Mmap: o.AllowMmapReads, CopyFromMapping: true,
		MaxDecompressed: o.MaxDecompressedSize,
		Protection:      r.opts.BlockProtectionBytesPerKey, NoReread: r.opts.BlockDamageFailsReads,
	}
	if o.BlockCacheSize > 0 && r.cache == nil {
		if r.cache, err = blockcache.New(blockcache.Options{Capacity: o.BlockCacheSize}); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	ro.Cache = r.cache
	r.handle.block, err = blocktable.Open(f, ro)
	if err != nil && r.cache != nil {
		r.cache.Close()
		r.cache = nil
	}
	return err
}

// peek reads the format from the footer.
func (r *SstFileReader) peek(f mmapfs.File) (plain bool, err error) {
	if r.size, err = f.Size(); err != nil {
		return false, err
	}
	tail := make([]byte, min(r.size, block.FooterLen))
	if _, err := f.ReadAt(tail, r.size-int64(len(tail))); err != nil {
		return false, fmt.Errorf("reading the footer of %s: %w", f.Name(), err)
	}
	foot, err := block.DecodeFooter(filepath.Base(f.Name()), tail, r.size)
	return foot.Plain(), err
}

// openPlain opens a plain table with the options of the family if it has that
// format, else with what the file says.
func (r *SstFileReader) openPlain(f mmapfs.File) (err error) {
	po, ok := r.opts.Table.(PlainTableOptions)
	if !ok {
		po = PlainTableOptions{Memory: MemoryNone}
		if r.opts.PrefixExtractor == nil {
			po.HashTableRatio = TotalOrder
		}
	}
	r.handle.plain, err = plaintable.Open(f, plaintable.ReaderOptions{
		Options: po.format(), Order: r.order, Extractor: r.opts.PrefixExtractor,
		BloomLocality: r.opts.BloomLocality, Memory: po.Memory.policy(),
		AnyExtractor: r.opts.PrefixExtractor == nil,
	})
	return err
}

func (r *SstFileReader) reader() table.Reader { return r.handle.reader() }

// Properties returns what the file says about itself, owned by the reader.
func (r *SstFileReader) Properties() *TableProperties { return r.reader().Properties() }

// Size is the size of the file in bytes.
func (r *SstFileReader) Size() int64 { return r.size }

// Get appends the value of key to dst, as DB.Get does. Merge operands without a
// value below them in the file are combined as if there were none.
func (r *SstFileReader) Get(ro *ReadOptions, key, dst []byte) (_ []byte, err error) {
	if r.handle.canFault() {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	look := keys.Lookup{UserKey: key, Seq: sstSeq(ro)}
	ro.apply(&look)
	r.opts.PrefixExtractor.Prepare(&look)
	var pin table.Pin
	value, trailer, ok, err := r.handle.get(&look, &pin)
	defer pin.Release()
	switch kind := keys.KindOf(trailer); {
	case err != nil:
		return dst, err
	case !ok || isDelete(kind):
		return dst, ErrNotFound
	case kind == keys.KindMerge:
		return r.getMerged(ro, key, dst)
	default:
		v, err := resolveValue(key, value, kind)
		if err != nil {
			return dst, err
		}
		return append(dst, v...), nil
	}
}

func (r *SstFileReader) getMerged(ro *ReadOptions, key, dst []byte) ([]byte, error) {
	if r.opts.MergeOperator == nil {
		return dst, fmt.Errorf("%w: key %q has merge operands, and the options have no MergeOperator", ErrInvalidArgument, key)
	}
	it, err := r.NewIterator(ro)
	if err != nil {
		return dst, err
	}
	found := it.SeekGE(key) && r.order.Compare(it.Key(), key) == 0
	if found {
		dst = append(dst, it.Value()...)
	}
	if err := it.Close(); err != nil || found {
		return dst, err
	}
	return dst, ErrNotFound
}

// sstSeq is what a read of a file may see: all of it, but for a snapshot.
func sstSeq(ro *ReadOptions) uint64 {
	if ro != nil && ro.Snapshot != nil {
		return ro.Snapshot.seq
	}
	return keys.MaxSeq
}

// NewIterator returns an iterator over the keys of the file that a user would see if
// there was nothing else: deletes hide older entries, merge operands are
// combined. It must be closed before the reader.
func (r *SstFileReader) NewIterator(ro *ReadOptions) (*Iterator, error) {
	if ro == nil {
		ro = &ReadOptions{}
	}
	it := iteratorPool.Get().(*iteratorState)
	it.state, it.err, it.guarded, it.pinned = nil, nil, r.handle.canFault(), ro.PinData
	it.order, it.ro = r.order, *ro
	if err := it.openFile(r, ro); err != nil {
		return nil, errors.Join(err, it.close())
	}
	return &Iterator{it}, nil
}

func (it *iteratorState) openFile(r *SstFileReader, ro *ReadOptions) (err error) {
	if it.guarded {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	it.sources = append(it.sources[:0], r.reader().NewIterator(tableIterOptions(ro)))
	it.tombs, it.levels = it.tombs[:0], it.levels[:0]
	if r.handle.tombs != nil {
		it.tombs = append(it.tombs, iterator.SourceTombstones{Source: 1, List: r.handle.tombs})
	}
	o := iterator.Options{
		Order: r.order, Seq: sstSeq(ro), Lower: ro.LowerBound, Upper: ro.UpperBound,
		Operator: r.opts.MergeOperator, Tombstones: it.tombs,
		MaxSkipped: ro.MaxSkippableInternalKeys, AutoPrefix: ro.AutoPrefixMode && !ro.PrefixSameAsStart,
	}
	if e := r.opts.PrefixExtractor; e != nil && (!ro.TotalOrderSeek || ro.PrefixSameAsStart) {
		o.Prefixer, o.PrefixSameAsStart = e, ro.PrefixSameAsStart
	}
	it.user.Reset(&o, it.sources)
	return nil
}

// Entries walks everything that the file holds, as it is stored: the point entries
// in order, newest version first, then the range deletes in the order of the file.
// It ends after the first error, which comes with the zero entry.
func (r *SstFileReader) Entries() iter.Seq2[SstEntry, error] {
	return func(yield func(SstEntry, error) bool) {
		w := sstWalk{guarded: r.handle.canFault()}
		w.step(func() bool {
			w.it = r.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true})
			return w.it.First()
		})
		defer func() {
			if w.it != nil {
				w.it.Close()
			}
		}()
		for ; w.valid; w.step(w.it.Next) {
			if !yield(w.entry, nil) {
				return
			}
		}
		if w.err != nil {
			yield(SstEntry{}, w.err)
			return
		}
		for _, t := range r.reader().Tombstones() {
			if !yield(SstEntry{t.Start, t.Seq, EntryRangeDelete, t.End}, nil) {
				return
			}
		}
	}
}

// sstWalk steps through a file. What lies in a mapping is copied under the guard,
// so that the caller cannot meet a fault.
type sstWalk struct {
	it      table.Iterator
	guarded bool
	valid   bool
	entry   SstEntry
	err     error

	key, value []byte
}

func (w *sstWalk) step(move func() bool) {
	w.valid = false
	if w.guarded {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &w.err)
	}
	if !move() {
		w.err = w.it.Err()
		return
	}
	t := w.it.Trailer()
	w.entry = SstEntry{w.it.UserKey(), keys.Seq(t), keys.KindOf(t), w.it.Value()}
	if w.guarded {
		w.key, w.value = append(w.key[:0], w.entry.Key...), append(w.value[:0], w.entry.Value...)
		w.entry.Key, w.entry.Value = w.key, w.value
	}
	w.valid = true
}

// VerifyChecksums reads the whole file and checks every checksum in it. Errors
// match ErrCorruption and name the file and the offset.
func (r *SstFileReader) VerifyChecksums() error { return r.verify(context.Background()) }

// verify is VerifyChecksums until the context ends.
func (r *SstFileReader) verify(ctx context.Context) error { return r.reader().VerifyChecksums(ctx) }

// Close closes the file. The caller has closed all iterators.
func (r *SstFileReader) Close() error {
	err := r.handle.close()
	if r.cache != nil {
		r.cache.Close()
		r.cache = nil
	}
	return err
}

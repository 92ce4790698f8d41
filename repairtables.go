package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// repairTable is a table file that can be read whole.
type repairTable struct {
	path     string
	meta     *manifest.FileMetadata
	props    *table.Properties
	plain    bool
	external bool // made by an SstFileWriter
	entries  uint64
	family   *repairFamily

	comparator Comparator // nil: what the file says, or Bytewise
	level      int
}

// inspectTables reads every table file whole, and sets aside what is damaged.
func (r *repairer) inspectTables() error {
	numbers := r.files[manifest.KindTable]
	slices.Sort(numbers)
	paths, sizes := make([]string, len(numbers)), make([]int64, len(numbers))
	for i, n := range numbers {
		paths[i] = manifest.TableName(r.dir, n)
		info, err := r.fs.Stat(paths[i])
		if errors.Is(err, fs.ErrNotExist) {
			paths[i] = manifest.OldTableName(r.dir, n)
			info, err = r.fs.Stat(paths[i])
		}
		if err == nil { // reading it will tell
			sizes[i] = info.Size()
			r.total += sizes[i]
		}
	}
	for i, n := range numbers {
		path := paths[i]
		if err := r.begin(path); err != nil {
			return err
		}
		t, err := r.inspect(path, n)
		r.done += sizes[i]
		switch {
		case errors.Is(err, ErrCorruption), errors.Is(err, ErrNotSupported):
			r.setAside(filepath.Base(path), err.Error())
		case err != nil:
			return err
		case r.history.deleted[n]:
			r.setAside(filepath.Base(path), "the MANIFEST says that it is obsolete")
		default:
			r.tables = append(r.tables, t)
		}
	}
	return nil
}

// begin tells which table file comes next, unless the context is done.
func (r *repairer) begin(path string) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if r.tell != nil {
		r.tell(filepath.Base(path), r.done, r.total)
	}
	return nil
}

// comparators are those that a table may have been written with: nil is what the file says.
func (r *repairer) comparators() []Comparator {
	list := []Comparator{nil, ReverseBytewise}
	if o := r.db.opts.ColumnFamily; o != nil && o.Comparator != nil {
		list = append(list, o.Comparator)
	}
	for _, d := range r.db.opts.ColumnFamilies {
		if d.Options != nil && d.Options.Comparator != nil {
			list = append(list, d.Options.Comparator)
		}
	}
	return list
}

func (r *repairer) openAs(path string, c Comparator) (*SstFileReader, error) {
	return OpenSstFile(path, &SstFileReaderOptions{FS: r.fs, ColumnFamily: &ColumnFamilyOptions{Comparator: c}})
}

// inspect learns what a MANIFEST says of the file, from its entries. Plain tables do not name
// their comparator: it is one by which their rows are in order.
func (r *repairer) inspect(path string, number uint64) (*repairTable, error) {
	var first error
	for _, c := range r.comparators() {
		t, err := r.inspectAs(path, number, c)
		if err == nil {
			t.comparator = c
			return t, nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, ErrCorruption) && !errors.Is(err, ErrInvalidArgument) {
			break
		}
	}
	return nil, fmt.Errorf("%s: %w", filepath.Base(path), first)
}

func (r *repairer) inspectAs(path string, number uint64, c Comparator) (t *repairTable, err error) {
	s, err := r.openAs(path, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p := s.Properties()
	own := *p
	t = &repairTable{path: path, props: &own, plain: s.handle.plain != nil, external: len(p.User[block.PropExternalVersion]) > 0, level: -1,
		meta: &manifest.FileMetadata{Number: number, Size: uint64(s.Size()), SmallestSeq: keys.MaxSeq,
			OldestAncestorTime: p.CreationTime, FileCreationTime: p.FileCreationTime}}
	if id, ok := manifest.UniqueID(p.DBID, p.DBSessionID, p.OriginalFileNumber); ok {
		t.meta.UniqueID = id[:]
	}
	if p.TailStartOffset > 0 && p.TailStartOffset < uint64(s.Size()) {
		t.meta.TailSize = uint64(s.Size()) - p.TailStartOffset
	}
	err = guarded(func() error {
		if err := s.verify(r.ctx); err != nil {
			return err
		}
		return t.walk(r.ctx, s)
	})
	if err != nil {
		return nil, err
	}
	if h := r.history.files[number]; h != nil {
		if h.Size != t.meta.Size {
			return nil, keys.Corruptf(filepath.Base(path), int64(t.meta.Size), "the MANIFEST expects %d bytes, and the file has %d", h.Size, t.meta.Size)
		}
		t.meta = h
	}
	return t, nil
}

// walk takes the bounds of all entries.
func (t *repairTable) walk(ctx context.Context, s *SstFileReader) error {
	m, o := t.meta, s.order
	tombs := s.reader().Tombstones()
	grow := func(key []byte, trailer uint64, endOnly bool) {
		if !endOnly && (m.SmallestKey == nil || o.CompareInternal(key, trailer, m.SmallestKey, m.SmallestTrailer) < 0) {
			m.SmallestKey, m.SmallestTrailer = append([]byte{}, key...), trailer
		}
		if m.LargestKey == nil || o.CompareInternal(key, trailer, m.LargestKey, m.LargestTrailer) > 0 {
			m.LargestKey, m.LargestTrailer = append([]byte{}, key...), trailer
		}
	}
	seen := func(seq uint64) {
		m.SmallestSeq, m.LargestSeq = min(m.SmallestSeq, seq), max(m.LargestSeq, seq)
		t.entries++
	}
	it := s.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true, Caller: table.CallerRepair})
	defer it.Close()
	var last []byte
	var lastTrailer uint64
	for ok := it.First(); ok; ok = it.Next() {
		key, trailer := it.UserKey(), it.Trailer()
		if t.entries == 0 {
			grow(key, trailer, false)
		} else if !t.plain && o.CompareInternal(last, lastTrailer, key, trailer) >= 0 {
			return keys.Corruptf(filepath.Base(t.path), -1, "entry %d is not above the one before it", t.entries)
		}
		if seen(keys.Seq(trailer)); t.entries%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		last, lastTrailer = append(last[:0], key...), trailer
		if keys.KindOf(trailer) == keys.KindBlobIndex {
			i, err := blob.DecodeIndex(it.Value())
			if err != nil {
				return keys.Corruptf(filepath.Base(t.path), -1, "entry %d: %v", t.entries, err)
			}
			if i.Kind != blob.Inlined && (m.OldestBlobNumber == 0 || i.File < m.OldestBlobNumber) {
				m.OldestBlobNumber = i.File
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if t.entries > 0 {
		grow(last, lastTrailer, false)
	}
	for _, d := range tombs {
		seen(d.Seq)
		grow(d.Start, keys.Pack(d.Seq, keys.KindRangeDelete), false)
		grow(d.End, keys.Pack(keys.MaxSeq, keys.KindRangeDelete), true)
	}
	if t.entries == 0 {
		return keys.Corruptf(filepath.Base(t.path), -1, "there is no entry in it")
	}
	return nil
}

// inspectBlobs reads the blob files that a MANIFEST must name.
func (r *repairer) inspectBlobs() error {
	r.blobs = map[uint32][]manifest.BlobAddition{}
	if r.report.LevelsKept {
		return nil
	}
	for _, n := range r.files[manifest.KindBlob] {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		path := manifest.BlobName(r.dir, n)
		f, err := r.fs.Open(path)
		if err != nil {
			return err
		}
		size, err := f.Size()
		if err != nil {
			return errors.Join(err, f.Close())
		}
		b, err := blob.Open(f)
		if err == nil {
			b.Limit(r.db.opts.MaxDecompressedSize)
			a := manifest.BlobAddition{Number: n, Bytes: uint64(max(size-62, 0))} // without header and footer
			err = b.Each(func(blob.Record) error {
				a.Count++
				return r.ctx.Err()
			})
			if err == nil {
				r.blobs[b.Family()] = append(r.blobs[b.Family()], a)
			}
			err = errors.Join(err, b.Close())
		}
		switch {
		case errors.Is(err, ErrCorruption):
			r.setAside(filepath.Base(path), err.Error())
		case err != nil:
			return err
		}
	}
	return nil
}

// derivedOptions are what tables say of their family's options.
func derivedOptions(tables []*repairTable) *ColumnFamilyOptions {
	o := &ColumnFamilyOptions{}
	for _, t := range tables { // the newest file wins
		p := t.props
		if p.ComparatorName == ReverseBytewise.Name() {
			o.Comparator = ReverseBytewise
		}
		if op, err := ParseMergeOperator(p.MergeOperatorName); err == nil && op != nil {
			o.MergeOperator = op
		}
		o.PrefixExtractor = nil
		if e, err := prefixhash.Parse(p.PrefixExtractorName); err == nil {
			o.PrefixExtractor = e
		}
		if !t.plain {
			o.Table = nil
			continue
		}
		po := PlainTableOptions{}
		if p.FixedKeyLen > 0 && p.FixedKeyLen < 1<<32-1 {
			po.UserKeyLen = uint32(p.FixedKeyLen)
		}
		if o.PrefixExtractor == nil {
			po.HashTableRatio = TotalOrder
		}
		if e := p.User[block.PropPlainEncoding]; len(e) == 4 && e[0] == 1 {
			po.EncodingType = PrefixEncoding
		}
		o.Table = po
	}
	return o
}

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
)

// tableFile is an open table file of either format, read without its database:
// nothing is known but what the file says.
type tableFile struct {
	table.Reader
	path     string
	name     string // that a person knows it by
	footer   block.Footer
	metas    []block.MetaEntry
	order    keys.Order
	seekable bool
}

// entry is an internal entry. Key and value are borrowed for the call that gets it.
type entry struct {
	key     []byte
	trailer uint64
	value   []byte
}

// namedOrder stands for a comparator that this program does not have. A walk from
// the first entry to the last compares nothing; seeks take the order for bytewise.
type namedOrder struct {
	keys.Comparator
	name string
}

func (o namedOrder) Name() string { return o.name }

func orderNamed(name string) keys.Order {
	switch name {
	case "", keys.Bytewise.Name():
		return keys.NewOrder(keys.Bytewise)
	case keys.ReverseBytewise.Name():
		return keys.NewOrder(keys.ReverseBytewise)
	}
	return keys.NewOrder(namedOrder{keys.Bytewise, name})
}

// tableOptions are what a database knows of a file, all zero for a file alone, and a limit.
type tableOptions struct {
	largestSeq uint64 // of ingested files, by the MANIFEST
	inDatabase bool
	comparator string // of the family, for files that do not name it

	maxDecompressed int64 // of --max_decompressed_size
}

// openTableFile opens the table at path, of the format that its footer says.
func openTableFile(path string, o tableOptions) (*tableFile, error) {
	f, err := mmapfs.OS.Open(path)
	if err != nil {
		return nil, err
	}
	t := &tableFile{path: path, name: path}
	comparator, err := t.peek(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if comparator == "" {
		comparator = o.comparator
	}
	t.order = orderNamed(comparator)
	if t.footer.Plain() {
		err = t.openPlain(f)
	} else {
		t.seekable = true
		t.Reader, err = blocktable.Open(f, blocktable.ReaderOptions{
			Order: t.order, VerifyChecksums: true, MaxDecompressed: o.maxDecompressed,
			ManifestLargestSeq: o.largestSeq, HasManifestLargestSeq: o.inDatabase,
		})
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// openPlain opens a plain table with its own prefix extractor if that is a built-in
// one, else for walks only.
func (t *tableFile) openPlain(f mmapfs.File) (err error) {
	o := plaintable.ReaderOptions{Options: plaintable.DefaultOptions(), Order: t.order}
	o.FullScanMode = true
	t.Reader, err = plaintable.Open(f, o)
	return err
}

// maxPeek bounds what peek reads at once: no properties are as large.
const maxPeek = 64 << 20

// peek decodes the footer and, without checksums, finds the comparator's name in
// the properties. Only a bad footer is an error: the rest is checked on opening.
func (t *tableFile) peek(f mmapfs.File) (comparator string, err error) {
	size, err := f.Size()
	if err != nil {
		return "", err
	}
	name := filepath.Base(t.path)
	tail := make([]byte, min(size, block.FooterLen))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return "", err
	}
	if t.footer, err = block.DecodeFooter(name, tail, size); err != nil {
		return "", err
	}
	read := func(h block.Handle) []byte {
		if end, ok := h.End(0); !ok || end > uint64(size) || h.Size > maxPeek {
			return nil
		}
		b := make([]byte, h.Size)
		if _, err := f.ReadAt(b, int64(h.Offset)); err != nil {
			return nil
		}
		return b
	}
	b := read(t.footer.MetaIndex)
	if t.metas, err = block.DecodeMetaIndex(name, int64(t.footer.MetaIndex.Offset), b); err != nil {
		return "", nil
	}
	h, ok := block.FindMeta(t.metas, block.MetaProperties)
	if !ok {
		h, ok = block.FindMeta(t.metas, block.MetaPropertiesOld)
	}
	if !ok {
		return "", nil
	}
	p, err := block.DecodeProperties(name, int64(h.Offset), read(h))
	if err != nil {
		return "", nil
	}
	return p.ComparatorName, nil
}

// format is sst_dump's name of the format.
func (t *tableFile) format() string {
	if t.footer.Plain() {
		return "plain table"
	}
	return "block-based"
}

// verify checks all checksums of the file, until the context ends.
func (t *tableFile) verify(ctx context.Context) (err error) {
	old := mmapfs.Guard() // plain tables are mapped
	defer mmapfs.Unguard(old, &err)
	return t.VerifyChecksums(ctx)
}

// errStop ends a walk early.
var errStop = errors.New("stop")

// each calls f with the point entries in file order, from the first whose user key
// is at or after from; nil for all. It stops at the first error of f, which it
// returns unless it is errStop.
func (t *tableFile) each(from []byte, f func(e entry) error) (err error) {
	old := mmapfs.Guard() // keys and values may lie in a mapping
	defer mmapfs.Unguard(old, &err)
	it := t.NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true})
	defer func() {
		if e := it.Close(); err == nil {
			err = e
		}
	}()
	ok := false
	if from == nil || !t.seekable {
		ok = it.First()
	} else {
		ok = it.SeekGE(from, keys.Pack(keys.MaxSeq, keys.KindSeek))
	}
	for ; ok; ok = it.Next() {
		if !t.seekable && from != nil && t.order.Compare(it.UserKey(), from) < 0 {
			continue
		}
		if err := f(entry{it.UserKey(), it.Trailer(), it.Value()}); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return it.Err()
}

// eachTombstone calls f with the range deletes of the file, in its order: an entry
// of kind RangeDelete from key up to, and without, value.
func (t *tableFile) eachTombstone(f func(e entry) error) error {
	for _, d := range t.Tombstones() {
		if err := f(entry{d.Start, keys.Pack(d.Seq, keys.KindRangeDelete), d.End}); err != nil {
			return err
		}
	}
	return nil
}

// fragments are the range deletes cut at each other's ends, newest first within a
// piece, as RocksDB lists them.
func (t *tableFile) fragments() (list []table.Tombstone) {
	all := slices.Clone(t.Tombstones())
	var ends [][]byte
	for _, x := range all {
		ends = append(ends, x.Start, x.End)
	}
	slices.SortFunc(ends, t.order.Compare)
	ends = slices.CompactFunc(ends, bytes.Equal)
	slices.SortStableFunc(all, func(a, b table.Tombstone) int { return t.order.Compare(a.Start, b.Start) })
	var open []table.Tombstone // those that reach beyond the start of the piece
	for i := 1; i < len(ends); i++ {
		start, end := ends[i-1], ends[i]
		open = slices.DeleteFunc(open, func(x table.Tombstone) bool { return t.order.Compare(x.End, start) <= 0 })
		for ; len(all) > 0 && t.order.Compare(all[0].Start, start) <= 0; all = all[1:] {
			if t.order.Compare(all[0].End, start) > 0 {
				open = append(open, all[0])
			}
		}
		slices.SortStableFunc(open, func(a, b table.Tombstone) int { return cmp.Compare(b.Seq, a.Seq) })
		for _, x := range open {
			list = append(list, table.Tombstone{Start: start, End: end, Seq: x.Seq})
		}
	}
	return list
}

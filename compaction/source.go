package compaction

import (
	"errors"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Source is one sorted run to be merged.
type Source struct {
	Iter table.Iterator
	// Name says what Iter stands on, for errors: the base name of a table file.
	Name func() string
}

// MemTableSource is a Source over a memtable.
func MemTableSource(it table.Iterator) Source {
	return Source{Iter: it, Name: func() string { return "memtable" }}
}

// FileSource is a Source over one file.
func FileSource(f *manifest.FileMetadata, it table.Iterator) Source {
	name := filepath.Base(manifest.TableName("", f.Number))
	return Source{Iter: it, Name: func() string { return name }}
}

// LevelSource is a Source over the files of a sorted level, which are opened one
// at a time. It closes them.
func LevelSource(order keys.Order, files []*manifest.FileMetadata, open func(*manifest.FileMetadata) (table.Iterator, error)) Source {
	level := iterator.NewLevel(order, &levelFiles{files, open})
	return Source{Iter: level, Name: func() string {
		if i := level.FileIndex(); i >= 0 {
			return filepath.Base(manifest.TableName("", files[i].Number))
		}
		return "level"
	}}
}

// levelFiles shows file metadata as iterator.Files.
type levelFiles struct {
	files []*manifest.FileMetadata
	open  func(*manifest.FileMetadata) (table.Iterator, error)
}

func (l *levelFiles) Len() int { return len(l.files) }

func (l *levelFiles) Smallest(i int) ([]byte, uint64) {
	return l.files[i].SmallestKey, l.files[i].SmallestTrailer
}

func (l *levelFiles) Largest(i int) ([]byte, uint64) {
	return l.files[i].LargestKey, l.files[i].LargestTrailer
}

func (l *levelFiles) Open(i int) (table.Iterator, error) { return l.open(l.files[i]) }

// checked walks a source and makes sure that its entries are in order and of
// kinds that a table may hold: what a compaction wrote cannot be undone, so it
// must not trust its inputs. It moves forward only.
type checked struct {
	Source
	order   keys.Order
	prev    []byte
	prevTr  uint64
	started bool
	err     error
}

func (c *checked) check(ok bool) bool {
	if !ok {
		return false
	}
	key, trailer := c.Iter.UserKey(), c.Iter.Trailer()
	if c.started && c.order.CompareInternal(c.prev, c.prevTr, key, trailer) >= 0 {
		c.err = keys.Corruptf(c.Name(), -1, "expected entries in order, found %s after %s",
			entryText(key, trailer), entryText(c.prev, c.prevTr))
		return false
	}
	if !keys.KindOf(trailer).ValidInTable() {
		c.err = keys.Corruptf(c.Name(), -1, "expected a kind of entry that a table holds, found %s", entryText(key, trailer))
		return false
	}
	c.prev, c.prevTr, c.started = append(c.prev[:0], key...), trailer, true
	return true
}

func (c *checked) SeekGE(key []byte, trailer uint64) bool {
	c.started, c.err = false, nil
	return c.check(c.Iter.SeekGE(key, trailer))
}

func (c *checked) First() bool {
	c.started, c.err = false, nil
	return c.check(c.Iter.First())
}

func (c *checked) Next() bool { return c.check(c.Iter.Next()) }

var errForwardOnly = errors.New("compaction: an input moves forward only")

func (c *checked) refuse() bool {
	c.err = errForwardOnly
	return false
}

func (c *checked) SeekPrefixGE(*keys.Lookup, uint64) bool { return c.refuse() }
func (c *checked) SeekLT([]byte, uint64) bool             { return c.refuse() }
func (c *checked) Last() bool                             { return c.refuse() }
func (c *checked) Prev() bool                             { return c.refuse() }

func (c *checked) Valid() bool     { return c.err == nil && c.Iter.Valid() }
func (c *checked) UserKey() []byte { return c.Iter.UserKey() }
func (c *checked) Trailer() uint64 { return c.Iter.Trailer() }
func (c *checked) Value() []byte   { return c.Iter.Value() }
func (c *checked) Close() error    { return c.Iter.Close() }

func (c *checked) Err() error {
	if c.err != nil {
		return c.err
	}
	return c.Iter.Err()
}

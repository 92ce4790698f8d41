package compaction

import (
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

package manifest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Builder applies edits of one column family to a version. The base version is
// not changed; a Builder is used once and by one goroutine.
//
// Errors say what an edit asks for that the version cannot do: delete a file
// that is not there, add one that is. In a MANIFEST that is corruption (Recover
// says where); in a running database it is a mistake of the caller.
type Builder struct {
	base *Version

	// added and deleted are relative to base: a file that came and went is in neither.
	added   []map[uint64]*FileMetadata // by level
	deleted []map[uint64]bool          // by level
	level   map[uint64]int             // of added files
	inBase  map[uint64]int             // levels of base files that an edit named

	blobs        map[uint64]*BlobFile // all once an edit touched one, owned by the Builder
	blobsTouched bool
	blobLinks    bool // table files that refer to blobs came or went
}

// NewBuilder starts from base, which must not be nil.
func NewBuilder(base *Version) *Builder {
	return &Builder{base: base, level: map[uint64]int{}, inBase: map[uint64]int{}}
}

// Apply adds an edit: deletions first, then additions. After an error the
// Builder is of no further use.
func (b *Builder) Apply(e *VersionEdit) error {
	b.locate(e)
	for _, d := range e.DeletedFiles {
		if err := b.deleteFile(d); err != nil {
			return err
		}
	}
	for _, n := range e.NewFiles {
		if err := b.addFile(n); err != nil {
			return err
		}
	}
	for i := range e.BlobAdditions {
		if err := b.addBlob(&e.BlobAdditions[i]); err != nil {
			return err
		}
	}
	for i := range e.BlobGarbages {
		if err := b.addGarbage(&e.BlobGarbages[i]); err != nil {
			return err
		}
	}
	return nil
}

// locate finds the base levels of all files that e names, in one pass: an index
// by number would have to be built anew for every version.
func (b *Builder) locate(e *VersionEdit) {
	if b.base.files == 0 || len(e.DeletedFiles)+len(e.NewFiles) == 0 {
		return
	}
	named := make(map[uint64]bool, len(e.DeletedFiles)+len(e.NewFiles))
	for _, d := range e.DeletedFiles {
		named[d.Number] = true
	}
	for _, n := range e.NewFiles {
		named[n.Meta.Number] = true
	}
	for level, files := range b.base.Levels {
		for _, f := range files {
			if named[f.Number] {
				b.inBase[f.Number] = level
			}
		}
	}
}

// where tells the level at which a file is now.
func (b *Builder) where(number uint64) (level int, ok bool) {
	if level, ok = b.level[number]; ok {
		return level, true
	}
	level, ok = b.inBase[number]
	if ok && level < len(b.deleted) && b.deleted[level][number] {
		return 0, false
	}
	return level, ok
}

func (b *Builder) deleteFile(d DeletedFile) error {
	level, ok := b.where(d.Number)
	if !ok {
		return fmt.Errorf("expected file %d at L%d to delete, found no such file", d.Number, d.Level)
	}
	if level != d.Level {
		return fmt.Errorf("expected file %d at L%d to delete, found it at L%d", d.Number, d.Level, level)
	}
	if _, added := b.level[d.Number]; added {
		b.blobLinks = b.blobLinks || b.added[level][d.Number].OldestBlobNumber != 0
		delete(b.level, d.Number)
		delete(b.added[level], d.Number)
		return nil
	}
	b.grow(d.Level)
	b.deleted[d.Level][d.Number] = true
	b.blobLinks = b.blobLinks || len(b.base.Blobs) > 0
	return nil
}

func (b *Builder) addFile(n NewFile) error {
	if n.Level < 0 || n.Level >= MaxLevels {
		return fmt.Errorf("expected a level below %d for file %d, found %d", MaxLevels, n.Meta.Number, n.Level)
	}
	if level, ok := b.where(n.Meta.Number); ok {
		return fmt.Errorf("expected file %d to be new at L%d, found it at L%d", n.Meta.Number, n.Level, level)
	}
	b.grow(n.Level)
	b.added[n.Level][n.Meta.Number] = n.Meta
	b.level[n.Meta.Number] = n.Level
	b.blobLinks = b.blobLinks || n.Meta.OldestBlobNumber != 0
	return nil
}

func (b *Builder) grow(level int) {
	for len(b.added) <= level {
		b.added = append(b.added, map[uint64]*FileMetadata{})
		b.deleted = append(b.deleted, map[uint64]bool{})
	}
}

// touchBlobs copies the blob files of base before the first change.
func (b *Builder) touchBlobs() {
	if b.blobs != nil {
		return
	}
	b.blobs = make(map[uint64]*BlobFile, len(b.base.Blobs)+1)
	for _, f := range b.base.Blobs {
		c := *f
		b.blobs[f.Number] = &c
	}
}

func (b *Builder) addBlob(a *BlobAddition) error {
	b.touchBlobs()
	if b.blobs[a.Number] != nil {
		return fmt.Errorf("expected blob file %d to be new, found it already there", a.Number)
	}
	b.blobs[a.Number] = &BlobFile{BlobAddition: *a}
	b.blobsTouched = true
	return nil
}

func (b *Builder) addGarbage(g *BlobGarbage) error {
	b.touchBlobs()
	f := b.blobs[g.Number]
	if f == nil {
		return fmt.Errorf("expected blob file %d for garbage, found no such file", g.Number)
	}
	if g.Count > f.Count-f.GarbageCount || g.Bytes > f.Bytes-f.GarbageBytes {
		return fmt.Errorf("expected at most %d blobs and %d bytes of further garbage in blob file %d, found %d and %d",
			f.Count-f.GarbageCount, f.Bytes-f.GarbageBytes, g.Number, g.Count, g.Bytes)
	}
	f.GarbageCount += g.Count
	f.GarbageBytes += g.Bytes
	b.blobsTouched = true
	return nil
}

// Build makes the new version and checks V1 and V2 for the levels that changed.
// Levels without a change are shared with the base.
func (b *Builder) Build() (*Version, error) {
	base := b.base
	v := &Version{order: base.order, Levels: slices.Clone(base.Levels), levelBytes: slices.Clone(base.levelBytes),
		index: slices.Clone(base.index)}
	for len(v.Levels) < len(b.added) {
		v.Levels = append(v.Levels, nil)
		v.levelBytes = append(v.levelBytes, 0)
		v.index = append(v.index, levelIndex{})
	}
	for level := range b.added {
		if len(b.added[level]) == 0 && len(b.deleted[level]) == 0 {
			continue
		}
		v.Levels[level] = b.buildLevel(v.Levels[level], level)
		if err := v.checkLevel(level); err != nil {
			return nil, err
		}
		if level > 0 {
			v.index[level] = newLevelIndex(v.order, v.Levels[level])
		}
		v.levelBytes[level] = 0
		for _, f := range v.Levels[level] {
			v.levelBytes[level] += f.Size
		}
	}
	for _, files := range v.Levels {
		v.files += len(files)
	}
	v.Blobs = b.buildBlobs(v)
	return v, nil
}

func (b *Builder) buildLevel(old []*FileMetadata, level int) []*FileMetadata {
	files := make([]*FileMetadata, 0, len(old)+len(b.added[level]))
	for _, f := range old {
		if !b.deleted[level][f.Number] {
			files = append(files, f)
		}
	}
	for _, f := range b.added[level] {
		files = append(files, f)
	}
	if level == 0 {
		slices.SortFunc(files, compareL0(allHaveEpochs(files)))
		return files
	}
	o := b.base.order
	slices.SortFunc(files, func(x, y *FileMetadata) int {
		return cmp.Or(o.CompareInternal(x.SmallestKey, x.SmallestTrailer, y.SmallestKey, y.SmallestTrailer),
			cmp.Compare(x.Number, y.Number))
	})
	return files
}

// buildBlobs counts the links and drops the blob files that no table file can
// refer to: those before the oldest that any refers to, and those that are
// garbage alone without a link.
func (b *Builder) buildBlobs(v *Version) []*BlobFile {
	if !b.blobsTouched && (!b.blobLinks || len(b.base.Blobs) == 0) {
		return b.base.Blobs
	}
	b.touchBlobs()
	for _, f := range b.blobs {
		f.Linked = nil
	}
	oldest := uint64(math.MaxUint64)
	for _, files := range v.Levels {
		for _, f := range files {
			if f.OldestBlobNumber == 0 {
				continue
			}
			oldest = min(oldest, f.OldestBlobNumber)
			if blob := b.blobs[f.OldestBlobNumber]; blob != nil {
				blob.Linked = append(blob.Linked, f.Number)
			}
		}
	}
	var live []*BlobFile
	for _, f := range b.blobs {
		if f.Number >= oldest && (len(f.Linked) > 0 || f.GarbageCount < f.Count) {
			slices.Sort(f.Linked)
			live = append(live, f)
		}
	}
	slices.SortFunc(live, func(x, y *BlobFile) int { return cmp.Compare(x.Number, y.Number) })
	return live
}

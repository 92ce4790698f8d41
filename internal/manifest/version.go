package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Version is the set of live files of a column family at one moment.
//
// Invariants, established by Builder.Build and checked by Check:
//
//	V1 L0 files are newest first: by epoch number if all have one, else by largest
//	   sequence number, smallest, and file number. Their ranges may overlap.
//	V2 In each deeper level files are in key order and overlap nowhere: the largest
//	   internal key of one sorts before the smallest of the next. (So two neighbours
//	   share a user key only if one of them ends before it, or if a file of an old
//	   RocksDB was cut between two entries of one user key.)
//	V3 A Version is never changed once published; versions share FileMetadata and
//	   whole levels.
//
// Safe for concurrent reading.
type Version struct {
	// Levels holds at least the number of levels that the family was opened with.
	Levels [][]*FileMetadata
	// Blobs are the live blob files, by number.
	Blobs []*BlobFile

	order      keys.Order
	levelBytes []uint64
	index      []levelIndex // by level; nothing for L0
	files      int
}

// NewVersion is an empty version. numLevels of zero means DefaultNumLevels.
func NewVersion(order keys.Order, numLevels int) *Version {
	if numLevels <= 0 {
		numLevels = DefaultNumLevels
	}
	return &Version{order: order, Levels: make([][]*FileMetadata, numLevels), levelBytes: make([]uint64, numLevels),
		index: make([]levelIndex, numLevels)}
}

// Truncated is v without the levels from n on.
func (v *Version) Truncated(n int) *Version {
	t := *v
	t.Levels, t.levelBytes, t.index = v.Levels[:n:n], v.levelBytes[:n:n], v.index[:n:n]
	t.files = 0
	for _, files := range t.Levels {
		t.files += len(files)
	}
	return &t
}

// Order is the order of user keys.
func (v *Version) Order() keys.Order { return v.order }

// NumLevels is len(v.Levels).
func (v *Version) NumLevels() int { return len(v.Levels) }

// NumFiles counts the table files of all levels.
func (v *Version) NumFiles() int { return v.files }

// LevelBytes is the sum of the file sizes of a level.
func (v *Version) LevelBytes(level int) uint64 {
	if level >= len(v.levelBytes) {
		return 0
	}
	return v.levelBytes[level]
}

// TotalBytes is the sum of all table file sizes.
func (v *Version) TotalBytes() (n uint64) {
	for _, b := range v.levelBytes {
		n += b
	}
	return n
}

// BlobBytes is the sum of the bytes of all blob records, and of those that are garbage.
func (v *Version) BlobBytes() (total, garbage uint64) {
	for _, b := range v.Blobs {
		total += b.Bytes
		garbage += b.GarbageBytes
	}
	return total, garbage
}

// HighestLevel is the deepest level that has a file, -1 when there is none.
func (v *Version) HighestLevel() int {
	for level := len(v.Levels) - 1; level >= 0; level-- {
		if len(v.Levels[level]) > 0 {
			return level
		}
	}
	return -1
}

// LargestSeq is the largest sequence number of any file.
func (v *Version) LargestSeq() (seq uint64) {
	for _, files := range v.Levels {
		for _, f := range files {
			seq = max(seq, f.LargestSeq)
		}
	}
	return seq
}

// MaxEpoch is the largest epoch number of any file.
func (v *Version) MaxEpoch() (epoch uint64) {
	for _, files := range v.Levels {
		for _, f := range files {
			epoch = max(epoch, f.EpochNumber)
		}
	}
	return epoch
}

// MinEpoch is the epoch number that a compaction of these files gives to its
// outputs: the smallest of its inputs', 0 without inputs.
func MinEpoch(files []*FileMetadata) (epoch uint64) {
	for i, f := range files {
		if i == 0 || f.EpochNumber < epoch {
			epoch = f.EpochNumber
		}
	}
	return epoch
}

// FindFile returns the one file of a level from 1 on that may hold the newest
// entry of userKey at or after trailer (keys.Lookup.Trailer), nil if no file
// may. No allocation.
func (v *Version) FindFile(level int, userKey []byte, trailer uint64) *FileMetadata {
	files := v.Levels[level]
	i := v.FindFileIndex(level, userKey, trailer)
	if i == len(files) || v.order.Compare(files[i].SmallestKey, userKey) > 0 {
		return nil
	}
	return files[i]
}

// FindFileIndex returns the index of the first file of a level from 1 on whose
// largest key is at or after (userKey, trailer), the number of files if there is
// none. That is where an iterator seeking to the key starts. No allocation.
func (v *Version) FindFileIndex(level int, userKey []byte, trailer uint64) int {
	files := v.Levels[level]
	lo, hi := 0, len(files)
	if x := &v.index[level]; len(x.next) > 0 {
		lo, hi = x.span(userKey)
	}
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if files[mid].endsBefore(v.order, userKey, trailer) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Overlapping appends to dst the files of a level that may hold a user key in
// [smallest, largest], in the level's order; nil leaves a side open. In L0 it
// looks at each file by itself; a compaction extends the range there on its own.
func (v *Version) Overlapping(dst []*FileMetadata, level int, smallest, largest []byte) []*FileMetadata {
	if level >= len(v.Levels) {
		return dst
	}
	files := v.Levels[level]
	if level > 0 {
		lo, hi := v.overlapSpan(files, smallest, largest)
		return append(dst, files[lo:hi]...)
	}
	for _, f := range files {
		if f.OverlapsRange(v.order, smallest, largest) {
			dst = append(dst, f)
		}
	}
	return dst
}

// HasOverlap reports whether Overlapping would find any file, without allocation.
func (v *Version) HasOverlap(level int, smallest, largest []byte) bool {
	if level >= len(v.Levels) {
		return false
	}
	files := v.Levels[level]
	if level > 0 {
		lo, hi := v.overlapSpan(files, smallest, largest)
		return lo < hi
	}
	for _, f := range files {
		if f.OverlapsRange(v.order, smallest, largest) {
			return true
		}
	}
	return false
}

// overlapSpan finds the files [lo, hi) of a sorted level in a range of user keys.
func (v *Version) overlapSpan(files []*FileMetadata, smallest, largest []byte) (lo, hi int) {
	lo, hi = 0, len(files)
	if smallest != nil {
		lo = sort.Search(len(files), func(i int) bool {
			c := v.order.Compare(files[i].LargestKey, smallest)
			return c > 0 || c == 0 && !files[i].LargestIsExclusive()
		})
	}
	if largest != nil {
		hi = lo + sort.Search(len(files)-lo, func(i int) bool {
			return v.order.Compare(files[lo+i].SmallestKey, largest) > 0
		})
	}
	return lo, hi
}

// compareL0 sorts newest first.
func compareL0(byEpoch bool) func(a, b *FileMetadata) int {
	return func(a, b *FileMetadata) int {
		if byEpoch && a.EpochNumber != b.EpochNumber {
			return cmp.Compare(b.EpochNumber, a.EpochNumber)
		}
		return cmp.Or(cmp.Compare(b.LargestSeq, a.LargestSeq), cmp.Compare(b.SmallestSeq, a.SmallestSeq),
			cmp.Compare(b.Number, a.Number))
	}
}

func allHaveEpochs(files []*FileMetadata) bool {
	return !slices.ContainsFunc(files, func(f *FileMetadata) bool { return f.EpochNumber == 0 })
}

// Check verifies V1 and V2. Build calls it for what it changed.
func (v *Version) Check() error {
	for level := range v.Levels {
		if err := v.checkLevel(level); err != nil {
			return err
		}
	}
	return nil
}

func (v *Version) checkLevel(level int) error {
	files := v.Levels[level]
	newer := compareL0(allHaveEpochs(files))
	for i, f := range files {
		if v.order.CompareInternal(f.SmallestKey, f.SmallestTrailer, f.LargestKey, f.LargestTrailer) > 0 {
			return fmt.Errorf("expected the bounds of file %d in order, found %s", f.Number, boundsText(f))
		}
		if i == 0 {
			continue
		}
		before := files[i-1]
		if level == 0 {
			if newer(before, f) >= 0 {
				return fmt.Errorf("expected L0 file %d to be newer than %d", before.Number, f.Number)
			}
			continue
		}
		if v.order.CompareInternal(before.LargestKey, before.LargestTrailer, f.SmallestKey, f.SmallestTrailer) >= 0 {
			return fmt.Errorf("expected no overlap in L%d, found file %d %s before file %d %s",
				level, before.Number, boundsText(before), f.Number, boundsText(f))
		}
	}
	return nil
}

func boundsText(f *FileMetadata) string {
	return fmt.Sprintf("[%s .. %s]", internalKeyText(f.SmallestKey, f.SmallestTrailer), internalKeyText(f.LargestKey, f.LargestTrailer))
}

// internalKeyText prints an internal key the way RocksDB's ldb --hex does.
func internalKeyText(userKey []byte, trailer uint64) string {
	return fmt.Sprintf("'%X' seq:%d, type:%d", userKey, keys.Seq(trailer), keys.KindOf(trailer))
}

package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// KeyRange is the keys from Start to End; nil stands for no bound. Whether End
// itself belongs to it, the operation says.
type KeyRange struct{ Start, End []byte }

// DeleteFilesInRanges removes the table files of the default column family that
// lie wholly within one of the ranges, without reading them: space comes back at
// once, before a DeleteRange over the same keys finds its way down. With includeEnd
// the ranges' Ends belong to them.
//
// It is a tool for keys that nobody reads any more. What lies in level 0, in
// memtables, in files that reach beyond the ranges or are being compacted stays, so
// that of a key in the ranges an older value may come to light, and snapshots lose
// what the files held. RocksDB: DeleteFilesInRanges.
func (db *DB) DeleteFilesInRanges(ranges []KeyRange, includeEnd bool) error {
	return db.defaultCF.DeleteFilesInRanges(ranges, includeEnd)
}

// DeleteFilesInRanges is DB.DeleteFilesInRanges for this column family.
func (cf *ColumnFamily) DeleteFilesInRanges(ranges []KeyRange, includeEnd bool) error {
	db := cf.db
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	for _, r := range ranges {
		if r.Start != nil && r.End != nil && cf.order.Compare(r.Start, r.End) > 0 {
			return fmt.Errorf("%w: DeleteFilesInRanges from %q to %q: they are in the wrong order", ErrInvalidArgument, r.Start, r.End)
		}
	}
	if err := db.usable(cf); err != nil {
		return err
	}
	edit := &manifest.VersionEdit{ColumnFamily: cf.id}
	var taken []*compaction.Choice // no compaction may begin with the files
	db.mu.Lock()
	// The pinned state keeps the version, whatever becomes of the family.
	pinned, reader := cf.acquire()
	if cf.files != nil {
		for _, r := range ranges {
			for level := 1; level < cf.files.version.NumLevels(); level++ {
				files := cf.within(level, r, includeEnd)
				if len(files) == 0 {
					continue
				}
				c := compaction.Removal(level, files)
				cf.running.Add(c)
				taken = append(taken, c)
				edit.DeletedFiles = append(edit.DeletedFiles, c.Deletions()...)
			}
		}
	}
	db.mu.Unlock()
	var err error
	if len(taken) > 0 {
		if err = db.install(cf, edit, nil); err != nil {
			err = db.fail("deleting files", err)
		}
	}
	db.mu.Lock()
	for _, c := range taken {
		cf.running.Remove(c)
	}
	db.work.Broadcast()
	db.mu.Unlock()
	pinned.release(reader)
	return err
}

// within lists the files of a sorted level between the bounds of r that nobody
// compacts. A file that shares a user key with a neighbour that stays, stays too.
// The caller holds db.mu.
func (cf *ColumnFamily) within(level int, r KeyRange, includeEnd bool) []*manifest.FileMetadata {
	files := cf.files.version.Levels[level]
	in := func(f *manifest.FileMetadata) bool {
		if cf.running.Busy(f) || r.Start != nil && cf.order.Compare(f.SmallestKey, r.Start) < 0 {
			return false
		}
		if r.End == nil {
			return true
		}
		c := cf.order.Compare(f.LargestKey, r.End)
		return c < 0 || c == 0 && (includeEnd || f.LargestIsExclusive())
	}
	joined := func(a, b *manifest.FileMetadata) bool {
		return !a.LargestIsExclusive() && cf.order.Compare(a.LargestKey, b.SmallestKey) == 0
	}
	lo := 0
	for lo < len(files) && !in(files[lo]) {
		lo++
	}
	var out []*manifest.FileMetadata
	for lo < len(files) {
		hi := lo // the files that share keys with each other go together
		all := true
		for hi < len(files) && (hi == lo || joined(files[hi-1], files[hi])) {
			all = all && in(files[hi])
			hi++
		}
		if lo > 0 && joined(files[lo-1], files[lo]) {
			all = false
		}
		if all {
			out = append(out, files[lo:hi]...)
		}
		lo = hi
	}
	return out
}

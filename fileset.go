package flatrock

import (
	"github.com/flatrock-db/flatrock/internal/invariant"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// fileSet is a version with its files opened, laid out for reads. It is
// immutable but for refs, and shared by the read states that have it.
type fileSet struct {
	version *manifest.Version
	// levels[0] is newest first; its files may overlap. Deeper levels are in key
	// order without overlap. Trailing empty levels are cut off.
	levels [][]tableRef
	// tombs are the range tombstones of each level but 0, by file in key order; nil for a
	// level whose files must be asked one by one.
	tombs [][]*rangedel.List
	// finders choose a file of the deeper levels.
	finders []*finder
	// faultable: reads of some file may fault, so they run under the guard.
	faultable bool

	cf   *ColumnFamily
	refs int // of read states, and of whoever builds on it; guarded by db.mu
}

// tableRef is a file as the search sees it: its bounds beside the handle, so that
// choosing a file touches one array.
type tableRef struct {
	smallest, largest []byte // user keys, borrowed from the metadata
	handle            *tableHandle
}

// newFileSet opens what is not open yet and takes a reference to each file of v.
// On an error nothing is referenced. The caller holds db.mu.
func (cf *ColumnFamily) newFileSet(v *manifest.Version) (*fileSet, error) {
	fs := &fileSet{version: v}
	depth := 0
	for l, files := range v.Levels {
		if len(files) > 0 {
			depth = l + 1
		}
	}
	fs.levels, fs.tombs = make([][]tableRef, depth), make([][]*rangedel.List, depth)
	for l := range depth {
		fs.levels[l] = make([]tableRef, 0, len(v.Levels[l]))
		for _, meta := range v.Levels[l] {
			h := cf.tables[meta.Number]
			if h == nil {
				var err error
				if h, err = cf.openTable(meta, l, table.CallerPrefetch); err != nil {
					fs.refs = 1 // ours
					for _, h := range fs.unref() {
						h.close()
					}
					return nil, err
				}
				cf.tables[meta.Number] = h
			}
			if h.block != nil {
				h.block.SetLevel(l)
			}
			h.refs++
			fs.faultable = fs.faultable || h.canFault()
			fs.levels[l] = append(fs.levels[l], tableRef{meta.SmallestKey, meta.LargestKey, h})
		}
	}
	fs.finders = make([]*finder, depth)
	for l := 1; l < depth; l++ {
		fs.tombs[l] = tombstoneRun(fs.levels[l])
		fs.finders[l] = newFinder(cf.order, fs.levels[l])
	}
	fs.refs = 0
	fs.cf = cf
	cf.versions++
	fs.checkFiles()
	return fs, nil
}

// tombstoneRun lists the range tombstones of a sorted level. It is nil if there are none,
// and also where files may share the key at their bounds, as old versions of RocksDB cut them.
func tombstoneRun(level []tableRef) (run []*rangedel.List) {
	for i := range level {
		if t := level[i].handle.tombs; t.IncludesEnd() {
			return nil
		} else if t != nil {
			run = append(run, t)
		}
	}
	return run
}

// unref drops one reference of fs; when it was the last, the references that fs
// holds to files are dropped too. It returns the files that nothing refers to
// any more. The caller holds db.mu.
func (fs *fileSet) unref() (dead []*tableHandle) {
	fs.refs--
	invariant.Check(fs.refs >= 0, "a set of files was let go once too often")
	if fs.refs > 0 {
		return nil
	}
	if fs.cf != nil { // else it was never whole
		fs.cf.versions--
	}
	for _, level := range fs.levels {
		for _, r := range level {
			h := r.handle
			if h.refs--; h.refs == 0 {
				if h.cf.tables[h.meta.Number] == h {
					delete(h.cf.tables, h.meta.Number)
				}
				dead = append(dead, h)
			}
		}
	}
	return dead
}

// get finds the newest entry that look may see in the files.
func (fs *fileSet) get(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	for l, level := range fs.levels {
		look.Found = keys.InLevel(l)
		if l == 0 {
			for i := range level {
				r := &level[i]
				if !r.mayHold(look) {
					continue
				}
				if value, trailer, ok, err = r.handle.get(look, pin); ok || err != nil {
					return value, trailer, ok, err
				}
			}
			continue
		}
		for i := fs.finders[l].find(level, look.UserKey); i >= 0; i = nextFile(level, look, i) {
			if value, trailer, ok, err = level[i].handle.get(look, pin); ok || err != nil {
				return value, trailer, ok, err
			}
		}
	}
	look.Found = keys.Nowhere
	return nil, 0, false, nil
}

// mayHold reports whether the key lies between the bounds of the file.
func (r *tableRef) mayHold(look *keys.Lookup) bool {
	o := r.handle.cf.order
	return o.Compare(look.UserKey, r.smallest) >= 0 && o.Compare(look.UserKey, r.largest) <= 0
}

package flatrock

import (
	"github.com/flatrock-db/flatrock/internal/invariant"
)

// The invariants that a build with the tag flatrock_invariants checks as it goes. Where
// the tag is missing these functions are empty.

// checkFiles holds a set of open files to its version: every file of the version is
// there, open and referenced, and sorted levels are sorted.
func (fs *fileSet) checkFiles() {
	if !invariant.Enabled {
		return
	}
	for l, files := range fs.version.Levels {
		if l >= len(fs.levels) {
			invariant.Check(len(files) == 0, "level %d has %d files, and the set of open files ends before it", l, len(files))
			continue
		}
		refs := fs.levels[l]
		invariant.Check(len(refs) == len(files), "level %d has %d files, %d of them open", l, len(files), len(refs))
		for i, r := range refs {
			h := r.handle
			invariant.Check(h.meta.Number == files[i].Number, "level %d, file %d: %d is open in the place of %d", l, i, h.meta.Number, files[i].Number)
			invariant.Check(h.refs > 0, "file %d is in a version, and has %d references", h.meta.Number, h.refs)
			order := h.cf.order
			invariant.Check(order.Compare(r.smallest, r.largest) <= 0, "file %d: its bounds %q and %q", h.meta.Number, r.smallest, r.largest)
			if l > 0 && i > 0 {
				invariant.Check(order.Compare(refs[i-1].largest, r.smallest) <= 0, "level %d: file %d begins at %q, within file %d, which ends at %q",
					l, h.meta.Number, r.smallest, refs[i-1].handle.meta.Number, refs[i-1].largest)
			}
		}
	}
}

// checkImmutables holds the memtables of a family to their order, newest first, and to the
// references that the read state has.
func (cf *ColumnFamily) checkImmutables(active *memState, immutables []*memState) {
	if !invariant.Enabled {
		return
	}
	newer := active
	for _, m := range immutables {
		invariant.Check(m.id < newer.id, "family %q: memtable %d stands behind %d", cf.name, m.id, newer.id)
		invariant.Check(m.logNumber <= newer.logNumber, "family %q: memtable %d needs log %d, the newer %d log %d", cf.name, m.id, m.logNumber, newer.id, newer.logNumber)
		newer = m
	}
}

// checkClosed finds what Close left open, unless readers hold it.
func (db *DB) checkClosed() {
	if !invariant.Enabled {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	invariant.Check(len(db.retiring) == 0, "Close leaves %d read states that nobody retired", len(db.retiring))
	for _, cf := range db.families {
		for _, h := range cf.tables {
			invariant.Check(h.refs > 0, "Close leaves file %d open, which nobody refers to", h.meta.Number)
		}
	}
}

// checkCacheHandles finds blocks of the cache that are held although no table file is open: each file
// lets go of its own, and readers, of files that they keep open.
func (db *DB) checkCacheHandles() {
	if !invariant.Enabled {
		return
	}
	if db.tablesOpen.Load() == 0 {
		n := db.cache.Stats().PinnedUsage
		invariant.Check(n == 0, "Close leaves %d bytes of the block cache held, and no file is open", n)
	}
}

package flatrock

import "github.com/flatrock-db/flatrock/internal/manifest"

// Range deletes in plain tables (PlainTableOptions.RangeDeletes): RocksDB ignores
// the meta block that holds them, and would show what they delete. So a family
// that may have some is marked in the MANIFEST under a tag that RocksDB does not
// know and may not ignore, before the first one is written, logged even; and the
// mark stays while any may be left.

// takesRangeDeletes reports whether DeleteRange may be used.
func (cf *ColumnFamily) takesRangeDeletes() bool {
	t, ok := cf.opts.Table.(PlainTableOptions)
	return !ok || t.marked && t.RangeDeletes != Off
}

// markRangeDeletes settles RangeDeletes by what was asked for and what the MANIFEST
// says of the family. The result is what to add there before anything is written.
func (cf *ColumnFamily) markRangeDeletes(f manifest.Features) (mark manifest.Optional[manifest.Features]) {
	t, ok := cf.opts.Table.(PlainTableOptions)
	if !ok {
		return mark
	}
	t.marked = f&manifest.FeatureRangeDeletes != 0
	switch {
	case t.marked && t.RangeDeletes == Default:
		t.RangeDeletes = On
	case !t.marked && t.RangeDeletes == On:
		t.marked = true
		mark = manifest.Some(f | manifest.FeatureRangeDeletes)
	}
	cf.opts.Table = t
	return mark
}

// unmarkRangeDeletes takes the marks of families away that want none and have no
// range delete left, after recovery. A new MANIFEST begins then, since RocksDB
// reads the old one from its start.
func (db *DB) unmarkRangeDeletes() error {
	var edits []*manifest.VersionEdit
	for _, cf := range db.families {
		t, ok := cf.opts.Table.(PlainTableOptions)
		if !ok || !t.marked || t.RangeDeletes != Off || cf.hasRangeDeletes() {
			continue
		}
		t.marked = false
		cf.opts.Table = t
		f := db.manifest.State().Family(cf.id).Features &^ manifest.FeatureRangeDeletes
		edits = append(edits, &manifest.VersionEdit{ColumnFamily: cf.id, Features: manifest.Some(f)})
	}
	if len(edits) == 0 {
		return nil
	}
	return db.manifest.AppendToNew(edits...)
}

// hasRangeDeletes reports whether a memtable or file of the family has any.
func (cf *ColumnFamily) hasRangeDeletes() bool {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	found := cf.active.tombs.Count() > 0
	for _, m := range cf.immutables {
		found = found || m.tombs.Count() > 0
	}
	for _, h := range cf.tables {
		found = found || len(h.reader().Tombstones()) > 0
	}
	return found
}

package flatrock

import (
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// install makes the outcome of a flush or compaction durable and visible: it opens
// the new files, appends the edit to the MANIFEST, and publishes a read state with
// the new version and without the memtables that were flushed (newest first, the family's oldest).
//
// The order keeps what was acknowledged: files are synced before the edit names
// them, the edit is synced before a log or file that it makes obsolete is deleted.
func (db *DB) install(cf *ColumnFamily, edit *manifest.VersionEdit, flushed []*memState) error {
	if err := db.fs.SyncDir(db.dir); err != nil {
		return err
	}
	opened := make([]*tableHandle, 0, len(edit.NewFiles))
	closeAll := func() {
		for _, h := range opened {
			h.close()
		}
	}
	for _, n := range edit.NewFiles {
		if moved := slices.ContainsFunc(edit.DeletedFiles, func(d manifest.DeletedFile) bool { return d.Number == n.Meta.Number }); moved {
			continue // a trivial move: the file is open
		}
		h, err := cf.openTable(n.Meta, n.Level)
		if err != nil {
			closeAll()
			return err
		}
		opened = append(opened, h)
	}

	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	db.mu.Lock()
	if cf.dropped.Load() {
		// The family went away meanwhile: its files are garbage, its memtables too.
		db.removeFlushedLocked(cf, flushed)
		db.mu.Unlock()
		for _, h := range opened {
			h.obsolete = true
			db.closeTable(h)
		}
		return nil
	}
	if len(flushed) > 0 {
		// What remains decides which logs are still needed.
		edit.LogNumber = manifest.Some(db.logAfterLocked(cf, flushed))
		edit.MinLogNumberToKeep = manifest.Some(db.minLogAfterLocked(cf, edit.LogNumber.Value))
	}
	edit.LastSeq = manifest.Some(db.visibleSeq.Load())
	db.mu.Unlock()

	if err := db.manifest.Append(edit); err != nil {
		// The edit may or may not be in the file: the new files stay, and the next
		// Open finds out.
		closeAll()
		return err
	}

	db.mu.Lock()
	for _, h := range opened {
		cf.tables[h.meta.Number] = h
	}
	for _, d := range edit.DeletedFiles {
		if h := cf.tables[d.Number]; h != nil {
			h.obsolete = !slices.ContainsFunc(edit.NewFiles, func(n manifest.NewFile) bool { return n.Meta.Number == d.Number })
		}
	}
	files, err := cf.newFileSet(db.manifest.Version(cf.id))
	if err != nil {
		db.mu.Unlock()
		return err
	}
	cf.files = files
	db.removeFlushedLocked(cf, flushed)
	if edit.LogNumber.Set {
		cf.logNumber = edit.LogNumber.Value
	}
	cf.publish(cf.active, cf.immutables, files)
	dead := db.obsoleteLogsLocked()
	db.updateStallLocked()
	db.mu.Unlock()
	db.retirePublished()
	db.deleteLogs(dead)
	return nil
}

func (db *DB) removeFlushedLocked(cf *ColumnFamily, flushed []*memState) {
	if len(flushed) > 0 {
		cf.immutables = slices.Clone(cf.immutables[:len(cf.immutables)-len(flushed)])
	}
}

// logAfterLocked is the oldest log that the family needs once flushed is in files.
func (db *DB) logAfterLocked(cf *ColumnFamily, flushed []*memState) uint64 {
	if n := len(cf.immutables) - len(flushed); n > 0 {
		return cf.immutables[n-1].logNumber
	}
	return cf.active.logNumber
}

// minLogAfterLocked is the oldest log that any family needs once cf needs none
// older than log.
func (db *DB) minLogAfterLocked(cf *ColumnFamily, log uint64) uint64 {
	keep := min(log, db.logs[len(db.logs)-1].number)
	for _, other := range db.families {
		if other != cf {
			keep = min(keep, other.oldestLogLocked())
		}
	}
	return keep
}

// identity is what a new table file records about its origin.
func (db *DB) identity(cf *ColumnFamily, number uint64, now time.Time) table.Identity {
	id := table.Identity{
		ColumnFamilyID:   cf.id,
		ColumnFamilyName: cf.name,
		DBID:             db.dbID,
		DBSessionID:      db.sessionID,
		DBHostID:         db.hostID,
		FileNumber:       number,
		CreationTime:     uint64(now.Unix()),
		OldestKeyTime:    uint64(now.Unix()),
		FileCreationTime: uint64(now.Unix()),
		ComparatorName:   cf.opts.Comparator.Name(),
	}
	if op := cf.opts.MergeOperator; op != nil {
		id.MergeOperator = op.Name()
	}
	if e := cf.opts.PrefixExtractor; e != nil {
		id.PrefixExtractor = e.Name()
	}
	return id
}

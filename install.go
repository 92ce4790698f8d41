package flatrock

import (
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/table"
)

// familyChange is what an edit changes in one family.
type familyChange struct {
	cf   *ColumnFamily
	edit *manifest.VersionEdit
	// flushed are the memtables that the edit's files replace: newest first, the family's oldest.
	flushed []*memState
	// ingested says that the files were made elsewhere.
	ingested bool
}

// opener is on whose behalf the new files are opened, for traces.
func (c *familyChange) opener() table.Caller {
	switch {
	case c.ingested:
		return table.CallerExternalIngestion
	case len(c.flushed) > 0:
		return table.CallerFlush
	case len(c.edit.DeletedFiles) > 0:
		return table.CallerCompactionRefill
	}
	return table.CallerPrefetch
}

// install makes the outcome of a flush or compaction durable and visible: it opens
// the new files, appends the edit to the MANIFEST, and publishes a read state with
// the new version and without the memtables that were flushed (newest first, the family's oldest).
//
// The order keeps what was acknowledged: files are synced before the edit names
// them, the edit is synced before a log or file that it makes obsolete is deleted.
func (db *DB) install(cf *ColumnFamily, edit *manifest.VersionEdit, flushed []*memState) error {
	return db.installAll([]familyChange{{cf: cf, edit: edit, flushed: flushed}}, 0)
}

// installAll is install for changes of several families, which count together or
// not at all. lastSeq, unless zero, is the newest sequence number that the files hold.
func (db *DB) installAll(changes []familyChange, lastSeq uint64) error {
	if err := db.syncLogsBefore(changes); err != nil {
		return err
	}
	killpoint.Here("tables written")
	if !mutation.On(mutation.SkipDirectorySync) {
		if err := db.fs.SyncDir(db.dir); err != nil {
			return err
		}
	}
	killpoint.Here("tables' directory synced")
	var opened []*tableHandle
	closeAll := func() {
		for _, h := range opened {
			h.close()
		}
	}
	for _, c := range changes {
		for _, n := range c.edit.NewFiles {
			if moved := slices.ContainsFunc(c.edit.DeletedFiles, func(d manifest.DeletedFile) bool { return d.Number == n.Meta.Number }); moved {
				continue // a trivial move: the file is open
			}
			h, err := c.cf.openTable(n.Meta, n.Level, c.opener())
			if err != nil {
				closeAll()
				return err
			}
			opened = append(opened, h)
		}
	}

	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	db.mu.Lock()
	var live []familyChange
	var edits []*manifest.VersionEdit
	for _, c := range changes {
		if c.cf.dropped.Load() {
			// The family went away meanwhile: its files are garbage, its memtables too.
			db.removeFlushedLocked(c.cf, c.flushed)
			continue
		}
		live, edits = append(live, c), append(edits, c.edit)
	}
	db.setLogsLocked(live)
	for _, e := range edits {
		e.LastSeq = manifest.Some(max(lastSeq, db.visibleSeq.Load()))
	}
	db.mu.Unlock()
	opened = slices.DeleteFunc(opened, func(h *tableHandle) bool {
		if !h.cf.dropped.Load() { // it cannot be dropped while manifestMu is held
			return false
		}
		h.obsolete = true
		db.closeTable(h)
		return true
	})

	if mutation.On(mutation.DeleteLogsEarly) {
		db.mu.Lock()
		for _, c := range live {
			for _, l := range db.logs[:len(db.logs)-1] {
				if c.edit.MinLogNumberToKeep.Set && l.number < c.edit.MinLogNumberToKeep.Value {
					db.deleteLogs([]*logFile{l})
				}
			}
		}
		db.mu.Unlock()
	}
	var err error
	switch len(edits) {
	case 0:
		return nil
	case 1:
		err = db.manifest.Append(edits...)
	default:
		err = db.manifest.AppendAtomic(edits...)
	}
	if err != nil {
		// The edit may or may not be in the file: the new files stay, and the next
		// Open finds out.
		closeAll()
		return err
	}

	killpoint.Here("edit appended")
	db.mu.Lock()
	for _, h := range opened {
		h.cf.tables[h.meta.Number] = h
	}
	for _, c := range live {
		if err := db.publishChangeLocked(c); err != nil {
			db.mu.Unlock()
			return err
		}
	}
	dead := db.obsoleteLogsLocked()
	db.assessHeldLocked()
	db.updateStallLocked()
	db.mu.Unlock()
	killpoint.Here("version published")
	db.retirePublished()
	db.deleteLogs(dead)
	return nil
}

// publishChangeLocked makes readers see the version that the MANIFEST has now.
func (db *DB) publishChangeLocked(c familyChange) error {
	cf, edit := c.cf, c.edit
	for _, d := range edit.DeletedFiles {
		if h := cf.tables[d.Number]; h != nil {
			h.obsolete = !slices.ContainsFunc(edit.NewFiles, func(n manifest.NewFile) bool { return n.Meta.Number == d.Number })
		}
	}
	files, err := cf.newFileSet(db.manifest.Version(cf.id))
	if err != nil {
		return err
	}
	cf.files = files
	db.removeFlushedLocked(cf, c.flushed)
	if edit.LogNumber.Set {
		cf.logNumber = edit.LogNumber.Value
	}
	cf.publish(cf.active, cf.immutables, files)
	db.assessLocked(cf)
	return nil
}

// setLogsLocked records in the edits of flushes which logs are still needed: what
// remains in memory decides. A family with nothing in memory asks for no log before the current
// one, but another may need one that was closed meanwhile and that no sync has covered: the
// number stays at that log, or recovery, which finds it torn, had to take the family's
// files for newer than the damage. The family has nothing in it.
func (db *DB) setLogsLocked(changes []familyChange) {
	after := db.logsAfterLocked(changes)
	keep := db.minLogAfterLocked(after)
	sure := db.oldestUnsureLogLocked(keep)
	for _, c := range changes {
		if len(c.flushed) > 0 {
			c.edit.LogNumber = manifest.Some(min(after[c.cf], sure))
			c.edit.MinLogNumberToKeep = manifest.Some(keep)
		}
	}
}

// logsAfterLocked says, of each family that is flushed, which the oldest log is that it
// needs afterwards.
func (db *DB) logsAfterLocked(changes []familyChange) map[*ColumnFamily]uint64 {
	after := map[*ColumnFamily]uint64{}
	for _, c := range changes {
		if len(c.flushed) > 0 {
			after[c.cf] = db.logAfterLocked(c.cf, c.flushed)
		}
	}
	return after
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

// minLogAfterLocked is the oldest log that any family needs once those in after
// need none older than it says.
func (db *DB) minLogAfterLocked(after map[*ColumnFamily]uint64) uint64 {
	keep := db.logs[len(db.logs)-1].number
	for _, cf := range db.families {
		if log, ok := after[cf]; ok {
			keep = min(keep, log)
		} else {
			keep = min(keep, cf.oldestLogLocked())
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

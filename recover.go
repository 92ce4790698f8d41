package flatrock

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/memtable"
)

// directory is what Open found.
type directory struct {
	files []foundFile // in the database directory
	logs  []foundFile // in the log directory
}

type foundFile struct {
	path   string
	kind   manifest.FileKind
	number uint64
}

// scanDirectory lists the directories and keeps every number that is taken from
// being handed out again.
func (db *DB) scanDirectory(state *manifest.State) (*directory, error) {
	d := new(directory)
	var err error
	if d.files, err = db.listFiles(db.dir, state); err != nil {
		return nil, err
	}
	d.logs = d.files
	if db.walDir() != db.dir {
		d.logs, err = db.listFiles(db.walDir(), state)
	}
	return d, err
}

// maxFileNumber keeps a stray file from making the numbers of new ones wrap around,
// onto files that exist.
const maxFileNumber = 1 << 62

func (db *DB) listFiles(dir string, state *manifest.State) (found []foundFile, err error) {
	names, err := db.fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		kind, number, ok := manifest.ParseName(name)
		if !ok {
			continue
		}
		if kind == manifest.KindInfoLog || kind == manifest.KindProgress {
			continue // what their names hold is a time
		}
		if number > maxFileNumber {
			return nil, fmt.Errorf("%w: %s: its number is too large to count on from: want at most %d", ErrInvalidArgument, filepath.Join(dir, name), uint64(maxFileNumber))
		}
		found = append(found, foundFile{filepath.Join(dir, name), kind, number})
		state.MarkFileNumberUsed(number)
	}
	return found, nil
}

// replayed is what replayLogs leaves for finishRecovery.
type replayed struct {
	logs []*logFile // oldest first, all closed; their ends are those of the last intact record
	// damaged: replay stopped before the end of the logs, or passed over damage in them. They must not be
	// kept: a later recovery, in another mode, would stop where this one went on.
	damaged bool
	// files are tables that were written because memtables filled up, by family.
	files map[*ColumnFamily][]*manifest.FileMetadata
}

// replayLogs puts the operations of the logs that the MANIFEST still needs into
// the memtables. A writable database writes memtables that fill up to table files
// at once, which no MANIFEST names before finishRecovery.
func (db *DB) replayLogs(state *manifest.State) (*replayed, error) {
	out := &replayed{files: map[*ColumnFamily][]*manifest.FileMetadata{}}
	names, err := db.fs.List(db.walDir())
	if err != nil {
		return nil, err
	}
	oldest := state.MinLogNumber()
	var logs []wal.LogFile
	for _, name := range names {
		if kind, number, ok := manifest.ParseName(name); ok && kind == manifest.KindLog && number >= oldest {
			logs = append(logs, wal.LogFile{Number: number, Path: filepath.Join(db.walDir(), name)})
		}
	}
	slices.SortFunc(logs, func(a, b wal.LogFile) int { return cmp.Compare(a.Number, b.Number) })
	if err := db.checkTrackedLogs(state, logs); err != nil {
		return nil, err
	}
	families := db.byID.Load().byID
	var full *ColumnFamily
	r := wal.NewReplayer(wal.ReplayOptions{
		FS:   db.fs,
		Mode: db.opts.WALRecoveryMode.mode(),

		MaxRecord: db.opts.MaxDecompressedSize,
		Oldest:    oldest,
		Apply: func(log, seq uint64, op *wal.Op) error {
			cf := families[op.CF]
			if cf == nil || log < cf.logNumber || seq <= db.replayAbove[op.CF] {
				return nil // dropped, or in a table file already
			}
			need := memtable.BatchBytes(1, int64(len(op.Key)+len(op.Value)))
			if !cf.active.mem.HasRoom(need) {
				if err := db.switchReplayed(cf, log, need, out); err != nil {
					return err
				}
			}
			p := prepared{cf: cf, key: op.Key, value: op.Value, kind: op.Kind}
			p.prefixLen, p.hash = cf.opts.PrefixExtractor.Hash(op.Key)
			if err := cf.active.add(&p, seq); err != nil {
				return fmt.Errorf("log %d, sequence number %d, column family %q: %w", log, seq, cf.name, err)
			}
			if cf.active.full(cf.mutable().WriteBufferSize) {
				full = cf
			}
			return nil
		},
		EndBatch: func(log, next uint64) error {
			cf := full
			if full = nil; cf == nil {
				return nil
			}
			return db.switchReplayed(cf, log, 0, out)
		},
	})
	start := time.Now()
	for _, l := range logs {
		if err := r.Replay(l); err != nil {
			return nil, err
		}
		out.logs = append(out.logs, &logFile{number: l.Number, path: l.Path, end: r.LogEnd(l.Number), records: true})
	}
	out.damaged = r.Damaged() > 0
	if stop := r.Stopped(); stop != nil {
		out.damaged = true
		db.log.Warn("log replay stopped at damage; later writes are lost", "log", stop.Log, "reason", stop.Reason)
		for _, cf := range db.families {
			if cf.logNumber > stop.Log && cf.files.version.NumFiles() > 0 {
				return nil, fmt.Errorf("column family %q has table files with writes beyond the damage: %w", cf.name, stop.Reason)
			}
		}
	}
	if open := r.Prepared(); len(open) > 0 && !db.opts.ReadOnly {
		return nil, fmt.Errorf("%w: log %d holds the prepared transaction %q, neither committed nor rolled back: open the database read-only, or settle it with RocksDB", ErrNotSupported, open[0].Log, open[0].XID)
	}
	if next, ok := r.NextSeq(); ok && next > 0 {
		db.lastSeq = max(db.lastSeq, next-1)
	}
	db.visibleSeq.Store(db.lastSeq)
	if n := r.Records(); n > 0 {
		db.log.Info("replayed", "logs", len(logs), "records", n, "took", time.Since(start))
	}
	return out, nil
}

func (m WALRecoveryMode) mode() wal.RecoveryMode {
	return [...]wal.RecoveryMode{wal.PointInTimeRecovery, wal.TolerateCorruptedTailRecords, wal.AbsoluteConsistency, wal.SkipAnyCorruptedRecords}[m]
}

// checkTrackedLogs checks the logs that the MANIFEST tracks: each must be there
// with at least the size that was synced.
func (db *DB) checkTrackedLogs(state *manifest.State, logs []wal.LogFile) error {
	for number, synced := range state.WALs {
		if number < state.MinLogNumber() || number < state.MinTrackedWAL {
			continue
		}
		i := slices.IndexFunc(logs, func(l wal.LogFile) bool { return l.Number == number })
		if i < 0 {
			return &CorruptionError{File: manifest.LogName("", number), Offset: -1, Reason: "the MANIFEST tracks this log, and it does not exist"}
		}
		if !synced.Set {
			continue
		}
		info, err := db.fs.Stat(logs[i].Path)
		if err != nil {
			return err
		}
		if uint64(info.Size()) < synced.Value {
			return &CorruptionError{File: manifest.LogName("", number), Offset: info.Size(), Reason: fmt.Sprintf("the MANIFEST says that %d bytes are synced, and the log has %d", synced.Value, info.Size())}
		}
	}
	return nil
}

// switchReplayed gives the family a new memtable during replay. In a writable
// database the old one becomes a table file at once, whatever the options say: see finishRecovery.
func (db *DB) switchReplayed(cf *ColumnFamily, log uint64, need int64, out *replayed) error {
	m, err := cf.newMemState(log, need)
	if err != nil {
		return err
	}
	cf.shelve(m, log+1)
	if db.opts.ReadOnly {
		return nil
	}
	return cf.writeReplayed(out)
}

// shelve makes the active memtable, which has nothing of log sealedAt and later ones,
// immutable and m the active one.
func (cf *ColumnFamily) shelve(m *memState, sealedAt uint64) {
	cf.db.mu.Lock()
	cf.active.freeze(cf.db)
	cf.active.sealedAt = sealedAt
	cf.immutables = append([]*memState{cf.active}, cf.immutables...)
	cf.active = m
	cf.publish(cf.active, cf.immutables, cf.files)
	cf.db.mu.Unlock()
	cf.db.retirePublished()
}

// writeReplayed writes the immutable memtables to table files, oldest first, and
// lets them go.
func (cf *ColumnFamily) writeReplayed(out *replayed) error {
	for n := len(cf.immutables); n > 0; n-- {
		files, err := cf.db.writeLevel0(cf, cf.immutables[n-1:n])
		if err != nil {
			return err
		}
		out.files[cf] = append(out.files[cf], files...)
	}
	cf.db.mu.Lock()
	cf.immutables = nil
	cf.publish(cf.active, nil, cf.files)
	cf.db.mu.Unlock()
	cf.db.retirePublished()
	return nil
}

// finishRecovery writes what was replayed to level 0, begins a new log, and makes
// all of it count with one atomic group of edits. With AvoidFlushDuringRecovery memory and logs stay as they are, unless a
// memtable filled up within a log: no log number says which part of a log is in files, so all of it
// would be replayed next time, in front of files that are newer, such as ingested ones.
func (db *DB) finishRecovery(r *replayed) error {
	number := db.manifest.NewFileNumber()
	db.recovered.seq, db.recovered.log = db.lastSeq, number
	keep := db.opts.AvoidFlushDuringRecovery && !r.damaged && len(r.files) == 0
	if !keep {
		for _, cf := range db.families {
			if !cf.active.empty() {
				m, err := cf.newMemState(number, 0)
				if err != nil {
					return err
				}
				cf.shelve(m, number)
			}
			if err := cf.writeReplayed(r); err != nil {
				return err
			}
		}
	}
	var last *logFile
	if n := len(r.logs); keep && n > 0 {
		last = r.logs[n-1]
	}
	log, err := db.createLog(number, db.lastSeq+1, last)
	if err != nil {
		return err
	}
	db.wal = log
	db.mu.Lock()
	if keep {
		db.logs = r.logs
		for _, l := range r.logs {
			db.closedLogBytes.Add(l.end)
		}
	}
	db.logs = append(db.logs, log)
	for _, cf := range db.families {
		if cf.active.empty() {
			cf.active.logNumber = number
		}
	}
	var edits []*manifest.VersionEdit
	sure := db.oldestUnsureLogLocked(db.minLogLocked())
	for _, cf := range db.families {
		e := &manifest.VersionEdit{ColumnFamily: cf.id, LogNumber: manifest.Some(max(cf.logNumber, min(cf.oldestLogLocked(), sure)))}
		for _, f := range r.files[cf] {
			e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: 0, Meta: f})
		}
		if cf.id == 0 {
			e.MinLogNumberToKeep = manifest.Some(db.minLogLocked())
		}
		e.LastSeq = manifest.Some(db.lastSeq)
		edits = append(edits, e)
	}
	db.mu.Unlock()
	if len(r.files) > 0 {
		if err := db.fs.SyncDir(db.dir); err != nil {
			return err
		}
	}
	killpoint.Here("recovery written")
	if err := db.manifest.AppendAtomic(edits...); err != nil {
		return err
	}
	killpoint.Here("recovery installed")
	if len(db.manifest.State().WALs) > 0 {
		// RocksDB tracked its logs (track_and_verify_wals_in_manifest); we do not, so
		// forget them, or a later open would miss the ones we delete. RocksDB reads
		// nothing else from an edit that says so.
		if err := db.manifest.Append(&manifest.VersionEdit{WALDeletion: manifest.Some(number)}); err != nil {
			return err
		}
	}
	for i, cf := range db.families {
		if err := cf.adopt(db.manifest.Version(cf.id), edits[i].LogNumber.Value); err != nil {
			return err
		}
	}
	db.retirePublished()
	return nil
}

// adopt publishes the version that recovery led to.
func (cf *ColumnFamily) adopt(v *manifest.Version, logNumber uint64) error {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	files, err := cf.newFileSet(v)
	if err != nil {
		return err
	}
	cf.files, cf.logNumber = files, logNumber
	cf.publish(cf.active, cf.immutables, files)
	cf.db.updateStallLocked(cf)
	return nil
}

// removeObsolete deletes what earlier runs left behind: files that no version
// names, logs that are replayed, old MANIFESTs and temporary files. What cannot be
// deleted now is tried again at the next Open.
func (db *DB) removeObsolete(found *directory) {
	live := map[uint64]bool{}
	state := db.manifest.State()
	for _, f := range state.Families {
		for _, level := range f.Version.Levels {
			for _, m := range level {
				live[m.Number] = true
			}
		}
		for _, b := range f.Version.Blobs {
			live[b.Number] = true
		}
	}
	db.mu.Lock()
	oldestLog := db.minLogLocked()
	db.mu.Unlock()
	remove := func(f foundFile) {
		if err := db.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.log.Warn("deleting an obsolete file", "file", f.path, "err", err)
		}
		killpoint.Here("obsolete file deleted")
	}
	for _, f := range found.files {
		switch f.kind {
		case manifest.KindTable, manifest.KindBlob:
			if !live[f.number] {
				remove(f)
			}
		case manifest.KindManifest:
			if f.number < state.ManifestNumber {
				remove(f)
			}
		case manifest.KindTemp, manifest.KindOptionsTemp:
			remove(f)
		}
	}
	for _, f := range found.logs {
		if f.kind == manifest.KindLog && f.number < oldestLog {
			db.retireLog(f.path, f.number)
		}
	}
	db.purgeArchive(time.Now())
}

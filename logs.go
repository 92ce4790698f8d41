package flatrock

import (
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/wal"
)

// logFile is a live log: one that may hold writes that no table file has yet.
//
// Only the last log of db.logs takes writes; the others are closed. The commit
// leader appends to db.logs, under db.mu; flushes take from its front.
type logFile struct {
	number uint64
	path   string
	w      *wal.Writer
	// records: something was logged since the log was begun. Owned by the commit leader.
	records bool

	// Guarded by db.mu.
	end       int64 // size once closed, else 0
	synced    bool  // closed, and all of it is durable
	dirSynced bool  // its directory entry is durable
}

// walOptions translates the options for the log writer.
func (db *DB) walOptions() wal.WriterOptions {
	o := wal.WriterOptions{BytesPerSync: db.mutable().WALBytesPerSync}
	switch {
	case db.opts.ManualWALFlush:
		o.Mode, o.Buffer = wal.Plain, manualFlushBuffer
	case db.opts.WALWriteMode == WALMapped:
		o.Mode = wal.Mapped
	case db.opts.WALWriteMode == WALWrite:
		o.Mode = wal.Plain
	case db.opts.WALRecoveryMode == TolerateCorruptedTailRecords:
		// A death of the machine may take pages from the middle of the unsynced part
		// of a mapped log, and this mode refuses all damage but a torn end.
		o.Mode = wal.Plain
	}
	return o
}

// createLog begins the log of that number. When prev is not nil, the first record of the
// new log names prev and its size: recovery must have read prev up to there
// before it may go on, so that a log whose unsynced tail was lost is not
// followed by writes that came later. To RocksDB the record is an annotation.
func (db *DB) createLog(number, seq uint64, prev *logFile) (*logFile, error) {
	l := &logFile{number: number, path: manifest.LogName(db.walDir(), number)}
	w, err := wal.Create(db.fs, l.path, number, db.walOptions())
	if err != nil {
		return nil, fmt.Errorf("creating log %d: %w", number, err)
	}
	l.w = w
	if prev != nil {
		if err := w.AppendFollows(seq, wal.Follows{Number: prev.number, Size: prev.end}); err != nil {
			w.Close()
			return nil, err
		}
	}
	return l, nil
}

func (db *DB) walDir() string {
	if db.opts.WALDir != "" {
		return db.opts.WALDir
	}
	return db.dir
}

// syncLogs makes all that was logged survive the death of the machine: the logs
// before the current one too, which hold earlier writes. Only the leader calls it.
func (db *DB) syncLogs() error {
	if err := db.syncClosedLogs(); err != nil {
		return err
	}
	l := db.wal
	killpoint.Here("wal sync")
	if mutation.On(mutation.SkipWALSync) {
		return db.syncLogEntry(l)
	}
	if err := l.w.Flush(); err != nil {
		return err
	}
	if err := l.w.Sync(); err != nil {
		return err
	}
	killpoint.Here("wal synced")
	return db.syncLogEntry(l)
}

// syncClosedLogs makes the logs before the current one durable.
func (db *DB) syncClosedLogs() error { return db.syncLogsBetween(0, math.MaxUint64) }

// syncLogsBefore makes durable what flushed memtables must not outlive: their files must not
// hold writes that come after some that a crash of the machine could still take. Those are
// in logs which were closed before the memtables were sealed, and which another family, or the
// active memtable of this one, needs from now on too.
func (db *DB) syncLogsBefore(changes []familyChange) error {
	var sealed uint64
	db.mu.Lock()
	for _, c := range changes {
		for _, m := range c.flushed {
			sealed = max(sealed, m.sealedAt)
		}
	}
	keep := db.minLogAfterLocked(db.logsAfterLocked(changes))
	db.mu.Unlock()
	return db.syncLogsBetween(keep, sealed)
}

// syncLogsBetween makes the closed logs from number from on durable, those before number to.
func (db *DB) syncLogsBetween(from, to uint64) error {
	if mutation.On(mutation.SkipClosedLogSync) {
		return nil
	}
	db.mu.Lock()
	logs := db.logs[:len(db.logs)-1]
	db.mu.Unlock()
	for _, l := range logs {
		db.mu.Lock()
		done := l.synced || l.number < from || l.number >= to
		db.mu.Unlock()
		if done {
			continue
		}
		if err := db.syncClosed(l); err != nil {
			return err
		}
		if err := db.syncLogEntry(l); err != nil {
			return err
		}
		db.mu.Lock()
		l.synced = true
		db.mu.Unlock()
	}
	return nil
}

// oldestUnsureLogLocked is the oldest log from number keep on that a crash of the machine may
// still take from; the current one always may.
func (db *DB) oldestUnsureLogLocked(keep uint64) uint64 {
	last := len(db.logs) - 1
	for _, l := range db.logs[:last] {
		if l.number >= keep && !l.synced {
			return l.number
		}
	}
	return db.logs[last].number
}

// syncLogEntry makes the directory entry of a log durable, once.
func (db *DB) syncLogEntry(l *logFile) error {
	db.mu.Lock()
	done := l.dirSynced || mutation.On(mutation.SkipLogDirectorySync)
	db.mu.Unlock()
	if done {
		return nil
	}
	if err := db.fs.SyncDir(db.walDir()); err != nil {
		return err
	}
	db.mu.Lock()
	l.dirSynced = true
	db.mu.Unlock()
	return nil
}

// syncClosed syncs a log by name. A flush may have deleted it meanwhile: then its
// writes are in synced table files.
func (db *DB) syncClosed(l *logFile) error {
	f, err := db.fs.OpenReadWrite(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// obsoleteLogsLocked takes the logs that nobody needs out of db.logs, and returns them
// for deletion. No memtable needs them, and the MANIFEST says so, durably: recovery takes
// a log that the MANIFEST asks for and that is gone for one that was lost, and stops there.
func (db *DB) obsoleteLogsLocked() (dead []*logFile) {
	keep := min(db.minLogLocked(), db.manifest.State().MinLogNumber())
	n := 0
	for n < len(db.logs)-1 && db.logs[n].number < keep {
		n++
	}
	dead = append(dead, db.logs[:n]...)
	for _, l := range dead {
		db.closedLogBytes.Add(-l.end)
	}
	db.logs = append([]*logFile(nil), db.logs[n:]...)
	return dead
}

// minLogLocked is the oldest log that recovery needs.
func (db *DB) minLogLocked() uint64 {
	keep := db.logs[len(db.logs)-1].number
	for _, cf := range db.families {
		keep = min(keep, cf.oldestLogLocked())
	}
	return keep
}

// oldestLogLocked is the oldest log that may hold writes of the family which are in no file.
func (cf *ColumnFamily) oldestLogLocked() uint64 {
	if n := len(cf.immutables); n > 0 {
		return cf.immutables[n-1].logNumber
	}
	return cf.active.logNumber
}

func (db *DB) deleteLogs(dead []*logFile) {
	for _, l := range dead {
		db.retireLog(l.path, l.number)
		killpoint.Here("log deleted")
	}
}

// SyncWAL makes every write so far survive the death of the machine. RocksDB: SyncWAL.
func (db *DB) SyncWAL() error { return db.betweenWrites("WAL sync", db.syncLogs) }

// betweenWrites does something with the logs while nobody writes. Its error is a background error from then on.
func (db *DB) betweenWrites(what string, do func() error) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	var err error
	db.exclusive(func() {
		if db.closed.Load() {
			err = ErrClosed
			return
		}
		if err = db.writable(); err != nil {
			return
		}
		if err = do(); err != nil {
			err = db.fail(what, err)
		}
	})
	return err
}

// writable returns the background error, if there is one.
func (db *DB) writable() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.background
}

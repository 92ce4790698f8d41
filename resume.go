package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Resume makes the database writable again after a background error whose cause is
// gone: a disk that was full and has room, a device that is back. It writes what the
// memtables hold to level 0 and begins a new log, so that nothing depends any
// more on what failed; then writes are accepted again. Writes that failed stay undone.
//
// It returns nil if there was no background error. Damage that was found in a file, and a write that
// failed between log and memtable, are for a reopen: then it returns the
// background error. After any other failure of its own it may be called again.
// A full disk is resumed automatically: see MaxBgErrorResumeCount. RocksDB: Resume.
func (db *DB) Resume(ctx context.Context) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	done := db.tellRecovery()
	var err error
	db.exclusive(func() { err = db.resume(ctx) })
	done(err)
	return err
}

// recoverable reports whether Resume may help.
func (e *backgroundError) recoverable() bool {
	return e.op != "memtable insert" && e.op != "column family" && !errors.Is(e.cause, ErrCorruption)
}

// hurtsLogs reports whether the logs may lack something that was, or was not, acknowledged.
func (e *backgroundError) hurtsLogs() bool { return e.op != "compaction" && e.op != "deleting files" }

// resume runs as the commit leader.
func (db *DB) resume(ctx context.Context) error {
	if db.closed.Load() {
		return ErrClosed
	}
	db.mu.Lock()
	cause := db.background
	db.sched.held = false
	db.work.Broadcast()
	db.mu.Unlock()
	if cause == nil {
		return nil
	}
	var b *backgroundError
	if !errors.As(cause, &b) || !b.recoverable() {
		return cause
	}
	// Nothing new begins meanwhile.
	if err := db.waitForJobs(ctx); err != nil {
		return err
	}
	if err := db.repairWriteSide(b); err != nil {
		db.log.Warn("resume failed", "after", b.op, "err", err)
		return fmt.Errorf("%w: %s: resume: %w", ErrBackground, b.op, err)
	}
	db.mu.Lock()
	db.background = nil
	db.updateStallLocked(db.families...)
	db.mu.Unlock()
	db.log.Info("resumed", "after", b.op)
	return nil
}

// waitForJobs waits until no flush and no compaction is under way.
func (db *DB) waitForJobs(ctx context.Context) error {
	return db.waitUntil(ctx, func() (bool, error) { return db.sched.flushes == 0 && db.sched.compactions == 0, nil })
}

// repairWriteSide begins a new MANIFEST if the old one failed, and makes the logs so far
// obsolete. Readers go on; the leader holds the writers.
func (db *DB) repairWriteSide(b *backgroundError) error {
	if db.manifest.Err() != nil {
		db.manifestMu.Lock()
		err := db.manifest.Resume()
		db.manifestMu.Unlock()
		if err != nil {
			return err
		}
	}
	// The first failure names the error; a later one may have hurt the log all the same. Then the logs so
	// far are hurt until nobody needs them, however many attempts that takes.
	db.logsHurt = db.logsHurt || b.hurtsLogs() || db.wal.w.Err() != nil
	if !db.logsHurt {
		return nil
	}
	if err := db.replaceLog(); err != nil {
		return err
	}
	var changes []familyChange
	for _, cf := range db.ColumnFamilies() {
		files, err := db.writeImmutables(cf)
		change := familyChange{cf: cf, edit: &manifest.VersionEdit{
			ColumnFamily:       cf.id,
			LogNumber:          manifest.Some(db.wal.number),
			MinLogNumberToKeep: manifest.Some(db.wal.number),
		}, flushed: cf.immutables}
		for _, m := range files {
			change.edit.NewFiles = append(change.edit.NewFiles, manifest.NewFile{Level: 0, Meta: m})
		}
		changes = append(changes, change)
		if err != nil {
			db.removeNewFiles(changes)
			return err
		}
	}
	if err := db.installAll(changes, 0); err != nil {
		if db.manifest.Err() == nil { // else the files may count, and the next Open finds out
			db.removeNewFiles(changes)
		}
		return err
	}
	db.logsHurt = false
	return nil
}

// writeImmutables writes the family's immutable memtables to files, oldest first. After an error it
// returns those that are complete.
func (db *DB) writeImmutables(cf *ColumnFamily) (files []*manifest.FileMetadata, err error) {
	for rest := cf.immutables; len(rest) > 0; {
		mems := cf.oldestForOneFile(rest)
		rest = rest[:len(rest)-len(mems)]
		m, err := db.writeLevel0(cf, mems)
		if err != nil {
			return files, err
		}
		files = append(files, m...)
	}
	return files, nil
}

func (db *DB) removeNewFiles(changes []familyChange) {
	var r compaction.Result
	for _, c := range changes {
		for _, f := range c.edit.NewFiles {
			r.Created = append(r.Created, f.Meta.Number)
		}
	}
	db.removeOutputs(&r)
}

// replaceLog begins a log that does not build on those before, and makes all memtables
// immutable that hold anything. What the old log has of writes that failed is cut off: their sequence numbers go
// to others, and the log may be kept for GetUpdatesSince.
func (db *DB) replaceLog() error {
	old := db.wal
	_ = old.w.Close() // it failed already
	if err := db.cutLog(old); err != nil {
		return err
	}
	db.logsReplaced.Add(1)
	log, err := db.createLog(db.manifest.NewFileNumber(), db.lastSeq+1, nil)
	if err != nil {
		return err
	}
	db.mu.Lock()
	if old.end == 0 {
		old.end = old.w.Size()
		db.closedLogBytes.Add(old.end)
	}
	db.logs = append(db.logs[:len(db.logs):len(db.logs)], log)
	db.wal = log
	families := slices.Clone(db.families)
	db.mu.Unlock()
	for _, cf := range families {
		if cf.active.empty() {
			db.mu.Lock()
			cf.active.logNumber = log.number
			db.mu.Unlock()
			continue
		}
		m, err := cf.newMemState(log.number, 0)
		if err != nil {
			return err
		}
		cf.shelve(m, log.number)
	}
	return nil
}

// cutLog ends the file of a closed log where the log ends, if closing it has not done so.
func (db *DB) cutLog(l *logFile) error {
	info, err := db.fs.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing of it can be replayed, or be given out
	}
	if err != nil || info.Size() <= l.w.Size() {
		return err
	}
	f, err := db.fs.OpenReadWrite(l.path)
	if err != nil {
		return err
	}
	if err = f.Truncate(l.w.Size()); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// resumeLaterLocked tries to resume by itself, after a full disk.
func (db *DB) resumeLaterLocked() {
	if db.stopping || db.opening || db.sched.resuming || db.opts.MaxBgErrorResumeCount < 0 {
		return
	}
	db.sched.resuming = true
	db.workers.Go(func() {
		defer func() {
			db.mu.Lock()
			db.sched.resuming = false
			db.mu.Unlock()
		}()
		for n := 0; db.opts.MaxBgErrorResumeCount == 0 || n < db.opts.MaxBgErrorResumeCount; n++ {
			if !db.sleep(db.opts.BgErrorResumeRetryInterval) {
				return
			}
			if err := db.Resume(db.lifetime); err == nil || !mmapfs.IsNoSpace(err) {
				return
			}
		}
	})
}

// sleep reports false if the database closed meanwhile.
func (db *DB) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-db.lifetime.Done():
		return false
	}
}

// holdCompactionsLocked keeps compactions from beginning for a while because the disk was too full for
// one. Writes go on: they need less.
func (db *DB) holdCompactionsLocked(cause error) {
	if db.stopping || db.sched.held {
		return
	}
	db.sched.held = true
	db.log.Warn("no space for a compaction; trying again later", "err", cause, "after", db.opts.BgErrorResumeRetryInterval)
	db.workers.Go(func() {
		db.sleep(db.opts.BgErrorResumeRetryInterval)
		db.mu.Lock()
		db.sched.held = false
		db.work.Broadcast()
		db.mu.Unlock()
	})
}

// PauseBackgroundWork waits for the flushes and compactions under way and lets no
// other begin until ContinueBackgroundWork was called as often. Writes go on until the
// memtables are full. An error of ctx undoes the call. RocksDB: PauseBackgroundWork.
func (db *DB) PauseBackgroundWork(ctx context.Context) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if db.closed.Load() {
		return ErrClosed
	}
	db.mu.Lock()
	db.sched.paused++
	db.mu.Unlock()
	err := db.waitForJobs(ctx)
	if err != nil {
		err = errors.Join(err, db.ContinueBackgroundWork())
	}
	return err
}

// ContinueBackgroundWork undoes one PauseBackgroundWork; ErrInvalidArgument if
// there is none to undo. RocksDB: ContinueBackgroundWork.
func (db *DB) ContinueBackgroundWork() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.sched.paused == 0 {
		return fmt.Errorf("%w: background work is not paused", ErrInvalidArgument)
	}
	db.sched.paused--
	db.work.Broadcast()
	return nil
}

// CancelAllBackgroundWork ends compactions under way without their result and lets nothing
// begin any more, for a Close that has to be fast. With wait it returns when they
// have ended. Writes made with DisableWAL are flushed first, unless
// AvoidFlushDuringShutdown. Reads go on; writes fail with ErrClosed. RocksDB: CancelAllBackgroundWork.
func (db *DB) CancelAllBackgroundWork(wait bool) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	db.liftPause()
	var err error
	db.exclusive(func() {
		if db.closed.Load() {
			err = ErrClosed
			return
		}
		err = db.stopBackground()
	})
	if err == nil && wait {
		db.mu.Lock()
		for db.sched.flushes > 0 || db.sched.compactions > 0 {
			db.work.Wait()
		}
		db.mu.Unlock()
	}
	return err
}

// liftPause lets go on what the last flush, or a leader that is stalled, waits for.
func (db *DB) liftPause() {
	db.mu.Lock()
	db.sched.paused = 0
	db.work.Broadcast()
	db.mu.Unlock()
}

// stopBackground flushes what no log has, and lets no background work begin any
// more. The commit leader calls it, unless nobody may write.
func (db *DB) stopBackground() error {
	var err error
	db.mu.Lock()
	flush := !db.opts.ReadOnly && !db.mutable().AvoidFlushDuringShutdown && db.background == nil && !db.stopping
	db.mu.Unlock()
	if flush {
		err = db.flushUnlogged()
	}
	db.mu.Lock()
	db.stopping = true
	db.stalled.Store(true)
	db.work.Broadcast()
	db.mu.Unlock()
	db.endLife()
	return err
}

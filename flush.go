package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// Flush writes what the family's memtables hold to level 0 and waits until it is
// there, or with NoWait only until it is scheduled.
func (cf *ColumnFamily) Flush(ctx context.Context, fo *FlushOptions) error {
	db := cf.db
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	var err error
	var id uint64 // memtables up to this one must be gone
	if fo == nil || !fo.AllowWriteStall {
		if id, err = cf.waitForRoomToFlush(ctx); err != nil {
			return err
		}
	}
	db.exclusive(func() {
		if err = db.usable(cf); err != nil {
			return
		}
		if id != 0 && id < cf.active.id {
			return // what there was has become immutable meanwhile
		}
		id = cf.active.id
		if cf.active.empty() {
			id--
			return
		}
		err = db.switchMemtables([]*ColumnFamily{cf}, 0)
	})
	if err != nil {
		return err
	}
	db.mu.Lock()
	if cf.flushBelow < id {
		cf.flushBelow = id
	}
	db.work.Broadcast()
	db.mu.Unlock()
	if fo != nil && fo.NoWait {
		return nil
	}
	return db.waitUntil(ctx, func() (bool, error) {
		if cf.dropped.Load() {
			return true, nil
		}
		n := len(cf.immutables)
		gone := n == 0 || cf.immutables[n-1].id > id
		// Their memory is free, too, once the flush that read them is over.
		return gone && (cf.flushed >= id || !cf.flushing), db.background
	})
}

// waitForRoomToFlush waits until one immutable memtable and one file of level 0 more would
// neither stop nor delay writes, and returns the number of the memtable that was active
// before. What is immutable is flushed meanwhile, even if there are fewer than MinWriteBufferNumberToMerge.
func (cf *ColumnFamily) waitForRoomToFlush(ctx context.Context) (id uint64, err error) {
	db := cf.db
	if err := db.usable(cf); err != nil {
		return 0, err
	}
	err = db.waitUntil(ctx, func() (bool, error) {
		if id == 0 {
			id = cf.active.id
		}
		if cf.dropped.Load() || cf.active.id != id || cf.active.empty() {
			return true, nil
		}
		o, po := cf.mutable(), cf.compactionOptions()
		runs := compaction.DelayRuns(cf.files.version, po)
		if stallOf(o, len(cf.immutables)+1, runs+1, cf.stall.pending) == stallNone {
			return true, nil
		}
		// Below the triggers nothing would make room, nor where no compaction is due: as RocksDB
		// does in the first case, in the second it waits for good.
		if len(cf.immutables) < o.MinWriteBufferNumberToMerge && runs < o.Level0FileNumCompactionTrigger || db.restsLocked() {
			return true, nil
		}
		if n := len(cf.immutables); n > 0 && cf.flushBelow < cf.immutables[0].id {
			cf.flushBelow = cf.immutables[0].id
			db.work.Broadcast()
		}
		return false, db.background
	})
	return id, err
}

// usable says why the family cannot be written, if so.
func (db *DB) usable(cf *ColumnFamily) error {
	switch {
	case db.closed.Load():
		return ErrClosed
	case cf.dropped.Load():
		return fmt.Errorf("%w: %q", ErrColumnFamilyDropped, cf.name)
	}
	return db.writable()
}

// waitUntil waits for background work until done reports true, an error, or the
// context ends. done runs under db.mu.
func (db *DB) waitUntil(ctx context.Context, done func() (bool, error)) error {
	stop := context.AfterFunc(ctx, func() {
		db.mu.Lock()
		db.work.Broadcast()
		db.mu.Unlock()
	})
	defer stop()
	db.mu.Lock()
	defer db.mu.Unlock()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		if err != nil {
			return err
		}
		if db.stopping {
			return ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		db.work.Wait()
	}
}

// pickFlushLocked chooses the family whose oldest memtables are to be flushed next.
func (db *DB) pickFlushLocked() (*ColumnFamily, []*memState) {
	for _, cf := range rotated(db.families, db.sched.nextFlush) {
		n := len(cf.immutables)
		if n == 0 || cf.flushing || cf.dropped.Load() {
			continue
		}
		oldest := cf.immutables[n-1]
		if n < cf.opts.MinWriteBufferNumberToMerge && oldest.id > cf.flushBelow && !db.stopping {
			continue
		}
		return cf, cf.oldestForOneFile(cf.immutables)
	}
	return nil, nil
}

// oldestForOneFile takes the oldest of memtables, which are newest first, that together fit one
// file: level 0 files may not share their span of sequence numbers, so a flush is never split.
func (cf *ColumnFamily) oldestForOneFile(all []*memState) []*memState {
	i := len(all) - 1
	size := all[i].usedBytes()
	for ; i > 0; i-- {
		if size += all[i-1].usedBytes(); size > cf.maxMemtableBytes() {
			break
		}
	}
	return all[i:]
}

// flushMemtables writes mems (newest first, the family's oldest) to level 0 and
// installs the result.
func (db *DB) flushMemtables(cf *ColumnFamily, mems []*memState) (err error) {
	start := time.Now()
	watched := db.beginFlush(cf, mems)
	var files []*manifest.FileMetadata
	defer func() { watched.end(files, err) }()
	files, err = db.writeLevel0(cf, mems)
	if err != nil {
		return err
	}
	edit := &manifest.VersionEdit{ColumnFamily: cf.id}
	for _, m := range files {
		edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: 0, Meta: m})
	}
	if err := db.install(cf, edit, mems); err != nil {
		return err
	}
	for _, m := range files {
		db.metrics.flushed.Add(int64(m.Size))
		db.log.Info("flush", "family", cf.name, "file", m.Number, "bytes", m.Size, "took", time.Since(start))
	}
	db.metrics.flushes.Add(1)
	return nil
}

// writeLevel0 merges memtables, newest first, into at most one synced table file.
func (db *DB) writeLevel0(cf *ColumnFamily, mems []*memState) ([]*manifest.FileMetadata, error) {
	job := &compaction.Job{EpochNumber: db.manifest.NewEpoch(cf.id)}
	for _, m := range mems {
		m.mem.MarkImmutable()
		job.Sources = append(job.Sources, compaction.MemTableSource(m.mem.NewIterator()))
		if err := m.tombs.Verify(); err != nil {
			return nil, err
		}
		job.Tombstones = append(job.Tombstones, m.tombs.Tombstones()...)
	}
	cf.filterFlush(job)
	result, err := db.runJob(context.Background(), cf, job, 0)
	if err != nil {
		return nil, err
	}
	return result.Files, nil
}

// guarded calls f, and turns a fault of a mapped file into an error.
func guarded(f func() error) (err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	return f()
}

// runJob fills in what every job of the family has in common, runs it, and
// removes what it wrote if it failed.
func (db *DB) runJob(ctx context.Context, cf *ColumnFamily, job *compaction.Job, level int) (*compaction.Result, error) {
	now := db.opts.now()
	job.Order = cf.order
	job.Snapshots = db.snapshots.list()
	if n := len(job.Snapshots); n > 0 && mutation.On(mutation.ForgetSnapshot) {
		job.Snapshots = job.Snapshots[:n-1]
	}
	job.Operator = cf.opts.MergeOperator
	job.FileCreationTime = uint64(now.Unix())
	if job.OldestAncestorTime == 0 {
		job.OldestAncestorTime = job.FileCreationTime
	}
	p := &pace{db: db, ctx: ctx, priority: ratelimit.Low}
	flush := level == 0 && job.Beyond == nil
	if flush { // which goes on when the database closes
		p.ctx, p.priority = db.lifetime, ratelimit.High
	}
	p.sums = db.fileSums()
	var prints map[uint64]*fingerprint
	if cf.mutable().ParanoidFileChecks {
		prints = map[uint64]*fingerprint{}
	}
	job.NewOutput = func() (compaction.Output, error) {
		number := db.manifest.NewFileNumber()
		id := db.identity(cf, number, now)
		id.CreationTime, id.OldestKeyTime = job.OldestAncestorTime, job.OldestAncestorTime
		w, err := cf.newTableWriter(number, job, id, p)
		if prints != nil && err == nil {
			f := &fingerprinted{Writer: w}
			prints[number], w = &f.print, f
		}
		out := compaction.Output{Number: number, Writer: w}
		if id, ok := manifest.UniqueID(db.dbID, db.sessionID, number); ok {
			out.UniqueID = id[:]
		}
		return out, err
	}
	if d := cf.mutable().CompactOnDeletion; d != nil {
		job.NewMarker = d.NewMarker
	}
	job.Guard = guarded
	var builder atomic.Int64 // CPU time of the goroutine that builds
	if !flush {              // whose writers need the other processors
		job.Beside = db.beside(&builder)
	}
	result, err := compaction.Run(ctx, job)
	result.CPU = time.Duration(builder.Load())
	if err == nil && prints != nil {
		for _, f := range result.Files {
			if err = cf.verifyOutput(f, level, prints[f.Number]); err != nil {
				break
			}
		}
	}
	if err != nil {
		db.removeOutputs(result)
		return nil, err
	}
	for _, m := range result.Files {
		if err := p.sums.fill(m); err != nil {
			db.removeOutputs(result)
			return nil, err
		}
	}
	if n := result.MergeRefusals; n > 0 {
		db.log.Warn("the merge operator refused operands; they are kept", "family", cf.name, "keys", n, "first", result.MergeRefusal)
	}
	return result, nil
}

// removeOutputs deletes what a job wrote that will not count.
func (db *DB) removeOutputs(r *compaction.Result) {
	for _, n := range r.Created {
		if err := db.fs.Remove(manifest.TableName(db.dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			db.log.Warn("deleting a table file of a failed job", "file", n, "err", err)
		}
	}
}

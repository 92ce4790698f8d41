package flatrock

import (
	"context"
	"errors"
	"slices"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// schedule is what runs in the background. Guarded by db.mu.
type schedule struct {
	flushes, compactions int  // under way
	bottom               int  // those of the compactions that are the bottom pool's
	bottomRunning        int  // and do not wait for a place in it
	exclusive            int  // calls of CompactRange that let no other compaction begin
	manualDisabled       int  // calls of DisableManualCompaction that were not taken back yet
	paused               int  // calls of PauseBackgroundWork that were not continued yet
	held                 bool // automatic compactions wait for space on the disk
	resuming             bool // a goroutine tries to resume
	// nextFlush and nextCompaction are the ids of the families to ask first, so
	// that a busy family does not starve the others.
	nextFlush, nextCompaction uint32
	manuals                   map[*manualCompaction]bool // calls of CompactRange and CompactFiles under way
}

// dispatchLoop starts flushes and compactions, each on a goroutine of its own, as
// soon as there is something to do and the limits allow it. Flushes come first:
// writers wait for them.
func (db *DB) dispatchLoop() {
	defer db.workers.Done()
	db.mu.Lock()
	defer db.mu.Unlock()
	for !db.stopping {
		job := db.nextJobLocked()
		if job == nil {
			db.work.Wait()
			continue
		}
		db.workers.Go(func() {
			defer db.placed.settle(db.log)()
			job()
		})
	}
	db.endManualLocked()
}

// nextJobLocked takes the next flush or compaction, nil if none may begin.
func (db *DB) nextJobLocked() (job func()) {
	if db.background != nil {
		db.endManualLocked()
		return nil
	}
	if db.sched.paused > 0 {
		return nil
	}
	if flushes, _ := db.mutable().jobLimits(); db.sched.flushes < flushes {
		if db.opts.AtomicFlush == On {
			if job := db.atomicFlushJobLocked(); job != nil {
				return job
			}
		} else if cf, mems := db.pickFlushLocked(); cf != nil {
			return db.flushJobLocked(cf, mems)
		}
	}
	return db.nextCompactionLocked()
}

// jobLimits derives how many flushes and compactions may run at once from
// MaxBackgroundJobs and the two older options, as RocksDB does.
func (o *Options) jobLimits() (flushes, compactions int) {
	if o.MaxBackgroundFlushes == 0 && o.MaxBackgroundCompactions == 0 {
		flushes = max(1, o.MaxBackgroundJobs/4)
		return flushes, max(1, o.MaxBackgroundJobs-flushes)
	}
	return max(1, o.MaxBackgroundFlushes), max(1, o.MaxBackgroundCompactions)
}

// nextCompactionLocked takes the next compaction: those that were asked for first,
// then what the pickers find. As in RocksDB, automatic compactions run one at a
// time unless some family falls behind.
func (db *DB) nextCompactionLocked() (job func()) {
	_, limit := db.mutable().jobLimits()
	if db.sched.compactions-db.sched.bottom >= limit {
		return nil
	}
	waiting := map[*ColumnFamily]bool{} // for running compactions to end
	for i := 0; i < len(db.manual); {
		m := db.manual[i]
		choice, err := db.pickManualLocked(m)
		if errors.Is(err, compaction.ErrBusy) {
			waiting[m.cf] = true
			i++
			continue
		}
		db.manual = slices.Delete(slices.Clone(db.manual), i, i+1)
		if choice == nil {
			m.finish(db, err)
			continue
		}
		return db.compactionJobLocked(m.ctx, m.cf, choice, m)
	}
	if db.sched.held || db.sched.exclusive > 0 || db.sched.compactions > db.sched.bottom && !db.speedupLocked() {
		return nil
	}
	for _, cf := range rotated(db.families, db.sched.nextCompaction) {
		if cf.mutable().DisableAutoCompactions || cf.ingesting || cf.dropped.Load() || waiting[cf] {
			continue
		}
		choice := compaction.Pick(cf.pickerInputLocked())
		if choice == nil {
			continue
		}
		db.sched.nextCompaction = cf.id + 1
		if db.opts.BottomPriorityCompactions > 0 && choice.OutputLevel > 0 && choice.OutputLevel == cf.files.version.NumLevels()-1 && !choice.TrivialMove {
			return db.bottomJobLocked(cf, choice)
		}
		return db.compactionJobLocked(db.lifetime, cf, choice, nil)
	}
	return nil
}

// rotated lists families, which are in the order of their ids, from id on.
func rotated(families []*ColumnFamily, id uint32) []*ColumnFamily {
	i := slices.IndexFunc(families, func(cf *ColumnFamily) bool { return cf.id >= id })
	if i <= 0 {
		return families
	}
	return slices.Concat(families[i:], families[:i])
}

// compactionJobLocked takes the files of a choice and returns what compacts them.
// m is the CompactRange that waits for it, or nil.
func (db *DB) compactionJobLocked(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, m *manualCompaction) func() {
	db.sched.compactions++
	cf.running.Add(choice)
	// The pinned state keeps the inputs open, whatever becomes of the family.
	pinned, reader := cf.acquire()
	files := cf.files
	handles := map[uint64]*tableHandle{}
	for _, f := range choice.Files() {
		handles[f.Number] = cf.tables[f.Number]
	}
	return func() {
		err := db.compact(ctx, cf, choice, files, handles)
		pinned.release(reader)
		db.mu.Lock()
		defer db.mu.Unlock()
		cf.running.Remove(choice)
		db.sched.compactions--
		switch {
		case err == nil || ctx.Err() != nil:
		case mmapfs.IsNoSpace(err) && db.manifest.Err() == nil && db.opts.MaxBgErrorResumeCount >= 0:
			db.holdCompactionsLocked(err)
		default:
			err = db.failLocked("compaction", err)
		}
		if m != nil {
			m.stepEnded(db, err)
		}
		db.updateStallLocked()
	}
}

// bottomJobLocked is compactionJobLocked for the bottom pool. While that is full the job waits;
// its files are taken, so that pickers go on with others.
func (db *DB) bottomJobLocked(cf *ColumnFamily, choice *compaction.Choice) func() {
	job := db.compactionJobLocked(db.lifetime, cf, choice, nil)
	db.sched.bottom++
	return func() {
		db.mu.Lock()
		for db.sched.bottomRunning >= db.opts.BottomPriorityCompactions {
			db.work.Wait()
		}
		db.sched.bottomRunning++
		db.mu.Unlock()
		job()
		db.mu.Lock()
		db.sched.bottom--
		db.sched.bottomRunning--
		db.work.Broadcast()
		db.mu.Unlock()
	}
}

// finish answers the CompactRange that waits.
func (m *manualCompaction) finish(db *DB, err error) {
	m.done, m.err = true, err
	db.work.Broadcast()
}

// flushJobLocked takes memtables of a family and returns what flushes them.
func (db *DB) flushJobLocked(cf *ColumnFamily, mems []*memState) func() {
	db.sched.flushes++
	db.sched.nextFlush = cf.id + 1
	cf.flushing = true
	// The pinned state keeps the memtables, whatever becomes of the family.
	pinned, reader := cf.acquire()
	return func() {
		err := db.flushMemtables(cf, mems)
		pinned.release(reader)
		db.mu.Lock()
		defer db.mu.Unlock()
		cf.flushing = false
		for _, m := range mems {
			cf.flushed = max(cf.flushed, m.id)
		}
		db.sched.flushes--
		if err != nil {
			db.failLocked("flush", err)
		}
		db.updateStallLocked()
	}
}

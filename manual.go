package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// BottommostLevelCompaction says when CompactRange writes the files of the last level anew, which
// have nothing below them to be merged with.
type BottommostLevelCompaction = compaction.BottommostPolicy

// The policies: kIfHaveCompactionFilter (the default), kSkip, kForce, and
// kForceOptimized, which leaves out what the same call has just written.
const (
	BottommostIfHaveCompactionFilter = compaction.BottommostIfFilter
	BottommostSkip                   = compaction.BottommostSkip
	BottommostForce                  = compaction.BottommostForce
	BottommostForceOptimized         = compaction.BottommostForceOptimized
)

// CompactRangeOptions tunes CompactRange. Nil means the zero value. To cancel a
// CompactRange, cancel its context.
type CompactRangeOptions struct {
	// ExclusiveManualCompaction waits for the compactions under way and lets no other run meanwhile, of any
	// family. Default means on. RocksDB: exclusive_manual_compaction.
	ExclusiveManualCompaction Toggle
	// ChangeLevel moves the files to TargetLevel at the end: all those of the level that they have come to.
	// A negative TargetLevel means the highest that is empty and large enough. RocksDB: change_level, target_level.
	ChangeLevel bool
	TargetLevel int
	// BottommostLevelCompaction says when the last level is written anew. RocksDB:
	// bottommost_level_compaction.
	BottommostLevelCompaction BottommostLevelCompaction
	// MaxSubcompactions is how many parts a compaction may be done in at once. Zero means
	// Options.MaxSubcompactions. RocksDB: max_subcompactions.
	MaxSubcompactions int
}

// manualCompaction is a CompactRange that waits for its turn or runs.
type manualCompaction struct {
	cf        *ColumnFamily
	steps     compaction.Manual // guarded by db.mu
	exclusive bool
	once      bool // CompactFiles: there are no further steps
	parts     int  // MaxSubcompactions, zero for the database's
	disabled  bool // by DisableManualCompaction; guarded by db.mu
	ctx       context.Context
	cancel    context.CancelFunc
	done      bool // guarded by db.mu
	err       error
}

// CompactRange is DB.CompactRange for this column family. It flushes first. An
// error of the context ends it between two entries; nothing is lost.
//
// In the leveled style the keys move down level by level, as in RocksDB: from the first level
// that has some of them to the last that has files, or with dynamic level bytes the
// last there is. In the universal style all files are merged, whatever the range; in the FIFO
// style it drops what is due.
func (cf *ColumnFamily) CompactRange(ctx context.Context, o *CompactRangeOptions, start, end []byte) error {
	if o == nil {
		o = &CompactRangeOptions{}
	}
	if o.ChangeLevel && o.TargetLevel >= cf.opts.NumLevels {
		return fmt.Errorf("%w: column family %q: TargetLevel %d of %d levels", ErrInvalidArgument, cf.name, o.TargetLevel, cf.opts.NumLevels)
	}
	if err := cf.Flush(ctx, nil); err != nil {
		return err
	}
	db := cf.db
	m := &manualCompaction{cf: cf, exclusive: o.ExclusiveManualCompaction.or(true), parts: o.MaxSubcompactions}
	m.steps = compaction.Manual{
		Start: start, End: end, Bottommost: o.BottommostLevelCompaction, Filter: cf.hasCompactionFilter(),
		NextFile: db.manifest.NextFileNumber(), ChangeLevel: o.ChangeLevel, TargetLevel: o.TargetLevel,
	}
	m.ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	defer context.AfterFunc(db.lifetime, m.cancel)()
	db.mu.Lock()
	if err := db.beginManualLocked(m); err != nil {
		db.mu.Unlock()
		return err
	}
	defer db.endManual(m)
	if m.exclusive {
		db.sched.exclusive++
	}
	db.manual = append(db.manual, m)
	db.work.Broadcast()
	defer context.AfterFunc(ctx, func() { // it may be waiting for others to end
		db.mu.Lock()
		db.work.Broadcast()
		db.mu.Unlock()
	})()
	for !m.done {
		db.work.Wait()
	}
	if m.exclusive {
		db.sched.exclusive--
		db.work.Broadcast()
	}
	err := m.outcome(ctx)
	db.mu.Unlock()
	return err
}

// outcome is what the caller learns. It holds db.mu.
func (m *manualCompaction) outcome(ctx context.Context) error {
	switch canceled := m.err != nil && ctx.Err() == nil && errors.Is(m.err, context.Canceled); {
	case canceled && m.disabled:
		return fmt.Errorf("%w: DisableManualCompaction", ErrPaused)
	case canceled:
		return ErrClosed
	case errors.Is(m.err, compaction.ErrRefused):
		return fmt.Errorf("%w: column family %q: %w", ErrInvalidArgument, m.cf.name, m.err)
	}
	return m.err
}

// pickManualLocked chooses the next step of a CompactRange, nil if there is none.
func (db *DB) pickManualLocked(m *manualCompaction) (*compaction.Choice, error) {
	if err := m.ctx.Err(); err != nil || m.cf.dropped.Load() {
		return nil, err
	}
	if m.cf.ingesting || m.exclusive && db.sched.compactions > 0 {
		return nil, compaction.ErrBusy
	}
	c, err := m.steps.Next(m.cf.pickerInputLocked())
	if c != nil {
		c.MaxSubcompactions = m.parts
	}
	return c, err
}

// beginManualLocked enters a CompactRange or CompactFiles, unless none may begin.
func (db *DB) beginManualLocked(m *manualCompaction) error {
	switch {
	case db.stopping:
		return ErrClosed
	case db.sched.manualDisabled > 0:
		return fmt.Errorf("%w: DisableManualCompaction", ErrPaused)
	}
	if db.sched.manuals == nil {
		db.sched.manuals = map[*manualCompaction]bool{}
	}
	db.sched.manuals[m] = true
	return nil
}

func (db *DB) endManual(m *manualCompaction) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.sched.manuals, m)
	db.work.Broadcast()
}

// DisableManualCompaction cancels the calls of CompactRange and CompactFiles under way, waits for them to
// end, and lets none begin, until EnableManualCompaction has been called as often. They return
// ErrPaused. What they have done so far stays. RocksDB: DisableManualCompaction.
func (db *DB) DisableManualCompaction() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sched.manualDisabled++
	for m := range db.sched.manuals {
		m.disabled = true
		m.cancel()
	}
	for len(db.sched.manuals) > 0 {
		db.work.Broadcast()
		db.work.Wait()
	}
}

// EnableManualCompaction takes one DisableManualCompaction back.
func (db *DB) EnableManualCompaction() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.sched.manualDisabled = max(0, db.sched.manualDisabled-1)
}

// stepEnded follows a step that ran: the next one, or the end. The caller holds db.mu.
func (m *manualCompaction) stepEnded(db *DB, err error) {
	if err != nil || m.once || m.cf.dropped.Load() {
		m.finish(db, err)
		return
	}
	m.steps.Done()
	if db.stopping || db.background != nil {
		m.finish(db, ErrClosed)
		if db.background != nil {
			m.err = db.background
		}
		return
	}
	db.manual = append([]*manualCompaction{m}, db.manual...)
	db.work.Broadcast()
}

// CompactionOptions tunes CompactFiles. Nil means the zero value.
type CompactionOptions struct {
	// OutputFileSizeLimit is the size in bytes at which an output ends. Zero means the target of
	// the output level. RocksDB: output_file_size_limit.
	OutputFileSizeLimit int64
	// MaxSubcompactions is as in CompactRangeOptions.
	MaxSubcompactions int
}

// CompactFiles merges table files of the default column family into a level; see ColumnFamily.CompactFiles.
func (db *DB) CompactFiles(ctx context.Context, o *CompactionOptions, files []string, outputLevel int) (outputs []string, err error) {
	return db.defaultCF.CompactFiles(ctx, o, files, outputLevel)
}

// CompactFiles merges table files of the family, given by their names ("000012.sst"), into a level, and returns the
// names of the files that it wrote. Files that have to come along do: what lies between them in
// their levels, what is older in level 0, and what overlaps them down to outputLevel.
//
// It runs in the caller's goroutine, beside other compactions; ErrBusy says that one of them has
// a file that it needs. ErrInvalidArgument says that there is no such file, or that it lies deeper than outputLevel.
// RocksDB: CompactFiles.
func (cf *ColumnFamily) CompactFiles(ctx context.Context, o *CompactionOptions, files []string, outputLevel int) (outputs []string, err error) {
	db := cf.db
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := db.usable(cf); err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range files {
		kind, n, ok := manifest.ParseName(filepath.Base(name))
		if !ok || kind != manifest.KindTable {
			return nil, fmt.Errorf("%w: CompactFiles: %q is not the name of a table file", ErrInvalidArgument, name)
		}
		numbers = append(numbers, n)
	}
	m := &manualCompaction{cf: cf, once: true}
	m.ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	db.mu.Lock()
	if err := db.beginManualLocked(m); err != nil {
		db.mu.Unlock()
		return nil, err
	}
	defer db.endManual(m)
	switch {
	case db.background != nil:
		err = db.background
	case cf.ingesting || db.sched.exclusive > 0:
		err = compaction.ErrBusy
	}
	var choice *compaction.Choice
	if err == nil {
		choice, err = compaction.PickFiles(cf.pickerInputLocked(), numbers, outputLevel)
	}
	if err != nil {
		m.err = err
		outcome := m.outcome(ctx)
		db.mu.Unlock()
		if errors.Is(err, compaction.ErrBusy) {
			return nil, fmt.Errorf("%w: column family %q: CompactFiles: %w", ErrBusy, cf.name, err)
		}
		return nil, outcome
	}
	if o != nil && o.OutputFileSizeLimit > 0 && outputLevel > 0 {
		choice.TargetFileSize, choice.StretchFileSize = uint64(o.OutputFileSizeLimit), 0
	}
	if o != nil {
		choice.MaxSubcompactions = o.MaxSubcompactions
	}
	job := db.compactionJobLocked(m.ctx, cf, choice, m)
	db.workers.Add(1) // Close waits for it
	db.mu.Unlock()
	job()
	db.workers.Done()
	db.mu.Lock()
	err = m.outcome(ctx)
	db.mu.Unlock()
	for _, f := range choice.Outputs {
		outputs = append(outputs, filepath.Base(manifest.TableName("", f.Number)))
	}
	return outputs, err
}

// releasedSnapshot lets files go through a compaction that hold what only the
// released snapshot could see, or sequence numbers that only it needed.
func (db *DB) releasedSnapshot(oldest uint64) {
	if oldest <= db.heldBack.Load() || db.opts.ReadOnly {
		return
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.stopping || oldest <= db.released.Snapshot {
		return
	}
	db.released = compaction.Released{Snapshot: oldest, Files: db.manifest.NextFileNumber()}
	db.assessHeldLocked()
	db.work.Broadcast()
}

// assessHeldLocked recomputes from which sequence number on the release of a
// snapshot frees something.
func (db *DB) assessHeldLocked() {
	held := uint64(math.MaxUint64)
	for _, cf := range db.families {
		for _, files := range cf.files.version.Levels[1:] {
			for _, f := range files {
				if f.LargestSeq > 0 && f.LargestSeq >= db.released.Snapshot {
					held = min(held, f.LargestSeq)
				}
			}
		}
	}
	db.heldBack.Store(held)
}

// ageInterval is how often background work looks for files that have become old.
const ageInterval = time.Minute

// ageLoop wakes background work for what is due by time alone.
func (db *DB) ageLoop() {
	defer db.workers.Done()
	tick := time.NewTicker(ageInterval)
	defer tick.Stop()
	for {
		select {
		case <-db.lifetime.Done():
			return
		case <-tick.C:
			db.mu.Lock()
			if slices.ContainsFunc(db.families, (*ColumnFamily).ages) {
				db.work.Broadcast()
			}
			db.mu.Unlock()
		}
	}
}

// ages reports whether files of the family become due by time.
func (cf *ColumnFamily) ages() bool {
	o := cf.mutable()
	return o.TTL > 0 || o.PeriodicCompactionSeconds > 0 || len(o.CompactionOptionsFIFO.Ages) > 0 || o.BottommostFileCompactionDelay > 0
}

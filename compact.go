package flatrock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// manualCompaction is a CompactRange that waits for its turn or runs.
type manualCompaction struct {
	cf         *ColumnFamily
	start, end []byte
	force      bool
	ctx        context.Context
	cancel     context.CancelFunc
	done       bool // guarded by db.mu
	err        error
}

// CompactRange is DB.CompactRange for this column family. It flushes first. An
// error of the context ends it between two entries; nothing is lost.
func (cf *ColumnFamily) CompactRange(ctx context.Context, o *CompactRangeOptions, start, end []byte) error {
	if err := cf.Flush(ctx, nil); err != nil {
		return err
	}
	db := cf.db
	m := &manualCompaction{cf: cf, start: start, end: end, force: o != nil && o.Force}
	m.ctx, m.cancel = context.WithCancel(ctx)
	defer m.cancel()
	db.mu.Lock()
	if db.stopping {
		db.mu.Unlock()
		return ErrClosed
	}
	db.manual = append(db.manual, m)
	db.work.Broadcast()
	for !m.done {
		db.work.Wait()
	}
	db.mu.Unlock()
	if m.err != nil && ctx.Err() == nil && errors.Is(m.err, context.Canceled) {
		return ErrClosed
	}
	return m.err
}

// compactionOptions are the family's options as pickers take them.
func (cf *ColumnFamily) compactionOptions() *compaction.Options {
	o := cf.mutable()
	return &compaction.Options{
		L0Trigger:                o.Level0FileNumCompactionTrigger,
		MaxBytesForLevelBase:     uint64(o.MaxBytesForLevelBase),
		MaxBytesForLevelMultiply: o.MaxBytesForLevelMultiplier,
		DynamicLevelBytes:        o.LevelCompactionDynamicLevelBytes.or(true),
		TargetFileSizeBase:       uint64(o.TargetFileSizeBase),
		TargetFileSizeMultiply:   o.TargetFileSizeMultiplier,
	}
}

// compactLoop runs compactions one after the other: those that were asked for
// first, then what the pickers find.
func (db *DB) compactLoop() {
	defer db.workers.Done()
	defer db.placed.settle(db.log)()
	db.mu.Lock()
	defer db.mu.Unlock()
	for {
		if db.stopping || db.background != nil {
			db.endManualLocked()
			if db.stopping {
				return
			}
		} else if len(db.manual) > 0 {
			m := db.manual[0]
			db.runManualLocked(m)
			m.done = true
			db.manual = db.manual[1:]
			db.work.Broadcast()
			continue
		} else if cf, choice := db.pickCompactionLocked(); choice != nil {
			if err := db.compactLocked(db.lifetime, cf, choice); err != nil && !errors.Is(err, context.Canceled) {
				db.failLocked("compaction", err)
			}
			continue
		}
		db.work.Wait()
	}
}

// endManualLocked answers the manual compactions that will not run.
func (db *DB) endManualLocked() {
	for _, m := range db.manual {
		m.done, m.err = true, db.background
		if m.err == nil {
			m.err = ErrClosed
		}
	}
	if len(db.manual) > 0 {
		db.manual = nil
		db.work.Broadcast()
	}
}

func (db *DB) runManualLocked(m *manualCompaction) {
	if m.err = m.ctx.Err(); m.err != nil || m.cf.dropped.Load() {
		return
	}
	choice, err := compaction.PickFull(m.cf.files.version, m.cf.compactionOptions(), compaction.FullOptions{Start: m.start, End: m.end, Force: m.force})
	if err != nil || choice == nil {
		m.err = err
		return
	}
	m.err = db.compactLocked(m.ctx, m.cf, choice)
	if m.err != nil && m.ctx.Err() == nil {
		m.err = db.failLocked("compaction", m.err)
	}
}

func (db *DB) pickCompactionLocked() (*ColumnFamily, *compaction.Choice) {
	for _, cf := range db.families {
		if cf.mutable().DisableAutoCompactions || cf.dropped.Load() {
			continue
		}
		if c := compaction.Pick(cf.files.version, cf.compactionOptions()); c != nil {
			return cf, c
		}
	}
	return nil, nil
}

// compactLocked runs a choice and installs its result. It lets go of db.mu
// meanwhile; the caller holds it before and after.
func (db *DB) compactLocked(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice) error {
	choice.SetBusy(true)
	cf.running = append(cf.running, choice)
	defer func() {
		choice.SetBusy(false)
		cf.running = slices.DeleteFunc(cf.running, func(c *compaction.Choice) bool { return c == choice })
	}()
	// The pinned state keeps the inputs open, whatever becomes of the family.
	pinned, stripe := cf.acquire()
	files := cf.files
	handles := map[uint64]*tableHandle{}
	for _, f := range choice.Files() {
		handles[f.Number] = cf.tables[f.Number]
	}
	db.mu.Unlock()
	err := db.compact(ctx, cf, choice, files, handles)
	pinned.release(stripe)
	db.mu.Lock()
	return err
}

func (db *DB) compact(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle) error {
	start := time.Now()
	edit := &manifest.VersionEdit{ColumnFamily: cf.id, DeletedFiles: choice.Deletions()}
	out := 0
	if choice.TrivialMove {
		for _, f := range choice.Files() {
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: choice.OutputLevel, Meta: f})
		}
	} else {
		job := cf.jobOf(choice, files, handles)
		result, err := db.runJob(ctx, cf, job, choice.OutputLevel)
		if err != nil {
			return err
		}
		for _, f := range result.Files {
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: choice.OutputLevel, Meta: f})
			out += int(f.Size)
		}
		db.metrics.compactedIn.Add(int64(choice.InputBytes()))
		db.metrics.compactedOut.Add(int64(out))
	}
	if err := db.install(cf, edit, nil); err != nil {
		return err
	}
	db.metrics.compactions.Add(1)
	db.log.Info("compaction", "family", cf.name, "reason", choice.Reason.String(), "level", choice.OutputLevel,
		"files", len(choice.Files()), "moved", choice.TrivialMove, "bytes_in", choice.InputBytes(), "bytes_out", out, "took", time.Since(start))
	return nil
}

// jobOf turns a choice into a job over open files.
func (cf *ColumnFamily) jobOf(choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle) *compaction.Job {
	job := &compaction.Job{
		Beyond:                choice.Beyond(files.version),
		Bottommost:            choice.Bottommost,
		TargetFileSize:        int64(min(choice.TargetFileSize, uint64(cf.maxOutputSize()))),
		MaxFileSize:           cf.maxOutputSize(),
		Grandparents:          choice.Grandparents,
		MaxGrandparentOverlap: choice.MaxGrandparentOverlap,
		EpochNumber:           manifest.MinEpoch(choice.Files()),
	}
	to := table.IterOptions{NoFill: true, VerifyChecksums: true, ReadaheadSize: 2 << 20}
	open := func(f *manifest.FileMetadata) (table.Iterator, error) {
		return handles[f.Number].reader().NewIterator(to), nil
	}
	for _, in := range choice.Inputs {
		if in.Level > 0 {
			job.Sources = append(job.Sources, compaction.LevelSource(cf.order, in.Files, open))
		}
		for _, f := range in.Files {
			h := handles[f.Number]
			if in.Level == 0 {
				job.Sources = append(job.Sources, compaction.FileSource(f, h.reader().NewIterator(to)))
			}
			job.Tombstones = h.tombs.AppendTombstones(job.Tombstones)
			if t := f.OldestAncestorTime; t > 0 && (job.OldestAncestorTime == 0 || t < job.OldestAncestorTime) {
				job.OldestAncestorTime = t
			}
		}
	}
	return job
}

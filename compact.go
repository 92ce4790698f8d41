package flatrock

import (
	"context"
	"errors"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
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
	defer context.AfterFunc(db.lifetime, m.cancel)()
	db.mu.Lock()
	if db.stopping {
		db.mu.Unlock()
		return ErrClosed
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

// pickerInputLocked is what pickers choose by.
func (cf *ColumnFamily) pickerInputLocked() *compaction.Input {
	return &compaction.Input{Version: cf.compactable(), Options: cf.compactionOptions(), Running: &cf.running}
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

// pickManualLocked chooses what a CompactRange has to merge, nil if nothing.
func (db *DB) pickManualLocked(m *manualCompaction) (*compaction.Choice, error) {
	if err := m.ctx.Err(); err != nil || m.cf.dropped.Load() {
		return nil, err
	}
	if m.cf.ingesting {
		return nil, compaction.ErrBusy
	}
	return compaction.PickFull(m.cf.pickerInputLocked(), compaction.FullOptions{Start: m.start, End: m.end, Force: m.force})
}

func (db *DB) compact(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle) error {
	start := time.Now()
	edit := &manifest.VersionEdit{ColumnFamily: cf.id, DeletedFiles: choice.Deletions()}
	out := 0
	if choice.Reason == compaction.ReasonManual && cf.hasCompactionFilter() {
		choice.TrivialMove = false // it was asked for so that the filter sees the entries
	}
	if choice.TrivialMove {
		for _, f := range choice.Files() {
			edit.NewFiles = append(edit.NewFiles, manifest.NewFile{Level: choice.OutputLevel, Meta: f})
		}
	} else {
		result, err := db.mergeInputs(ctx, cf, choice, files, handles)
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

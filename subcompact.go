package flatrock

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// maxAnchors is how many keys of a file may serve to share a compaction among goroutines.
const maxAnchors = 128

// mergeInputs runs a choice as one job, or as several side by side, each over a part of
// the key range (RocksDB: subcompactions). Their outputs count together.
func (db *DB) mergeInputs(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle) (*compaction.Result, error) {
	var bounds [][]byte
	n := db.mutable().MaxSubcompactions
	if choice.MaxSubcompactions > 0 {
		n = choice.MaxSubcompactions
	}
	if n > 1 && choice.Splits() {
		var anchors []compaction.Anchor
		for _, f := range choice.Files() {
			a, err := handles[f.Number].anchors(maxAnchors)
			if err != nil {
				return nil, err
			}
			anchors = append(anchors, a...)
		}
		bounds = choice.Boundaries(cf.order, anchors, n)
	}
	if err := checkTombstones(choice, handles); err != nil {
		return nil, err
	}
	if len(bounds) == 0 {
		return db.runPart(ctx, cf, choice, 0, cf.jobOf(ctx, choice, files, handles, nil, nil))
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results := make([]*compaction.Result, len(bounds)+1)
	part := func(i int) {
		var lower, upper []byte
		if i > 0 {
			lower = bounds[i-1]
		}
		if i < len(bounds) {
			upper = bounds[i]
		}
		var err error
		if results[i], err = db.runPart(ctx, cf, choice, i, cf.jobOf(ctx, choice, files, handles, lower, upper)); err != nil {
			cancel(err) // the first of them is the cause
		}
	}
	var others sync.WaitGroup
	for i := 1; i < len(results); i++ {
		others.Go(func() {
			defer db.placed.settle(db.log)()
			part(i)
		})
	}
	part(0)
	others.Wait()
	if ctx.Err() != nil {
		for _, r := range results {
			if r != nil {
				db.removeOutputs(r)
			}
		}
		return nil, context.Cause(ctx)
	}
	all := &compaction.Result{}
	for _, r := range results {
		all.Files = append(all.Files, r.Files...)
		all.Created = append(all.Created, r.Created...)
		all.BlobGarbage = append(all.BlobGarbage, r.BlobGarbage...)
		all.Stats.Add(&r.Stats)
		all.CPU += r.CPU
		if all.MergeRefusals += r.MergeRefusals; all.MergeRefusal == nil {
			all.MergeRefusal = r.MergeRefusal
		}
	}
	return all, nil
}

// beside is the Beside of jobs, nil where there is one processor: goroutines that are placed like those of the
// background, and whose CPU time is added to cpu, in nanoseconds.
func (db *DB) beside(cpu *atomic.Int64) func(func()) func() {
	if runtime.GOMAXPROCS(0) == 1 {
		return nil
	}
	return func(f func()) func() {
		var done sync.WaitGroup
		done.Go(func() {
			defer db.placed.settle(db.log)()
			took := startCPU()
			f()
			cpu.Add(int64(took()))
		})
		return done.Wait
	}
}

// jobOf turns a choice into a job over open files, for the user keys from lower up to but not
// including upper; nil for no bound.
func (cf *ColumnFamily) jobOf(ctx context.Context, choice *compaction.Choice, files *fileSet, handles map[uint64]*tableHandle, lower, upper []byte) *compaction.Job {
	job := &compaction.Job{
		Lower:                 lower,
		Upper:                 upper,
		Beyond:                choice.Beyond(files.version),
		Bottommost:            choice.Bottommost,
		TargetFileSize:        int64(min(choice.TargetFileSize, uint64(cf.maxOutputSize()))),
		MaxFileSize:           cf.maxOutputSize(),
		Grandparents:          choice.Grandparents,
		MaxGrandparentOverlap: choice.MaxGrandparentOverlap,
		KeepSeq:               choice.KeepSeq,
		StretchFileSize:       int64(min(choice.StretchFileSize, uint64(cf.maxOutputSize()))),
		AlignOutputs:          choice.AlignOutputs,
		Aged:                  choice.Aged,
		SplitKey:              choice.SplitKey,
		Temperature:           choice.Temperature,
		Uncompressed:          choice.Uncompressed,
		CompressionLevel:      choice.CompressionLevel,
		EpochNumber:           manifest.MinEpoch(choice.Files()),
	}
	for _, f := range choice.Files() {
		job.Tombstones = handles[f.Number].tombs.AppendTombstones(job.Tombstones)
	}
	covered := compaction.NewCoverage(cf.order, job.Tombstones, cf.db.snapshots.list())
	cf.filterCompaction(job, choice, files.version)
	if cf.db.opts.AllowIngestBehind {
		job.Beyond, job.Bottommost = nil, false // anything may come to lie beneath
	}
	to := table.IterOptions{NoFill: true, VerifyChecksums: true, ReadaheadSize: int(cf.db.mutable().CompactionReadaheadSize), Lower: lower, Upper: upper, Guarded: true, Caller: table.CallerCompaction}
	to.Pace = (&pace{db: cf.db, ctx: ctx, priority: ratelimit.Low}).reads()
	open := func(f *manifest.FileMetadata) (table.Iterator, error) {
		return handles[f.Number].reader().NewIterator(to), nil
	}
	for _, in := range choice.Inputs {
		live := covered.Without(in.Files)
		if lower == nil { // of several parts the first counts
			cf.db.metrics.droppedCovered.Add(int64(len(in.Files) - len(live)))
		}
		if in.Level > 0 && len(live) > 0 {
			job.Sources = append(job.Sources, compaction.LevelSource(cf.order, live, open))
		}
		if in.Level == 0 {
			for _, f := range live {
				job.Sources = append(job.Sources, compaction.FileSource(f, handles[f.Number].reader().NewIterator(to)))
			}
		}
		for _, f := range in.Files {
			if t := f.OldestAncestorTime; t > 0 && (job.OldestAncestorTime == 0 || t < job.OldestAncestorTime) {
				job.OldestAncestorTime = t
			}
		}
	}
	return job
}

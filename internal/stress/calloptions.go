package stress

import (
	"math/rand/v2"

	"github.com/flatrock-db/flatrock"
)

// Options of single calls. What a call is about (a snapshot, bounds, files) its caller sets; what is drawn here
// changes how a call goes, and not what it promises.

// readOptions draws what changes how a read goes, and not what it answers.
func readOptions(rng *rand.Rand, snap *flatrock.Snapshot) *flatrock.ReadOptions {
	ro := &flatrock.ReadOptions{
		Snapshot:                 snap,
		TotalOrderSeek:           rng.IntN(4) == 0,
		AutoPrefixMode:           rng.IntN(4) == 0,
		PinData:                  rng.IntN(4) == 0,
		FillCache:                pick(rng, flatrock.Default, flatrock.Off),
		ReadaheadSize:            pick(rng, 0, 0, 5000),
		AutoReadaheadSize:        pick(rng, flatrock.Default, flatrock.Off),
		AdaptiveReadahead:        rng.IntN(4) == 0,
		AsyncIO:                  rng.IntN(4) == 0,
		MaxSkippableInternalKeys: pick[uint64](rng, 0, 1<<40), // that it ends a walk is tested by itself
	}
	if rng.IntN(4) == 0 {
		ro.Perf = new(flatrock.PerfContext)
	}
	return ro
}

// unverified lets a read trust blocks, where nothing damages them.
func unverified(rng *rand.Rand, h harness, ro *flatrock.ReadOptions) *flatrock.ReadOptions {
	if !h.flips && rng.IntN(4) == 0 {
		ro.VerifyChecksums = flatrock.Off
	}
	return ro
}

// drawWrite draws the options of a write; sync is how many of a hundred are synced.
func (o *roundOptions) drawWrite(rng *rand.Rand, sync int) *flatrock.WriteOptions {
	wo := &flatrock.WriteOptions{
		DisableWAL:            o.noWAL,
		Sync:                  !o.noWAL && !o.noSync && rng.IntN(100) < sync,
		ProtectionBytesPerKey: o.protect,
		NoSlowdown:            rng.IntN(20) == 0,
		LowPri:                rng.IntN(20) == 0,
	}
	if rng.IntN(10) == 0 {
		wo.Perf = new(flatrock.PerfContext)
	}
	return wo
}

func flushOptions(rng *rand.Rand) *flatrock.FlushOptions {
	return &flatrock.FlushOptions{NoWait: rng.IntN(6) == 0, AllowWriteStall: rng.IntN(3) == 0}
}

// compactRangeOptions draws those of CompactRange; see refused.
func compactRangeOptions(rng *rand.Rand) *flatrock.CompactRangeOptions {
	return &flatrock.CompactRangeOptions{
		ChangeLevel:               rng.IntN(4) == 0,
		TargetLevel:               rng.IntN(5) - 1,
		BottommostLevelCompaction: flatrock.BottommostLevelCompaction(rng.IntN(4)),
		ExclusiveManualCompaction: pick(rng, flatrock.Default, flatrock.On, flatrock.Off),
		MaxSubcompactions:         pick(rng, 0, 1, 3),
	}
}

func compactFilesOptions(rng *rand.Rand) *flatrock.CompactionOptions {
	return &flatrock.CompactionOptions{OutputFileSizeLimit: pick[int64](rng, 0, 5000, 1<<20), MaxSubcompactions: pick(rng, 0, 1, 3)}
}

// ingestOptions draws those of an ordinary ingestion. verify: a bit that flipped while the file is copied would stay.
func ingestOptions(rng *rand.Rand, verify bool) *flatrock.IngestExternalFileOptions {
	return &flatrock.IngestExternalFileOptions{
		MoveFiles:                   rng.IntN(2) == 0,
		FailedMoveFallBackToCopy:    pick(rng, flatrock.Default, flatrock.On),
		WriteGlobalSeqno:            rng.IntN(6) == 0,
		VerifyChecksumsBeforeIngest: verify || rng.IntN(2) == 0,
		AllowGlobalSeqno:            pick(rng, flatrock.Default, flatrock.On),
		AllowBlockingFlush:          pick(rng, flatrock.Default, flatrock.On),
	}
}

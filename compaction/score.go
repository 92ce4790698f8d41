package compaction

import (
	"cmp"
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Score says how much a level needs to be compacted: from 1 on it does.
type Score struct {
	Level int
	Score float64
}

// scoreScale lifts levels over their target above those that are only close, so
// that dividing by what is about to come down keeps them apart.
const scoreScale = 10

// Scores rates the levels that can be compacted from, neediest first. Files that
// are being compacted do not count. As in RocksDB, L0 is rated by its number of
// files and by its size, deeper levels by their size over their target; with
// dynamic level bytes, what is about to arrive from above counts with the target,
// and levels that are not needed are drained. The sorted runs of the universal style
// and the files of the FIFO style are rated as L0.
func Scores(in *Input, s LevelShape) []Score {
	v, o := in.Version, in.Options
	switch o.Style {
	case Universal:
		return []Score{{0, in.scoreUniversal()}}
	case FIFO:
		return []Score{{0, in.scoreFIFO()}}
	case NoStyle:
		return nil
	}
	scores := make([]Score, 0, v.NumLevels())
	arriving := float64(v.LevelBytes(0))
	for level := range v.NumLevels() - 1 {
		if level == 0 {
			scores = append(scores, Score{0, in.scoreL0(s)})
			continue
		}
		idle, limit := in.idleBytes(v.Levels[level]), s.MaxBytes[level]
		score := float64(idle) / float64(limit)
		if o.DynamicLevelBytes {
			if idle >= limit {
				score = float64(idle) / (float64(limit) + arriving) * scoreScale
			}
			if idle > 0 && level <= s.Unnecessary {
				score = max(score, scoreScale*(1.001+0.001*float64(s.Unnecessary-level)))
			}
		}
		switch total := v.LevelBytes(level); {
		case level <= s.Unnecessary:
			arriving += float64(total)
		case total > limit:
			arriving += float64(total - limit)
		}
		scores = append(scores, Score{level, score})
	}
	slices.SortStableFunc(scores, func(a, b Score) int { return cmp.Compare(b.Score, a.Score) })
	return scores
}

func (in *Input) scoreL0(s LevelShape) float64 {
	v, o := in.Version, in.Options
	files := 0
	for _, f := range v.Levels[0] {
		if !in.Running.Busy(f) {
			files++
		}
	}
	size := in.idleBytes(v.Levels[0])
	score := float64(files) / float64(max(o.L0Trigger, 1))
	if v.NumLevels() == 1 {
		return score
	}
	if !o.DynamicLevelBytes {
		return max(score, float64(size)/float64(max(o.MaxBytesForLevelBase, 1)))
	}
	if size >= o.MaxBytesForLevelBase {
		// Few but large files: do not let L0 outgrow the base level.
		score = max(score, 1.01)
	}
	if target := s.MaxBytes[s.BaseLevel]; size > target {
		score = max(score, float64(size)/float64(max(in.compensatedBytes(v.Levels[s.BaseLevel]), target)))
	}
	if score > 1 {
		score *= scoreScale
	}
	return score
}

// idleBytes is the compensated size of the files that no compaction has taken.
func (in *Input) idleBytes(files []*manifest.FileMetadata) (n uint64) {
	for _, f := range files {
		if !in.Running.Busy(f) {
			n += in.compensated(f)
		}
	}
	return n
}

// PendingBytes estimates how many bytes compactions must rewrite until every
// level is within its target, as RocksDB's estimate-pending-compaction-bytes,
// which write stalls go by. Zero for other styles than the leveled one.
func PendingBytes(v *manifest.Version, o *Options, s LevelShape) uint64 {
	if o.Style != Leveled {
		return 0
	}
	var pending, coming float64
	l0 := float64(v.LevelBytes(0))
	fromL0 := len(v.Levels[0]) >= o.L0Trigger || v.LevelBytes(0) >= o.MaxBytesForLevelBase
	if fromL0 && len(v.Levels[0]) > 0 {
		pending, coming = l0, l0
	}
	next := float64(0) // the size of the level, when already looked up
	for level := s.BaseLevel; level < v.NumLevels()-1; level++ {
		size := next
		if size == 0 {
			size = float64(v.LevelBytes(level))
		}
		next = 0
		if level == s.BaseLevel && fromL0 {
			pending += size
		}
		size += coming
		coming = 0
		if limit := float64(s.MaxBytes[level]); size > limit {
			coming = size - limit
			if next = float64(v.LevelBytes(level + 1)); next > 0 {
				// What comes down is merged with its share of the next level.
				pending += coming * (next/size + 1)
			}
		}
	}
	return clampBytes(pending)
}

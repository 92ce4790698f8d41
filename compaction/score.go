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
// dynamic level bytes, what is about to arrive from above counts with the target.
func Scores(in *Input, s LevelShape) []Score {
	v, o := in.Version, in.Options
	scores := make([]Score, 0, v.NumLevels())
	var arriving uint64
	for level := range v.NumLevels() - 1 {
		idle, total := in.idleBytes(v.Levels[level])
		var score float64
		if level == 0 {
			score = in.scoreL0(s, &arriving)
		} else {
			limit := s.MaxBytes[level]
			switch {
			case !o.DynamicLevelBytes || idle < limit:
				score = float64(idle) / float64(limit)
			default:
				score = float64(idle) / (float64(limit) + float64(arriving)) * scoreScale
			}
			if total > limit {
				arriving += total - limit
			}
		}
		scores = append(scores, Score{level, score})
	}
	slices.SortStableFunc(scores, func(a, b Score) int { return cmp.Compare(b.Score, a.Score) })
	return scores
}

func (in *Input) scoreL0(s LevelShape, arriving *uint64) float64 {
	v, o := in.Version, in.Options
	files, size := 0, uint64(0)
	for _, f := range v.Levels[0] {
		if !in.Running.Busy(f) {
			files++
			size += f.Size
		}
	}
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
		base := max(v.LevelBytes(s.BaseLevel), min(s.MaxBytes[s.BaseLevel], o.MaxBytesForLevelBase), 1)
		score = max(score, float64(size)/float64(base))
	}
	if score > 1 {
		score *= scoreScale
		*arriving += size
	}
	return score
}

// idleBytes is the size of the files that no compaction has taken, and of all.
func (in *Input) idleBytes(files []*manifest.FileMetadata) (idle, total uint64) {
	for _, f := range files {
		total += f.Size
		if !in.Running.Busy(f) {
			idle += f.Size
		}
	}
	return idle, total
}

// PendingBytes estimates how many bytes compactions must rewrite until every
// level is within its target, as RocksDB's estimate-pending-compaction-bytes,
// which write stalls go by.
func PendingBytes(v *manifest.Version, o *Options, s LevelShape) uint64 {
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

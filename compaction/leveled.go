package compaction

import (
	"cmp"
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Pick chooses the compaction that a leveled family needs most, nil if it needs
// none or the files that it needs are being compacted. It looks at in alone.
func Pick(in *Input) *Choice {
	s := Shape(in.Version, in.Options)
	for _, score := range Scores(in, s) {
		if score.Score < 1 {
			return nil
		}
		if c := in.pickFrom(s, score); c != nil {
			return c
		}
	}
	return nil
}

func (in *Input) pickFrom(s LevelShape, score Score) *Choice {
	if score.Level == 0 {
		return in.pickL0(s, score)
	}
	for _, f := range byOverlapRatio(in.Version, score.Level) {
		if in.Running.Busy(f) {
			continue
		}
		c := &Choice{Reason: ReasonLevelSize, Score: score.Score, OutputLevel: score.Level + 1}
		if c.fill(in, s, score.Level, f) {
			return c
		}
	}
	return nil
}

// pickL0 starts from the oldest file: what overlaps it must come along anyway,
// and newer files that do not may wait.
func (in *Input) pickL0(s LevelShape, score Score) *Choice {
	files := in.Version.Levels[0]
	// One compaction out of L0 at a time: a second would have to be ordered
	// against the first where their outputs meet.
	if len(files) == 0 || in.Running.fromL0() || s.BaseLevel == 0 {
		return nil
	}
	c := &Choice{Reason: ReasonL0Files, Score: score.Score, OutputLevel: s.BaseLevel}
	if !c.fill(in, s, 0, files[len(files)-1]) {
		return nil
	}
	return c
}

// fill builds a compaction around file f of level. It reports false if a file
// that must come along is being compacted.
func (c *Choice) fill(in *Input, s LevelShape, level int, f *manifest.FileMetadata) bool {
	v := in.Version
	order := v.Order()
	var r keyRange
	r.add(order, f)
	start := cleanCut(v, level, r)
	if in.Running.anyBusy(start) {
		return false
	}
	r.add(order, start...)
	below := cleanCut(v, c.OutputLevel, r)
	if in.Running.anyBusy(below) {
		return false
	}
	if len(below) > 0 {
		start = in.widen(level, c.OutputLevel, start, below)
	}
	c.Inputs = []LevelInputs{{level, start}}
	if len(below) > 0 {
		c.Inputs = append(c.Inputs, LevelInputs{c.OutputLevel, below})
	}
	c.complete(in, s)
	if in.Running.writesTo(order, c.OutputLevel, c.Smallest, c.Largest) {
		return false
	}
	c.TrivialMove = c.movable(in.Options, level)
	return true
}

// widen takes more files of the start level if that costs no further file of the
// output level: they get merged for the price of themselves.
func (in *Input) widen(level, outputLevel int, start, below []*manifest.FileMetadata) []*manifest.FileMetadata {
	v, o := in.Version, in.Options
	var r keyRange
	r.add(v.Order(), start...)
	r.add(v.Order(), below...)
	wide := cleanCut(v, level, r)
	if len(wide) <= len(start) || in.Running.anyBusy(wide) ||
		totalBytes(wide)+totalBytes(below) >= o.maxCompactionBytes() {
		return start
	}
	var wr keyRange
	wr.add(v.Order(), wide...)
	if !slices.Equal(cleanCut(v, outputLevel, wr), below) {
		return start
	}
	return wide
}

// movable reports whether the inputs can change level as they are: nothing in the
// output level overlaps them, they do not overlap each other, and a later
// compaction of a moved file stays affordable.
func (c *Choice) movable(o *Options, level int) bool {
	if len(c.Inputs) != 1 || len(c.Inputs[0].Files) != 1 {
		return false
	}
	f := c.Inputs[0].Files[0]
	if o.MayMove != nil && !o.MayMove(f, level, c.OutputLevel) {
		return false
	}
	return totalBytes(c.Grandparents) <= c.MaxGrandparentOverlap
}

// byOverlapRatio lists the files of a level by the bytes that they overlap in the
// next, relative to their own: cheapest to move down first (RocksDB:
// kMinOverlappingRatio).
func byOverlapRatio(v *manifest.Version, level int) []*manifest.FileMetadata {
	type rated struct {
		f     *manifest.FileMetadata
		ratio uint64
	}
	all := make([]rated, 0, len(v.Levels[level]))
	var below []*manifest.FileMetadata
	for _, f := range v.Levels[level] {
		below = v.Overlapping(below[:0], level+1, f.SmallestKey, f.LargestKey)
		all = append(all, rated{f, totalBytes(below) * 1024 / max(f.Size, 1)})
	}
	slices.SortStableFunc(all, func(a, b rated) int { return cmp.Compare(a.ratio, b.ratio) })
	files := make([]*manifest.FileMetadata, len(all))
	for i, r := range all {
		files[i] = r.f
	}
	return files
}

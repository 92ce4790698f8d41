package compaction

import (
	"errors"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// ErrBusy says that a manual compaction must wait: files that it needs are being
// compacted.
var ErrBusy = errors.New("files of the range are being compacted")

// FullOptions say what a manual compaction covers.
type FullOptions struct {
	// Start and End are the user keys between which all data is compacted, both
	// included; nil for no bound.
	Start, End []byte
	// Force rewrites the range even if it is all in one level deeper than L0
	// already (RocksDB: BottommostLevelCompaction::kForce). Without it such a range
	// is left alone.
	Force bool
}

// PickFull chooses one compaction of everything in a range: from the first level
// that has files in it to the deepest that does, or to the base level if that is
// deeper. It returns nil if there is nothing to do.
//
// A level's files bring along the files below that overlap them, never those
// above: newer data may stay above older data.
func PickFull(in *Input, full FullOptions) (*Choice, error) {
	v := in.Version
	s := Shape(v, in.Options)
	c := &Choice{Reason: ReasonManual}
	var taken keyRange
	deepest := -1
	for level := range v.NumLevels() {
		files := fullInputs(v, level, full, taken)
		if len(files) == 0 {
			continue
		}
		if in.Running.anyBusy(files) {
			return nil, ErrBusy
		}
		taken.add(v.Order(), files...)
		c.Inputs = append(c.Inputs, LevelInputs{level, files})
		deepest = level
	}
	if deepest < 0 {
		return nil, nil
	}
	if len(c.Inputs) == 1 && deepest > 0 && !full.Force {
		return nil, nil
	}
	c.OutputLevel = deepest
	if deepest == 0 {
		c.OutputLevel = s.BaseLevel
	}
	c.complete(in, s)
	if in.Running.writesTo(v.Order(), c.OutputLevel, c.Smallest, c.Largest) {
		return nil, ErrBusy
	}
	return c, nil
}

// fullInputs are the files of a level in the asked range and those that overlap
// what has been taken from the levels above.
func fullInputs(v *manifest.Version, level int, full FullOptions, taken keyRange) []*manifest.FileMetadata {
	var r keyRange
	r.add(v.Order(), v.Overlapping(nil, level, full.Start, full.End)...)
	if taken.some {
		r.add(v.Order(), v.Overlapping(nil, level, taken.smallest, taken.largest)...)
	}
	return cleanCut(v, level, r)
}

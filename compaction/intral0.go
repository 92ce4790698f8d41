package compaction

import (
	"math"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// minWithinL0 is how many files are worth being merged within L0.
const minWithinL0 = 4

// withinL0 merges the newest files of L0 with each other, when L0 cannot be moved
// down and goes on growing: reads and write stalls go by the number of files.
func (p *leveled) withinL0() *Choice {
	if len(p.v.Levels[0]) < p.o.L0Trigger+2 {
		return nil
	}
	return p.in.spanOfL0(p.s, p.in.cheapSpan(minWithinL0, math.MaxUint64, p.o.maxCompactionBytes()), ReasonL0Files)
}

// smallL0 merges L0 with itself when it is so small beside the base level that
// merging it down would rewrite that for little.
func (p *leveled) smallL0() *Choice {
	files := p.v.Levels[0]
	least := max(2, p.o.L0Trigger)
	if len(files) < least {
		return nil
	}
	times := max(10, p.o.MaxBytesForLevelMultiply) * 2
	if float64(p.v.LevelBytes(p.s.BaseLevel)) <= float64(p.in.compensatedBytes(files))*times {
		return nil
	}
	n := 0
	for n < len(files) && !p.in.Running.Busy(files[n]) {
		n++
	}
	if n < least {
		return nil
	}
	return p.in.spanOfL0(p.s, files[:n:n], ReasonL0Files)
}

// cheapSpan is the span of L0 files from the newest on for which the bytes to be
// merged for each file that goes away do not grow, and are fewer than perFile; nil if
// that are fewer than least files.
func (in *Input) cheapSpan(least int, perFile, most uint64) []*manifest.FileMetadata {
	files := in.Version.Levels[0]
	if len(files) == 0 || in.Running.Busy(files[0]) {
		return nil
	}
	size, cost := files[0].Size, uint64(math.MaxUint64)
	n := 1
	for ; n < len(files); n++ {
		size += files[n].Size
		next := size / uint64(n)
		if in.Running.Busy(files[n]) || next > cost || size > most {
			break
		}
		cost = next
	}
	if n < least || cost >= perFile {
		return nil
	}
	return files[:n:n]
}

// spanOfL0 is a compaction of neighbours in L0 into one file there.
func (in *Input) spanOfL0(s LevelShape, files []*manifest.FileMetadata, reason Reason) *Choice {
	if len(files) == 0 || in.Options.MaxL0Output > 0 && totalBytes(files) > in.Options.MaxL0Output {
		return nil
	}
	c := &Choice{Reason: reason, Inputs: []LevelInputs{{0, files}}}
	c.complete(in, s)
	return c
}

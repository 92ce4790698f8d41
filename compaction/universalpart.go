package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

func sortByKey(order keys.Order, files []*manifest.FileMetadata) {
	slices.SortFunc(files, func(a, b *manifest.FileMetadata) int {
		return order.CompareInternal(a.SmallestKey, a.SmallestTrailer, b.SmallestKey, b.SmallestTrailer)
	})
}

// marked picks around a file that its writer marked, as in the leveled style: with
// what overlaps it in the next level that has files.
func (p *universal) marked() *Choice {
	files := marked(p.in)
	if p.v.NumLevels() == 1 {
		return p.markedL0()
	}
	part := &leveled{p.in, p.v, p.o, p.s}
	for _, lf := range files {
		if lf.level == 0 && p.in.Running.fromL0() {
			continue
		}
		to := lf.level + 1
		for to < p.v.NumLevels() && len(p.v.Levels[to]) == 0 {
			to++
		}
		if to == p.v.NumLevels() {
			if lf.level > 0 {
				continue // a move would free nothing
			}
			to--
		}
		c := &Choice{Reason: ReasonMarked, OutputLevel: to}
		if part.fill(c, lf.level, []*manifest.FileMetadata{lf.file}, both) {
			if len(c.Inputs) == 1 && lf.level > 0 {
				continue
			}
			c.TrivialMove = false
			return p.finish(c)
		}
	}
	return nil
}

// markedL0 merges the runs from the first marked file on, in a family of one level.
func (p *universal) markedL0() *Choice {
	for start := range len(p.runs) - 1 {
		r := p.runs[start]
		if r.busy || !r.files[0].MarkedForCompaction {
			continue
		}
		end := start + 1
		for end < len(p.runs) && !p.runs[end].busy {
			end++
		}
		if end-start < 2 {
			return nil
		}
		return p.span(start, end, ReasonMarked)
	}
	return nil
}

// incremental picks a part of the last two runs, which are levels, instead of
// merging all: the stretch of about half of max_compaction_bytes for which the fewest
// bytes of the last level are rewritten for each byte that comes down. nil if no
// stretch takes fewer than limit. Files of higher levels that lie in its range
// come along.
func (p *universal) incremental(limit float64) *Choice {
	if len(p.runs) < 2 || p.runs[len(p.runs)-2].level == 0 {
		return nil
	}
	last := p.runs[len(p.runs)-1].level
	level := p.runs[len(p.runs)-2].level
	files := p.v.Levels[level]
	lo, hi := p.cheapestStretch(files, last, limit)
	if lo == hi || p.in.Running.anyBusy(files[lo:hi]) {
		return nil
	}
	part := &leveled{p.in, p.v, p.o, p.s}
	c := &Choice{Reason: ReasonUniversalSizeAmp, Score: p.in.scoreUniversal(), OutputLevel: last}
	if !part.fill(c, level, files[lo:hi:hi], both) || len(c.Inputs) == 1 {
		return nil
	}
	r := keyRange{c.Smallest, c.Largest, true}
	for i := len(p.runs) - 3; i >= 0 && p.runs[i].level > 0; i-- {
		inner := within(p.v, p.runs[i].level, r)
		if len(inner) == 0 {
			continue
		}
		if p.in.Running.anyBusy(inner) {
			return nil
		}
		c.Inputs = slices.Insert(c.Inputs, 0, LevelInputs{p.runs[i].level, inner})
		r = keyRange{}
		r.add(p.v.Order(), inner...)
	}
	c.TrivialMove = false
	c.Grandparents = nil
	return p.finish(c)
}

// cheapestStretch slides a window over the files, and weighs it against what it
// overlaps in the last level whenever both together are large enough.
func (p *universal) cheapestStretch(files []*manifest.FileMetadata, last int, limit float64) (bestLo, bestHi int) {
	enough := p.o.maxCompactionBytes() / 2
	below := func(lo, hi int) uint64 {
		return totalBytes(p.v.Overlapping(nil, last, files[lo].SmallestKey, files[hi-1].LargestKey))
	}
	best, lo := limit, 0
	for hi := 1; hi <= len(files); hi++ {
		if hi-1 > lo && p.gapBetween(files[hi-2], files[hi-1], last) {
			lo = hi - 1 // a file of the last level would be rewritten for nothing
		}
		for lo < hi {
			top, bottom := totalBytes(files[lo:hi]), below(lo, hi)
			large := top+bottom > enough
			if (large || hi == len(files)) && top > 0 {
				if ratio := float64(bottom) / float64(top); ratio < best {
					best, bestLo, bestHi = ratio, lo, hi
				}
			}
			if !large {
				break
			}
			lo++
		}
	}
	return bestLo, bestHi
}

// gapBetween reports whether a whole file of the level lies between a and b.
func (p *universal) gapBetween(a, b *manifest.FileMetadata, level int) bool {
	order := p.v.Order()
	for _, f := range p.v.Overlapping(nil, level, a.LargestKey, b.SmallestKey) {
		if order.Compare(f.SmallestKey, a.LargestKey) > 0 && order.Compare(f.LargestKey, b.SmallestKey) < 0 {
			return true
		}
	}
	return false
}

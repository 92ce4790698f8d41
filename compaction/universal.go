package compaction

import (
	"math"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// StopStyle says with what the next run is compared when runs are taken together.
type StopStyle uint8

// The stop styles.
const (
	StopTotalSize   StopStyle = iota // all that were taken
	StopSimilarSize                  // the last one
)

// UniversalOptions tune the universal style. RocksDB: CompactionOptionsUniversal.
type UniversalOptions struct {
	SizeRatio                   int // size_ratio, in per cent
	MinMergeWidth               int // min_merge_width
	MaxMergeWidth               int // max_merge_width
	MaxSizeAmplificationPercent int // max_size_amplification_percent
	CompressionSizePercent      int // compression_size_percent; negative: all is compressed
	StopStyle                   StopStyle
	AllowTrivialMove            bool
	Incremental                 bool
	// MaxReadAmp is how many runs there may be: -1 for L0Trigger, 0 to derive it from
	// the sizes. RocksDB: max_read_amp.
	MaxReadAmp int
}

// DefaultUniversalOptions are RocksDB's defaults.
func DefaultUniversalOptions() UniversalOptions {
	return UniversalOptions{SizeRatio: 1, MinMergeWidth: 2, MaxMergeWidth: math.MaxInt32,
		MaxSizeAmplificationPercent: 200, CompressionSizePercent: -1, MaxReadAmp: -1}
}

// sortedRun is a file of L0 or a whole deeper level.
type sortedRun struct {
	level       int
	files       []*manifest.FileMetadata
	size        uint64
	compensated uint64
	busy        bool
}

// universal picks in the universal style: L0 files and levels are sorted runs, the
// newest first, and whole runs that are neighbours are merged.
type universal struct {
	in   *Input
	v    *manifest.Version
	o    *Options
	u    *UniversalOptions
	s    LevelShape
	runs []sortedRun
}

func pickUniversal(in *Input) *Choice {
	p := &universal{in: in, v: in.Version, o: in.Options, u: &in.Options.Universal, s: Shape(in.Version, in.Options)}
	p.runs = in.sortedRuns()
	if len(p.runs) == 0 {
		return nil
	}
	c := p.pick()
	if c != nil && p.u.AllowTrivialMove && c.Reason != ReasonPeriodic && c.OutputLevel > 0 {
		c.TrivialMove = p.disjoint(c)
	}
	return c
}

func (in *Input) sortedRuns() (runs []sortedRun) {
	for _, f := range in.Version.Levels[0] {
		runs = append(runs, sortedRun{0, []*manifest.FileMetadata{f}, f.Size, in.compensated(f), in.Running.Busy(f)})
	}
	for level := 1; level < in.Version.NumLevels(); level++ {
		if files := in.Version.Levels[level]; len(files) > 0 {
			runs = append(runs, sortedRun{level, files, totalBytes(files), in.compensatedBytes(files), in.Running.anyBusy(files)})
		}
	}
	return runs
}

// DelayRuns is what write stalls compare with the triggers of L0: its files, and in
// the universal style the deeper levels with files too, each a sorted run.
func DelayRuns(v *manifest.Version, o *Options) int {
	n := len(v.Levels[0])
	for level := 1; level < v.NumLevels() && o.Style == Universal; level++ {
		if len(v.Levels[level]) > 0 {
			n++
		}
	}
	return n
}

func (in *Input) scoreUniversal() float64 {
	n := 0
	for _, r := range in.sortedRuns() {
		if r.level == 0 && !r.busy || r.level > 0 && !in.Running.Busy(r.files[0]) {
			n++
		}
	}
	return float64(n) / float64(max(in.Options.L0Trigger, 1))
}

func (p *universal) pick() *Choice {
	if due := p.in.periodic(); len(due) > 0 {
		if c := p.periodic(due); c != nil {
			return c
		}
	}
	if len(p.runs) >= p.o.L0Trigger {
		if c := p.sizeAmp(); c != nil {
			return c
		}
		if c := p.merge(float64(p.u.SizeRatio), math.MaxInt, ReasonUniversalSizeRatio); c != nil {
			return c
		}
		if n := p.tooMany(); n > 0 {
			if c := p.merge(math.MaxUint32, n, ReasonUniversalRuns); c != nil {
				return c
			}
		}
	}
	return p.marked()
}

// periodic merges everything, from the oldest run up to the first that is busy.
func (p *universal) periodic(due []levelFile) *Choice {
	start := len(p.runs)
	for start > 0 && !p.runs[start-1].busy {
		start--
	}
	if start == len(p.runs) {
		return nil
	}
	if start == len(p.runs)-1 { // alone, the last run is only worth it if it is due
		r, found := p.runs[start], false
		for _, lf := range due {
			found = found || lf.level == r.level && (r.level > 0 || lf.file == r.files[0])
		}
		if !found {
			return nil
		}
	}
	return p.span(start, len(p.runs), ReasonPeriodic)
}

// sizeAmp merges all runs from the oldest up to the first that is busy, when those
// over the oldest are too large beside it: old versions and deletes may be as many
// bytes again.
func (p *universal) sizeAmp() *Choice {
	last := len(p.runs) - 1
	if p.runs[last].busy {
		return nil
	}
	start, size, l0 := last, uint64(0), 0
	for start > 0 && !p.runs[start-1].busy {
		start--
		size += p.runs[start].compensated
		if p.runs[start].level == 0 {
			l0++
		}
	}
	if start == last {
		return nil
	}
	start, size = p.leaveNewest(start, l0, size)
	if size*100 < uint64(p.u.MaxSizeAmplificationPercent)*p.runs[last].size {
		return nil
	}
	if p.u.Incremental {
		if c := p.incremental(float64(p.runs[last].size) / float64(max(size, 1)) * 1.8); c != nil {
			return c
		}
	}
	return p.span(start, len(p.runs), ReasonUniversalSizeAmp)
}

// leaveNewest leaves out the newest files of L0 if that changes little: while the
// long merge runs they can be merged with what comes, so that writes need not stop.
func (p *universal) leaveNewest(start, l0 int, size uint64) (int, uint64) {
	if l0 == 0 {
		return start, size
	}
	last := len(p.runs) - 1
	most := min(l0-1, last-start-1)
	extra := p.o.L0StopTrigger - min(p.o.L0StopTrigger, last-start+1)
	low := min(p.u.MinMergeWidth-min(p.u.MinMergeWidth, extra), most)
	high := min(p.u.MaxMergeWidth-min(p.u.MaxMergeWidth, extra), most)
	left := 0
	for n := low; n <= high; n++ {
		now := size
		for i := left; i < n; i++ {
			now -= p.runs[start+i].compensated
		}
		if now*100 < uint64(p.u.MaxSizeAmplificationPercent)*p.runs[last].size || now < size*9/10 {
			break
		}
		left, size = n, now
	}
	return start + left, size
}

// tooMany is how many runs are to be merged into one so that no more than allowed
// remain, zero if none need to be.
func (p *universal) tooMany() int {
	most := p.u.MaxReadAmp
	switch {
	case most < 0 || most == 0 && p.u.StopStyle != StopTotalSize:
		most = p.o.L0Trigger
	case most == 0: // as many as there can be if each is as large as those before allow
		var largest uint64
		for _, r := range p.runs {
			largest = max(largest, r.size)
		}
		most = 1
		total := 0.0
		for size := float64(max(p.o.WriteBufferSize, 1)); size < float64(largest); most++ {
			total += size
			size = (100 + float64(p.u.SizeRatio)) / 100 * total
		}
	}
	idle := 0
	for _, r := range p.runs {
		if !r.busy {
			idle++
		}
	}
	if idle <= most {
		return 0
	}
	return idle - most + 1
}

// merge takes the first stretch of runs of which each is, within ratio per cent, not
// larger than those before it.
func (p *universal) merge(ratio float64, most int, reason Reason) *Choice {
	most = min(most, p.u.MaxMergeWidth)
	least := max(p.u.MinMergeWidth, 2)
	for start := 0; start < len(p.runs); start++ {
		if p.runs[start].busy {
			continue
		}
		size, bytes := p.runs[start].compensated, p.runs[start].size
		end := start + 1
		for ; end-start < most && end < len(p.runs); end++ {
			next := &p.runs[end]
			if next.busy || float64(size)*(100+ratio)/100 < float64(next.size) {
				break
			}
			if limit := p.o.MaxL0Output; limit > 0 && p.outputLevel(end+1) == 0 && bytes+next.size > limit {
				break
			}
			bytes += next.size
			if p.u.StopStyle == StopSimilarSize {
				if float64(next.size)*(100+ratio)/100 < float64(size) {
					break
				}
				size = next.compensated
			} else {
				size += next.compensated
			}
		}
		if end-start < least {
			continue
		}
		c := p.span(start, end, reason)
		if c != nil {
			c.Uncompressed = p.largeEnough(end)
			if p.u.Incremental && end < len(p.runs) && p.runs[end].level > 1 {
				c.Grandparents = p.runs[end].files
			}
		}
		return c
	}
	return nil
}

// largeEnough reports whether the runs from end on have the share of all bytes that
// is to be compressed: what is newer is left as it is.
func (p *universal) largeEnough(end int) bool {
	if p.u.CompressionSizePercent < 0 {
		return false
	}
	var all, older uint64
	for i, r := range p.runs {
		all += r.compensated
		if i >= end {
			older += r.size
		}
	}
	return end < len(p.runs) && older*100 >= all*uint64(p.u.CompressionSizePercent)
}

// outputLevel is where the merge of the runs before end goes: as deep as nothing is
// in the way.
func (p *universal) outputLevel(end int) int {
	switch {
	case end >= len(p.runs):
		return p.v.NumLevels() - 1
	case p.runs[end].level == 0:
		return 0
	}
	return p.runs[end].level - 1
}

// span is the compaction of the runs [start, end).
func (p *universal) span(start, end int, reason Reason) *Choice {
	c := &Choice{Reason: reason, Score: p.in.scoreUniversal(), OutputLevel: p.outputLevel(end)}
	for _, r := range p.runs[start:end] {
		if n := len(c.Inputs); n > 0 && c.Inputs[n-1].Level == r.level {
			c.Inputs[n-1].Files = append(c.Inputs[n-1].Files[:len(c.Inputs[n-1].Files):len(c.Inputs[n-1].Files)], r.files...)
			continue
		}
		c.Inputs = append(c.Inputs, LevelInputs{r.level, r.files})
	}
	return p.finish(c)
}

// finish completes a compaction, nil if its outputs could meet those of another.
func (p *universal) finish(c *Choice) *Choice {
	c.complete(p.in, p.s)
	c.Grandparents, c.StretchFileSize = nil, 0
	c.MaxGrandparentOverlap = 0
	if p.u.Incremental {
		c.MaxGrandparentOverlap = p.o.TargetFileSizeBase / 2 * 3
	}
	if c.OutputLevel == 0 && p.o.MaxL0Output > 0 && c.InputBytes() > p.o.MaxL0Output ||
		p.in.Running.writesTo(p.v.Order(), c.OutputLevel, c.Smallest, c.Largest) {
		return nil
	}
	return c
}

// disjoint reports whether no two inputs overlap: then they can move as they are.
func (p *universal) disjoint(c *Choice) bool {
	order := p.v.Order()
	files := c.Files()
	for _, in := range c.Inputs {
		for _, f := range in.Files {
			if in.Level != c.OutputLevel && !p.o.mayMove(f, in.Level, c.OutputLevel, &p.s) {
				return false
			}
		}
	}
	sortByKey(order, files)
	for i := 1; i < len(files); i++ {
		if order.Compare(files[i-1].LargestKey, files[i].SmallestKey) >= 0 {
			return false
		}
	}
	return true
}

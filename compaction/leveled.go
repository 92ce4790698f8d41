package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Pick chooses the compaction that a family needs most by the rules of its style,
// nil if it needs none or the files that it needs are being compacted. It looks at
// in alone.
func Pick(in *Input) *Choice {
	if in.Running.refits() {
		return nil
	}
	switch in.Options.Style {
	case Leveled:
		return (&leveled{in, in.Version, in.Options, Shape(in.Version, in.Options)}).pick()
	case Universal:
		return pickUniversal(in)
	case FIFO:
		return pickFIFO(in)
	}
	return nil
}

// leveled picks in the leveled style.
type leveled struct {
	in *Input
	v  *manifest.Version
	o  *Options
	s  LevelShape
}

// pick goes by the levels' scores first, then by what files are due for by
// themselves.
func (p *leveled) pick() *Choice {
	if c := p.byScore(); c != nil {
		return c
	}
	return p.due()
}

func (p *leveled) byScore() *Choice {
	l0Waits := false
	for _, score := range Scores(p.in, p.s) {
		if score.Score < 1 {
			return nil
		}
		var c *Choice
		switch {
		case score.Level == 0:
			if c = p.fromL0(); c == nil {
				l0Waits = true
				c = p.withinL0()
			}
		case l0Waits && score.Level == p.s.BaseLevel:
			continue // L0 waits for this level, and would go on waiting
		default:
			c = p.fromLevel(score.Level, ReasonLevelSize)
		}
		if c != nil {
			c.Score = score.Score
			return c
		}
	}
	return nil
}

// fromL0 picks what moves from L0 to the base level. One compaction out of L0 runs
// at a time: a second would have to be ordered against the first where their
// outputs meet.
func (p *leveled) fromL0() *Choice {
	if p.s.BaseLevel == 0 {
		return nil
	}
	free := !p.in.Running.fromL0()
	if free {
		if c := p.moveL0(); c != nil {
			return c
		}
	}
	if c := p.smallL0(); c != nil || !free {
		return c
	}
	for _, f := range p.in.byPriority(0) {
		c := &Choice{Reason: ReasonL0Files, OutputLevel: p.s.BaseLevel}
		if p.fill(c, 0, []*manifest.FileMetadata{f}, both) {
			return c
		}
	}
	return nil
}

// moveL0 moves the oldest files of L0 to the base level as they are, as long as
// they overlap nothing there and not each other.
func (p *leveled) moveL0() *Choice {
	if p.o.MoveOne || len(p.v.Levels[p.s.BaseLevel]) == 0 {
		return nil // a base level without files gets them by the common way
	}
	order := p.v.Order()
	var r keyRange
	var files []*manifest.FileMetadata
	for _, f := range slices.Backward(p.v.Levels[0]) {
		if r.some && order.Compare(f.LargestKey, r.smallest) >= 0 && order.Compare(f.SmallestKey, r.largest) <= 0 {
			break
		}
		wide := r
		wide.add(order, f)
		if p.v.HasOverlap(p.s.BaseLevel, wide.smallest, wide.largest) || !p.o.mayMove(f, 0, p.s.BaseLevel, &p.s) {
			break
		}
		r = wide
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil
	}
	slices.SortFunc(files, func(a, b *manifest.FileMetadata) int { return order.Compare(a.SmallestKey, b.SmallestKey) })
	c := &Choice{Reason: ReasonL0Files, OutputLevel: p.s.BaseLevel, Inputs: []LevelInputs{{0, files}}}
	c.complete(p.in, p.s)
	if p.in.Running.writesTo(order, c.OutputLevel, c.Smallest, c.Largest) {
		return nil
	}
	c.TrivialMove = p.affordable(files, c.OutputLevel)
	if !c.TrivialMove {
		return nil
	}
	return c
}

// fromLevel picks what moves from a level to the next.
func (p *leveled) fromLevel(level int, reason Reason) *Choice {
	grow := both
	if p.o.Priority == RoundRobin {
		grow = right
	}
	for _, f := range p.in.byPriority(level) {
		c := &Choice{Reason: reason, OutputLevel: level + 1}
		if !p.in.Running.Busy(f) && p.fill(c, level, []*manifest.FileMetadata{f}, grow) {
			if p.o.Priority == RoundRobin {
				start := c.Inputs[0].Files
				c.Cursor = p.in.cursorAfter(level, start[len(start)-1])
			}
			return c
		}
		if p.o.Priority == RoundRobin {
			return nil // the cursor waits
		}
	}
	return nil
}

// growth says on which side of the files that it starts from a compaction may
// take others of their level.
type growth uint8

const (
	both  growth = iota
	right        // of larger keys: the round-robin priority
)

// fill builds a compaction around files of level, which are in order. It reports
// false if a file that must come along is being compacted.
func (p *leveled) fill(c *Choice, level int, files []*manifest.FileMetadata, grow growth) bool {
	order := p.v.Order()
	var r keyRange
	r.add(order, files...)
	start := files
	if level > 0 || c.OutputLevel > 0 {
		start = cleanCut(p.v, level, r)
	}
	if p.in.Running.anyBusy(start) {
		return false
	}
	r.add(order, start...)
	var below []*manifest.FileMetadata
	if c.OutputLevel != level {
		if below = cleanCut(p.v, c.OutputLevel, r); p.in.Running.anyBusy(below) {
			return false
		}
		switch {
		case len(below) == 0 && level > 0 && c.Reason == ReasonLevelSize:
			start = p.moveMore(level, c.OutputLevel, start, grow)
		case len(below) > 0 && grow == right && c.Reason == ReasonLevelSize:
			start, below = p.sweep(level, c.OutputLevel, start, below)
		}
		if len(below) > 0 {
			start = p.widen(level, c.OutputLevel, start, below, grow)
		}
	}
	c.Inputs = []LevelInputs{{level, start}}
	if len(below) > 0 {
		c.Inputs = append(c.Inputs, LevelInputs{c.OutputLevel, below})
	}
	c.complete(p.in, p.s)
	if p.in.Running.writesTo(order, c.OutputLevel, c.Smallest, c.Largest) {
		return false
	}
	if p.o.Priority == RoundRobin && len(p.in.Cursors[c.OutputLevel]) > 0 {
		if key, _ := splitInternal(p.in.Cursors[c.OutputLevel]); order.Compare(key, c.Smallest) > 0 && order.Compare(key, c.Largest) <= 0 {
			c.SplitKey = key
		}
	}
	c.TrivialMove = p.movable(c, level)
	return true
}

// maxMove is how many files move at once.
const maxMove = 4

// moveMore takes the neighbours of a file that overlaps nothing in the output
// level, if all together still overlap nothing: they change level together.
func (p *leveled) moveMore(level, outputLevel int, start []*manifest.FileMetadata, grow growth) []*manifest.FileMetadata {
	if len(start) != 1 || p.o.MoveOne {
		return start
	}
	order, files := p.v.Order(), p.v.Levels[level]
	lo := slices.Index(files, start[0])
	hi, size := lo+1, start[0].Size
	fits := func(lo, hi int, more *manifest.FileMetadata) bool {
		if p.in.Running.Busy(more) || p.v.HasOverlap(outputLevel, files[lo].SmallestKey, files[hi-1].LargestKey) ||
			size+more.Size > p.o.maxCompactionBytes() {
			return false
		}
		return (lo == 0 || order.Compare(files[lo-1].LargestKey, files[lo].SmallestKey) < 0) &&
			(hi == len(files) || order.Compare(files[hi-1].LargestKey, files[hi].SmallestKey) < 0)
	}
	for hi < len(files) && hi-lo < maxMove && fits(lo, hi+1, files[hi]) {
		size += files[hi].Size
		hi++
	}
	for grow == both && lo > 0 && hi-lo < maxMove && fits(lo-1, hi, files[lo-1]) {
		lo--
		size += files[lo].Size
	}
	return files[lo:hi:hi]
}

// sweep takes more files to the right of start, as many as bring the level down to
// its target and a compaction may have bytes: the round-robin priority moves
// stretches of a level.
func (p *leveled) sweep(level, outputLevel int, start, below []*manifest.FileMetadata) (_, _ []*manifest.FileMetadata) {
	files := p.v.Levels[level]
	var idle uint64
	for _, f := range files {
		if !p.in.Running.Busy(f) {
			idle += f.Size
		}
	}
	excess := idle - min(idle, p.s.MaxBytes[level])
	next := slices.Index(files, start[len(start)-1]) + 1
	for totalBytes(start) <= excess && next < len(files) && !p.in.Running.Busy(files[next]) {
		var r keyRange
		r.add(p.v.Order(), start...)
		r.add(p.v.Order(), files[next])
		more := cleanCut(p.v, level, r)
		r.add(p.v.Order(), more...)
		moreBelow := cleanCut(p.v, outputLevel, r)
		if p.in.Running.anyBusy(more) || p.in.Running.anyBusy(moreBelow) ||
			p.in.Running.writesTo(p.v.Order(), outputLevel, r.smallest, r.largest) ||
			totalBytes(more)+totalBytes(moreBelow) > p.o.maxCompactionBytes() {
			break
		}
		start, below = more, moreBelow
		next = slices.Index(files, start[len(start)-1]) + 1
	}
	return start, below
}

// widen takes more files of the start level if that costs no further file of the
// output level: they get merged for the price of themselves.
func (p *leveled) widen(level, outputLevel int, start, below []*manifest.FileMetadata, grow growth) []*manifest.FileMetadata {
	order := p.v.Order()
	var r keyRange
	r.add(order, start...)
	smallest := r.smallest
	r.add(order, below...)
	if grow == right {
		r.smallest = smallest
	}
	affordable := func(files []*manifest.FileMetadata) bool {
		return len(files) > len(start) && !p.in.Running.anyBusy(files) &&
			totalBytes(files)+totalBytes(below) < 2*p.o.maxCompactionBytes()
	}
	if wide := cleanCut(p.v, level, r); affordable(wide) {
		var wr keyRange
		wr.add(order, wide...)
		if slices.Equal(cleanCut(p.v, outputLevel, wr), below) {
			return wide
		}
	}
	if inner := within(p.v, level, r); level > 0 && affordable(inner) {
		return inner
	}
	return start
}

// within lists the files of a sorted level that lie in r, without those that share a
// user key with a neighbour outside.
func within(v *manifest.Version, level int, r keyRange) []*manifest.FileMetadata {
	order := v.Order()
	files := v.Overlapping(nil, level, r.smallest, r.largest)
	for len(files) > 0 && order.Compare(files[0].SmallestKey, r.smallest) < 0 {
		files = files[1:]
	}
	for len(files) > 0 && order.Compare(files[len(files)-1].LargestKey, r.largest) > 0 {
		files = files[:len(files)-1]
	}
	for len(files) > 0 && len(cleanCut(v, level, keyRange{files[0].SmallestKey, files[0].SmallestKey, true})) > 1 {
		files = files[1:]
	}
	for len(files) > 0 {
		last := files[len(files)-1]
		if len(cleanCut(v, level, keyRange{last.LargestKey, last.LargestKey, true})) <= 1 {
			break
		}
		files = files[:len(files)-1]
	}
	return files
}

// movable reports whether the inputs can change level as they are: nothing in the
// output level overlaps them, and they do not overlap each other.
func (p *leveled) movable(c *Choice, level int) bool {
	if len(c.Inputs) != 1 || level == c.OutputLevel {
		return false
	}
	files := c.Inputs[0].Files
	if level == 0 && len(files) > 1 {
		return false
	}
	for _, f := range files {
		if !p.o.mayMove(f, level, c.OutputLevel, &p.s) {
			return false
		}
	}
	return p.affordable(files, c.OutputLevel)
}

// affordable reports whether a later compaction of each file from the level is, by
// the bytes that it overlaps in the one below.
func (p *leveled) affordable(files []*manifest.FileMetadata, level int) bool {
	for _, f := range files {
		if f.Size+totalBytes(p.v.Overlapping(nil, level+1, f.SmallestKey, f.LargestKey)) > p.o.maxCompactionBytes() {
			return false
		}
	}
	return true
}

func (o *Options) mayMove(f *manifest.FileMetadata, from, to int, s *LevelShape) bool {
	return o.MayMove == nil || o.MayMove(f, s.place(from), s.place(to))
}

package compaction

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// ErrBusy says that a manual compaction must wait: files that it needs are being
// compacted, or its outputs would meet those of another compaction.
var ErrBusy = errors.New("files of the range are being compacted")

// ErrRefused says that files cannot be compacted as asked for.
var ErrRefused = errors.New("not a compaction that can be")

// BottommostPolicy says when a manual compaction writes the last level anew.
type BottommostPolicy uint8

// The policies. RocksDB: BottommostLevelCompaction.
const (
	BottommostIfFilter       BottommostPolicy = iota // if the family has a compaction filter
	BottommostSkip                                   // never
	BottommostForce                                  // always
	BottommostForceOptimized                         // always, but for what it has just written itself
)

// Manual is a CompactRange: a series of compactions. The caller asks Next for one at a
// time, runs it and reports it with Done. As in RocksDB, the leveled style moves the
// range down level by level, from the first that has something of it to the last
// that has anything; the others merge all at once. The caller's lock guards it.
type Manual struct {
	// Start and End are the user keys between which all is compacted, both included;
	// nil for no bound.
	Start, End []byte
	Bottommost BottommostPolicy
	// Filter says that the family has a compaction filter: no file is moved unread then.
	Filter bool
	// NextFile is the number of the next file when the call began.
	NextFile uint64
	// ChangeLevel moves the outcome to TargetLevel, negative for the highest that is
	// free and large enough.
	ChangeLevel bool
	TargetLevel int

	phase manualPhase
	level int    // that the range is moved from
	from  []byte // user key from which on the level is left to do
	// What follows when the choice made last is done.
	nextPhase manualPhase
	nextLevel int
	nextFrom  []byte
}

type manualPhase uint8

const (
	manualBegin manualPhase = iota
	manualDown              // level after level
	manualLast              // the last level anew
	manualAll               // everything at once
	manualRefit             // change level
	manualOver
)

// Next is the compaction to run next: nil when there is none left, ErrBusy if it has to
// wait, ErrRefused for a target level that cannot be. Asked again without Done it
// begins the same step anew.
func (m *Manual) Next(in *Input) (*Choice, error) {
	if in.Running.refits() {
		return nil, ErrBusy
	}
	p := &leveled{in, in.Version, in.Options, Shape(in.Version, in.Options)}
	if m.phase == manualBegin {
		m.begin(p)
	}
	for {
		var c *Choice
		var err error
		switch m.phase {
		case manualDown:
			c, err = m.down(p)
		case manualLast:
			c, err = m.last(p)
		case manualAll:
			c, err = m.all(p)
		case manualRefit:
			c, err = m.refit(p)
		default:
			return nil, nil
		}
		if c != nil || err != nil {
			return c, err
		}
	}
}

// Done reports that the last choice of Next has been run.
func (m *Manual) Done() { m.phase, m.level, m.from = m.nextPhase, m.nextLevel, m.nextFrom }

// then remembers what follows.
func (m *Manual) then(phase manualPhase, level int, from []byte) {
	m.nextPhase, m.nextLevel, m.nextFrom = phase, level, from
}

// after is the phase after the compactions.
func (m *Manual) after() manualPhase {
	if m.ChangeLevel {
		return manualRefit
	}
	return manualOver
}

func (m *Manual) begin(p *leveled) {
	m.phase, m.from = manualOver, m.Start
	if p.o.Style == Universal || p.o.Style == FIFO {
		m.phase = manualAll
		return
	}
	for level := range p.v.NumLevels() {
		if p.v.HasOverlap(level, m.Start, m.End) {
			m.phase, m.level = manualDown, level
			return
		}
	}
}

// down moves what is left of a level to the next.
func (m *Manual) down(p *leveled) (*Choice, error) {
	deepest := p.v.NumLevels() - 1
	if !p.o.DynamicLevelBytes {
		deepest = min(deepest, max(1, p.v.HighestLevel()))
	}
	if m.level >= deepest {
		m.phase, m.from = manualLast, m.Start
		return nil, nil
	}
	to := p.next(m.level)
	files := p.v.Overlapping(nil, m.level, m.from, m.End)
	if len(files) == 0 {
		m.level, m.from = to, m.Start
		return nil, nil
	}
	if m.level == 0 {
		if p.in.Running.fromL0() {
			return nil, ErrBusy
		}
	} else {
		files = files[:p.fitting(files, to)]
	}
	c := &Choice{Reason: ReasonManual, OutputLevel: to}
	if !p.fill(c, m.level, files, both) {
		return nil, ErrBusy
	}
	c.TrivialMove = c.TrivialMove && !m.Filter
	m.then(manualDown, to, m.Start)
	if m.level > 0 {
		m.thenRest(p, c.Inputs[0].Files)
	}
	return c, nil
}

// thenRest goes on in the level after files if the range does.
func (m *Manual) thenRest(p *leveled, files []*manifest.FileMetadata) {
	all := p.v.Levels[m.level]
	i := slices.Index(all, files[len(files)-1]) + 1
	if i < len(all) && all[i].OverlapsRange(p.v.Order(), m.from, m.End) {
		m.then(m.phase, m.level, all[i].SmallestKey)
	}
}

// fitting is how many of the files, with what they overlap in level, are at most
// max_compaction_bytes, but at least one.
func (p *leveled) fitting(files []*manifest.FileMetadata, level int) int {
	size := files[0].Size
	for n := 1; n < len(files); n++ {
		size += files[n].Size
		below := totalBytes(p.v.Overlapping(nil, level, files[0].SmallestKey, files[n].LargestKey))
		if size+below > p.o.maxCompactionBytes() {
			return n
		}
	}
	return len(files)
}

// last writes what is left of the last level anew, if the policy says so.
func (m *Manual) last(p *leveled) (*Choice, error) {
	if m.Bottommost == BottommostSkip || m.Bottommost == BottommostIfFilter && !m.Filter {
		m.phase = m.after()
		return nil, nil
	}
	files := p.v.Overlapping(nil, m.level, m.from, m.End)
	if m.Bottommost != BottommostForce { // what this call wrote need not be written again
		isNew := func(f *manifest.FileMetadata) bool { return f.Number >= m.NextFile }
		for len(files) > 0 && isNew(files[0]) {
			files = files[1:]
		}
		if i := slices.IndexFunc(files, isNew); i >= 0 && m.level > 0 {
			files = files[:i]
		}
	}
	if len(files) == 0 {
		m.phase = m.after()
		return nil, nil
	}
	var r keyRange
	if m.level > 0 {
		files = files[:p.fitting(files, m.level)]
		r.add(p.v.Order(), files...)
		files = cleanCut(p.v, m.level, r)
	} else {
		files = p.v.Levels[0]
	}
	c := &Choice{Reason: ReasonManual, OutputLevel: m.level, Inputs: []LevelInputs{{m.level, files}}}
	m.then(m.after(), m.level, m.Start)
	if m.level > 0 {
		m.thenRest(p, files)
	}
	return p.available(c)
}

// available completes a choice, ErrBusy if it has to wait.
func (p *leveled) available(c *Choice) (*Choice, error) {
	if p.in.Running.anyBusy(c.Files()) {
		return nil, ErrBusy
	}
	c.complete(p.in, p.s)
	if p.in.Running.writesTo(p.v.Order(), c.OutputLevel, c.Smallest, c.Largest) {
		return nil, ErrBusy
	}
	return c, nil
}

// all merges all sorted runs of the universal style, or lets the FIFO style pick.
func (m *Manual) all(p *leveled) (*Choice, error) {
	m.then(m.after(), p.v.NumLevels()-1, nil)
	if p.o.Style == FIFO {
		m.nextLevel = 0
		if p.in.Running.Len() > 0 {
			return nil, ErrBusy
		}
		c := pickFIFO(p.in)
		if c == nil {
			m.phase = manualOver
		}
		return c, nil
	}
	c := &Choice{Reason: ReasonManual, OutputLevel: p.v.NumLevels() - 1}
	for level, files := range p.v.Levels {
		if len(files) > 0 {
			c.Inputs = append(c.Inputs, LevelInputs{level, files})
		}
	}
	if len(c.Inputs) == 0 {
		m.phase = manualOver
		return nil, nil
	}
	c, err := p.available(c)
	if c != nil {
		c.Grandparents, c.MaxGrandparentOverlap = nil, 0
	}
	return c, err
}

// refit moves the outcome to another level as it is.
func (m *Manual) refit(p *leveled) (*Choice, error) {
	if p.in.Running.Len() > 0 {
		return nil, ErrBusy
	}
	files := p.v.Levels[m.level]
	to := m.TargetLevel
	if to < 0 { // the highest that is free, with those between, and large enough
		to = m.level
		for l := m.level - 1; l > 0 && len(p.v.Levels[l]) == 0 && p.s.MaxBytes[l] >= p.v.LevelBytes(m.level); l-- {
			to = l
		}
	}
	if to == m.level || len(files) == 0 {
		m.phase = manualOver
		return nil, nil
	}
	switch {
	case p.o.Style == FIFO:
		return nil, fmt.Errorf("%w: the FIFO style has level 0 alone", ErrRefused)
	case to >= p.v.NumLevels():
		return nil, fmt.Errorf("%w: target level %d of %d levels", ErrRefused, to, p.v.NumLevels())
	case m.level == 0:
		return nil, fmt.Errorf("%w: files of level 0 cannot change to level %d as they are", ErrRefused, to)
	case to == 0 && len(files) > 1:
		return nil, fmt.Errorf("%w: %d files to level 0, where each would be a sorted run", ErrRefused, len(files))
	}
	for l := min(to, m.level); l <= max(to, m.level); l++ {
		if l != m.level && len(p.v.Levels[l]) > 0 {
			return nil, fmt.Errorf("%w: from level %d to %d, and level %d has files", ErrRefused, m.level, to, l)
		}
	}
	var r keyRange
	r.add(p.v.Order(), files...)
	c := &Choice{Reason: ReasonRefit, OutputLevel: to, Inputs: []LevelInputs{{m.level, files}}, TrivialMove: true,
		Smallest: r.smallest, Largest: r.largest}
	m.then(manualOver, to, nil)
	return c, nil
}

// PickFiles is a compaction of the files of those numbers to a level, with what has to
// come along: the files between them in their levels, and those that overlap them
// down to the output level. Errors match ErrBusy or ErrRefused.
func PickFiles(in *Input, numbers []uint64, outputLevel int) (*Choice, error) {
	v := in.Version
	switch {
	case in.Running.refits():
		return nil, ErrBusy
	case len(numbers) == 0:
		return nil, fmt.Errorf("%w: no files", ErrRefused)
	case outputLevel < 0 || outputLevel >= v.NumLevels():
		return nil, fmt.Errorf("%w: output level %d of %d levels", ErrRefused, outputLevel, v.NumLevels())
	}
	asked := make(map[uint64]bool, len(numbers))
	for _, n := range numbers {
		asked[n] = true
	}
	p := &leveled{in, v, in.Options, Shape(v, in.Options)}
	c := &Choice{Reason: ReasonFiles, OutputLevel: outputLevel}
	var r keyRange
	for level, all := range v.Levels {
		first, last := -1, -1
		for i, f := range all {
			if !asked[f.Number] {
				continue
			}
			delete(asked, f.Number)
			if level > outputLevel {
				return nil, fmt.Errorf("%w: file %d is in level %d, below the output level %d", ErrRefused, f.Number, level, outputLevel)
			}
			if first < 0 {
				first = i
			}
			last = i
		}
		if level > outputLevel {
			continue
		}
		var files []*manifest.FileMetadata
		switch {
		case level > 0:
			if first >= 0 {
				r.add(v.Order(), all[first:last+1]...)
			}
			files = cleanCut(v, level, r)
		case first >= 0 && outputLevel > 0:
			files = all[first:] // what is older must not stay above
		case first >= 0:
			files = all[first : last+1]
		}
		if len(files) > 0 {
			r.add(v.Order(), files...)
			c.Inputs = append(c.Inputs, LevelInputs{level, files})
		}
	}
	for n := range asked {
		return nil, fmt.Errorf("%w: there is no file %d", ErrRefused, n)
	}
	return p.available(c)
}

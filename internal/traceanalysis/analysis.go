// Package traceanalysis finds out what a block cache trace says: who reads what, what is
// found, how soon blocks are used again, and what caches of other sizes and policies
// would do. analysis.go collects, in bounded memory; report.go holds the result, which
// text.go, csv.go and html.go write.
package traceanalysis

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/flatrock-db/flatrock/internal/cachesim"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// Options configures an analysis. The zero value is ready to use.
type Options struct {
	// Capacities are those to simulate, in bytes; none means a series that fits the trace.
	Capacities []int64
	// Policies are the names of those to simulate; none means all.
	Policies []string
	// Every is of how many blocks those in the trace are one; 0 finds it out, which
	// works for traces that Flatrock wrote.
	Every uint64
	// Total is how many accesses the whole had of which the trace is a sample; 0
	// estimates it.
	Total uint64
	// MaxBlocks bounds the blocks that are followed one by one; zero means a million. Beyond it
	// a sample of the blocks is.
	MaxBlocks int
	// Top is how many of the most used blocks and keys are listed; zero means 20.
	Top int
	// Progress, if not nil, is called now and then.
	Progress func(offset int64, accesses uint64)
}

// Analysis collects.
type Analysis struct {
	o     Options
	every uint64

	report   Report
	cells    map[Cell]*Count
	timeline timeline
	blocks   *topList
	keys     *topList
	reuse    *cachesim.Distances
	distance map[tracefile.Type]*Histogram
	interval map[tracefile.Type]*Histogram
	curves   []*cachesim.Curve
	features reservoir

	largest       uint64 // hash of a block
	lastGet       uint64
	pointData     uint64         // accesses of data blocks by point reads
	simulate      uint64         // blocks up to this hash are simulated
	indexes       map[uint64]int // of simulated blocks
	counts        []uint32       // their accesses
	stackHits     []uint64       // by index of stackCaps
	stackAccesses uint64
}

// Analyze reads a trace twice, the first time for what the second needs to know: its size, its
// blocks, and of how many blocks they are a sample. open begins to read it; the name is for errors. Damage in the
// trace is the error, and the report is about what comes before it.
func Analyze(open func() (io.ReadCloser, error), name string, o Options) (*Report, error) {
	if o.MaxBlocks <= 0 {
		o.MaxBlocks = 1 << 20
	}
	if o.Top <= 0 {
		o.Top = 20
	}
	if len(o.Policies) == 0 {
		o.Policies = cachesim.Names()
	}
	a := &Analysis{o: o, cells: map[Cell]*Count{}, blocks: newTopList(topMemory), keys: newTopList(topMemory),
		distance: map[tracefile.Type]*Histogram{}, interval: map[tracefile.Type]*Histogram{}}
	a.report.File = name
	first := &survey{seen: map[uint64]bool{}, max: o.MaxBlocks, threshold: ^uint64(0)}
	err := each(open, name, first.access, o.Progress, nil)
	if err != nil && first.accesses == 0 {
		return nil, err
	}
	if err := a.prepare(first); err != nil {
		return nil, err
	}
	err2 := each(open, name, a.access, o.Progress, &a.report)
	if err == nil {
		err = err2
	}
	a.finish()
	return &a.report, err
}

// each calls f with the accesses of a trace.
func each(open func() (io.ReadCloser, error), name string, f func(*tracefile.BlockAccess), progress func(int64, uint64), rep *Report) (err error) {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := tracefile.NewBlockReader(in, name)
	if err != nil {
		return err
	}
	if rep != nil {
		rep.Version = fmt.Sprintf("%d.%d", r.Major, r.Minor)
	}
	var a tracefile.BlockAccess
	n := uint64(0)
	for {
		if err := r.Read(&a); err != nil {
			if rep != nil {
				rep.Bytes = r.Offset()
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
		f(&a)
		if n++; n%(1<<16) == 0 && progress != nil {
			progress(r.Offset(), n)
		}
	}
}

// blockHash names the block of an access, by the hash that sampling goes by.
func blockHash(a *tracefile.BlockAccess) uint64 {
	if file, offset, ok := tracefile.SplitBlockKey(a.BlockKey); ok {
		return tracefile.BlockHash(file, offset)
	}
	h := uint64(14695981039346656037)
	for _, c := range a.BlockKey {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return tracefile.BlockHash(h, a.File)
}

// survey is what the first reading finds.
type survey struct {
	accesses, largest uint64
	first, last       uint64 // times
	lastGet           uint64
	pointData         uint64

	seen      map[uint64]bool   // blocks below the threshold
	there     []cachesim.Access // those that were in the cache before the trace began: found at their first access
	bytes     int64             // of these
	max       int
	threshold uint64
}

func (s *survey) access(a *tracefile.BlockAccess) {
	h := blockHash(a)
	if s.accesses++; s.accesses == 1 {
		s.first, s.last = a.Micros, a.Micros
	}
	s.first, s.last = min(s.first, a.Micros), max(s.last, a.Micros)
	s.largest = max(s.largest, h)
	if a.Caller.PointRead() {
		s.lastGet = max(s.lastGet, a.GetID)
		if a.Type == tracefile.DataBlock {
			s.pointData++
		}
	}
	m := cachesim.Mix(h)
	if m > s.threshold || s.seen[m] {
		return
	}
	s.seen[m] = true
	if a.Hit {
		s.there = append(s.there, cachesim.Access{Block: h, Size: int64(a.Size), High: a.Type != tracefile.DataBlock, Insert: true})
	}
	s.bytes += int64(a.Size)
	if len(s.seen) > s.max {
		s.threshold /= 2
		kept := s.bytes / int64(len(s.seen)) // about
		for m := range s.seen {
			if m > s.threshold {
				delete(s.seen, m)
			}
		}
		s.there = slices.DeleteFunc(s.there, func(a cachesim.Access) bool { return cachesim.Mix(a.Block) > s.threshold })
		s.bytes = kept * int64(len(s.seen))
	}
}

func (s *survey) scale() float64 { return float64(^uint64(0)) / float64(s.threshold) }

// every finds of how many blocks those that were seen are one: their hashes all lie
// below a bound, which by chance hardly happens.
func (s *survey) every() uint64 {
	if len(s.seen) == 0 || s.largest == 0 {
		return 1
	}
	n := ^uint64(0) / s.largest
	chance := -float64(len(s.seen)) * math.Log10(float64(max(n, 1))) // log of the odds against
	if n < 2 || chance > -9 {
		return 1
	}
	return n
}

// prepare chooses what to simulate.
func (a *Analysis) prepare(s *survey) error {
	a.every = a.o.Every
	if a.every == 0 {
		a.every = s.every()
	}
	r := &a.report
	r.Every = a.every
	r.First, r.Last = s.first, s.last
	r.Blocks = float64(len(s.seen)) * s.scale()
	r.BlockBytes = float64(s.bytes) * s.scale()
	r.Capacities = a.o.Capacities
	if len(r.Capacities) == 0 {
		r.Capacities = series(int64(r.BlockBytes * float64(a.every)))
	}
	a.timeline.init(s.first, s.last)
	a.reuse = cachesim.NewDistances(a.o.MaxBlocks)
	a.features.init(maxFeatures)
	// What is simulated is a sample of its own where there are more blocks than are followed.
	// So it is where simulating all would take long, as long as enough blocks are left.
	steps := float64(s.accesses) / s.scale() * float64(len(a.o.Policies)*len(r.Capacities))
	r.simulatedEvery = s.scale() * max(min(steps/simulatedSteps, float64(len(s.seen))/simulatedBlocks), 1)
	if a.simulate = ^uint64(0); r.simulatedEvery > 1 {
		a.simulate = uint64(math.Ldexp(1, 64) / r.simulatedEvery)
	}
	a.indexes = map[uint64]int{}
	for _, name := range a.o.Policies {
		c, err := cachesim.NewCurve(name, r.Capacities, float64(a.every)*r.simulatedEvery)
		if err != nil {
			return err
		}
		for i := range s.there {
			if cachesim.Mix(s.there[i].Block) <= a.simulate {
				c.Preload(&s.there[i])
			}
		}
		a.curves = append(a.curves, c)
	}
	r.StackCapacities = stackCapacities(int64(r.BlockBytes * float64(a.every)))
	a.stackHits = make([]uint64, len(r.StackCapacities))
	return nil
}

// series is a dozen capacities around what the trace touches, in round numbers.
func series(bytes int64) (out []int64) {
	top := int64(1) << bits.Len64(uint64(max(bytes, 1<<16)))
	for c := top / 1024; c <= top; c *= 2 {
		out = append(out, c)
	}
	return out
}

// stackCapacities are those at which the reuse distances tell an LRU cache's misses.
func stackCapacities(bytes int64) (out []int64) {
	top := float64(max(bytes, 1<<16)) * 1.1
	for i := range 61 {
		out = append(out, int64(top*math.Pow(2, -float64(60-i)/6)))
	}
	return out
}

func (a *Analysis) access(b *tracefile.BlockAccess) {
	r := &a.report
	h := blockHash(b)
	index := r.Accesses
	r.Accesses++
	if b.Hit {
		r.Hits++
	}
	cell := Cell{b.Type, b.Caller, b.Level, string(b.Name)}
	c := a.cells[cell]
	if c == nil {
		if len(a.cells) >= maxCells {
			cell.Family = "(others)"
			c = a.cells[cell]
		}
		if c == nil {
			c = new(Count)
			a.cells[cell] = c
		}
	}
	c.add(b)
	a.timeline.add(b, h)
	var name [25]byte
	name[0] = byte(b.Type)
	binary.LittleEndian.PutUint64(name[1:], b.File)
	binary.LittleEndian.PutUint64(name[9:], h)
	if _, offset, ok := tracefile.SplitBlockKey(b.BlockKey); ok {
		binary.LittleEndian.PutUint64(name[17:], offset)
	}
	a.blocks.add(name[:], b.Hit)
	if b.PointData() {
		r.PointReads.add(b)
		if user, _, ok := keys.Split(b.ReferencedKey); ok {
			a.keys.add(user, b.Hit)
		}
	}
	if b.Caller.PointRead() {
		a.lastGet = max(a.lastGet, b.GetID)
		if b.Type == tracefile.DataBlock {
			a.pointData++
		}
	}
	if a.reuse.Kept(h) {
		a.follow(b, h, index)
	}
	if cachesim.Mix(h) <= a.simulate {
		index := a.indexOf(h)
		sim := cachesim.Access{Block: h, Size: int64(b.Size), High: b.Type != tracefile.DataBlock, Insert: !b.NoInsert}
		for _, c := range a.curves {
			c.Access(&sim, index)
		}
	}
}

// indexOf numbers the blocks that are simulated, as long as they are few: the more there
// are the less chance has to be corrected.
func (a *Analysis) indexOf(h uint64) int {
	if a.indexes == nil || a.every == 1 && a.report.simulatedEvery == 1 {
		return -1
	}
	i, ok := a.indexes[h]
	if !ok {
		if i = len(a.counts); i >= maxIndexes {
			a.indexes, a.counts = nil, nil
			return -1
		}
		a.indexes[h] = i
		a.counts = append(a.counts, 0)
	}
	a.counts[i]++
	return i
}

// follow notes how soon the block is used again.
func (a *Analysis) follow(b *tracefile.BlockAccess, h, index uint64) {
	u, distance := a.reuse.Access(h, int64(b.Size))
	a.stackAccesses++
	if distance >= 0 {
		scaled := distance * int64(a.every)
		at := histogramOf(a.distance, b.Type)
		at.add(uint64(scaled))
		histogramOf(a.interval, b.Type).add(b.Micros - min(b.Micros, u.Micros))
		for i := len(a.stackHits) - 1; i >= 0 && scaled <= a.report.StackCapacities[i]; i-- {
			a.stackHits[i]++
		}
		gap, wait := index-u.Index, b.Micros-min(b.Micros, u.Micros)
		if u.Accesses >= 2 {
			a.features.add(Feature{float64(u.GapIndex), float64(u.GapTime), float64(u.Accesses), float64(gap), float64(wait)})
		}
		u.GapIndex, u.GapTime = gap, wait
	}
	u.Accesses++
	u.Index, u.Micros = index, b.Micros
}

func histogramOf(m map[tracefile.Type]*Histogram, t tracefile.Type) *Histogram {
	h := m[t]
	if h == nil {
		h = new(Histogram)
		m[t] = h
	}
	return h
}

// finish turns what was collected into the report.
func (a *Analysis) finish() {
	r := &a.report
	for cell, c := range a.cells {
		r.Cells = append(r.Cells, CellCount{cell, *c})
	}
	r.sortCells()
	r.Timeline = a.timeline.list()
	r.TopBlocks, r.TopKeys = a.blocks.top(a.o.Top), a.keys.top(a.o.Top)
	r.Distance, r.Interval = a.distance, a.interval
	r.Correlations = a.features.correlations()
	r.Features = a.features.rows
	// How many accesses the trace stands for.
	every := float64(a.every)
	r.Total = float64(r.Accesses)
	if a.every > 1 {
		point := float64(a.pointData) * every
		if a.lastGet > a.pointData {
			point = float64(a.lastGet)
		}
		r.Total = point + float64(r.Accesses-a.pointData)*every
	}
	if a.o.Total > 0 {
		r.Total = float64(a.o.Total)
	}
	for _, c := range a.curves {
		curve := MissCurve{Policy: c.Name}
		for i := range c.Capacities {
			curve.Ratios = append(curve.Ratios, c.MissRatio(i, r.Total, a.counts))
		}
		r.Curves = append(r.Curves, curve)
	}
	for i := range r.StackCapacities {
		ratio := 0.0
		if a.stackAccesses > 0 {
			ratio = min(float64(a.stackAccesses-a.stackHits[i])*every*a.reuse.Every()/r.Total, 1)
		}
		r.StackRatios = append(r.StackRatios, ratio)
	}
}

const (
	// simulatedSteps is about how many accesses all simulated caches together get, as long
	// as simulatedBlocks blocks are simulated.
	simulatedSteps  = 50e6
	simulatedBlocks = 1 << 14
	maxIndexes      = 1 << 15
)

// maxCells bounds the combinations of type, caller, level and family that are told apart.
const maxCells = 1 << 14

// topMemory is how many blocks and keys the lists of the most used keep an eye on.
const topMemory = 1 << 12

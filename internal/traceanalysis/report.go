package traceanalysis

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// Report is what a trace says.
type Report struct {
	File, Version string
	Bytes         int64
	Every         uint64 // of how many blocks those in the trace are one
	First, Last   uint64 // microseconds
	Accesses      uint64 // in the trace
	Hits          uint64
	Total         float64 // accesses that the trace stands for
	Blocks        float64 // distinct ones in the trace, estimated where there are many
	BlockBytes    float64
	PointReads    PointReads
	Cells         []CellCount
	Timeline      []Point
	TopBlocks     []Top
	TopKeys       []Top
	Distance      map[tracefile.Type]*Histogram // bytes between two uses of a block, for the whole
	Interval      map[tracefile.Type]*Histogram // microseconds between them
	Features      []Feature
	Correlations  [len(FeatureNames)][len(FeatureNames)]float64

	Capacities      []int64
	Curves          []MissCurve
	StackCapacities []int64   // of the LRU curve that follows from reuse distances
	StackRatios     []float64 // its miss ratios

	simulatedEvery float64
}

// MissCurve is the predicted miss ratios of a policy at the report's capacities.
type MissCurve struct {
	Policy string
	Ratios []float64
}

// Predicted is a policy's miss ratio at one of the capacities; ok is false if that
// was not simulated.
func (r *Report) Predicted(policy string, capacity int64) (ratio float64, ok bool) {
	at := slices.Index(r.Capacities, capacity)
	for _, c := range r.Curves {
		if c.Policy == policy && at >= 0 {
			return c.Ratios[at], true
		}
	}
	return 0, false
}

// Seconds is how long the trace is.
func (r *Report) Seconds() float64 { return float64(r.Last-r.First) / 1e6 }

// Cell is a kind of access.
type Cell struct {
	Type   tracefile.Type
	Caller table.Caller
	Level  uint32
	Family string
}

// Count counts accesses.
type Count struct {
	Accesses, Hits, NoInsert uint64
	Bytes                    uint64 // of the blocks accessed
}

func (c *Count) add(a *tracefile.BlockAccess) {
	c.Accesses++
	c.Bytes += a.Size
	if a.Hit {
		c.Hits++
	}
	if a.NoInsert {
		c.NoInsert++
	}
}

func (c *Count) plus(o Count) {
	c.Accesses += o.Accesses
	c.Hits += o.Hits
	c.NoInsert += o.NoInsert
	c.Bytes += o.Bytes
}

// MissRatio is the part that was not in the cache.
func (c Count) MissRatio() float64 {
	if c.Accesses == 0 {
		return 0
	}
	return float64(c.Accesses-c.Hits) / float64(c.Accesses)
}

// CellCount is the count of a kind.
type CellCount struct {
	Cell
	Count
}

func (r *Report) sortCells() {
	slices.SortFunc(r.Cells, func(a, b CellCount) int {
		return cmp.Or(-cmp.Compare(a.Accesses, b.Accesses), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Caller, b.Caller),
			cmp.Compare(a.Level, b.Level), cmp.Compare(a.Family, b.Family))
	})
}

// Group is the count of what has something in common.
type Group struct {
	Name string
	Count
}

// Dimensions are what accesses are counted by.
var Dimensions = []string{"block type", "caller", "level", "column family"}

// By adds the accesses up by one of Dimensions, the most frequent first.
func (r *Report) By(dimension string) (out []Group) {
	at := map[string]int{}
	for _, c := range r.Cells {
		name := ""
		switch dimension {
		case "block type":
			name = c.Type.String()
		case "caller":
			name = c.Caller.String()
		case "level":
			name = levelName(c.Level)
		case "column family":
			name = c.Family
		}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, Group{Name: name})
		}
		out[i].plus(c.Count)
	}
	slices.SortStableFunc(out, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Accesses, a.Accesses), cmp.Compare(a.Name, b.Name)) })
	return out
}

func levelName(l uint32) string {
	if l == tracefile.UnknownLevel {
		return "unknown"
	}
	return "L" + strconv.FormatUint(uint64(l), 10)
}

// PointReads is about data blocks that Get and MultiGet asked for.
type PointReads struct {
	Accesses, Found uint64
	Keys            uint64 // in the blocks
	DataBytes       uint64 // of what was found
	Snapshot        uint64
}

func (p *PointReads) add(a *tracefile.BlockAccess) {
	p.Accesses++
	p.Keys += a.KeyCount
	if a.KeyExists {
		p.Found++
		p.DataBytes += a.DataSize
	}
	if a.FromSnapshot {
		p.Snapshot++
	}
}

// Histogram counts by powers of two: bucket i has what is below 1<<i, and not in the
// buckets before.
type Histogram struct {
	Buckets [65]uint64
	Count   uint64
	Sum     float64
}

func (h *Histogram) add(v uint64) {
	h.Buckets[bits.Len64(v)]++
	h.Count++
	h.Sum += float64(v)
}

// Quantile is a value that a part p of all is below, to within its bucket.
func (h *Histogram) Quantile(p float64) float64 {
	want := p * float64(h.Count)
	seen := 0.0
	for i, n := range h.Buckets {
		if n > 0 && seen+float64(n) >= want {
			low := math.Ldexp(1, i-1)
			if i == 0 {
				return 0
			}
			return low + low*(want-seen)/float64(n)
		}
		seen += float64(n)
	}
	return 0
}

// merged adds histograms up.
func merged(m map[tracefile.Type]*Histogram) *Histogram {
	out := new(Histogram)
	for _, h := range m {
		for i, n := range h.Buckets {
			out.Buckets[i] += n
		}
		out.Count += h.Count
		out.Sum += h.Sum
	}
	return out
}

// Top is one of the most used.
type Top struct {
	Key   []byte
	Count uint64 // at most; at least Count-Error
	Error uint64
	Hits  uint64 // among those that were counted one by one
}

// BlockName describes the key of one of TopBlocks.
func (t *Top) BlockName() string {
	if len(t.Key) != 25 {
		return fmt.Sprintf("%x", t.Key)
	}
	file, offset := binary.LittleEndian.Uint64(t.Key[1:]), binary.LittleEndian.Uint64(t.Key[17:])
	if offset > 1<<48 { // not a key of ours: an opaque one
		return fmt.Sprintf("%v block %016x of file %d", tracefile.Type(t.Key[0]), binary.LittleEndian.Uint64(t.Key[9:]), file)
	}
	return fmt.Sprintf("%v block at %d of file %d", tracefile.Type(t.Key[0]), offset, file)
}

// topList finds the most frequent of many in little memory (Metwally's Space-Saving):
// what is new takes the place of the least frequent, and its count as a possible error.
type topList struct {
	max  int
	at   map[string]int
	heap []Top // the least frequent first
}

func newTopList(n int) *topList { return &topList{max: n, at: map[string]int{}} }

func (l *topList) add(key []byte, hit bool) {
	h := uint64(0)
	if hit {
		h = 1
	}
	i, ok := l.at[string(key)]
	switch {
	case ok:
		l.heap[i].Count++
		l.heap[i].Hits += h
		l.down(i)
	case len(l.heap) < l.max:
		l.heap = append(l.heap, Top{Key: slices.Clone(key), Count: 1, Hits: h})
		l.at[string(key)] = len(l.heap) - 1
		l.up(len(l.heap) - 1)
	default:
		t := &l.heap[0]
		delete(l.at, string(t.Key))
		t.Key = append(t.Key[:0], key...)
		t.Error = t.Count
		t.Count++
		t.Hits = h
		l.at[string(key)] = 0
		l.down(0)
	}
}

func (l *topList) swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	l.at[string(l.heap[i].Key)], l.at[string(l.heap[j].Key)] = i, j
}

func (l *topList) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(l.heap) {
			return
		}
		if c+1 < len(l.heap) && l.heap[c+1].Count < l.heap[c].Count {
			c++
		}
		if l.heap[i].Count <= l.heap[c].Count {
			return
		}
		l.swap(i, c)
		i = c
	}
}

func (l *topList) up(i int) {
	for i > 0 && l.heap[(i-1)/2].Count > l.heap[i].Count {
		l.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (l *topList) top(n int) []Top {
	all := slices.Clone(l.heap)
	slices.SortFunc(all, func(a, b Top) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), slices.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

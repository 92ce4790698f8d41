package traceanalysis

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/flatrock-db/flatrock/internal/cachesim"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// maxPoints is how many stretches of time there are.
const maxPoints = 120

// Point is a stretch of time.
type Point struct {
	Micros         uint64 // its begin
	Accesses, Hits uint64
	Data           uint64  // accesses of data blocks
	Blocks         float64 // distinct blocks, estimated: the working set
	Bytes          float64
}

// timeline counts by stretches of time.
type timeline struct {
	first, width uint64
	points       []Point
	sets         []sketch
	size         []uint64 // bytes accessed
}

func (t *timeline) init(first, last uint64) {
	t.first = first
	t.width = max((last-first)/maxPoints+1, 1)
	n := int((last-first)/t.width) + 1
	t.points, t.sets, t.size = make([]Point, n), make([]sketch, n), make([]uint64, n)
	for i := range t.points {
		t.points[i].Micros = first + uint64(i)*t.width
	}
}

func (t *timeline) add(a *tracefile.BlockAccess, hash uint64) {
	i := min(int((a.Micros-min(a.Micros, t.first))/t.width), len(t.points)-1)
	p := &t.points[i]
	p.Accesses++
	if a.Hit {
		p.Hits++
	}
	if a.Type == tracefile.DataBlock {
		p.Data++
	}
	t.sets[i].add(cachesim.Mix(hash + 1))
	t.size[i] += a.Size
}

func (t *timeline) list() []Point {
	for i := range t.points {
		p := &t.points[i]
		p.Blocks = t.sets[i].count()
		if p.Accesses > 0 {
			p.Bytes = p.Blocks * float64(t.size[i]) / float64(p.Accesses)
		}
	}
	return t.points
}

// sketch counts distinct hashes in a kilobyte, to within some three per cent
// (HyperLogLog: Flajolet and others, 2007; below a few thousand by linear counting).
type sketch struct{ ranks [1 << 10]uint8 }

func (s *sketch) add(hash uint64) {
	i := hash >> 54
	s.ranks[i] = max(s.ranks[i], uint8(bits.LeadingZeros64(hash<<10|1<<9))+1)
}

func (s *sketch) count() float64 {
	const m = float64(len(s.ranks))
	sum, empty := 0.0, 0.0
	for _, r := range s.ranks {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			empty++
		}
	}
	e := 0.7213 / (1 + 1.079/m) * m * m / sum
	if e <= 2.5*m && empty > 0 {
		e = m * math.Log(m/empty)
	}
	return e
}

// FeatureNames are the columns of Feature: what is known of a block when it is
// used, and how soon it is used again.
var FeatureNames = [...]string{"num_accesses_since_last_access", "elapsed_time_since_last_access", "num_past_accesses",
	"num_accesses_till_next_access", "elapsed_time_till_next_access"}

// Feature is a use of a block that had a use before and has one after it.
type Feature [len(FeatureNames)]float64

const maxFeatures = 10000

// reservoir keeps a fair sample of features.
type reservoir struct {
	max  int
	seen int
	rows []Feature
	rng  *rand.Rand
}

func (r *reservoir) init(n int) { r.max, r.rng = n, rand.New(rand.NewPCG(1, 2)) }

func (r *reservoir) add(f Feature) {
	r.seen++
	if len(r.rows) < r.max {
		r.rows = append(r.rows, f)
	} else if i := r.rng.IntN(r.seen); i < r.max {
		r.rows[i] = f
	}
}

// correlations are Spearman's, of each column with each: of ranks, as the values span
// many powers of ten.
func (r *reservoir) correlations() (out [len(FeatureNames)][len(FeatureNames)]float64) {
	n := len(r.rows)
	var ranks [len(FeatureNames)][]float64
	for c := range ranks {
		ranks[c] = rank(n, func(i int) float64 { return r.rows[i][c] })
	}
	for a := range ranks {
		for b := range ranks {
			out[a][b] = pearson(ranks[a], ranks[b])
		}
	}
	return out
}

// rank gives each of n values its place in their order, equal ones the same.
func rank(n int, value func(int) float64) []float64 {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch x, y := value(a), value(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	out := make([]float64, n)
	for i := 0; i < n; {
		j := i
		for j < n && value(order[j]) == value(order[i]) {
			j++
		}
		for k := i; k < j; k++ {
			out[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return out
}

func pearson(x, y []float64) float64 {
	n := float64(len(x))
	if n < 2 {
		return 0
	}
	var mx, my float64
	for i := range x {
		mx += x[i] / n
		my += y[i] / n
	}
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

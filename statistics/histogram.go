package statistics

import (
	"math"
	"math/bits"
	"strings"
	"sync/atomic"
)

// histogram counts values by size, with a resolution of an eighth of a power of two.
type histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Uint64
	top    atomic.Uint64
	least  atomic.Uint64 // inverted, so that zero is none
}

// A bucket is a range of 1/8 of a power of two; below 16 each value has its own.
const (
	bucketBits = 3
	buckets    = (65 - bucketBits) << bucketBits
)

func bucketOf(v uint64) int {
	if v < 2<<bucketBits {
		return int(v)
	}
	shift := bits.Len64(v) - bucketBits - 1
	return shift<<bucketBits + int(v>>shift)
}

// bucketStart is the least value of bucket i.
func bucketStart(i int) float64 {
	if i < 2<<bucketBits {
		return float64(i)
	}
	shift := i>>bucketBits - 1
	return math.Ldexp(float64(i-shift<<bucketBits), shift)
}

func (h *histogram) record(v uint64) {
	h.counts[bucketOf(v)].Add(1)
	h.sum.Add(v)
	raise(&h.top, v)
	raise(&h.least, ^v)
}

func raise(a *atomic.Uint64, v uint64) {
	for old := a.Load(); v > old; old = a.Load() {
		if a.CompareAndSwap(old, v) {
			return
		}
	}
}

// HistogramData is a moment of a histogram, in its unit: mostly microseconds or bytes.
type HistogramData struct {
	Count              uint64
	Sum                uint64
	Min, Max           float64
	Average, Deviation float64
	Median             float64
	P95, P99           float64

	counts [buckets]uint64
	total  uint64 // of counts
	unit   float64
}

// unit is how many of what record keeps are one of what the histogram tells: times are
// kept in nanoseconds.
func unit(h Histogram) uint64 { return units[h] }

var units = func() (u [numHistograms]uint64) {
	for h, name := range histogramNames {
		u[h] = 1
		if strings.HasSuffix(name, "micros") || Histogram(h) == WriteStall {
			u[h] = 1000
		}
	}
	return u
}()

// Histogram is a moment of h.
func (s *Statistics) Histogram(h Histogram) *HistogramData {
	d := &HistogramData{}
	if h >= numHistograms {
		return d
	}
	var sum, calls, top, least uint64
	for i := range s.stripes {
		at := &s.stripes[i]
		calls += at.calls[h].Load()
		p := at.hists[h].Load()
		if p == nil {
			continue
		}
		for b := range p.counts {
			n := p.counts[b].Load()
			d.counts[b] += n
			d.total += n
		}
		sum += p.sum.Load()
		top = max(top, p.top.Load())
		least = max(least, p.least.Load())
	}
	if s.Level() > ExceptTimers {
		n, found := s.gets()
		switch h {
		case DBGet:
			calls = n
		case BytesPerRead:
			calls = found
		}
	}
	if d.Count = d.total; d.total == 0 {
		return d
	}
	u := float64(unit(h))
	d.unit = u
	d.Average = float64(sum) / float64(d.total) / u
	d.Min, d.Max = float64(^least)/u, float64(top)/u
	squares := 0.0
	for b, n := range d.counts {
		if n > 0 {
			off := (bucketStart(b)+bucketStart(b+1)-1)/2/u - d.Average
			squares += off * off * float64(n)
		}
	}
	d.Deviation = math.Sqrt(squares / float64(d.total))
	d.Median, d.P95, d.P99 = d.Percentile(50), d.Percentile(95), d.Percentile(99)
	d.Sum = uint64(float64(sum) / u)
	if calls > d.total { // samples stand for all
		d.Sum = uint64(float64(sum) / u * float64(calls) / float64(d.total))
		d.Count = calls
	}
	return d
}

// Percentile is what p percent of the values do not exceed, interpolated within a bucket.
func (d *HistogramData) Percentile(p float64) float64 {
	want, seen := float64(d.total)*p/100, 0.0
	for i, n := range d.counts {
		if n == 0 {
			continue
		}
		if seen+float64(n) >= want {
			low, high := bucketStart(i), bucketStart(i+1)
			at := (low + (high-low)*(want-seen)/float64(n)) / d.unit
			return min(max(at, d.Min), d.Max)
		}
		seen += float64(n)
	}
	return d.Max
}

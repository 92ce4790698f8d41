package dbbench

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"
)

// histogram counts latencies. It counts in nanoseconds with a resolution of 3 %
// (RocksDB's in whole microseconds, and too coarse for reads of less than one), and
// prints RocksDB's text, in microseconds. The zero value is empty. One goroutine at a time.
type histogram struct {
	counts     [histogramBuckets]uint64
	count      uint64
	sum        uint64  // ns
	squares    float64 // ns²
	least, top uint64  // ns
}

// A bucket is a range of 1/32 of a power of two; below 64 ns each has its own.
const (
	histogramBits    = 5
	histogramBuckets = (65 - histogramBits) << histogramBits
)

func bucketOf(ns uint64) int {
	if ns < 2<<histogramBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - histogramBits - 1
	return shift<<histogramBits + int(ns>>shift)
}

// bucketStart is the least value of bucket i.
func bucketStart(i int) float64 {
	if i < 2<<histogramBits {
		return float64(i)
	}
	shift := i>>histogramBits - 1
	return math.Ldexp(float64(i-shift<<histogramBits), shift)
}

func (h *histogram) add(d time.Duration) {
	ns := uint64(max(d, 0))
	h.counts[bucketOf(ns)]++
	if h.count == 0 || ns < h.least {
		h.least = ns
	}
	h.top = max(h.top, ns)
	h.count++
	h.sum += ns
	h.squares += float64(ns) * float64(ns)
}

func (h *histogram) merge(o *histogram) {
	if o.count == 0 {
		return
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	if h.count == 0 || o.least < h.least {
		h.least = o.least
	}
	h.top = max(h.top, o.top)
	h.count += o.count
	h.sum += o.sum
	h.squares += o.squares
}

// percentile is the latency in microseconds that p percent do not exceed,
// interpolated within a bucket.
func (h *histogram) percentile(p float64) float64 {
	if h.count == 0 {
		return 0
	}
	want := float64(h.count) * p / 100
	seen := 0.0
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if seen+float64(n) >= want {
			low, high := bucketStart(i), bucketStart(i+1)
			at := low + (high-low)*(want-seen)/float64(n)
			return min(max(at, float64(h.least)), float64(h.top)) / 1e3
		}
		seen += float64(n)
	}
	return float64(h.top) / 1e3
}

func (h *histogram) average() float64 {
	if h.count == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count) / 1e3
}

func (h *histogram) deviation() float64 {
	if h.count == 0 {
		return 0
	}
	n, sum := float64(h.count), float64(h.sum)
	return math.Sqrt(max(h.squares*n-sum*sum, 0)/(n*n)) / 1e3
}

// rowLimits are the upper limits of the rows that RocksDB prints, in microseconds:
// each 1.5 times the one before, cut to two digits.
var rowLimits = func() []uint64 {
	limits := []uint64{1, 2}
	for v := 3.0; v < math.MaxUint64; v *= 1.5 {
		n := uint64(v)
		unit := uint64(1)
		for n/unit >= 100 {
			unit *= 10
		}
		limits = append(limits, n/unit*unit)
	}
	return limits
}()

// String is RocksDB's text of a histogram.
func (h *histogram) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Count: %d Average: %.4f  StdDev: %.2f\n", h.count, h.average(), h.deviation())
	fmt.Fprintf(&b, "Min: %d  Median: %.4f  Max: %d\n", h.least/1000, h.percentile(50), h.top/1000)
	fmt.Fprintf(&b, "Percentiles: P50: %.2f P75: %.2f P99: %.2f P99.9: %.2f P99.99: %.2f\n",
		h.percentile(50), h.percentile(75), h.percentile(99), h.percentile(99.9), h.percentile(99.99))
	b.WriteString("------------------------------------------------------\n")
	seen, i := uint64(0), 0
	for r, limit := range rowLimits {
		n := uint64(0)
		for ; i < histogramBuckets && bucketStart(i) <= float64(limit)*1e3; i++ {
			n += h.counts[i]
		}
		if n == 0 {
			continue
		}
		open, low := '(', uint64(0)
		if r == 0 {
			open = '['
		} else {
			low = rowLimits[r-1]
		}
		seen += n
		share := 100 * float64(n) / float64(h.count)
		fmt.Fprintf(&b, "%c %7d, %7d ] %8d %7.3f%% %7.3f%% %s\n", open, low, limit, n,
			share, 100*float64(seen)/float64(h.count), strings.Repeat("#", int(share/5+0.5)))
	}
	return b.String()
}

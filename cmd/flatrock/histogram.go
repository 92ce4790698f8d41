package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// sizeHistogram counts sizes in RocksDB's buckets and prints them as its
// HistogramStat does. The zero value is empty.
type sizeHistogram struct {
	limits, counts []uint64
	count          uint64
	min, max       uint64
	sum, squares   float64
}

// bucketLimits are the upper bounds: 1, 2, then half as much again each time, cut to
// two digits.
func bucketLimits() []uint64 {
	limits := []uint64{1, 2}
	for v := 3.0; v <= math.MaxUint64; v *= 1.5 {
		if v >= 1<<64 {
			break
		}
		n, scale := uint64(v), uint64(1)
		for n/10 > 10 {
			n, scale = n/10, scale*10
		}
		limits = append(limits, n*scale)
	}
	return limits
}

func (h *sizeHistogram) add(v uint64) {
	if h.limits == nil {
		h.limits = bucketLimits()
		h.counts = make([]uint64, len(h.limits))
		h.min = v
	}
	i, _ := slices.BinarySearch(h.limits, v)
	h.counts[min(i, len(h.counts)-1)]++
	h.count++
	h.min, h.max = min(h.min, v), max(h.max, v)
	h.sum += float64(v)
	h.squares += float64(v) * float64(v)
}

func (h *sizeHistogram) left(bucket int) uint64 {
	if bucket == 0 {
		return 0
	}
	return h.limits[bucket-1]
}

// percentile interpolates within the bucket that holds it.
func (h *sizeHistogram) percentile(p float64) float64 {
	threshold := float64(h.count) * (p / 100)
	sum := uint64(0)
	for b, n := range h.counts {
		sum += n
		if float64(sum) < threshold {
			continue
		}
		at := 0.0
		if n != 0 {
			at = (threshold - float64(sum-n)) / float64(n)
		}
		r := float64(h.left(b)) + float64(h.limits[b]-h.left(b))*at
		return min(max(r, float64(h.min)), float64(h.max))
	}
	return float64(h.max)
}

func (h *sizeHistogram) String() string {
	n := float64(h.count)
	average, deviation := 0.0, 0.0
	if h.count > 0 {
		average = h.sum / n
		deviation = math.Sqrt(max(0, (h.squares*n-h.sum*h.sum)/(n*n)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Count: %d Average: %.4f  StdDev: %.2f\n", h.count, average, deviation)
	fmt.Fprintf(&b, "Min: %d  Median: %.4f  Max: %d\n", h.min, h.percentile(50), h.max)
	fmt.Fprintf(&b, "Percentiles: P50: %.2f P75: %.2f P99: %.2f P99.9: %.2f P99.99: %.2f\n",
		h.percentile(50), h.percentile(75), h.percentile(99), h.percentile(99.9), h.percentile(99.99))
	b.WriteString("------------------------------------------------------\n")
	percent, sum := 100/n, uint64(0)
	for i, c := range h.counts {
		if c == 0 {
			continue
		}
		sum += c
		open := '('
		if i == 0 {
			open = '['
		}
		share := percent * float64(c)
		fmt.Fprintf(&b, "%c %7d, %7d ] %8d %7.3f%% %7.3f%% %s\n", open, h.left(i), h.limits[i], c, share, percent*float64(sum),
			strings.Repeat("#", int(share/5+0.5)))
	}
	return b.String()
}

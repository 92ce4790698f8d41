package dbbench

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The rows and their layout are RocksDB's; the percentiles are finer.
func TestHistogramText(t *testing.T) {
	var h histogram
	for _, v := range []struct {
		micros float64
		n      int
	}{{0.3, 700}, {1.5, 200}, {5, 90}, {160, 9}, {4000, 1}} {
		for range v.n {
			h.add(time.Duration(v.micros * 1000))
		}
	}
	const want = `Count: 1000 Average: 6.4000  StdDev: 127.25
Min: 0  Median: 0.3017  Max: 4000
Percentiles: P50: 0.30 P75: 1.48 P99: 5.12 P99.9: 163.84 P99.99: 4000.00
------------------------------------------------------
[       0,       1 ]      700  70.000%  70.000% ##############
(       1,       2 ]      200  20.000%  90.000% ####
(       4,       6 ]       90   9.000%  99.000% ##
(     110,     170 ]        9   0.900%  99.900% 
(    2900,    4400 ]        1   0.100% 100.000% 
`
	if got := h.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The limits as db_bench prints them.
func TestHistogramRows(t *testing.T) {
	want := []uint64{1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900, 4400, 6600,
		9900, 14000, 22000, 33000, 50000, 75000, 110000, 170000, 250000, 380000, 570000, 860000}
	if got := rowLimits[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("%v, want\n%v", got, want)
	}
	if !slices.IsSorted(rowLimits) {
		t.Error("not sorted")
	}
}

func TestHistogramPercentilesAreWithinThreePercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h, a, b histogram
	var all []float64
	for i := range 50_000 {
		d := time.Duration(math.Exp(rng.Float64() * 20)) // 1 ns to half a second
		h.add(d)
		if i%3 == 0 {
			a.add(d)
		} else {
			b.add(d)
		}
		all = append(all, float64(d)/1000)
	}
	slices.Sort(all)
	a.merge(&b)
	a.squares = h.squares // a sum of floating-point numbers, in another order
	if a != h {
		t.Error("the merge of two histograms is not that of all values")
	}
	for _, p := range []float64{1, 10, 50, 75, 90, 99, 99.9} {
		exact := all[int(float64(len(all))*p/100)]
		if got := h.percentile(p); math.Abs(got-exact) > 0.04*exact+0.001 {
			t.Errorf("P%g: %g, want about %g", p, got, exact)
		}
	}
}

func TestHistogramBucketsAreContiguous(t *testing.T) {
	for i := range histogramBuckets {
		if b := bucketOf(uint64(min(bucketStart(i), math.MaxInt64))); bucketStart(i) < math.MaxInt64 && b != i {
			t.Fatalf("bucket %d begins at %g, which lies in bucket %d", i, bucketStart(i), b)
		}
	}
	if b := bucketOf(math.MaxUint64); b >= histogramBuckets {
		t.Fatal(b)
	}
	var empty histogram
	if s := empty.String(); !strings.HasPrefix(s, "Count: 0 Average: 0.0000") {
		t.Error(s)
	}
}

package traceanalysis

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const predictKeys = 100_000

func predictKey(buf []byte, i int) []byte {
	return append(binary.BigEndian.AppendUint64(append(buf[:0], "key-"...), uint64(i)), "...."...)
}

// predictDB is a database of some 17,000 blocks in one level.
func predictDB(t *testing.T, cache int64) *flatrock.DB {
	t.Helper()
	db, err := flatrock.Open("/db", &flatrock.Options{
		CreateIfMissing: true, FS: mmapfs.NewMem(), BlockCacheSize: cache,
		ColumnFamily: &flatrock.ColumnFamilyOptions{
			Table: flatrock.BlockBasedTableOptions{BlockSize: 3000}, Compression: flatrock.NoCompression,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	var b flatrock.Batch
	value := make([]byte, 500)
	for i := range predictKeys {
		b.Put(nil, predictKey(nil, i), value)
		if b.Count() == 1000 {
			if err := db.Write(&flatrock.WriteOptions{DisableWAL: true}, &b); err != nil {
				t.Fatal(err)
			}
			b.Reset()
		}
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	return db
}

// workloads are the three of issue 6: n reads each.
var workloads = map[string]func(t *testing.T, db *flatrock.DB, n int){
	"uniform": func(t *testing.T, db *flatrock.DB, n int) {
		rng := rand.New(rand.NewPCG(1, 1))
		points(t, db, n, func() int { return rng.IntN(predictKeys) })
	},
	"zipfian": func(t *testing.T, db *flatrock.DB, n int) {
		points(t, db, n, zipfian(rand.New(rand.NewPCG(2, 2)), predictKeys, 0.99))
	},
	"scan with point reads": func(t *testing.T, db *flatrock.DB, n int) {
		next := zipfian(rand.New(rand.NewPCG(3, 3)), predictKeys, 0.8)
		it, err := db.NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer it.Close()
		for done := 0; done < n; {
			for ok := it.First(); ok && done < n; done++ {
				points(t, db, 1, next)
				for range 6 { // about a block
					ok = ok && it.Next()
				}
			}
		}
	},
}

func points(t *testing.T, db *flatrock.DB, n int, next func() int) {
	var key, buf []byte
	for range n {
		key = predictKey(key, next())
		var err error
		if buf, err = db.Get(nil, key, buf[:0]); err != nil {
			t.Fatal(err)
		}
	}
}

// zipfian draws ranks by Zipf's law with an exponent below one, and scatters them over the keys.
func zipfian(rng *rand.Rand, n int, theta float64) func() int {
	cum := make([]float64, n)
	sum := 0.0
	for i := range cum {
		sum += math.Pow(float64(i+1), -theta)
		cum[i] = sum
	}
	perm := rand.New(rand.NewPCG(9, 9)).Perm(n)
	return func() int {
		x := rng.Float64() * sum
		lo, hi := 0, n-1
		for lo < hi {
			if mid := (lo + hi) / 2; cum[mid] < x {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return perm[lo]
	}
}

// TestPredictedMissRatioIsTheCaches: the miss ratio that the analyzer predicts for the
// cache that ran is what that cache counted, to within 2 points from the full trace, and
// to within 4 from one block in a hundred.
func TestPredictedMissRatioIsTheCaches(t *testing.T) {
	reads := 200_000
	capacities := []int64{8 << 20, 24 << 20}
	if testing.Short() {
		reads, capacities = 100_000, capacities[1:]
	}
	for _, capacity := range capacities {
		db := predictDB(t, capacity)
		for name, work := range workloads {
			t.Run(fmt.Sprintf("%s, %d MB", name, capacity>>20), func(t *testing.T) {
				work(t, db, 50_000) // the cache is as full as it gets, with the same
				for every, within := range map[uint64]float64{1: 0.02, 100: 0.04} {
					var file bytes.Buffer
					before := db.Metrics().BlockCache
					if err := db.StartBlockCacheTrace(&flatrock.BlockCacheTraceOptions{SamplingFrequency: every}, &file); err != nil {
						t.Fatal(err)
					}
					work(t, db, reads)
					sum, err := db.EndBlockCacheTrace()
					if err != nil || sum.Dropped > 0 {
						t.Fatalf("%+v, %v", sum, err)
					}
					after := db.Metrics().BlockCache
					hits, misses := float64(after.Hits["data"]-before.Hits["data"]), float64(after.Misses["data"]-before.Misses["data"])
					real := misses / (hits + misses)
					r, err := Analyze(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil }, "trace",
						Options{Capacities: []int64{capacity}, Policies: []string{"flatrock", "lru"}})
					if err != nil {
						t.Fatal(err)
					}
					if r.Every != every {
						t.Errorf("the trace is taken for one of %d blocks, and is one of %d", r.Every, every)
					}
					got, _ := r.Predicted("flatrock", capacity)
					t.Logf("one of %d blocks: %d accesses for %.0f, really %.0f; predicted %.4f, real %.4f", every, r.Accesses, r.Total, hits+misses, got, real)
					if math.Abs(got-real) > within {
						t.Errorf("one of %d blocks: predicted %.4f, real %.4f", every, got, real)
					}
				}
			})
		}
	}
}

package flatrock

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

// BenchmarkStatisticsOfCachedGets is what counting costs a Get of a block-based table with a
// filter whose blocks are all cached. Turns of a thousand Gets without and with
// statistics alternate, over the same keys, so that both meet the same machine; the
// medians of the turns are reported, and by how many per cent they differ.
func BenchmarkStatisticsOfCachedGets(b *testing.B) {
	const n, turn = 50_000, 1000
	// Where a database's memory lies may cost more than all counting: of four that differ in nothing, the
	// first and the last count, and each way is the mean of its two.
	var dbs [4]*DB
	key, value := make([]byte, 16), make([]byte, 100)
	for i := range dbs {
		o := &Options{CreateIfMissing: true, FS: mmapfs.NewMem(), BlockCacheSize: 256 << 20,
			ColumnFamily: &ColumnFamilyOptions{Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}, Compression: NoCompression}}
		if i == 0 || i == 3 {
			o.Statistics = statistics.New()
		}
		db, err := Open("db", o)
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		for k := range n {
			binary.BigEndian.PutUint64(key, uint64(k))
			if err := db.Put(nil, key, value); err != nil {
				b.Fatal(err)
			}
		}
		if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
			b.Fatal(err)
		}
		dbs[i] = db
	}
	var took [4][]time.Duration
	var dst []byte
	var err error
	for round := 0; b.Loop(); round++ {
		for i := range dbs {
			i = (i + round) % len(dbs)
			rng := rand.New(rand.NewPCG(1, uint64(round)))
			start := time.Now()
			for range turn {
				binary.BigEndian.PutUint64(key, rng.Uint64N(n))
				if dst, err = dbs[i].Get(nil, key, dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	var median [4]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2]) / turn
	}
	off, on := (median[1]+median[2])/2, (median[0]+median[3])/2
	b.ReportMetric(off, "off-ns")
	b.ReportMetric(on, "on-ns")
	b.ReportMetric((on/off-1)*100, "%cost")
}

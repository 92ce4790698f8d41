package flatrock

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Range tombstones must not cost the reads of keys that survive them. Compare the
// sub-benchmarks of each: "none" has no tombstones, "10000" has so many in the live memtable,
// and goes on writing them (one in 200 µs) while it reads.

const liveKeys = 100_000

// liveDB is a database with all its keys, and n range tombstones between them, in the live
// memtable. keep goes on adding some until stop.
func liveDB(b *testing.B, kind MemTableKind, n int, keep bool) (db *DB) {
	o := &ColumnFamilyOptions{WriteBufferSize: 1 << 30, MemTable: MemTableOptions{Kind: kind}}
	if kind == HashSkipList || kind == HashLinkList {
		o.PrefixExtractor = FixedPrefix(9)
		o.Table = PlainTableOptions{RangeDeletes: On}
	}
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: o})
	if err != nil {
		b.Fatal(err)
	}
	var batch Batch
	for i := range liveKeys {
		batch.Put(nil, fmt.Appendf(nil, "k%08d", 100*i), []byte("value of a hundred bytes: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 012345"))
		if batch.Count() == 1000 {
			if err := db.Write(nil, &batch); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	tombstone := func() {
		k := 100*rng.IntN(liveKeys) + 1 + rng.IntN(40)
		if err := db.DeleteRange(nil, fmt.Appendf(nil, "k%08d", k), fmt.Appendf(nil, "k%08d", k+1+rng.IntN(50))); err != nil {
			b.Error(err)
		}
	}
	for range n {
		tombstone()
	}
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for keep && !stop.Load() {
			tombstone()
			time.Sleep(200 * time.Microsecond)
		}
	}()
	b.Cleanup(func() {
		stop.Store(true)
		<-done
		db.Close()
	})
	return db
}

func benchmarkLive(b *testing.B, f func(b *testing.B, db *DB)) {
	for _, kind := range []MemTableKind{SkipList, HashSkipList} {
		for _, n := range []int{0, 10_000} {
			b.Run(fmt.Sprintf("%v/%d", kind, n), func(b *testing.B) { f(b, liveDB(b, kind, n, n > 0)) })
		}
	}
}

func BenchmarkGetBesideLiveRangeDeletes(b *testing.B) {
	benchmarkLive(b, func(b *testing.B, db *DB) {
		rng := rand.New(rand.NewPCG(2, 2))
		ks := make([][]byte, 1<<14)
		for i := range ks {
			ks[i] = fmt.Appendf(nil, "k%08d", 100*rng.IntN(liveKeys))
		}
		var v []byte
		var err error
		for i := 0; b.Loop(); i++ {
			if v, err = db.Get(nil, ks[i&(1<<14-1)], v[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkNewIteratorBesideLiveRangeDeletes(b *testing.B) {
	benchmarkLive(b, func(b *testing.B, db *DB) {
		for b.Loop() {
			it, err := db.NewIterator(nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := it.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGetSurvivingKeys is E3's question: Gets of keys that survive in files with range
// tombstones, against the same writes without. Keys and tombstones lie as the bench command lays
// them: 16-byte keys, a tombstone of 100 keys after 100 writes. The two databases take turns of a
// few milliseconds, so that what slows the machine down slows both; "%more" is what tombstones cost.
func BenchmarkGetSurvivingKeys(b *testing.B) {
	without, surviving := survivors(b, false)
	with, _ := survivors(b, true)
	dbs, spent := []*DB{without, with}, make([]time.Duration, 2)
	var v []byte
	var err error
	for _, db := range dbs { // into the caches
		for _, k := range surviving {
			if v, err = db.Get(nil, k, v[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
	const turn = 5000
	i, rounds := 0, 0
	for b.Loop() {
		for d, db := range dbs {
			start := time.Now()
			for j := range turn {
				if v, err = db.Get(nil, surviving[(i+j)%len(surviving)], v[:0]); err != nil {
					b.Fatal(err)
				}
			}
			spent[d] += time.Since(start)
		}
		i += turn
		rounds++
	}
	each := func(d int) float64 { return float64(spent[d].Nanoseconds()) / float64(rounds*turn) }
	b.ReportMetric(each(0), "ns/without")
	b.ReportMetric(each(1), "ns/with")
	b.ReportMetric(100*(each(1)/each(0)-1), "%more")
	b.ReportMetric(0, "ns/op")
}

// survivors is a database of BenchmarkGetSurvivingKeys, and the keys that survive in either.
func survivors(b *testing.B, tombstones bool) (*DB, [][]byte) {
	const n, every, width = 200_000, 100, 100
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, BlockCacheSize: 256 << 20, ColumnFamily: &ColumnFamilyOptions{
		WriteBufferSize: 1 << 20, TargetFileSizeBase: 1 << 20, MaxBytesForLevelBase: 4 << 20, Compression: NoCompression,
		Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(8)},
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(3, 3))
	key := func(i int) []byte { return fmt.Appendf(nil, "%016d", i) }
	alive := map[int]bool{}
	value := make([]byte, 112)
	for w, i := range rng.Perm(n) {
		if err := db.Put(nil, key(i), value); err != nil {
			b.Fatal(err)
		}
		alive[i] = true
		if w%every == every-1 {
			at := rng.IntN(n)
			for k := at; k < at+width; k++ {
				delete(alive, k)
			}
			if tombstones {
				if err := db.DeleteRange(nil, key(at), key(at+width)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	if err := db.Flush(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	if err := db.WaitForCompact(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
	var ks [][]byte
	for i := range n {
		if alive[i] {
			ks = append(ks, key(i))
		}
	}
	rng.Shuffle(len(ks), func(i, j int) { ks[i], ks[j] = ks[j], ks[i] })
	return db, ks
}

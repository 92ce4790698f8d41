package flatrock

import (
	"context"
	"errors"
	"fmt"
	"github.com/flatrock-db/flatrock/internal/race"
	"testing"
)

// readers are databases whose data lies where a read can find it: memtable, level
// 0 and a deeper level, in each format and memory policy.
func readers(t *testing.T) map[string]*DB {
	t.Helper()
	kinds := map[string]ColumnFamilyOptions{
		"resident": {PrefixExtractor: FixedPrefix(4), Table: PlainTableOptions{Memory: MemoryResident}, MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 100}},
		"mapped":   {PrefixExtractor: FixedPrefix(4), Table: PlainTableOptions{Memory: MemoryPopulate}, MemTable: MemTableOptions{Kind: HashLinkList, BucketCount: 100}},
		"fixed":    {PrefixExtractor: NoopPrefix(), Table: PlainTableOptions{UserKeyLen: 8, Memory: MemoryResident}, MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 100}},
		"block":    {Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}},
	}
	out := map[string]*DB{}
	for name, o := range kinds {
		o.DisableAutoCompactions = true
		db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, ColumnFamily: &o})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		for round := range 3 {
			for i := range 3000 {
				if i%3 != round && i%5 != 0 {
					continue
				}
				if err := db.Put(nil, fmt.Appendf(nil, "k%07d", i), fmt.Appendf(nil, "value %d of round %d", i, round)); err != nil {
					t.Fatal(err)
				}
			}
			switch round {
			case 0:
				err = db.CompactRange(context.Background(), nil, nil, nil)
			case 1:
				err = db.Flush(context.Background(), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		out[name] = db
	}
	return out
}

func expectNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	if race.Enabled {
		f()
		return // the detector allocates
	}
	f()
	if n := testing.AllocsPerRun(200, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

// TestReadsDoNotAllocate: Get hits and misses in every source, pinned Gets,
// MultiGet into results that are used again, and iterator steps.
func TestReadsDoNotAllocate(t *testing.T) {
	for name, db := range readers(t) {
		t.Run(name, func(t *testing.T) {
			var hits, misses [][]byte
			for i := range 64 {
				hits = append(hits, fmt.Appendf(nil, "k%07d", i*7%3000))
				misses = append(misses, fmt.Appendf(nil, "k%06d_", i*7%3000))
			}
			buf := make([]byte, 0, 100)
			i := 0
			expectNoAllocs(t, "Get hit", func() {
				for range 64 {
					v, err := db.Get(nil, hits[i%64], buf)
					if err != nil || len(v) == 0 {
						t.Fatal(err)
					}
					i++
				}
			})
			expectNoAllocs(t, "Get miss", func() {
				for range 64 {
					if _, err := db.Get(nil, misses[i%64], buf); !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
					i++
				}
			})
			var p PinnedValue
			expectNoAllocs(t, "GetPinned", func() {
				for range 64 {
					if err := db.GetPinned(nil, hits[i%64], &p); err != nil {
						t.Fatal(err)
					}
					p.Release()
					i++
				}
			})
			var results []GetResult
			var err error
			expectNoAllocs(t, "MultiGet", func() {
				if results, err = db.MultiGet(nil, hits, results); err != nil {
					t.Fatal(err)
				}
				if results, err = db.MultiGet(nil, misses, results); err != nil {
					t.Fatal(err)
				}
			})
			it, err := db.NewIterator(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			for ok := it.First(); ok; ok = it.Next() { // buffers grow to the longest
			}
			expectNoAllocs(t, "iterator step", func() {
				for range 300 {
					if !it.Valid() && !it.First() {
						t.Fatal(it.Err())
					}
					it.Next()
				}
			})
			for ok := it.Last(); ok; ok = it.Prev() {
			}
			expectNoAllocs(t, "backward step", func() {
				for range 300 {
					if !it.Valid() && !it.Last() {
						t.Fatal(it.Err())
					}
					it.Prev()
				}
			})
		})
	}
}

// TestWritesDoNotAllocate: a Put copies into the log and the memtable, and
// leaves nothing for the collector.
func TestWritesDoNotAllocate(t *testing.T) {
	db, err := Open(t.TempDir(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(4),
		Table:           PlainTableOptions{},
		MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 1000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	key, value := []byte("key00000"), make([]byte, 100)
	i := 0
	expectNoAllocs(t, "Put", func() {
		for range 100 {
			i++
			key[4], key[5], key[6] = byte(i), byte(i>>8), byte(i>>16)
			if err := db.Put(nil, key, value); err != nil {
				t.Fatal(err)
			}
		}
	})
}

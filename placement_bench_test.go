package flatrock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkGetResident is a Get that hits a resident plain table: the path that
// placement must not make longer where there is one node.
func BenchmarkGetResident(b *testing.B) {
	db, err := Open(b.TempDir(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: NoopPrefix(), Table: PlainTableOptions{Memory: MemoryResident},
		MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 1000},
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	keys := make([][]byte, 1<<12) // in the processor's cache: instructions count, not misses
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key%09d", i)
		if err := db.Put(nil, keys[i], keys[i]); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		b.Fatal(err)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	buf := make([]byte, 0, 100)
	i := 0
	for b.Loop() {
		if _, err := db.Get(nil, keys[i&(len(keys)-1)], buf); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

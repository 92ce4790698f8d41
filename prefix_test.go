package flatrock

import (
	"context"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// A seek to a key that is shorter than a capped prefix found the first key of one
// source that began with the same bytes, and passed over the sources that had
// answered that they do not hold the prefix.
func TestSeekToKeyShorterThanCappedPrefix(t *testing.T) {
	for name, table := range map[string]TableFactory{"block": BlockBasedTableOptions{}, "plain": PlainTableOptions{}} {
		t.Run(name, func(t *testing.T) {
			db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
				Table: table, PrefixExtractor: CappedPrefix(3), MemTable: MemTableOptions{Kind: HashSkipList, BucketCount: 16},
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			put := func(key string) {
				if err := db.Put(nil, []byte(key), []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			put("ab2x")
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			put("ab1x")
			it, err := db.NewIterator(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !it.SeekGE([]byte("ab")) || string(it.Key()) != "ab1x" {
				t.Errorf("SeekGE(ab) finds %q, want ab1x", it.Key())
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

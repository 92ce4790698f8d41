package flatrock

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func plainFamily() *ColumnFamilyOptions {
	return &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(4),
		MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 1000},
		Table:           PlainTableOptions{},
		WriteBufferSize: 256 << 10,
	}
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	open := func() *DB {
		db, err := Open(dir, &Options{CreateIfMissing: true, ColumnFamily: plainFamily()})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open()
	const n = 20000
	for i := range n {
		if err := db.Put(nil, fmt.Appendf(nil, "key%07d", i), fmt.Appendf(nil, "value%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(db *DB) {
		t.Helper()
		for i := range n {
			v, err := db.Get(nil, fmt.Appendf(nil, "key%07d", i), nil)
			if err != nil || string(v) != fmt.Sprintf("value%d", i) {
				t.Fatalf("%d: %q %v", i, v, err)
			}
		}
		if _, err := db.Get(nil, []byte("key9999999"), nil); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		it, err := db.NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := 0
		for k, v := range it.All() {
			if string(k) != fmt.Sprintf("key%07d", c) || string(v) != fmt.Sprintf("value%d", c) {
				t.Fatalf("%d: %q %q", c, k, v)
			}
			c++
		}
		if err := it.Close(); err != nil || c != n {
			t.Fatal(c, err)
		}
	}
	check(db)
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	check(db)
	t.Logf("%+v", db.Metrics())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open()
	check(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

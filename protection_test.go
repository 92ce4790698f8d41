package flatrock

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestEveryFlipInABatchIsCaught changes each byte of a batch between the calls that fill it and Write.
func TestEveryFlipInABatchIsCaught(t *testing.T) {
	for _, protected := range []bool{true, false} {
		db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			MergeOperator: mustOperator("stringappend"), MemtableProtectionBytesPerKey: 2}})
		if err != nil {
			t.Fatal(err)
		}
		var b Batch
		wrong, caught := 0, 0
		for i := wal.HeaderLen; ; i++ {
			b.Reset()
			if err := b.Protect(map[bool]int{true: 8}[protected]); err != nil {
				t.Fatal(err)
			}
			b.Put(nil, []byte("key1"), []byte("value1"))
			b.SetSavePoint()
			b.Put(nil, []byte("gone"), []byte("gone"))
			if err := b.RollbackToSavePoint(); err != nil {
				t.Fatal(err)
			}
			b.Merge(nil, []byte("key2"), []byte("operand"))
			b.DeleteRange(nil, []byte("key3"), []byte("key5"))
			b.Delete(nil, []byte("key7"))
			b.PutEntity(nil, []byte("key8"), []Column{{Name: []byte("a"), Value: []byte("b")}})
			if i == len(b.rep.Bytes()) {
				break
			}
			b.rep.Bytes()[i] ^= 0x08
			if err := db.Write(nil, &b); err == nil {
				wrong++
			} else if errors.Is(err, ErrCorruption) {
				caught++
			}
		}
		if protected && (wrong > 0 || caught < 50) || !protected && wrong < 20 {
			t.Errorf("protected %v: %d changed batches were written, %d were refused", protected, wrong, caught)
		}
		if err := db.Write(&WriteOptions{ProtectionBytesPerKey: 8}, &b); err != nil {
			t.Errorf("the batch as it was: %v", err)
		}
		if v, err := db.Get(nil, []byte("key1"), nil); err != nil || string(v) != "value1" {
			t.Errorf("%q, %v", v, err)
		}
		if err := b.Protect(8); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("Protect on a batch that is not empty: %v", err)
		}
		if err := db.Put(&WriteOptions{ProtectionBytesPerKey: 3}, []byte("a"), nil); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("a protection of 3 bytes: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProtectedFamiliesServeReads runs all kinds of reads over protected memtables and files, flushes
// and compactions included.
func TestProtectedFamiliesServeReads(t *testing.T) {
	for _, mem := range []MemTableOptions{{}, {Kind: HashSkipList}, {Kind: Vector}} {
		db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			MemTable: mem, PrefixExtractor: FixedPrefix(4),
			BlockProtectionBytesPerKey: 1, MemtableProtectionBytesPerKey: 8, MemtableVerifyPerKeyChecksumOnSeek: true,
		}})
		if err != nil {
			t.Fatal(err)
		}
		const n = 2000
		for i := range n {
			if err := db.Put(nil, fmt.Appendf(nil, "key%05d", i), fmt.Appendf(nil, "value %d", i)); err != nil {
				t.Fatal(err)
			}
			if i == n/2 {
				if err := db.Flush(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		check := func(when string) {
			t.Helper()
			for range 3 { // the second and third time from the cache, with sums
				for i := 0; i < n; i += 7 {
					if v, err := db.Get(nil, fmt.Appendf(nil, "key%05d", i), nil); err != nil || !bytes.Equal(v, fmt.Appendf(nil, "value %d", i)) {
						t.Fatalf("%s: key %d is %q, %v", when, i, v, err)
					}
				}
			}
			it, err := db.NewIterator(&ReadOptions{TotalOrderSeek: true})
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for ok := it.First(); ok; ok = it.Next() {
				count++
			}
			if err := errors.Join(it.Err(), it.Close()); err != nil || count != n {
				t.Fatalf("%s: %d entries, %v", when, count, err)
			}
		}
		check("half in memory")
		if err := db.Flush(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		check("flushed")
		if err := db.CompactRange(t.Context(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
		check("compacted")
		if m := db.Metrics(); m.DamagedBlocks != 0 {
			t.Errorf("%d damaged blocks", m.DamagedBlocks)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestProtectionOptionsAreValidated refuses strengths that do not exist.
func TestProtectionOptionsAreValidated(t *testing.T) {
	for _, o := range []ColumnFamilyOptions{{BlockProtectionBytesPerKey: 3}, {MemtableProtectionBytesPerKey: -1}} {
		if _, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &o}); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestDamagedRangeTombstonesAreErrors changes a tombstone that an open file holds.
func TestDamagedRangeTombstonesAreErrors(t *testing.T) {
	for _, protection := range []int{0, 1} {
		db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			BlockProtectionBytesPerKey: protection, DisableAutoCompactions: true}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%03d", i), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteRange(nil, []byte("key020"), []byte("key040")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		deleted := func() error {
			_, err := db.Get(nil, []byte("key030"), nil)
			return err
		}
		if err := deleted(); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		db.mu.Lock()
		for _, h := range db.defaultCF.tables {
			if h.tombs != nil {
				_, end := h.tombs.Span(0)
				end[3] = '0'
				end[4] = '2' // the range ends at key020 or before
				end[5] = '0'
			}
		}
		db.mu.Unlock()
		err = deleted()
		if protection == 0 && err != nil || protection == 1 && !errors.Is(err, ErrCorruption) {
			t.Errorf("protection %d: a read under a damaged range tombstone: %v", protection, err)
		}
		for _, back := range []bool{false, true} {
			n, err := walk(t, db, back)
			if protection == 0 && (n != 100 || err != nil) || protection == 1 && !errors.Is(err, ErrCorruption) {
				t.Errorf("protection %d, backward %v: an iterator over a damaged range tombstone: %d keys, %v", protection, back, n, err)
			}
		}
		if protection == 1 {
			if err := db.CompactRange(t.Context(), nil, nil, nil); !errors.Is(err, ErrCorruption) {
				t.Errorf("a compaction of a damaged range tombstone: %v", err)
			}
		}
		if err := db.Close(); err != nil && !errors.Is(err, ErrBackground) {
			t.Fatal(err)
		}
	}
}

// walk counts the keys of the default family.
func walk(t *testing.T, db *DB, backward bool) (n int, err error) {
	t.Helper()
	it, err := db.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	if backward {
		for ok := it.Last(); ok; ok = it.Prev() {
			n++
		}
	} else {
		for range it.All() {
			n++
		}
	}
	return n, it.Err()
}

// TestDamagedRangeTombstonesOfMemtablesAreErrors changes one of a memtable: reads, iterators in both
// directions and the flush meet it.
func TestDamagedRangeTombstonesOfMemtablesAreErrors(t *testing.T) {
	for _, protection := range []int{0, 4} {
		db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			MemtableProtectionBytesPerKey: protection, DisableAutoCompactions: true}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%03d", i), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.DeleteRange(nil, []byte("key020"), []byte("key040")); err != nil {
			t.Fatal(err)
		}
		for _, back := range []bool{false, true} {
			if n, err := walk(t, db, back); n != 80 || err != nil {
				t.Fatalf("protection %d, backward %v: %d keys, %v", protection, back, n, err)
			}
		}
		if _, err := db.Get(nil, []byte("key030"), nil); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		end := db.defaultCF.active.tombs.Tombstones()[0].End // shared by what reads go by
		copy(end, "key020")
		wrong := 0 // answers: what is searched and what is compared lie apart, so not all of them
		if _, err := db.Get(nil, []byte("key030"), nil); !errors.Is(err, ErrNotFound) {
			wrong++
			if protection != 0 && !errors.Is(err, ErrCorruption) {
				t.Errorf("a read under a damaged range tombstone: %v", err)
			}
		} else if protection != 0 {
			t.Errorf("a read under a damaged range tombstone: %v", err)
		}
		for _, back := range []bool{false, true} {
			n, err := walk(t, db, back)
			if n != 80 {
				wrong++
			}
			if protection == 0 && err != nil || protection != 0 && !errors.Is(err, ErrCorruption) {
				t.Errorf("protection %d, backward %v: an iterator over a damaged range tombstone: %d keys, %v", protection, back, n, err)
			}
		}
		if wrong == 0 {
			t.Errorf("protection %d: the damage changed no answer", protection)
		}
		if err := db.Flush(t.Context(), nil); protection != 0 && !errors.Is(err, ErrCorruption) {
			t.Errorf("a flush of a damaged range tombstone: %v", err)
		}
		if err := db.Close(); err != nil && !errors.Is(err, ErrBackground) && !errors.Is(err, ErrCorruption) {
			t.Fatal(err)
		}
	}
}

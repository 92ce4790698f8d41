package flatrock

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// smallFiles are options under which a few kilobytes make many files.
func smallFiles() *ColumnFamilyOptions {
	return &ColumnFamilyOptions{
		DisableAutoCompactions: true, TargetFileSizeBase: 4 << 10, Compression: NoCompression,
		Table: BlockBasedTableOptions{BlockSize: 512},
	}
}

func fillKeys(t *testing.T, db *DB, n int, value string) {
	t.Helper()
	for i := range n {
		if err := db.Put(nil, fmt.Appendf(nil, "k%06d", i), fmt.Appendf(nil, "%s %0100d", value, i)); err != nil {
			t.Fatal(err)
		}
	}
}

func countKeys(t *testing.T, db *DB, ro *ReadOptions) (n int) {
	t.Helper()
	it, err := db.NewIterator(ro)
	if err != nil {
		t.Fatal(err)
	}
	for range it.All() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func compactAll(t *testing.T, db *DB) {
	t.Helper()
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// TestCompactionDropsCoveredFilesUnread: files that a range tombstone covers whole
// are not inputs any more, unless a snapshot sees them.
func TestCompactionDropsCoveredFilesUnread(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: smallFiles()})
	fillKeys(t, db, 2000, "v")
	compactAll(t, db)
	files := db.Metrics().Families["default"].Levels
	total := files[len(files)-1].Files
	if total < 20 {
		t.Fatalf("%d files in the last level, want many", total)
	}
	snap, err := db.NewSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteRange(nil, []byte("k000100"), []byte("k001900")); err != nil {
		t.Fatal(err)
	}
	compactAll(t, db)
	if n := db.Metrics().CoveredFiles; n != 0 {
		t.Errorf("%d files dropped that a snapshot sees", n)
	}
	if n := countKeys(t, db, &ReadOptions{Snapshot: snap}); n != 2000 {
		t.Errorf("the snapshot sees %d keys, want 2000", n)
	}
	snap.Release()
	if err := db.DeleteRange(nil, []byte("k000100"), []byte("k001900")); err != nil { // the one before is in those files
		t.Fatal(err)
	}
	if err := db.Put(nil, []byte("k000500"), []byte("new")); err != nil {
		t.Fatal(err)
	}
	in := db.Metrics()
	compactAll(t, db)
	out := db.Metrics()
	if n := out.CoveredFiles; n < int64(total)*8/10 {
		t.Errorf("%d of %d files dropped unread", n, total)
	}
	if out.CompactedOut-in.CompactedOut > 50_000 {
		t.Errorf("%d bytes written", out.CompactedOut-in.CompactedOut)
	}
	if n := countKeys(t, db, nil); n != 201 {
		t.Errorf("%d keys left, want 201", n)
	}
}

// TestDeleteFilesInRanges: whole files go, what reaches beyond stays, also after
// reopening.
func TestDeleteFilesInRanges(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: smallFiles()})
	fillKeys(t, db, 1000, "v")
	compactAll(t, db)
	if err := db.Put(nil, []byte("k000500"), []byte("in memory")); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteFilesInRanges([]KeyRange{{[]byte("k000400"), []byte("k000600")}, {[]byte("k000900"), nil}}, false); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		for _, k := range []string{"k000000", "k000399", "k000400", "k000600", "k000898", "k000500"} {
			if _, err := db.Get(nil, []byte(k), nil); err != nil && k != "k000400" {
				t.Errorf("%s: %v", k, err)
			}
		}
		for _, k := range []string{"k000470", "k000550", "k000999"} {
			if _, err := db.Get(nil, []byte(k), nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v, want not found", k, err)
			}
		}
		if n := countKeys(t, db, nil); n < 690 || n > 790 {
			t.Errorf("%d keys left, want about 700", n)
		}
	}
	check()
	db.Close()
	db = mustOpen(t, fsys, &Options{ColumnFamily: smallFiles()})
	check()
	if err := db.DeleteFilesInRanges([]KeyRange{{[]byte("b"), []byte("a")}}, false); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a range in the wrong order: %v", err)
	}
	if err := db.DeleteFilesInRanges([]KeyRange{{}}, false); err != nil {
		t.Fatal(err)
	}
	for l, level := range db.Metrics().Families["default"].Levels {
		if l > 0 && level.Files > 0 {
			t.Errorf("level %d still has %d files", l, level.Files)
		}
	}
	// The last key of a file is the end of the range: it counts only if asked for.
	db2 := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: smallFiles()})
	fillKeys(t, db2, 3, "v")
	compactAll(t, db2)
	for i, include := range []bool{false, true} {
		if err := db2.DeleteFilesInRanges([]KeyRange{{[]byte("k"), []byte("k000002")}}, include); err != nil {
			t.Fatal(err)
		}
		if n := countKeys(t, db2, nil); n != 3-3*i {
			t.Errorf("end included %v: %d keys left", include, n)
		}
	}
}

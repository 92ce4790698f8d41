package flatrock

import (
	"errors"
	"maps"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestDeleteFilesInRangesIsAtomic fails the n-th operation of a removal of files, for every n: while
// it runs on, after a kill and after a power loss, all of the files are there or none of them.
func TestDeleteFilesInRangesIsAtomic(t *testing.T) {
	for n := 1; ; n++ {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		open := func(fsys mmapfs.FS) *DB {
			return mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{TargetFileSizeBase: 4 << 10, Compression: NoCompression}})
		}
		db := open(fault)
		fillKeys(t, db, 400, "a value that fills files: 0123456789 0123456789")
		ctx := t.Context()
		if err := errors.Join(db.Flush(ctx, nil), db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil)); err != nil {
			t.Fatal(err)
		}
		before, err := contents(db.DefaultColumnFamily(), nil)
		if err != nil {
			t.Fatal(err)
		}
		fault.FailNth(n, mmapfs.OpAll, n%2 == 0)
		removal := db.DeleteFilesInRanges([]KeyRange{{[]byte("k000050"), []byte("k000150")}, {[]byte("k000200"), []byte("k000350")}}, false)
		injected := fault.Injected()
		fault.FailNth(0, mmapfs.OpAll, true)
		if removal != nil && !errors.Is(removal, mmapfs.ErrInjected) {
			t.Fatalf("n=%d: %v does not match the injected error", n, removal)
		}
		state := func(db *DB, what string) (gone bool) {
			t.Helper()
			got, err := contents(db.DefaultColumnFamily(), nil)
			if err != nil {
				t.Fatalf("n=%d, %s: %v", n, what, err)
			}
			if maps.Equal(got, before) {
				return false
			}
			for k, v := range before {
				edge := k < "k000050" || k >= "k000150" && k < "k000200" || k >= "k000350"
				if edge && got[k] != v || (k == "k000100" || k == "k000275") && got[k] != "" {
					t.Fatalf("n=%d, %s: %q = %q", n, what, k, got[k])
				}
			}
			return true
		}
		if gone := state(db, "running"); gone != (removal == nil) {
			t.Fatalf("n=%d: the files are gone: %v, and the removal said %v", n, gone, removal)
		}
		for what, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
			again := open(fsys)
			if gone := state(again, what); removal == nil && !gone {
				t.Fatalf("n=%d, %s: what was removed has come back", n, what)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
		}
		db.Close() // it may have failed for good
		if injected == 0 {
			if n < 3 {
				t.Fatalf("a removal has only %d operations", n)
			}
			return
		}
	}
}

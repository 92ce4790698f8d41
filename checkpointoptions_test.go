package flatrock

import (
	"errors"
	"testing"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestACheckpointHasOptionsOrFails fails the n-th listing of a directory: a checkpoint that is there
// has the OPTIONS file, without which a family of plain tables would open as one of blocks.
func TestACheckpointHasOptionsOrFails(t *testing.T) {
	fault := mmapfs.NewFault(mmapfs.NewMem())
	db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		Table: PlainTableOptions{}, PrefixExtractor: FixedPrefix(1),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Put(nil, []byte("key"), []byte("value")), db.Flush(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for n := 1; ; n++ {
		fault.FailNth(n, mmapfs.OpList, true)
		_, err := db.CreateCheckpoint(t.Context(), "/copy", nil)
		injected := fault.Injected()
		fault.FailNth(0, 0, false)
		if err != nil {
			failed++
			if !errors.Is(err, mmapfs.ErrInjected) {
				t.Fatal(err)
			}
			continue
		}
		if _, err := optionsfile.Latest(fault, "/copy"); err != nil {
			t.Fatalf("listing %d failed, the checkpoint was made, and its options: %v", n, err)
		}
		copied, err := Open("/copy", &Options{FS: fault})
		if err != nil {
			t.Fatal(err)
		}
		if v, err := copied.Get(nil, []byte("key"), nil); err != nil || string(v) != "value" {
			t.Errorf("%q, %v", v, err)
		}
		if err := errors.Join(copied.Close(), fault.RemoveAll("/copy")); err != nil {
			t.Fatal(err)
		}
		if injected == 0 {
			break
		}
	}
	if failed == 0 {
		t.Error("no listing of a checkpoint could fail")
	}
}

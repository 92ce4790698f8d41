package flatrock

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// lostManifest is a database of a few tables and a log whose MANIFEST and CURRENT are gone.
func lostManifest(t *testing.T) *mmapfs.MemFS {
	t.Helper()
	mem := mmapfs.NewMem()
	db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true, WALWriteMode: WALWrite, AvoidFlushDuringShutdown: true,
		ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if err := db.Put(nil, fmt.Appendf(nil, "k%02d", i%40), fmt.Appendf(nil, "v%d", i)); err != nil {
			t.Fatal(err)
		}
		if i%20 == 19 && i < 50 {
			if err := db.Flush(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n == manifest.CurrentBase || strings.HasPrefix(n, "MANIFEST-") {
			if err := mem.Remove("/db/" + n); err != nil {
				t.Fatal(err)
			}
		}
	}
	return mem
}

// TestRepairThatFails loses nothing: whichever file operation fails, a second repair finds all keys.
func TestRepairThatFails(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 1; ; n += step {
		mem := lostManifest(t)
		f := mmapfs.NewFault(mem)
		f.FailNth(n, mmapfs.OpAll, true)
		_, err := Repair(t.Context(), "/db", &RepairOptions{Options: &Options{FS: f, WALWriteMode: WALWrite}})
		injected := f.Injected() > 0
		if _, err2 := Repair(t.Context(), "/db", &RepairOptions{Options: &Options{FS: mem, WALWriteMode: WALWrite}}); err2 != nil {
			t.Fatalf("operation %d (%v): the second repair: %v", n, err, err2)
		}
		db, err := Open("/db", &Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		for i := range 40 {
			want := i
			if i < 20 {
				want = i + 40
			}
			v, err := db.Get(nil, fmt.Appendf(nil, "k%02d", i), nil)
			if err != nil || string(v) != fmt.Sprintf("v%d", want) {
				t.Fatalf("operation %d: key %d is %q, %v", n, i, v, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if !injected {
			break
		}
	}
}

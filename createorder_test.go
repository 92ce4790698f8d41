package flatrock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestImportedFamilyOpensAfterAKill: a process may die at any step of
// CreateColumnFamilyWithImport; the next Open, which is not told of the family, has its options or does
// not have the family.
func TestImportedFamilyOpensAfterAKill(t *testing.T) {
	ctx := context.Background()
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	plain := &ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder}}
	from, err := db.CreateColumnFamily("from", plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Put(nil, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	m, err := db.ExportColumnFamily(ctx, from, "/export")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var killed []*mmapfs.MemFS
	fault.SetHook(func(mmapfs.Op, string) error {
		mu.Lock()
		defer mu.Unlock()
		killed = append(killed, mem.Kill())
		return nil
	})
	if _, err := db.CreateColumnFamilyWithImport(ctx, "to", plain, nil, m); err != nil {
		t.Fatal(err)
	}
	fault.SetHook(nil)
	killed = append(killed, mem.Kill())
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, image := range killed {
		db, err := Open("/db", &Options{FS: image})
		if err != nil {
			t.Fatalf("killed before step %d of %d: %v", i, len(killed), err)
		}
		if cf := db.ColumnFamily("to"); cf != nil {
			found++
			if v, err := cf.Get(nil, []byte("k"), nil); string(v) != "v" {
				t.Errorf("killed before step %d of %d: the imported family has %q, %v", i, len(killed), v, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if found < 2 || found == len(killed) {
		t.Errorf("%d of %d images have the family: want some that have it before the call returned, and some that do not", found, len(killed))
	}
}

// TestSecondarySeesIngestedFilesBelowLaterWrites: what is ingested is in no log, so that a
// catch-up that read the MANIFEST before and the log after it would show the later writes alone.
func TestSecondarySeesIngestedFilesBelowLaterWrites(t *testing.T) {
	ctx := context.Background()
	mem := mmapfs.NewMem()
	primary, err := Open("/db", &Options{FS: mem, CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	round := 0
	write := func() {
		round++
		path := fmt.Sprintf("/file%d.sst", round)
		w, err := NewSstFileWriter(path, &SstFileWriterOptions{Family: primary.DefaultColumnFamily(), FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Put([]byte("ingested"), fmt.Append(nil, round)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if err := primary.IngestExternalFile(ctx, []string{path}, nil); err != nil {
			t.Fatal(err)
		}
		if err := primary.Put(nil, []byte("later"), fmt.Append(nil, round)); err != nil {
			t.Fatal(err)
		}
	}
	// Whenever the follower opens a log, it has read the MANIFEST.
	fault := mmapfs.NewFault(mem)
	armed := false
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if armed && op == mmapfs.OpOpen && strings.HasSuffix(name, ".log") {
			armed = false
			write()
		}
		return nil
	})
	check := func(follower *DB) {
		t.Helper()
		ingested, err := follower.Get(nil, []byte("ingested"), nil)
		if err != nil {
			t.Fatal(err)
		}
		later, err := follower.Get(nil, []byte("later"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(ingested) != string(later) || armed {
			t.Errorf("the ingested value is %q, and the one written after it %q (the hook ran: %v)", ingested, later, !armed)
		}
	}
	write()
	armed = true
	follower, err := OpenAsSecondary("/db", &Options{FS: fault})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	check(follower)
	for range 3 {
		armed = true
		if err := follower.TryCatchUpWithPrimary(); err != nil {
			t.Fatal(err)
		}
		check(follower)
	}
}

// TestSecondaryFollowsAFamilyThatIsMadeAnew: a family that is dropped and created again with another
// comparator, another table format or more levels is another family.
func TestSecondaryFollowsAFamilyThatIsMadeAnew(t *testing.T) {
	mem := mmapfs.NewMem()
	primary, err := Open("/db", &Options{FS: mem, CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	follower, err := OpenAsSecondary("/db", &Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	for i, o := range []*ColumnFamilyOptions{
		{}, {Comparator: ReverseBytewise}, {Table: PlainTableOptions{HashTableRatio: TotalOrder}}, {NumLevels: 3}, {},
	} {
		cf, err := primary.CreateColumnFamily("again", o)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"a", "b"} {
			if err := cf.Put(nil, []byte(key), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cf.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
			t.Fatal(err) // to the last level
		}
		if err := follower.TryCatchUpWithPrimary(); err != nil {
			t.Fatalf("family %d: %v", i, err)
		}
		it, err := follower.ColumnFamily("again").NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		first := map[bool]string{false: "a", true: "b"}[o.Comparator != nil]
		if !it.First() || string(it.Key()) != first || string(it.Value()) != fmt.Sprint(i) {
			t.Errorf("family %d begins with %q, %q", i, it.Key(), it.Value())
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		if err := primary.DropColumnFamily(cf); err != nil {
			t.Fatal(err)
		}
	}
}

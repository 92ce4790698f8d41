package flatrock

import (
	"context"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// What the stress test found about families that are dropped, and files that go,
// while something else is under way.

func openForDrops(t *testing.T) (*DB, *ColumnFamily) {
	t.Helper()
	db, err := Open("/db", &Options{FS: mmapfs.NewFault(mmapfs.NewMem()), CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	cf, err := db.CreateColumnFamily("goes", &ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cf.Put(nil, []byte("k"), []byte("v")); err != nil {
		t.Fatal(err)
	}
	if err := cf.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return db, cf
}

// TestLoadingOutlivesItsFamily: a file that is loaded in the background while its family is
// dropped brings the family back for nobody. It crashed.
func TestLoadingOutlivesItsFamily(t *testing.T) {
	db, cf := openForDrops(t)
	it, err := cf.NewIterator(nil) // keeps the file open
	if err != nil {
		t.Fatal(err)
	}
	var h *tableHandle
	db.mu.Lock()
	for _, h = range cf.tables {
		h.wants = mmapfs.MemoryPopulate
	}
	db.mu.Unlock()
	if h == nil {
		t.Fatal("no file")
	}
	if err := db.DropColumnFamily(cf); err != nil {
		t.Fatal(err)
	}
	if err := db.load(h); err != nil {
		t.Error(err)
	}
	if !it.First() || string(it.Value()) != "v" {
		t.Errorf("the iterator that is open: %v", it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	if n, err := db.fs.Stat(manifest.TableName("/db", h.meta.Number)); err == nil {
		t.Errorf("the file is left, with %d bytes", n.Size())
	}
}

// TestCheckpointHasTheOptionsOfItsFamilies: a family that is dropped while a checkpoint
// is made is in the checkpoint as it was. Its options were those after the drop.
func TestCheckpointHasTheOptionsOfItsFamilies(t *testing.T) {
	db, cf := openForDrops(t)
	fault := db.fs.(*mmapfs.FaultFS)
	dropped := false
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if op != mmapfs.OpLink || dropped {
			return nil
		}
		dropped = true
		return db.DropColumnFamily(cf)
	})
	if _, err := db.CreateCheckpoint(context.Background(), "/checkpoint", nil); err != nil {
		t.Fatal(err)
	}
	fault.SetHook(nil)
	if !dropped {
		t.Fatal("the checkpoint linked nothing")
	}
	there, err := Open("/checkpoint", &Options{FS: fault})
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if v, err := there.ColumnFamily("goes").Get(nil, []byte("k"), nil); string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestFilesOfADroppedFamily: a list of all files leaves out a family that goes meanwhile.
func TestFilesOfADroppedFamily(t *testing.T) {
	db, cf := openForDrops(t)
	families := db.ColumnFamilies()
	if err := db.DropColumnFamily(cf); err != nil {
		t.Fatal(err)
	}
	if files, err := liveFilesOf(families); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestDisabledDeletionsKeepOptions: the OPTIONS file that GetLiveFiles names can be copied
// while deletions are disabled, whatever options change meanwhile.
func TestDisabledDeletionsKeepOptions(t *testing.T) {
	db, cf := openForDrops(t)
	if err := db.DisableFileDeletions(); err != nil {
		t.Fatal(err)
	}
	names, _, err := db.GetLiveFiles()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := cf.SetOptions(map[string]string{"disable_auto_compactions": "true"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range names {
		if _, err := db.fs.Stat("/db" + n); err != nil {
			t.Error(err)
		}
	}
	if err := db.EnableFileDeletions(); err != nil {
		t.Fatal(err)
	}
	left, err := db.fs.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	left = slices.DeleteFunc(left, func(n string) bool {
		kind, _, _ := manifest.ParseName(n)
		return kind != manifest.KindOptions
	})
	if len(left) != 2 {
		t.Errorf("OPTIONS files: %v, want the newest two", left)
	}
}

package flatrock

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const blobListing = "testdata/golden/db/d08_blob/expected.jsonl"

// TestBlobsStayReadable: compactions of RocksDB's blob database keep every value and
// account for what they make garbage; blob files that nothing refers to go when the database is
// opened next, and no other.
func TestBlobsStayReadable(t *testing.T) {
	ctx := context.Background()
	dir := goldenDB(t, "d08_blob")
	want := readListing(t, blobListing)
	blobFiles := func() (n int) {
		names, err := filepath.Glob(filepath.Join(dir, "*.blob"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	db, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	compact := func() {
		t.Helper()
		for _, cf := range db.ColumnFamilies() {
			must(cf.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
		}
	}
	reopen := func() {
		t.Helper()
		must(db.Close())
		db, err = Open(dir, nil)
		must(err)
	}
	garbage := func() (n uint64) {
		for _, cf := range db.ColumnFamilies() {
			m, err := cf.GetColumnFamilyMetaData()
			must(err)
			for _, b := range m.BlobFiles {
				n += b.GarbageBlobCount
			}
		}
		return n
	}
	compact()
	compareListings(t, listDB(t, db, nil), want)
	before, files := garbage(), blobFiles()

	// Half of the keys go: their blobs are garbage.
	var rest listing
	for i, k := range want {
		if i%2 == 1 {
			rest = append(rest, k)
			continue
		}
		key, _ := hex.DecodeString(k.K)
		must(db.ColumnFamily(k.CF).Delete(nil, key))
	}
	compact()
	if garbage() <= before {
		t.Errorf("%d blobs were garbage, and %d are after %d deletes", before, garbage(), len(want)-len(rest))
	}
	for range 2 {
		compareListings(t, listDB(t, db, nil), rest)
		reopen()
	}
	if n := blobFiles(); n == 0 || n > files {
		t.Errorf("%d blob files of %d", n, files)
	}

	// Everything goes, and the blob files too.
	for _, k := range rest {
		key, _ := hex.DecodeString(k.K)
		must(db.ColumnFamily(k.CF).Delete(nil, key))
	}
	compact()
	reopen()
	if n := blobFiles(); n != 0 {
		t.Errorf("%d of %d blob files are left of a database without keys", n, files)
	}
	must(db.Close())
}

// TestBlobFileMissingOrDamaged: a read says which file, and what is wrong with it.
func TestBlobFileMissingOrDamaged(t *testing.T) {
	for _, damage := range []string{"missing", "damaged", "cut"} {
		dir := goldenDB(t, "d08_blob")
		names, err := filepath.Glob(filepath.Join(dir, "*.blob"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			switch damage {
			case "missing":
				err = os.Remove(name)
			case "cut":
				err = os.Truncate(name, 40)
			default:
				var b []byte
				if b, err = os.ReadFile(name); err == nil {
					for i := 100; i < len(b); i += 50 {
						b[i] ^= 1
					}
					err = os.WriteFile(name, b, 0o644)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		db, err := Open(dir, &Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for _, k := range readListing(t, blobListing) {
			key, _ := hex.DecodeString(k.K)
			_, err := db.ColumnFamily(k.CF).Get(nil, key, nil)
			if err == nil {
				continue
			}
			failed++
			where := new(CorruptionError)
			if !errors.As(err, &where) || !strings.HasSuffix(where.File, ".blob") || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) && damage == "missing" {
				t.Fatalf("%s: %v", damage, err)
			}
		}
		if failed == 0 {
			t.Fatalf("%s: all keys are read", damage)
		}
		it, err := db.NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		for range it.All() {
		}
		if err := it.Close(); !errors.Is(err, ErrCorruption) {
			t.Fatalf("%s: the iterator ends with %v", damage, err)
		}
		db.Close()
	}
}

// TestCheckpointTakesBlobs: the copies hold the blob files too.
func TestCheckpointTakesBlobs(t *testing.T) {
	db, err := Open(goldenDB(t, "d08_blob"), nil)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := db.CreateCheckpoint(context.Background(), to, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExportColumnFamily(context.Background(), db.DefaultColumnFamily(), to+"2"); !errors.Is(err, ErrNotSupported) {
		t.Errorf("an export of a family with blob files: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(to, nil); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	compareListings(t, listDB(t, db, nil), readListing(t, blobListing))
}

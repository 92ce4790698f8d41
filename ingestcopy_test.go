package flatrock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestIngestionVerifiesItsCopy: a bit that flips while the file is copied is found, if
// the caller asked for verification, though the original is whole.
func TestIngestionVerifiesItsCopy(t *testing.T) {
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	db := mustOpen(t, fault, &Options{CreateIfMissing: true})
	w, err := NewSstFileWriter("/out.sst", &SstFileWriterOptions{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if err := w.Put(fmt.Appendf(nil, "key%04d", i), []byte("a value that is long enough for several blocks")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	flip := true
	fault.SetReadHook(func(name string, p []byte) {
		// It is copied from when there is a table in the directory of the database.
		if flip && strings.HasSuffix(name, "out.sst") && hasTable(t, mem, db.dir) {
			p[len(p)/2] ^= 1
		}
	})
	err = db.IngestExternalFile(t.Context(), []string{"/out.sst"}, &IngestExternalFileOptions{VerifyChecksumsBeforeIngest: true})
	flip = false
	if !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "copied from /out.sst") {
		t.Errorf("a flipped bit in the copy: %v", err)
	}
	if _, err := db.Get(nil, []byte("key0001"), nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("after the refusal: %v", err)
	}
	if err := db.IngestExternalFile(t.Context(), []string{"/out.sst"}, &IngestExternalFileOptions{VerifyChecksumsBeforeIngest: true}); err != nil {
		t.Error(err)
	}
	if _, err := db.Get(nil, []byte("key0001"), nil); err != nil {
		t.Errorf("after the ingestion: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func hasTable(t *testing.T, fsys mmapfs.FS, dir string) bool {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".sst") })
}

// TestImportVerifiesItsCopy of a plain table, whose reads check nothing.
func TestImportVerifiesItsCopy(t *testing.T) {
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	o := &ColumnFamilyOptions{Table: PlainTableOptions{}, PrefixExtractor: NoopPrefix()}
	db := mustOpen(t, fault, &Options{CreateIfMissing: true, ColumnFamily: o})
	for i := range 500 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%04d", i), []byte("a value of some length")); err != nil {
			t.Fatal(err)
		}
	}
	m, err := db.ExportColumnFamily(t.Context(), db.DefaultColumnFamily(), "/export")
	if err != nil {
		t.Fatal(err)
	}
	flip := true
	fault.SetReadHook(func(name string, p []byte) {
		if flip && strings.HasPrefix(name, "/export/") {
			p[len(p)/2] ^= 1
		}
	})
	_, err = db.CreateColumnFamilyWithImport(t.Context(), "imported", o, nil, m)
	flip = false
	if !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), "copied from /export/") {
		t.Errorf("a flipped bit in the copy: %v", err)
	}
	cf, err := db.CreateColumnFamilyWithImport(t.Context(), "imported", o, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if v, err := cf.Get(nil, fmt.Appendf(nil, "key%04d", i), nil); err != nil || string(v) != "a value of some length" {
			t.Fatalf("key %d: %q, %v", i, v, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

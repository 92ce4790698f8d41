package flatrock

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestAnExportIsOfOneMoment: of a write and an ingestion after it, which meets no memtable and is in the files at
// once, an export never has the second alone.
func TestAnExportIsOfOneMoment(t *testing.T) {
	mem := mmapfs.NewMem()
	db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			for i := 1; ; i++ {
				select {
				case <-stop:
					return nil
				default:
				}
				n := []byte(strconv.Itoa(i))
				w, err := NewSstFileWriter("/new.sst", &SstFileWriterOptions{Family: db.DefaultColumnFamily(), FS: mem})
				if err != nil {
					return err
				}
				if err := w.Put([]byte("z"), n); err != nil {
					return err
				}
				if _, err := w.Finish(); err != nil {
					return err
				}
				if err := errors.Join(db.Put(nil, []byte("a"), n), db.IngestExternalFile(t.Context(), []string{"/new.sst"}, nil)); err != nil {
					return err
				}
			}
		}()
	}()
	exports := 150
	if testing.Short() {
		exports = 50
	}
	for i := range exports {
		m, err := db.ExportColumnFamily(t.Context(), db.DefaultColumnFamily(), "/export")
		if err != nil {
			t.Fatal(err)
		}
		cf, err := db.CreateColumnFamilyWithImport(t.Context(), fmt.Sprint("copy", i), nil, nil, m)
		if err != nil {
			t.Fatal(err)
		}
		read := func(key string) (n int) {
			v, err := cf.Get(nil, []byte(key), nil)
			if err == nil {
				n, err = strconv.Atoi(string(v))
			}
			if err != nil && !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			return n
		}
		if a, z := read("a"), read("z"); z > a {
			t.Fatalf("export %d has ingestion %d, and of the writes before it only %d", i, z, a)
		}
		if err := errors.Join(db.DropColumnFamily(cf), mem.RemoveAll("/export")); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

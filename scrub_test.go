package flatrock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// openMapped is a database with a plain table in the page cache, which a test can damage
// through the file.
func openMapped(t *testing.T, change func(*PlainTableOptions)) (db *DB, dir string) {
	t.Helper()
	dir = t.TempDir()
	po := PlainTableOptions{Memory: MemoryNone}
	if change != nil {
		change(&po)
	}
	db, err := Open(dir, &Options{CreateIfMissing: true, FS: mmapfs.OS, ColumnFamily: &ColumnFamilyOptions{
		Table: po, MemTable: MemTableOptions{Kind: HashSkipList}, PrefixExtractor: FixedPrefix(7),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, ErrBackground) {
			t.Error(err)
		}
	})
	for i := range 5000 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%04d", i), fmt.Appendf(nil, "value %50d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return db, dir
}

// damage changes a byte of the value of number i where it lies.
func damage(t *testing.T, dir string, i int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(names) != 1 {
		t.Fatalf("table files: %v, %v", names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, fmt.Appendf(nil, "value %50d", i))
	if at < 0 {
		t.Fatalf("value %d is not in the file", i)
	}
	f, err := os.OpenFile(names[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("W"), int64(at))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSampledReadsOfPlainTablesMeetDamage(t *testing.T) {
	for _, oneIn := range []int{0, 1, 50} {
		db, dir := openMapped(t, func(o *PlainTableOptions) { o.VerifyReadsOneIn = oneIn })
		key := []byte("key3000")
		if _, err := db.Get(nil, key, nil); err != nil {
			t.Fatal(err)
		}
		damage(t, dir, 3000)
		failed := 0
		for range 2000 {
			_, err := db.Get(nil, key, nil)
			results, err2 := db.MultiGet(nil, [][]byte{key, []byte("key0001")}, nil)
			if err2 != nil {
				t.Fatal(err2)
			}
			for _, err := range []error{err, results[0].Err} {
				if err != nil {
					failed++
					if !errors.Is(err, ErrCorruption) {
						t.Fatal(err)
					}
				}
			}
		}
		// 80 are expected with one read in 50; fewer than 20 in one run of 10^14.
		if oneIn == 0 && failed != 0 || oneIn == 1 && failed != 4000 || oneIn == 50 && (failed < 20 || failed > 200) {
			t.Errorf("one read in %d: %d of 4000 reads failed", oneIn, failed)
		}
		if m := db.Metrics(); (m.SampledReads > 0) != (oneIn > 0) {
			t.Errorf("one read in %d: %d sampled", oneIn, m.SampledReads)
		}
	}
}

func TestScrubMeetsDamageInMemory(t *testing.T) {
	db, dir := openMapped(t, func(o *PlainTableOptions) { o.ScrubBytesPerSecond = 1 << 30 })
	for db.Metrics().Scrubs == 0 || db.Metrics().ScrubbedBytes == 0 {
		runtime.Gosched()
	}
	damage(t, dir, 4321)
	for {
		err := db.Put(nil, []byte("key9999"), nil)
		if err == nil {
			runtime.Gosched()
			continue
		}
		if !errors.Is(err, ErrBackground) || !errors.Is(err, ErrCorruption) {
			t.Errorf("writes after damage was found: %v", err)
		}
		return
	}
}

// TestScrubLetsFilesGo compacts and closes under a scrub that is never done.
func TestScrubLetsFilesGo(t *testing.T) {
	db, _ := openMapped(t, func(o *PlainTableOptions) { o.ScrubBytesPerSecond = 1000 })
	if err := db.CompactRange(t.Context(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// TestScrubCoversFamiliesMadeLater: no family asked for it when the database was opened.
func TestScrubCoversFamiliesMadeLater(t *testing.T) {
	db, err := Open(t.TempDir(), &Options{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	cf, err := db.CreateColumnFamily("later", &ColumnFamilyOptions{
		Table:    PlainTableOptions{Memory: MemoryNone, ScrubBytesPerSecond: 1 << 30},
		MemTable: MemTableOptions{Kind: HashSkipList}, PrefixExtractor: FixedPrefix(3),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := cf.Put(nil, fmt.Appendf(nil, "key%04d", i), []byte("a value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := cf.Flush(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for db.Metrics().ScrubbedBytes == 0 {
		runtime.Gosched()
	}
}

package flatrock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// TestFlushesAndCompactionsKeepTheRate: with a megabyte a second, files of megabytes take seconds; a
// flush comes before a compaction.
func TestFlushesAndCompactionsKeepTheRate(t *testing.T) {
	for _, mode := range []ratelimit.Mode{LimitWrites, LimitReads, LimitAll} {
		synctest.Test(t, func(t *testing.T) {
			l := NewRateLimiter(RateLimiterOptions{BytesPerSec: 1 << 20, Mode: mode})
			o := &Options{CreateIfMissing: true, RateLimiter: l, DelayedWriteRate: 16 << 20, ColumnFamily: &ColumnFamilyOptions{
				Compression: NoCompression, DisableAutoCompactions: true}}
			db := mustOpen(t, mmapfs.NewMem(), o)
			ctx := context.Background()
			var written int64
			start := time.Now()
			for range 2 {
				for i := range 200 {
					if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), make([]byte, 10_000)); err != nil {
						t.Fatal(err)
					}
				}
				written += 2_000_000
				if err := db.Flush(ctx, nil); err != nil {
					t.Fatal(err)
				}
			}
			flushed := time.Since(start)
			if err := db.CompactRange(ctx, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			compacted := time.Since(start) - flushed
			rate := func(bytes int64) time.Duration { return time.Duration(bytes) * time.Second / (1 << 20) }
			near := func(what string, got, want time.Duration) {
				t.Helper()
				if got < want*8/10 || got > want*13/10+200*time.Millisecond {
					t.Errorf("mode %d: %s took %v, want about %v", mode, what, got, want)
				}
			}
			var flush, reads, writes time.Duration
			if mode.Writes() {
				flush, writes = rate(written), rate(written/2)
			}
			if mode.Reads() {
				reads = rate(written)
			}
			near("flushes", flushed, flush)
			near("the compaction", compacted, reads+writes)
			if n, _ := l.Total(ratelimit.High); (n > 0) != mode.Writes() {
				t.Errorf("mode %d: %d bytes of flushes", mode, n)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCloseDoesNotWaitForTheRate: a compaction that would take days is abandoned, a flush
// is not held any longer.
func TestCloseDoesNotWaitForTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, RateLimiter: NewRateLimiter(RateLimiterOptions{BytesPerSec: 10}),
			ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression}})
		if err := db.Put(nil, []byte("key"), make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(context.Background(), &FlushOptions{NoWait: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > time.Minute {
			t.Errorf("Close took %v", d)
		}
	})
}

// ranges is a file that notes what it was asked to write back.
type ranges struct {
	mmapfs.File
	asked []string
}

func (f *ranges) Writeback(off, n int64, wait bool) error {
	f.asked = append(f.asked, fmt.Sprint(off, "+", n, " ", wait))
	return nil
}

func TestBytesPerSync(t *testing.T) {
	f := &ranges{}
	w := writeback{every: 1 << 20, strict: true}
	for range 10 {
		if err := w.wrote(f, 700_000); err != nil {
			t.Fatal(err)
		}
	}
	// Whole pages, a megabyte behind the end, and never twice.
	if len(f.asked) < 3 || !strings.HasPrefix(f.asked[0], "0+") {
		t.Fatalf("asked for %v", f.asked)
	}
	var next int64
	for _, a := range f.asked {
		var off, n int64
		var wait bool
		if _, err := fmt.Sscanf(strings.ReplaceAll(a, "+", " "), "%d %d %t", &off, &n, &wait); err != nil {
			t.Fatal(err)
		}
		if off != next || n < 1<<20 || n%4096 != 0 || !wait {
			t.Errorf("asked for %v", f.asked)
		}
		next = off + n
	}
	if next > 7_000_000-writebackTail || next < 7_000_000-writebackTail-(1<<20)-700_000 {
		t.Errorf("written back up to %d of 7000000", next)
	}
}

// TestBytesPerSyncOptions: with them on, files and logs on a real disk hold the same.
func TestBytesPerSyncOptions(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []WALWriteMode{WALAuto, WALWrite} {
		o := &Options{CreateIfMissing: true, BytesPerSync: 128 << 10, StrictBytesPerSync: true, WALBytesPerSync: 64 << 10, WALWriteMode: mode,
			ColumnFamily: &ColumnFamilyOptions{Compression: NoCompression, ParanoidFileChecks: true}}
		db, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), make([]byte, 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.VerifyChecksum(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestParanoidFileChecks: a file that reads back other than it was written fails the flush; the
// memtable stays.
func TestParanoidFileChecks(t *testing.T) {
	db := mustOpen(t, mmapfs.NewMem(), &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{ParanoidFileChecks: true}})
	for i := range 100 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.DeleteRange(nil, []byte("key2"), []byte("key3")); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	db.mu.Lock()
	meta := db.defaultCF.files.version.Levels[0][0]
	db.mu.Unlock()
	right := fingerprint{deletes: 1}
	h := db.defaultCF.tables[meta.Number]
	ti := h.reader().NewIterator(table.IterOptions{})
	for ok := ti.First(); ok; ok = ti.Next() {
		right.add(ti.UserKey(), ti.Trailer(), ti.Value())
	}
	if err := ti.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.defaultCF.verifyOutput(meta, 0, &right); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*fingerprint){
		"an entry more":         func(p *fingerprint) { p.add([]byte("z"), 1, nil) },
		"other entries":         func(p *fingerprint) { p.sum++ },
		"a range delete less":   func(p *fingerprint) { p.deletes-- },
		"entries, not one less": func(p *fingerprint) { p.entries-- },
	} {
		wrong := right
		change(&wrong)
		if err := db.defaultCF.verifyOutput(meta, 0, &wrong); !errors.Is(err, ErrCorruption) {
			t.Errorf("%s: %v, want a corruption", name, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	// Damage on the way to the disk.
	fsys := mmapfs.NewFault(mmapfs.NewMem())
	db = mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{ParanoidFileChecks: true, Compression: NoCompression}})
	var damaged atomic.Bool
	fsys.SetReadHook(func(name string, p []byte) {
		if strings.HasSuffix(name, ".sst") {
			if i := slices.Index(p, '#'); i >= 0 && len(p) > 5000 { // a block, not the tail
				p[i] ^= 1
				damaged.Store(true)
			}
		}
	})
	if err := db.Put(nil, []byte("key"), append(make([]byte, 10_000), '#')); err != nil {
		t.Fatal(err)
	}
	err := db.Flush(context.Background(), nil)
	if !errors.Is(err, ErrCorruption) || !damaged.Load() {
		t.Fatalf("Flush: %v, damaged %v", err, damaged.Load())
	}
	if n := len(tableFiles(t, fsys)); n != 0 {
		t.Errorf("%d files stay", n)
	}
	fsys.SetReadHook(nil)
	if _, err := db.Get(nil, []byte("key"), nil); err != nil {
		t.Errorf("Get: %v", err)
	}
	db.Close()
}

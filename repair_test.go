package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// damages are what may be wrong with a directory.
var damages = []struct {
	name string
	do   func(t *testing.T, dir string)
}{
	{"nothing", func(*testing.T, string) {}},
	{"CURRENT deleted", func(t *testing.T, dir string) { removeMatching(t, dir, "CURRENT") }},
	{"CURRENT damaged", func(t *testing.T, dir string) {
		overwrite(t, dir, "CURRENT", func([]byte) []byte { return []byte("MANIFEST-x") })
	}},
	{"CURRENT empty", func(t *testing.T, dir string) { overwrite(t, dir, "CURRENT", func([]byte) []byte { return nil }) }},
	{"MANIFEST deleted", func(t *testing.T, dir string) { removeMatching(t, dir, "MANIFEST-*") }},
	{"MANIFEST and CURRENT deleted", func(t *testing.T, dir string) {
		removeMatching(t, dir, "MANIFEST-*")
		removeMatching(t, dir, "CURRENT")
	}},
	{"MANIFEST flipped", func(t *testing.T, dir string) {
		overwrite(t, dir, "MANIFEST-*", func(b []byte) []byte {
			b[len(b)/2] ^= 0x40
			return b
		})
	}},
	{"MANIFEST zeroed", func(t *testing.T, dir string) {
		overwrite(t, dir, "MANIFEST-*", func(b []byte) []byte { return make([]byte, len(b)) })
	}},
	{"OPTIONS deleted", func(t *testing.T, dir string) { removeMatching(t, dir, "OPTIONS-*") }},
	{"OPTIONS damaged", func(t *testing.T, dir string) {
		overwrite(t, dir, "OPTIONS-*", func(b []byte) []byte { return append(b[:len(b)/2], "\n[garbage\n=\n"...) })
	}},
}

func removeMatching(t *testing.T, dir, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
}

func overwrite(t *testing.T, dir, pattern string, change func([]byte) []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(n, change(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// expectedAfterRepair is what a golden database holds after its logs were read past damage.
func expectedAfterRepair(t *testing.T, name string) listing {
	t.Helper()
	base := filepath.Join("testdata/golden/db", name)
	path := filepath.Join(base, "expected.mode_kSkipAnyCorruptedRecords.jsonl")
	if _, err := os.Stat(path); err != nil {
		path = filepath.Join(base, "expected.jsonl")
	}
	return readListing(t, path)
}

// TestRepairGoldenDatabases: every database that RocksDB wrote is recovered whole, whatever
// happened to its MANIFEST, CURRENT or OPTIONS.
func TestRepairGoldenDatabases(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			want := expectedAfterRepair(t, name)
			for _, d := range damages {
				t.Run(d.name, func(t *testing.T) {
					dir := goldenDB(t, name)
					given := withMergeOperators(t, dir)
					if !strings.HasPrefix(d.name, "OPTIONS") {
						given = nil
					}
					d.do(t, dir)
					before := namesIn(t, dir)
					dry, err := Repair(t.Context(), dir, &RepairOptions{Options: given, DryRun: true})
					if err != nil {
						t.Fatal(err)
					}
					if after := namesIn(t, dir); after != before {
						t.Errorf("the dry run changed the directory: %s, before %s", after, before)
					}
					report, err := Repair(t.Context(), dir, &RepairOptions{Options: given})
					if err != nil {
						t.Fatalf("%v\n%+v", err, report)
					}
					if len(dry.Tables) != len(report.Tables) || len(dry.SetAside) != len(report.SetAside) || dry.LastSeq != report.LastSeq {
						t.Errorf("the dry run said %+v, the repair %+v", dry, report)
					}
					db, err := Open(dir, &Options{ReadOnly: true})
					if err != nil {
						t.Fatal(err)
					}
					defer db.Close()
					compareListings(t, listDB(t, db, nil), want)
					if t.Failed() {
						t.Logf("%+v", report)
					}
				})
			}
		})
	}
}

// withMergeOperators are the options of the families that need a merge operator, which a
// program must give when the OPTIONS file is gone: files do not always name it.
func withMergeOperators(t *testing.T, dir string) *Options {
	t.Helper()
	db, err := newDB(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := db.loadOptions()
	if err != nil {
		t.Fatal(err)
	}
	db.endLife()
	o := &Options{}
	for name, family := range stored {
		if family.MergeOperator != nil {
			o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{Name: name, Options: family})
		}
	}
	return o
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	list, err := mmapfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

// TestRepairRefuses what is no database, or is open.
func TestRepairRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Repair(t.Context(), filepath.Join(dir, "none"), nil); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Repair(t.Context(), dir, nil); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lost")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lost: %v", err)
	}
	db, err := Open(filepath.Join(dir, "db"), &Options{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := Repair(t.Context(), filepath.Join(dir, "db"), nil); !errors.Is(err, ErrLocked) {
		t.Errorf("an open database: %v", err)
	}
}

// TestACancelledRepairChangesNothing ends the context at every moment it is looked at, with tables to merge: up
// to the new MANIFEST the directory is what it was, and a second repair finds everything.
func TestACancelledRepairChangesNothing(t *testing.T) {
	const whole = 1 << 30
	run := func(after int) (cancelled bool) {
		mem := lostManifest(t)
		before := memNames(t, mem, "/db")
		ctx := &endingContext{Context: t.Context(), left: after}
		calls := 0
		o := &RepairOptions{Options: &Options{FS: mem, WALWriteMode: WALWrite}, Progress: func(file string, done, total int64) {
			if calls++; file == "" || done < 0 || done > total {
				t.Errorf("progress: %q, %d of %d", file, done, total)
			}
		}}
		_, err := Repair(ctx, "/db", o)
		if after == whole && calls < 2 {
			t.Errorf("progress was told %d times", calls)
		}
		if err == nil {
			return false
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled after %d looks: %v", after, err)
		}
		if now := memNames(t, mem, "/db"); !slices.Equal(now, before) {
			t.Fatalf("cancelled after %d looks: %q, before %q", after, now, before)
		}
		if _, err := Repair(t.Context(), "/db", o); err != nil {
			t.Fatalf("after a repair that was cancelled after %d looks: %v", after, err)
		}
		return true
	}
	if run(whole) {
		t.Fatal("not cancelled, and cancelled")
	}
	n := 0
	for run(n) {
		n++
	}
	if n < 8 {
		t.Errorf("the context was looked at %d times before the MANIFEST was written", n)
	}
}

// endingContext is done once Err was called a number of times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left <= 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

// memNames are the files of a directory, but for LOCK, each with its size.
func memNames(t *testing.T, mem *mmapfs.MemFS, dir string) (list []string) {
	t.Helper()
	names, err := mem.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n != "LOCK" {
			info, err := mem.Stat(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%s %d", n, info.Size()))
		}
	}
	slices.Sort(list)
	return list
}

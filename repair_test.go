package flatrock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
					dry, err := Repair(dir, &RepairOptions{Options: given, DryRun: true})
					if err != nil {
						t.Fatal(err)
					}
					if after := namesIn(t, dir); after != before {
						t.Errorf("the dry run changed the directory: %s, before %s", after, before)
					}
					report, err := Repair(dir, &RepairOptions{Options: given})
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
	if _, err := Repair(filepath.Join(dir, "none"), nil); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Repair(dir, nil); !errors.Is(err, ErrNoDatabase) {
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
	if _, err := Repair(filepath.Join(dir, "db"), nil); !errors.Is(err, ErrLocked) {
		t.Errorf("an open database: %v", err)
	}
}

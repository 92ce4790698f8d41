package flatrock

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// goldenDB is a copy of a golden database that a test may change.
func goldenDB(t *testing.T, name string) string {
	t.Helper()
	src := filepath.Join("testdata", "golden", "db", name, "db")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// listing is a database as the golden listings show one: a line per live key.
type listing []listedKey

type listedKey struct {
	CF  string `json:"cf"`
	K   string `json:"k"`
	V   string `json:"v"`
	Sum string `json:"v_sha256"`
	Len int    `json:"v_len"`
}

func readListing(t *testing.T, path string) (l listing) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var k listedKey
		if err := json.Unmarshal(s.Bytes(), &k); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		l = append(l, k)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// listDB lists all families in id order, and checks that walking backward and
// Get tell the same.
func listDB(t *testing.T, db *DB, snapshot *Snapshot) (l listing) {
	t.Helper()
	ro := &ReadOptions{Snapshot: snapshot}
	for _, cf := range db.ColumnFamilies() {
		it, err := cf.NewIterator(ro)
		if err != nil {
			t.Fatal(err)
		}
		first := len(l)
		for k, v := range it.All() {
			e := listedKey{CF: cf.Name(), K: hex.EncodeToString(k), V: hex.EncodeToString(v)}
			if len(v) > 200 {
				sum := sha256.Sum256(v)
				e.V, e.Sum, e.Len = "", hex.EncodeToString(sum[:]), len(v)
			}
			l = append(l, e)
			got, err := cf.Get(ro, k, nil)
			if err != nil || string(got) != string(v) {
				t.Errorf("%s: Get(%x) = %x, %v; the iterator has %x", cf.Name(), k, got, err, v)
			}
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
		at := len(l)
		for ok := it.Last(); ok; ok = it.Prev() {
			at--
			if at < first || l[at].K != hex.EncodeToString(it.Key()) {
				t.Fatalf("%s: backward: unexpected key %x", cf.Name(), it.Key())
			}
		}
		if at != first {
			t.Fatalf("%s: backward ended %d keys early: %v", cf.Name(), at-first, it.Err())
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func compareListings(t *testing.T, got, want listing) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d live keys, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("key %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func goldenNames(t *testing.T) (names []string) {
	t.Helper()
	dirs, err := filepath.Glob("testdata/golden/db/*/db/CURRENT")
	if err != nil || len(dirs) < 25 {
		t.Fatalf("%d golden databases, %v", len(dirs), err)
	}
	for _, d := range dirs {
		names = append(names, filepath.Base(filepath.Dir(filepath.Dir(d))))
	}
	return names
}

// TestGoldenDatabasesOpen opens every database that RocksDB wrote, read-only and
// for writing, with no options but those stored in it, and compares all live keys;
// then writes to it, closes and opens it once more.
func TestGoldenDatabasesOpen(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			want := readListing(t, filepath.Join("testdata/golden/db", name, "expected.jsonl"))
			dir := goldenDB(t, name)
			for _, readOnly := range []bool{true, false, false} {
				mode := PointInTimeRecovery
				if name == "d10_recycled_wal" {
					mode = SkipAnyCorruptedRecords // what RocksDB needs for it, too
				}
				db, err := Open(dir, &Options{ReadOnly: readOnly || name == "d17_2pc", WALRecoveryMode: mode})
				if err != nil {
					t.Fatalf("read-only %v: %v", readOnly, err)
				}
				compareListings(t, listDB(t, db, nil), want)
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestGoldenRecoveryModes opens the databases with damaged logs in each mode.
func TestGoldenRecoveryModes(t *testing.T) {
	modes := map[string]WALRecoveryMode{
		"kTolerateCorruptedTailRecords": TolerateCorruptedTailRecords,
		"kAbsoluteConsistency":          AbsoluteConsistency,
		"kPointInTimeRecovery":          PointInTimeRecovery,
		"kSkipAnyCorruptedRecords":      SkipAnyCorruptedRecords,
	}
	for _, name := range []string{"d12_torn_wal", "d13_corrupt_mid_wal"} {
		for word, mode := range modes {
			t.Run(name+"/"+word, func(t *testing.T) {
				base := filepath.Join("testdata/golden/db", name, "expected.mode_"+word)
				db, err := Open(goldenDB(t, name), &Options{WALRecoveryMode: mode})
				if _, statErr := os.Stat(base + ".error.txt"); statErr == nil {
					if !errors.Is(err, ErrCorruption) {
						t.Fatalf("Open: %v, want a corruption", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				compareListings(t, listDB(t, db, nil), readListing(t, base+".jsonl"))
			})
		}
	}
}

// TestGoldenSnapshots reads d07 at the sequence numbers of its snapshots, from the log and tables as RocksDB left them.
func TestGoldenSnapshots(t *testing.T) {
	db, err := Open(goldenDB(t, "d07_snapshots"), &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, seq := range []uint64{60, 120, 180, 240, 300} {
		want := readListing(t, fmt.Sprintf("testdata/golden/db/d07_snapshots/expected.at_seq_%d.jsonl", seq))
		compareListings(t, listDB(t, db, &Snapshot{db: db, seq: seq}), want)
	}
}

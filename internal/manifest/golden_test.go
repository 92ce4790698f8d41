package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

const goldenRoot = "../../testdata/golden/db"

// goldenManifests are all MANIFEST files that RocksDB 7.8.3 and 11.9 wrote.
func goldenManifests(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*/db/MANIFEST-*", "*/db/private/*/MANIFEST-*"} {
		found, err := filepath.Glob(filepath.Join(goldenRoot, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 30 {
		t.Fatalf("found %d golden MANIFEST files, expected 30 or more", len(paths))
	}
	return paths
}

// goldenRecords returns the payloads of a MANIFEST's records.
func goldenRecords(t testing.TB, path string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := record.NewReader(bytes.NewReader(b), filepath.Base(path), 0, record.ReaderOptions{})
	var payloads [][]byte
	for {
		p, err := r.Next()
		if err == io.EOF {
			return payloads
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		payloads = append(payloads, bytes.Clone(p))
	}
}

func name(path string) string {
	rel, _ := filepath.Rel(goldenRoot, path)
	return filepath.ToSlash(rel)
}

func TestGoldenEditsEncodeAgainByteForByte(t *testing.T) {
	for _, path := range goldenManifests(t) {
		t.Run(name(path), func(t *testing.T) {
			var out bytes.Buffer
			w := record.NewWriter(&out, 0, false)
			for i, p := range goldenRecords(t, path) {
				e, err := DecodeEdit("MANIFEST", 0, p)
				if err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
				if got := e.Append(nil); !bytes.Equal(got, p) {
					t.Fatalf("record %d:\n got %x\nwant %x", i, got, p)
				}
				if err := w.Append(e.Append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Bytes(), want) {
				t.Fatalf("file of %d bytes differs from RocksDB's of %d", out.Len(), len(want))
			}
		})
	}
}

var (
	publicID    = regexp.MustCompile(` public_unique_id: [0-9A-F-]+`)
	versionNote = regexp.MustCompile(` version# \d+ ---`)
	notHere     = regexp.MustCompile(`comparator: <(.*)>, but the comparator object is not available.`)
)

// TestGoldenRecoveryAgreesWithLdb compares every edit and the recovered state
// (files, levels, order in L0, bounds, sequence numbers, blob files, counters)
// with what RocksDB's ldb made of the same file.
func TestGoldenRecoveryAgreesWithLdb(t *testing.T) {
	compared := 0
	for _, path := range goldenManifests(t) {
		dir := filepath.Dir(path)
		text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "manifest.ldb.txt"))
		if errors.Is(err, os.ErrNotExist) {
			continue // backups have no directory that ldb could open
		}
		if err != nil {
			t.Fatal(err)
		}
		compared++
		t.Run(name(path), func(t *testing.T) {
			want := publicID.ReplaceAllString(string(text), "")
			want = versionNote.ReplaceAllString(want, "")
			want = notHere.ReplaceAllString(want, "comparator: $1")

			var got strings.Builder
			got.WriteString("Processing Manifest file " + filepath.Base(path) + "\n")
			st, err := Recover(mmapfs.OS, dir, RecoverOptions{OnEdit: func(e *VersionEdit, _ int64) error { return e.Dump(&got) }})
			if err != nil {
				t.Fatal(err)
			}
			if err := st.Dump(&got); err != nil {
				t.Fatal(err)
			}
			got.WriteString("Processing Manifest file " + filepath.Base(path) + " done\n")
			diffLines(t, got.String(), want)
			if st.ManifestNumber == 0 || st.TornTail {
				t.Fatalf("number %d, torn %t", st.ManifestNumber, st.TornTail)
			}
			for _, f := range st.Families {
				if err := f.Version.Check(); err != nil {
					t.Fatal(err)
				}
				for _, files := range f.Version.Levels {
					if !allHaveEpochs(files) {
						t.Fatal("a file without epoch number")
					}
				}
				if f.NextEpoch <= f.Version.MaxEpoch() {
					t.Fatalf("next epoch %d, highest %d", f.NextEpoch, f.Version.MaxEpoch())
				}
			}
		})
	}
	if compared < 27 {
		t.Fatalf("compared %d files with ldb's text, expected 27 or more", compared)
	}
}

func diffLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "<end>", "<end>"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if strings.TrimRight(a, " ") != strings.TrimRight(b, " ") {
			t.Fatalf("line %d:\n got %q\nwant %q", i+1, a, b)
		}
	}
}

// TestSnapshotIsRocksDBs rebuilds the snapshot at the start of the MANIFESTs that
// RocksDB wrote at a reopen: recover from its first records alone, and encode.
func TestSnapshotIsRocksDBs(t *testing.T) {
	for _, c := range []struct {
		path    string
		records int // of the snapshot
		dbID    bool
	}{
		{"d16_reopen/db/MANIFEST-000034", 4, false},
		{"d27_upgraded_11_9/db/MANIFEST-000116", 9, false},
		{"d28_fresh_11_9/db/MANIFEST-000202", 6, true},
	} {
		t.Run(c.path, func(t *testing.T) {
			payloads := goldenRecords(t, filepath.Join(goldenRoot, c.path))[:c.records]
			r := newReplay(&State{Families: []*ColumnFamily{{Name: DefaultFamily, NextEpoch: 1}}})
			var want bytes.Buffer
			w := record.NewWriter(&want, 0, false)
			for _, p := range payloads {
				e, err := DecodeEdit("MANIFEST", 0, p)
				if err == nil {
					err = r.apply(e)
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Append(p); err != nil {
					t.Fatal(err)
				}
			}
			st, err := r.finish()
			if err != nil {
				t.Fatal(err)
			}
			fsys := mmapfs.NewMem()
			mw, err := NewWriter(fsys, ".", st, WriterOptions{WriteDBID: c.dbID})
			if err != nil {
				t.Fatal(err)
			}
			defer mw.Close()
			got := readAll(t, fsys, ManifestName(".", mw.State().ManifestNumber))
			if !bytes.HasPrefix(got, want.Bytes()) {
				t.Fatalf("got  %x\nwant %x", got, want.Bytes())
			}
		})
	}
}

func readAll(t testing.TB, fsys mmapfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPublicUniqueIDs: the ids that RocksDB's ldb printed beside the stored ones.
func TestPublicUniqueIDs(t *testing.T) {
	texts, err := filepath.Glob(filepath.Join(goldenRoot, "*/manifest.ldb.txt"))
	if err != nil {
		t.Fatal(err)
	}
	pair := regexp.MustCompile(`unique_id\(internal\): \{(\d+),(\d+)\} public_unique_id: ([0-9A-F-]+)`)
	found := 0
	for _, path := range texts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range pair.FindAllStringSubmatch(string(text), -1) {
			var id [16]byte
			for i := range 2 {
				n, err := strconv.ParseUint(m[1+i], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				binary.LittleEndian.PutUint64(id[8*i:], n)
			}
			if got := PublicUniqueID(id[:]); got != m[3] {
				t.Errorf("%s: {%s,%s}: %s, want %s", path, m[1], m[2], got, m[3])
			}
			found++
		}
	}
	if found < 50 {
		t.Errorf("found %d ids, expected 50 or more", found)
	}
	if got := PublicUniqueID(make([]byte, 16)); got != "0000000000000000-0000000000000000" {
		t.Errorf("zero: %s", got)
	}
}

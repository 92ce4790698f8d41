package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goldenDir = "../../testdata/golden"

// result is what a run of the command left.
type result struct {
	out, err string
	status   int
}

// exec runs the command in this process; the first argument is the tool.
func exec(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	status := run(context.Background(), append([]string{"/usr/local/bin/flatrock"}, args...), strings.NewReader(stdin), &out, &errs)
	return result{out.String(), errs.String(), status}
}

// mustExec fails the test unless the run succeeded in silence.
func mustExec(t testing.TB, args ...string) string {
	t.Helper()
	r := exec(t, "", args...)
	if r.status != 0 || r.err != "" {
		t.Fatalf("flatrock %q: status %d: %s", args, r.status, r.err)
	}
	return r.out
}

// listed is a line of a golden listing, whose large values are hashes, and of ours.
type listed struct {
	CF       string `json:"cf"`
	K        string `json:"k"`
	Seq      uint64 `json:"seq"`
	Type     uint8  `json:"type"`
	V        string `json:"v"`
	VSha256  string `json:"vsha256"`
	VLen     int    `json:"vlen"`
	VSha256b string `json:"v_sha256"`
	VLenb    int    `json:"v_len"`
}

func (e listed) sum() string { return e.VSha256 + e.VSha256b }
func (e listed) len() int    { return e.VLen + e.VLenb }

func parseListing(t testing.TB, name, text string) (list []listed) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(text))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var e listed
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v: %q", name, err, s.Text())
		}
		list = append(list, e)
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return list
}

func readText(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compareListing compares our output with a golden listing, line by line, and that
// our lines have exactly the fields that format names.
func compareListing(t *testing.T, name, out, golden, format string) {
	t.Helper()
	want := parseListing(t, name, golden)
	got := parseListing(t, name, out)
	if len(got) != len(want) {
		t.Errorf("%s: %d lines, want %d", name, len(got), len(want))
	}
	lines := strings.Split(out, "\n")
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		v, err := hex.DecodeString(g.V)
		if err != nil {
			t.Fatal(err)
		}
		if w.sum() != "" {
			s := sha256.Sum256(v)
			w.V, w.VSha256, w.VSha256b = g.V, "", ""
			if want[i].sum() != hex.EncodeToString(s[:]) || want[i].len() != len(v) {
				t.Fatalf("%s: line %d: the value differs", name, i+1)
			}
			w.VLen, w.VLenb = 0, 0
		}
		if g != w {
			t.Fatalf("%s: line %d:\n got %+v\nwant %+v", name, i+1, g, w)
		}
		exact := fmt.Sprintf(`{"k":"%s","seq":%d,"type":%d,"v":"%s"}`, g.K, g.Seq, g.Type, g.V)
		if format == "key" {
			exact = fmt.Sprintf(`{"cf":"%s","k":"%s","v":"%s"}`, g.CF, g.K, g.V)
		}
		if lines[i] != exact {
			t.Fatalf("%s: line %d is %s, want %s", name, i+1, lines[i], exact)
		}
	}
}

func glob(t testing.TB, pattern string, atLeast int) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(goldenDir, pattern))
	if err != nil || len(names) < atLeast {
		t.Fatalf("%s: %d files, want %d or more: %v", pattern, len(names), atLeast, err)
	}
	return names
}

// TestSSTDumpJSONListsEveryGoldenTable: every table that RocksDB wrote, of both
// formats and whatever its comparator, gives exactly its listing.
func TestSSTDumpJSONListsEveryGoldenTable(t *testing.T) {
	for _, dir := range []struct {
		pattern, listing string
		files            int
	}{{"plain/*.sst", ".expected.jsonl", 30}, {"block/*.sst", ".jsonl", 137}, {"block11/*.sst", ".jsonl", 38}} {
		for _, path := range glob(t, dir.pattern, dir.files) {
			golden := readText(t, strings.TrimSuffix(path, ".sst")+dir.listing)
			compareListing(t, path, mustExec(t, "sst_dump", "--json", path), golden, "entry")
		}
	}
}

// TestDumpAllJSONListsEveryGoldenDatabase: likewise for databases, without changing them.
func TestDumpAllJSONListsEveryGoldenDatabase(t *testing.T) {
	for _, current := range glob(t, "db/*/db/CURRENT", 25) {
		dir := filepath.Dir(current)
		name := filepath.Base(filepath.Dir(dir))
		before := snapshotDir(t, dir)
		golden := readText(t, filepath.Join(filepath.Dir(dir), "expected.jsonl"))
		compareListing(t, name, mustExec(t, "ldb", "dump_all", "--json", "--db="+dir), golden, "key")
		if after := snapshotDir(t, dir); after != before {
			t.Errorf("%s: dump_all changed the directory:\n%s\nwas\n%s", name, after, before)
		}
	}
}

// snapshotDir describes the files of a directory.
func snapshotDir(t testing.TB, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		if f.Type().IsRegular() {
			fmt.Fprintf(&b, "%s %x\n", f.Name(), sha256.Sum256([]byte(readText(t, filepath.Join(dir, f.Name())))))
		}
	}
	return b.String()
}

// TestDumpAllFollowsTheRecoveryMode: the mode can be given, and is otherwise the
// database's own.
func TestDumpAllFollowsTheRecoveryMode(t *testing.T) {
	for _, name := range []string{"d12_torn_wal", "d13_corrupt_mid_wal"} {
		for mode := range recoveryModes {
			base := filepath.Join(goldenDir, "db", name, "expected.mode_"+mode)
			r := exec(t, "", "ldb", "dump_all", "--json", "--db="+filepath.Join(goldenDir, "db", name, "db"), "--wal_recovery_mode="+mode)
			if _, err := os.Stat(base + ".error.txt"); err == nil {
				if r.status != 1 || r.out != "" || r.err == "" {
					t.Errorf("%s in %s: %+v, want a failure", name, mode, r)
				}
				continue
			}
			if r.status != 0 {
				t.Fatalf("%s in %s: %s", name, mode, r.err)
			}
			compareListing(t, name+" "+mode, r.out, readText(t, base+".jsonl"), "key")
		}
	}
}

// TestDamagedFilesFailClearly: damage anywhere in a table, cut or flipped, is an
// error that names the file and a status of 1, never a crash.
func TestDamagedFilesFailClearly(t *testing.T) {
	for _, path := range []string{"plain/p01_plain_var_bloom.sst", "plain/p05_prefix_var_bloom_idx.sst", "block/comp_zstd_fv5.sst", "block11/v5_by_11.sst"} {
		whole := []byte(readText(t, filepath.Join(goldenDir, path)))
		bad := filepath.Join(t.TempDir(), "bad.sst")
		for _, size := range []int{0, 1, 8, 52, 53, 100, len(whole) / 2, len(whole) - 1} {
			if err := os.WriteFile(bad, whole[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"--json"}, {"--command=check"}, {"--command=verify"}, {"--command=none", "--show_properties"}} {
				r := exec(t, "", append([]string{"sst_dump", bad}, args...)...)
				if r.status != 1 || !strings.Contains(r.err, "bad.sst") {
					t.Errorf("%s cut to %d, %q: %+v", path, size, args, r)
				}
			}
		}
		for at := 0; at < len(whole); at += 97 {
			broken := bytes.Clone(whole)
			broken[at] ^= 0xff
			if err := os.WriteFile(bad, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			r := exec(t, "", "sst_dump", "--json", bad)
			if r.status > 1 || (r.status == 1) != (r.err != "") {
				t.Errorf("%s flipped at %d: status %d, %q", path, at, r.status, r.err)
			}
			if !strings.HasPrefix(path, "plain/") && r.status == 0 && at < len(whole)/2 {
				t.Errorf("%s flipped at %d: not noticed", path, at)
			}
		}
	}
	for _, args := range [][]string{{"sst_dump", "nothing.sst"}, {"sst_dump", "--json", "golden_test.go"}, {"ldb", "dump_all", "--db=nothing"},
		{"ldb", "dump_all", "--json", "--db=."}} {
		if r := exec(t, "", args...); r.status != 1 || r.err == "" || r.out != "" && args[0] == "ldb" {
			t.Errorf("%q: %+v, want status 1 and a message", args, r)
		}
	}
}

func decodeObject(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return m
}

// paths are the files of that pattern, by name.
func paths(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

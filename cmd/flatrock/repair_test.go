package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// goldenCopy is a copy of a golden database that may be changed.
func goldenCopy(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "db", name, "db"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func remove(t testing.TB, dir, pattern string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	for _, n := range names {
		if err := os.Remove(n); err != nil {
			t.Fatal(err)
		}
	}
}

// flip changes a byte in the first file of that pattern, and returns its base name.
func flip(t testing.TB, dir, pattern string, at int) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x55
	if err := os.WriteFile(names[0], b, 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[0])
}

// TestDoctorKnowsGoldenDatabases: those that RocksDB left are well, but for what they were made to show.
func TestDoctorKnowsGoldenDatabases(t *testing.T) {
	want := map[string]int{
		"d12_torn_wal": 1, "d13_corrupt_mid_wal": 2, "d14_dropped_cf": 1, "d17_2pc": 1, "d24_checkpoint": 1, // without IDENTITY
	}
	for _, current := range glob(t, "db/*/db/CURRENT", 25) {
		name := filepath.Base(filepath.Dir(filepath.Dir(current)))
		r := exec(t, "", "doctor", "--json", filepath.Dir(current))
		var d diagnosis
		if err := json.Unmarshal([]byte(r.out), &d); err != nil {
			t.Fatalf("%s: %v: %s%s", name, err, r.out, r.err)
		}
		if r.status != want[name] || r.err != "" {
			t.Errorf("%s: status %d, want %d: %s %+v", name, r.status, want[name], r.err, d.Findings)
		}
		if len(d.Families) == 0 || d.Families[0].Name != "default" || (d.DBID == "") != (name == "d24_checkpoint") || !strings.HasPrefix(d.WrittenAs, "RocksDB ") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	out := mustExec(t, "doctor", filepath.Join(goldenDir, "db", "d01_multi_cf", "db"))
	for _, want := range []string{"options written as RocksDB 7.8.3", `Column family 2 "plain_hashlink": plain tables`, "  level 0: 2 files, ",
		"  encoding_type=kPrefix\n", "  prefix_extractor=rocksdb.FixedPrefix.4\n", "000019.log: ", "All is well. The checksums of 6 table files are right."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestDoctorFindsDamage names it, and says what to do.
func TestDoctorFindsDamage(t *testing.T) {
	for _, c := range []struct {
		do     func(t *testing.T, dir string)
		status int
		what   string
	}{
		{func(t *testing.T, dir string) { remove(t, dir, "CURRENT") }, 2, "error: there is no CURRENT file"},
		{func(t *testing.T, dir string) { remove(t, dir, "MANIFEST-*") }, 2, "error: the MANIFEST cannot be read"},
		{func(t *testing.T, dir string) { flip(t, dir, "MANIFEST-*", 40) }, 2, "error: the MANIFEST cannot be read"},
		{func(t *testing.T, dir string) { remove(t, dir, "OPTIONS-*") }, 1, "warning: there is no OPTIONS file"},
		{func(t *testing.T, dir string) { remove(t, dir, "IDENTITY") }, 1, "warning: IDENTITY cannot be read"},
		{func(t *testing.T, dir string) { remove(t, dir, "*.sst") }, 2, "is missing"},
		{func(t *testing.T, dir string) { flip(t, dir, "*.sst", 20) }, 2, "checksum"},
		{func(t *testing.T, dir string) { flip(t, dir, "*.log", 12) }, 2, "error: a log is damaged before its end"},
		{func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "000999.sst"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 1, "warning: 000999.sst: orphaned"},
	} {
		dir := goldenCopy(t, "d03_levels_block")
		c.do(t, dir)
		if r := exec(t, "", "doctor", dir); r.status != c.status || !strings.Contains(r.out, c.what) || r.err != "" {
			t.Errorf("want status %d and %q, got %d:\n%s%s", c.status, c.what, r.status, r.out, r.err)
		}
	}
	check(t, "", "Failed: ", 1, "doctor", filepath.Join(t.TempDir(), "none"))
	check(t, "", "doctor wants one directory", 2, "doctor")
}

// TestRepairCommand repairs a directory in which nearly all is wrong: a table is damaged, the
// MANIFEST gone. The other tables' keys are there, and nothing is deleted.
func TestRepairCommand(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	before := mustExec(t, "ldb", "scan", "--db="+dir)
	remove(t, dir, "MANIFEST-*")
	remove(t, dir, "CURRENT")
	bad := flip(t, dir, "*.sst", 20)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	if out := mustExec(t, "repair", "--dry-run", dir); !strings.Contains(out, bad+": ") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("dry run:\n%s", out)
	}
	if out := mustExec(t, "ldb", "repair", "--db="+dir); out != "OK\n" {
		t.Errorf("ldb repair: %q", out)
	}
	if r := exec(t, "", "doctor", dir); r.status != 0 {
		t.Errorf("after repair: status %d:\n%s", r.status, r.out)
	}
	for _, path := range tables {
		lost, err := filepath.Glob(filepath.Join(dir, "lost", "*", filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil && len(lost) != 1 {
			t.Errorf("%s is neither here nor in lost", path)
		}
	}
	known := strings.Split(before, "\n")
	after := strings.Split(mustExec(t, "ldb", "scan", "--db="+dir), "\n")
	if len(after) < len(known)/2 {
		t.Errorf("%d keys of %d are left", len(after)-1, len(known)-1)
	}
	// A second repair has nothing to say but that all is there.
	out := mustExec(t, "repair", dir)
	if again := strings.Split(mustExec(t, "ldb", "scan", "--db="+dir), "\n"); !slices.Equal(again, after) || !strings.Contains(out, "Tables keep their levels.") {
		t.Errorf("%d keys after a second repair, %d before:\n%s", len(again)-1, len(after)-1, out)
	}
}

// TestCtrlCEndsRepairAndDoctor: with the directory as it was, and the exit status of an interrupt.
func TestCtrlCEndsRepairAndDoctor(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	remove(t, dir, "CURRENT")
	before := snapshotDir(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{{"repair", dir}, {"repair", "--dry-run", dir}, {"doctor", dir}, {"ldb", "--db=" + dir, "repair"},
		{"doctor", filepath.Join(goldenDir, "db", "d08_blob", "db")}, {"sst_dump", filepath.Join(goldenDir, "block", "comp_zstd_fv5.sst")}, {"sst_dump", "--command=verify", filepath.Join(goldenDir, "block", "comp_zstd_fv5.sst")}} {
		var out, errs bytes.Buffer
		if status := run(ctx, append([]string{"flatrock"}, args...), strings.NewReader(""), &out, &errs); status != 130 || errs.String() != "interrupted\n" {
			t.Errorf("%q: status %d, %q", args, status, errs.String())
		}
	}
	if after := snapshotDir(t, dir); after != before {
		t.Errorf("the directory has changed:\n%s\nwas\n%s", after, before)
	}
	mustExec(t, "repair", dir)
}

// TestDoctorPaintsSeverities where colours are wanted.
func TestDoctorPaintsSeverities(t *testing.T) {
	d := &doctor{diagnosis: diagnosis{Findings: []finding{{"error", "bad", ""}, {"warning", "odd", "look"}}}}
	if got := d.render(true); !strings.Contains(got, "\x1b[1;31merror\x1b[0m: bad\n\x1b[33mwarning\x1b[0m: odd\n    advice: look\n") {
		t.Errorf("painted: %q", got)
	}
	if got := d.render(false); !strings.Contains(got, "error: bad\nwarning: odd\n") {
		t.Errorf("not painted: %q", got)
	}
}

// TestProgressLines: what a person reads.
func TestProgressLines(t *testing.T) {
	var f filesShown
	if f.line() != "" {
		t.Error("says something before there is anything to say")
	}
	f.at("000007.sst", 1<<20, 3<<20)
	if got := f.line(); got != " 33% 1.0 MiB of 3.0 MiB, 000007.sst" {
		t.Errorf("%q", got)
	}
	c := &counted{what: "keys", total: 200, start: time.Now().Add(-10 * time.Second)}
	c.done.Store(100)
	if got := c.line(); !strings.HasPrefix(got, " 50% 100 keys, ") || !strings.HasSuffix(got, "/s") {
		t.Errorf("%q", got)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), make([]byte, 77), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if treeBytes(dir) != 77 || inputBytes(in) != 77 || inputBytes(strings.NewReader("abc")) != 0 || treeBytes(filepath.Join(dir, "none")) != 0 {
		t.Error("sizes of files are not what they are")
	}
}

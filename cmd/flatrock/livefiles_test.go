package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDumpLiveFilesJSON: every line is an object, and together they are what the commands for one kind of file print.
func TestDumpLiveFilesJSON(t *testing.T) {
	for _, name := range []string{"d01_multi_cf", "d08_blob", "d05_deleterange"} {
		dir := filepath.Join(goldenDir, "db", name, "db")
		count := map[string]int{}
		out := mustExec(t, "ldb", "dump_live_files", "--json", "--db="+dir)
		for _, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
			file, ok := decodeObject(t, line)["file"].(string)
			if !ok {
				file = "MANIFEST"
			} else if _, offset := decodeObject(t, line)["offset"]; offset && strings.HasSuffix(file, ".sst") {
				t.Errorf("%s: an offset in a table: %s", name, line)
			}
			count[file]++
		}
		lines := func(args ...string) int { return strings.Count(mustExec(t, args...), "\n") }
		if want := lines("ldb", "manifest_dump", "--json", "--db="+dir); count["MANIFEST"] != want {
			t.Errorf("%s: %d lines of the MANIFEST, want %d", name, count["MANIFEST"], want)
		}
		kinds := map[string]bool{}
		for file, n := range count {
			kinds[filepath.Ext(file)] = true
			want := n
			switch filepath.Ext(file) {
			case ".sst":
				want = lines("sst_dump", "--json", file)
			case ".log":
				want = lines("ldb", "dump_wal", "--json", "--walfile="+file)
			case ".blob":
				want = strings.Count(mustExec(t, "ldb", "dump_live_files", "--db="+dir), "Read record with offset")
				for other, m := range count {
					if other != file && filepath.Ext(other) == ".blob" {
						want -= m
					}
				}
			}
			if n != want {
				t.Errorf("%s: %d lines of %s, want %d", name, n, file, want)
			}
		}
		if !kinds[".sst"] || !kinds[".log"] || kinds[".blob"] != (name == "d08_blob") {
			t.Errorf("%s: kinds of files: %v", name, kinds)
		}
	}
}

// TestDamagedLogIsDumpedAndReported: what can be read, and an error without noise.
func TestDamagedLogIsDumpedAndReported(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join(goldenDir, "db", "d13_corrupt_mid_wal", "db", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	slices.Sort(logs)
	r := exec(t, "", "ldb", "dump_wal", "--walfile="+logs[0])
	if r.status != 1 || !strings.Contains(r.err, filepath.Base(logs[0])+": damaged in ") || strings.Contains(r.err, "%!") || r.out == "" {
		t.Errorf("status %d, %q", r.status, r.err)
	}
}

// TestEveryReadingCommandHasJSON: those that had none, or nothing to say in it.
func TestEveryReadingCommandHasJSON(t *testing.T) {
	sst := filepath.Join(goldenDir, "block", "comp_zstd_fv5.sst")
	check(t, "{\"file\":\""+sst+"\",\"ok\":true}\n", "", 0, "sst_dump", "--json", "--command=verify", sst)
	entries := mustExec(t, "sst_dump", "--json", sst)
	n := strings.Count(entries, "\n")
	checked := decodeObject(t, mustExec(t, "sst_dump", "--json", "--command=check", sst))
	if fmt.Sprint(checked["entries"]) != fmt.Sprint(n) || checked["ok"] != true {
		t.Errorf("check: %v, and there are %d entries", checked, n)
	}
	raw := mustExec(t, "sst_dump", "--json", "--command=raw", sst)
	var listed strings.Builder
	parts := map[string]int{}
	for _, line := range strings.Split(strings.TrimSuffix(raw, "\n"), "\n") {
		o := decodeObject(t, line)
		part, ok := o["part"].(string)
		if parts[part]++; !ok {
			t.Fatalf("raw: %s", line)
		}
		if rest, ok := strings.CutPrefix(line, `{"part":"entry",`); ok {
			listed.WriteString("{" + rest + "\n")
		}
	}
	if listed.String() != entries {
		t.Errorf("raw has other entries than scan")
	}
	if parts["footer"] != 1 || parts["properties"] != 1 || parts["meta"] == 0 || parts["block"] == 0 {
		t.Errorf("raw: parts %v", parts)
	}
	if r := exec(t, readText(t, sst), "sst_dump", "--json", "--command=raw", "-"); r.status != 0 || strings.Count(r.out, "\n") != strings.Count(raw, "\n") {
		t.Errorf("raw of standard input: %s", r.err)
	}
	db := "--db=" + filepath.Join(t.TempDir(), "db")
	mustExec(t, "ldb", db, "put", "a", "1", "--create_if_missing")
	r := exec(t, "put k v\nget k\nget x\ndelete k\nfoo\n", "ldb", db, "--json", "query")
	want := "{\"ok\":true}\n{\"cf\":\"default\",\"k\":\"6b\",\"v\":\"76\"}\n{\"cf\":\"default\",\"k\":\"78\",\"v\":null}\n{\"ok\":true}\n{\"error\":\"Unknown command foo\"}\n"
	if r.out != want || r.status != 0 {
		t.Errorf("query: %+v", r)
	}
}

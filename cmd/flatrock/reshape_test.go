package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// jsonInt is a number of a decoded object.
func jsonInt(t testing.TB, v any) int {
	t.Helper()
	n, err := v.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// levelsOf is how many files a family has in each level, by list_live_files_metadata.
func levelsOf(t testing.TB, dir, family string) map[int]int {
	t.Helper()
	levels := map[int]int{}
	for _, line := range strings.Split(strings.TrimSpace(mustExec(t, "ldb", "list_live_files_metadata", "--json", "--db="+dir)), "\n") {
		if line == "" {
			continue
		}
		if f := decodeObject(t, line); f["cf"] == family {
			levels[jsonInt(t, f["level"])]++
		}
	}
	return levels
}

// TestReduceLevels: contents stay, the levels hold what they should, and OPTIONS says so.
func TestReduceLevels(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	before := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir)
	for _, step := range []struct {
		levels, out, option string
		level               int // where all files are, -1: in many
	}{
		{"9", "The old number of levels in use is 4\n", "num_levels=7\n", -1},
		{"3", "The old number of levels in use is 4\nCompacting the db...\n", "num_levels=3\n", 2},
		{"1", "The old number of levels in use is 3\nCompacting the db...\n", "num_levels=2\n", 0},
	} {
		check(t, step.out, "", 0, "ldb", "--db="+dir, "reduce_levels", "--new_levels="+step.levels, "--print_old_levels")
		// From level 0 an automatic compaction, which the options allow again, may have gone on to level 1.
		if got := levelsOf(t, dir, "default"); step.level >= 0 && (len(got) != 1 || got[step.level] == 0 && (step.level > 0 || got[1] == 0)) {
			t.Errorf("to %s levels: files in levels %v", step.levels, got)
		}
		text := readText(t, latestOptions(t, dir))
		if !strings.Contains(text, step.option) || !strings.Contains(text, "disable_auto_compactions=false\n") {
			t.Errorf("to %s levels: OPTIONS lack %q, or what was set for the command alone stays", step.levels, step.option)
		}
		if got := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir); got != before {
			t.Errorf("to %s levels: the contents have changed", step.levels)
		}
	}
	for _, bad := range []string{"", "--new_levels=0", "--new_levels=x", "--new_levels=-1"} {
		check(t, "", "Failed:  Use --new_levels to specify a new level number\n", 1, append([]string{"ldb", "--db=" + dir, "reduce_levels"}, strings.Fields(bad)...)...)
	}
}

// TestChangeCompactionStyle: one file in level 0, the options as before but for the style.
func TestChangeCompactionStyle(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	before := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir)
	style := func(old, new string) []string {
		return []string{"ldb", "--db=" + dir, "change_compaction_style", "--old_compaction_style=" + old, "--new_compaction_style=" + new}
	}
	check(t, "", "Failed: Use --old_compaction_style to specify old compaction style.", 1, style("2", "1")...)
	check(t, "", "Failed: Use --new_compaction_style to specify new compaction style.", 1, style("0", "x")...)
	check(t, "", "Failed: Old compaction style is the same as new compaction style. Nothing to do.\n", 1, style("0", "0")...)
	check(t, "", "Failed: Convert from universal compaction to level compaction. Nothing to do.\n", 1, style("1", "0")...)
	size := regexp.MustCompile(`target_file_size_base=\d+`)
	was := size.FindString(readText(t, latestOptions(t, dir)))
	check(t, "files per level before compaction: 2,2,9,5,0,0,0\nfiles per level after compaction: 1,0,0,0,0,0,0\n", "", 0, style("0", "1")...)
	text := readText(t, latestOptions(t, dir))
	if !strings.Contains(text, "compaction_style=kCompactionStyleUniversal\n") || size.FindString(text) != was {
		t.Errorf("OPTIONS after the change, want the universal style and %s:\n%s", was, text)
	}
	if got := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir); got != before {
		t.Error("the contents have changed")
	}
}

// TestACancelledReshapeKeepsDataAndOptions: Ctrl-C before the compaction.
func TestACancelledReshapeKeepsDataAndOptions(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	before := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("interrupt"))
	for _, command := range []string{"reduce_levels --new_levels=2", "change_compaction_style --old_compaction_style=0 --new_compaction_style=1", "compact"} {
		var out, errs bytes.Buffer
		if status := run(ctx, append([]string{"ldb", "--db=" + dir}, strings.Fields(command)...), strings.NewReader(""), &out, &errs); status != 130 || errs.String() != "interrupted\n" {
			t.Errorf("%s: status %d, %q", command, status, errs.String())
		}
		text := readText(t, latestOptions(t, dir))
		if !strings.Contains(text, "num_levels=7\n") || !strings.Contains(text, "kCompactionStyleLevel\n") || strings.Contains(text, "target_file_size_base=1125899906842624") {
			t.Errorf("%s: OPTIONS keep what was for the command alone:\n%s", command, text)
		}
	}
	if got := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir); got != before {
		t.Error("the contents have changed")
	}
}

// TestUnsafeRemoveTable: a table leaves the MANIFEST, even one that is not there any more.
func TestUnsafeRemoveTable(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	remove := []string{"ldb", "--db=" + dir, "unsafe_remove_sst_file"}
	check(t, "", "Failed: SST file number must be specified\n", 1, remove...)
	check(t, "", "Failed: Failed to parse SST file number x\n", 1, append(remove, "x")...)
	check(t, "", "Failed: failed to unsafely remove SST file: NotFound: File not present in any level\n", 1, append(remove, "999")...)
	if err := os.Remove(filepath.Join(dir, "000085.sst")); err != nil {
		t.Fatal(err)
	}
	update := []string{"ldb", "--db=" + dir, "update_manifest", "--update_temperatures"}
	if r := exec(t, "", update...); r.status != 1 || !strings.Contains(r.err, "000085.sst") {
		t.Errorf("update_manifest with a file missing: %+v", r)
	}
	if r := exec(t, "", "ldb", "--db="+dir, "checkconsistency"); r.status == 0 {
		t.Error("a file is missing, and the database is well")
	}
	check(t, "", "unsafely removed SST file\n", 0, append(remove, "85")...)
	check(t, "OK\n", "", 0, "ldb", "--db="+dir, "checkconsistency")
	check(t, "", "Manifest updates successful\n", 0, update...)
	if got := levelsOf(t, dir, "default"); got[0] != 0 {
		t.Errorf("the file is still in level 0: %v", got)
	}
	missing := filepath.Join(t.TempDir(), "none")
	if r := exec(t, "", "ldb", "--db="+missing, "unsafe_remove_sst_file", "1"); r.status != 1 {
		t.Errorf("no database: %+v", r)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the directory was made")
	}
}

// TestEntities: columns in, columns out, in text, hex and JSON.
func TestEntities(t *testing.T) {
	dir := "--db=" + filepath.Join(t.TempDir(), "db")
	check(t, "OK\n", "", 0, "ldb", dir, "put_entity", "k", ":d", "b:2:3", "a:", "--create_if_missing")
	check(t, "OK\n", "", 0, "ldb", dir, "put", "p", "plain")
	check(t, ":d a: b:2:3\n", "", 0, "ldb", dir, "get_entity", "k")
	check(t, ":0x64 0x61: 0x62:0x323A33\n", "", 0, "ldb", dir, "get_entity", "0x6B", "--hex")
	check(t, ":plain\n", "", 0, "ldb", dir, "get_entity", "p")
	check(t, "d\n", "", 0, "ldb", dir, "get", "k")
	check(t, "k ==> :d a: b:2:3\nKey not found: x\np ==> :plain\n", "", 0, "ldb", dir, "multi_get_entity", "k", "x", "p")
	check(t, `{"cf":"default","k":"6b","columns":[{"name":"","v":"64"},{"name":"61","v":""},{"name":"62","v":"323a33"}]}`+"\n"+
		`{"cf":"default","k":"78","v":null}`+"\n", "", 0, "ldb", dir, "multi_get_entity", "k", "x", "--json")
	check(t, "OK\n", "", 0, "ldb", dir, "put_entity", "0x00", "0xFF:0x", ":0x01", "--hex")
	check(t, ":0x01 0xFF:\n", "", 0, "ldb", dir, "get_entity", "0x00", "--hex")
	check(t, "", "Failed: <key> and at least one column", 1, "ldb", dir, "put_entity", "k")
	check(t, "", "Failed: wrong format in columns", 1, "ldb", dir, "put_entity", "k", "value")
	check(t, "", "Failed: flatrock: invalid argument: PutEntity", 1, "ldb", dir, "put_entity", "k", "a:1", "a:2")
	check(t, "", "Failed: GetEntity failed: NotFound: \n", 1, "ldb", dir, "get_entity", "x")
	check(t, "", "Failed: <key> must be specified", 1, "ldb", dir, "get_entity")
	check(t, "", "Failed: At least one <key>", 1, "ldb", dir, "multi_get_entity")
}

// TestRecompressInJSON: every codec that can be written, and sizes that make sense.
func TestRecompressInJSON(t *testing.T) {
	path := filepath.Join(goldenDir, "block", "comp_zstd_fv2.sst")
	sizes := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(mustExec(t, "sst_dump", "--json", "--command=recompress", path)), "\n") {
		o := decodeObject(t, line)
		sizes[o["compression"].(string)] = jsonInt(t, o["size"])
	}
	for _, name := range []string{"kNoCompression", "kSnappyCompression", "kZlibCompression", "kLZ4Compression", "kLZ4HCCompression", "kZSTD"} {
		if sizes[name] == 0 || sizes[name] > sizes["kNoCompression"] {
			t.Errorf("%s: %v bytes of %v", name, sizes[name], sizes["kNoCompression"])
		}
	}
	if sizes["kZSTD"] >= sizes["kNoCompression"]*9/10 {
		t.Errorf("zstd saves little: %v", sizes)
	}
}

// TestBlobIndexesAreDecoded: where asked for, in sst_dump, idump and dump_live_files.
func TestBlobIndexesAreDecoded(t *testing.T) {
	dir := goldenCopy(t, "d08_blob")
	const want = "'k000/0' seq:0, type:17 => [blob ref] file:24 offset:68 size:131 compression: NoCompression\n"
	for _, args := range [][]string{
		{"sst_dump", "--command=scan", "--decode_blob_index", filepath.Join(dir, "000034.sst")},
		{"ldb", "--db=" + dir, "idump", "--decode_blob_index"}, {"ldb", "--db=" + dir, "dump_live_files", "--decode_blob_index"},
		{"ldb", "dump", "--decode_blob_index", "--path=" + filepath.Join(dir, "000034.sst")},
	} {
		if got := mustExec(t, args...); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", args, want)
		}
	}
}

// TestCancelledCopies: Ctrl-C before a checkpoint, a backup or an ingestion; the database stays what it was.
func TestCancelledCopies(t *testing.T) {
	dir := goldenCopy(t, "d03_levels_block")
	before := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	to := t.TempDir()
	sst := filepath.Join(to, "x.sst")
	if r := exec(t, "zz ==> 1\n", "ldb", "--db="+dir, "write_extern_sst", sst); r.status != 0 {
		t.Fatal(r.err)
	}
	for _, args := range [][]string{{"checkpoint", "--checkpoint_dir=" + filepath.Join(to, "c")}, {"backup", "--backup_dir=" + filepath.Join(to, "b")}, {"ingest_extern_sst", sst}} {
		var out, errs bytes.Buffer
		if status := run(ctx, append([]string{"ldb", "--db=" + dir}, args...), strings.NewReader(""), &out, &errs); status != 130 || errs.String() != "interrupted\n" {
			t.Errorf("%s: status %d, %q, %q", args[0], status, out.String(), errs.String())
		}
	}
	if _, err := os.Stat(filepath.Join(to, "c")); err == nil {
		t.Error("a checkpoint is there")
	}
	if got := mustExec(t, "ldb", "dump_all", "--json", "--db="+dir); got != before {
		t.Error("the contents have changed")
	}
}

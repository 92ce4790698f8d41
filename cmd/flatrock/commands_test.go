package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// check runs a command and compares what it printed and, at least the beginning of, its error.
func check(t *testing.T, want, wantErr string, status int, args ...string) {
	t.Helper()
	r := exec(t, "", args...)
	if r.out != want || !strings.HasPrefix(r.err, wantErr) || (wantErr == "") != (r.err == "") || r.status != status {
		t.Errorf("flatrock %q:\n got %q, %q, status %d\nwant %q, %q, status %d", args, r.out, r.err, r.status, want, wantErr, status)
	}
}

// TestLDBOnAFreshDatabase walks through what ldb does to a database, and its words.
func TestLDBOnAFreshDatabase(t *testing.T) {
	db := "--db=" + filepath.Join(t.TempDir(), "db")
	ldb := func(want, wantErr string, args ...string) {
		t.Helper()
		status := 0
		if wantErr != "" {
			status = 1
		}
		check(t, want, wantErr, status, append([]string{"ldb", db}, args...)...)
	}
	dir := strings.TrimPrefix(db, "--db=")
	ldb("", "Failed: Invalid argument: "+dir+"/CURRENT: does not exist (create_if_missing is false)", "put", "a", "1")
	ldb("", "Failed: IO error: No such file or directory: While opening a file for sequentially reading: "+dir+"/CURRENT", "scan")
	ldb("OK\n", "", "put", "a", "1", "--create_if_missing")
	ldb("1\n", "", "get", "a")
	ldb("0x31\n", "", "--hex", "get", "0x61")
	ldb("0x31\n", "", "--value_hex", "get", "a")
	ldb(`{"cf":"default","k":"61","v":"31"}`+"\n", "", "get", "a", "--json")
	ldb("", "Failed: Get failed: NotFound: \n", "get", "b")
	ldb("", "Failed: <key> must be specified for the get command\n", "get")
	ldb("", "Failed: Non-existing column family none\n", "--column_family=none", "get", "a")
	ldb("OK\n", "", "batchput", "b", "2", "c", "3")
	ldb("", "Failed: At least one <key> <value> pair", "batchput", "b")
	ldb("", "Failed: Equal number of <key>s", "batchput", "b", "1", "c")
	ldb("a ==> 1\nKey not found: x\nc ==> 3\n", "", "multi_get", "a", "x", "c")
	ldb("{\"cf\":\"default\",\"k\":\"61\",\"v\":\"31\"}\n{\"cf\":\"default\",\"k\":\"78\",\"v\":null}\n", "", "multi_get", "a", "x", "--json")
	ldb("OK\n", "", "delete", "b")
	ldb("OK\n", "", "put", "one", "1")
	ldb("OK\n", "", "singledelete", "one")
	ldb("a : 1\nc : 3\n", "", "scan")
	ldb("a\nc\n", "", "scan", "--no_value")
	ldb("c : 3\n", "", "scan", "--from=b", "--to=d")
	ldb("a : 1\n", "", "scan", "--max_keys=1")
	ldb("", "Failed: max_keys has an invalid value", "scan", "--max_keys=many")
	ldb("", "Failed: max_keys has a value out-of-range", "scan", "--max_keys=99999999999")
	ldb("a ==> 1\nc ==> 3\nKeys in range: 2\n", "", "dump")
	ldb(`{"cf":"default","keys":2}`+"\n", "", "dump", "--count_only", "--json")
	ldb("default: a ==> 1\ndefault: c ==> 3\n", "", "dump_all")
	ldb("OK\n", "", "put", "--hex", "0x", "0x") // the empty key, the empty value
	ldb("0x : 0x\n0x61 : 0x31\n", "", "scan", "--hex", "--max_keys=2")
	ldb("OK\n", "", "deleterange", "b", "d")
	ldb("OK\n", "", "delete", "--hex", "0x")
	ldb("a : 1\n", "", "scan")
	ldb("", "", "compact")
	ldb("OK\n", "", "checkconsistency")
	ldb("OK\n", "", "create_column_family", "users")
	ldb("", "Failed: Fail to create new column family: Invalid argument: Column family already exists\n", "create_column_family", "users")
	ldb("Column families in "+dir+": \n{default, users}\n", "", "list_column_families")
	ldb("{\"cf\":\"default\",\"comparator\":\"leveldb.BytewiseComparator\",\"id\":0}\n{\"cf\":\"users\",\"comparator\":\"leveldb.BytewiseComparator\",\"id\":1}\n", "",
		"list_column_families", "--json")
	ldb("OK\n", "", "put", "--column_family=users", "k", "v")
	ldb("k : v\n", "", "scan", "--column_family=users")
	ldb("default: a ==> 1\nusers: k ==> v\n", "", "dump_all")
	ldb("OK\n", "", "drop_column_family", "users")
	ldb("", "Failed: Column family: users doesn't exist in db.\n", "drop_column_family", "users")
	ldb("", "Failed: Fail to drop column family: Invalid argument: Can't drop default column family\n", "drop_column_family", "default")
	ldb("{\"ok\":true}\n", "", "checkconsistency", "--json")
	ldb("'a' seq:0, type:1 => 1\nInternal keys in range: 1\n", "", "idump")
	ldb(`{"cf":"default","k":"61","seq":0,"type":1,"v":"31"}`+"\n", "", "idump", "--json")
}

// TestOptionsOfFilesAreWhatTheCommandLineSays: for a new database and for one that has options.
func TestOptionsOfFilesAreWhatTheCommandLineSays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	properties := func() map[string]any {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v", files, err)
		}
		return decodeObject(t, mustExec(t, "sst_dump", "--json", "--command=none", "--show_properties", files[0]))["properties"].(map[string]any)
	}
	mustExec(t, "ldb", "--db="+dir, "put", "k", "v", "--create_if_missing", "--compression_type=zstd", "--bloom_bits=10", "--block_size=1024")
	mustExec(t, "ldb", "--db="+dir, "compact")
	if p := properties(); p["compression_name"] != "ZSTD" || p["filter_policy_name"] != "bloomfilter" {
		t.Errorf("made with zstd and a bloom filter: %v", p)
	}
	if text := readText(t, latestOptions(t, dir)); !strings.Contains(text, "block_size=1024\n") {
		t.Errorf("block_size is not stored:\n%s", text)
	}
	mustExec(t, "ldb", "--db="+dir, "compact", "--compression_type=no")
	if p := properties(); p["compression_name"] != "NoCompression" || p["filter_policy_name"] != "bloomfilter" {
		t.Errorf("compacted without compression: %v", p)
	}
	mustExec(t, "ldb", "--db="+dir, "compact", "--try_load_options=false")
	if p := properties(); p["filter_policy_name"] != "" {
		t.Errorf("compacted with default options: %v", p)
	}
	check(t, "k : v\n", "", 0, "ldb", "--db="+dir, "scan", "--try_load_options=false")
	check(t, "", "Failed: Unknown compression algorithm: foo", 1, "ldb", "--db="+dir, "scan", "--compression_type=foo")
	check(t, "", "Failed: block_size must be > 0.", 1, "ldb", "--db="+dir, "scan", "--block_size=0")
	check(t, "", "Failed: bloom_bits has an invalid value", 1, "ldb", "--db="+dir, "scan", "--bloom_bits=x")
	check(t, "", "--block_size: expected a value", 2, "ldb", "--db="+dir, "scan", "--block_size")
}

// latestOptions is the newest OPTIONS file.
func latestOptions(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no OPTIONS file", err)
	}
	return files[len(files)-1]
}

// TestQueryPropertiesAndExternalFiles: the rest of ldb's commands.
func TestQueryPropertiesAndExternalFiles(t *testing.T) {
	dir := t.TempDir()
	db := "--db=" + filepath.Join(dir, "db")
	mustExec(t, "ldb", db, "put", "a", "1", "--create_if_missing")
	r := exec(t, "help\nput k v\nget k\ndelete k\nput k\nget k\nget a\n", "ldb", db, "query")
	want := "get <key>\nput <key> <value>\ndelete <key>\nSuccessfully put k v\nk ==> v\nSuccessfully deleted k\nUnknown command put k\nNot found k\n"
	if r.out != want || r.status != 1 || r.err != "Failed: \n" {
		t.Errorf("query: %+v", r)
	}
	if r := exec(t, "put 0x6B 0x00\nget 0x6B", "ldb", db, "--hex", "query"); r.out != "Successfully put 0x6B 0x00\n0x6B ==> 0x00\n" || r.status != 0 {
		t.Errorf("query --hex: %+v", r)
	}
	mustExec(t, "ldb", db, "compact")
	check(t, "rocksdb.num-snapshots: 0\n", "", 0, "ldb", db, "get_property", "rocksdb.num-snapshots")
	check(t, "rocksdb.num-files-at-level0: 0\n", "", 0, "ldb", db, "get_property", "rocksdb.num-files-at-level0")
	check(t, `{"cf":"default","property":"rocksdb.num-immutable-mem-table","value":0}`+"\n", "", 0, "ldb", db, "get_property", "rocksdb.num-immutable-mem-table", "--json")
	check(t, "0\n", "", 0, "ldb", db, "approxsize", "--from=z", "--to=a")
	check(t, "", "Failed: from must be specified for approxsize command\n", 1, "ldb", db, "approxsize", "--to=a")
	if r := mustExec(t, "ldb", db, "approxsize", "--from=a", "--to=z", "--json"); decodeObject(t, r)["bytes"].(json.Number) == "0" {
		t.Errorf("approxsize of everything: %s", r)
	}
	check(t, "", "Failed: failed to get property: rocksdb.none\n", 1, "ldb", db, "get_property", "rocksdb.none")
	check(t, "", "Failed: failed to get property: rocksdb.num-files-at-level99\n", 1, "ldb", db, "get_property", "rocksdb.num-files-at-level99")

	sst := filepath.Join(dir, "x.sst")
	if r := exec(t, "a ==> 1\nbad\nb ==> 2 ==> 3\n", "ldb", db, "write_extern_sst", sst); r.status != 0 || r.err != "Warning: 1 bad lines ignored.\nexternal SST file written to "+sst+"\n" || r.out != "" {
		t.Errorf("write_extern_sst: %+v", r)
	}
	check(t, `{"k":"61","seq":0,"type":1,"v":"31"}`+"\n"+`{"k":"62","seq":0,"type":1,"v":"32203d3d3e2033"}`+"\n", "", 0, "sst_dump", "--json", sst)
	sst = filepath.Join(dir, "none.sst")
	for input, message := range map[string]string{"b ==> 1\na ==> 1\n": "Keys must be added in strict ascending order.", "": "Cannot create sst file with no entries"} {
		r := exec(t, input, "ldb", db, "write_extern_sst", sst)
		if _, err := os.Stat(sst); r.status != 1 || !strings.Contains(r.err, message) || !os.IsNotExist(err) {
			t.Errorf("write_extern_sst of %q: %+v, and the file: %v", input, r, err)
		}
	}
}

// TestDumpsOfWholeFiles: dump --path and dump_live_files show every entry of both formats.
func TestDumpsOfWholeFiles(t *testing.T) {
	dir := filepath.Join(goldenDir, "db", "d01_multi_cf", "db")
	all := mustExec(t, "ldb", "dump_live_files", "--hex", "--db="+dir)
	for _, f := range parseListing(t, "families", mustExec(t, "ldb", "list_column_families", "--json", "--db="+dir)) {
		if !strings.Contains(all, "Column family name: "+f.CF+"\n") {
			t.Errorf("dump_live_files lacks family %s", f.CF)
		}
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	for _, path := range tables {
		one := mustExec(t, "ldb", "dump", "--hex", "--path="+path)
		if !strings.HasPrefix(one, "Process "+path+"\nSst file format: ") || !strings.Contains(all, one) {
			t.Errorf("dump_live_files does not contain what dump --path=%s prints", path)
		}
		entries := strings.Count(one, " => ")
		if listed := strings.Count(mustExec(t, "ldb", "dump", "--json", "--path="+path), "\n"); entries != listed || listed == 0 {
			t.Errorf("%s: %d entries in text, %d in JSON", path, entries, listed)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, path := range logs {
		if one := mustExec(t, "ldb", "dump", "--path="+path); !strings.Contains(all, path+"\n"+one) && strings.Count(one, "\n") > 1 {
			t.Errorf("dump_live_files lacks the log %s", path)
		}
		// Each batch of this database has one operation.
		text := strings.Count(mustExec(t, "ldb", "dump_wal", "--walfile="+path), "\n")
		if lines := strings.Count(mustExec(t, "ldb", "dump_wal", "--json", "--walfile="+path), "\n"); text != lines {
			t.Errorf("%s: %d operations in text, %d in JSON", path, text, lines)
		}
	}
	check(t, "", "Failed: Invalid file: commands_test.go", 1, "ldb", "dump", "--path=commands_test.go")
	if r := exec(t, "", "ldb", "dump", "--path=999999.sst"); r.status != 1 || !strings.Contains(r.err, "999999.sst") {
		t.Errorf("a missing table: %+v", r)
	}
}

// TestReadingCommandsSpeakJSON: every line is an object with the fields that doc/tools.md names.
func TestReadingCommandsSpeakJSON(t *testing.T) {
	dir := filepath.Join(goldenDir, "db", "d05_deleterange", "db")
	log, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(log) == 0 {
		t.Fatal("no log", err)
	}
	for _, c := range []struct {
		command string
		fields  string
		lines   int // at least
	}{
		{"scan", "cf k v", 100}, {"dump", "cf k v", 100}, {"dump_all", "cf k v", 200}, {"idump", "cf k seq type v", 100},
		{"list_column_families", "cf comparator id", 2}, {"list_live_files_metadata", "cf file largest largest_seq level size smallest smallest_seq", 4},
		{"list_file_range_deletes", "end file seq start", 6}, {"list_file_range_deletes --max_keys=2", "end file seq start", 2},
		{"file_checksum_dump", "checksum function number", 4}, {"approxsize --from=a --to=z", "bytes cf", 1},
		{"get_property rocksdb.num-snapshots", "cf property value", 1}, {"dump_wal --walfile=" + log[0], "cf k offset op seq v", 30},
	} {
		out := mustExec(t, append(append([]string{"ldb"}, strings.Fields(c.command)...), "--json", "--db="+dir)...)
		n := 0
		for line := range strings.Lines(out) {
			n++
			if got := strings.Join(slices.Sorted(maps.Keys(decodeObject(t, line))), " "); got != c.fields {
				t.Fatalf("%s: fields %s, want %s", c.command, got, c.fields)
			}
		}
		if n < c.lines {
			t.Errorf("%s: %d lines, want %d or more", c.command, n, c.lines)
		}
	}
	lines := strings.Split(strings.TrimSpace(mustExec(t, "ldb", "manifest_dump", "--json", "--db="+dir)), "\n")
	if len(lines) != 3 || len(decodeObject(t, lines[0])["files"].([]any)) != 2 || decodeObject(t, lines[2])["last_sequence"].(json.Number) != "532" {
		t.Errorf("manifest_dump: %q", lines)
	}
}

// TestInternalDumpIsTheGoldenListing: files and logs together give every version.
func TestInternalDumpIsTheGoldenListing(t *testing.T) {
	base := filepath.Join(goldenDir, "db", "d07_snapshots")
	out := mustExec(t, "ldb", "idump", "--json", "--db="+filepath.Join(base, "db"))
	got := parseListing(t, "idump", out)
	want := parseListing(t, "golden", readText(t, filepath.Join(base, "expected.entries.jsonl")))
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		got[i].CF = ""
		if got[i] != want[i] {
			t.Fatalf("entry %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// TestManifestAndLogDumpsAreTheGoldenOnes: what RocksDB's ldb printed when the golden
// databases were made.
func TestManifestAndLogDumpsAreTheGoldenOnes(t *testing.T) {
	for _, path := range glob(t, "db/*/manifest.ldb.txt", 25) {
		base := filepath.Dir(path)
		want := readText(t, path)
		first, _, _ := strings.Cut(want, "\n")
		if !strings.HasPrefix(first, "Processing Manifest file ") {
			t.Fatalf("%s begins with %q", path, first)
		}
		name := filepath.Base(strings.TrimPrefix(first, "Processing Manifest file "))
		got := mustExec(t, "ldb", "manifest_dump", "--verbose", "--hex", "--path="+filepath.Join(base, "db", name))
		if normal(got) != normal(want) {
			t.Errorf("%s:\n%s", path, textDifference(normal(got), normal(want)))
		}
	}
	for _, path := range glob(t, "db/*/wal.*.ldb.txt", 30) {
		number := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "wal."), ".ldb.txt")
		want := readText(t, path)
		if strings.Contains(want, "Failed: ") || strings.Contains(want, "orruption") {
			continue // entities, which RocksDB 7.8 did not print; or damage, in other words
		}
		r := exec(t, "", "ldb", "dump_wal", "--header", "--print_value", "--walfile="+filepath.Join(filepath.Dir(path), "db", number+".log"))
		if r.out != want || r.status != 0 {
			t.Errorf("%s: status %d %s\n%s", path, r.status, r.err, textDifference(r.out, want))
		}
	}
}

// normal takes out of a dump what the golden files leave out or the place decides:
// paths, empty levels, and version numbers.
func normal(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		switch {
		case strings.HasPrefix(line, "Processing Manifest file "):
		case strings.HasPrefix(line, "--- level "):
			line, _, _ = strings.Cut(line, " version# ")
			var level int
			if _, err := fmt.Sscanf(line, "--- level %d", &level); err == nil && level < 7 {
				b.WriteString(line + "\n")
			}
		default:
			line = strings.Replace(strings.Replace(line, ": <", ": ", 1), ">, but the comparator object is not available.", "", 1)
			b.WriteString(line)
		}
	}
	return b.String()
}

func textDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(x), len(y))
}

// TestPropertiesJSONAreTheGoldenOnes: names and values of every golden table's properties.
func TestPropertiesJSONAreTheGoldenOnes(t *testing.T) {
	for _, path := range glob(t, "block*/*.props.json", 137) {
		table := strings.TrimSuffix(path, ".props.json") + ".sst"
		out := mustExec(t, "sst_dump", "--json", "--command=none", "--show_properties", table)
		got := decodeObject(t, out)["properties"].(map[string]any)
		for name, want := range decodeObject(t, readText(t, path)) {
			if name == "user_collected_hex" && strings.Contains(path, "block11") {
				// RocksDB 11 does not count its newer properties; 7.8, as we do, counts what it has no field for.
				all := got[name].(map[string]any)
				for q, v := range want.(map[string]any) {
					if all[q] != v {
						t.Errorf("%s: %s is %v, want %v", table, q, all[q], v)
					}
				}
				continue
			}
			if fmt.Sprint(got[name]) != fmt.Sprint(want) {
				t.Errorf("%s: %s is %v, want %v", table, name, got[name], want)
			}
		}
	}
}

// TestDBBenchIsInTheBinary: by its name and through a link, and what it fills the other tools read.
func TestDBBenchIsInTheBinary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	for i, name := range [][]string{{"db_bench"}, {"flatrock", "db_bench"}} {
		var out, errs bytes.Buffer
		args := append(name, "--benchmarks=fillseq,readseq", "--num=100", "--db="+dir, "--use_existing_db=0")
		if status := run(context.Background(), args, strings.NewReader(""), &out, &errs); status != 0 || !strings.Contains(out.String(), "fillseq  ") || !strings.Contains(out.String(), "readseq  ") {
			t.Fatalf("%d: status %d, %s%s", i, status, out.String(), errs.String())
		}
		if got := mustExec(t, "ldb", "--db="+dir, "dump", "--count_only"); !strings.HasPrefix(got, "Keys in range: 100\n") {
			t.Errorf("%d: ldb counts %s", i, got)
		}
	}
	if got := mustExec(t, "help", "db_bench"); !strings.Contains(got, "--benchmarks") || !strings.Contains(got, "fillrandom") {
		t.Errorf("help: %s", got)
	}
}

// TestNamesOfTheProgram: a link named after a tool is that tool.
func TestNamesOfTheProgram(t *testing.T) {
	db := "--db=" + filepath.Join(goldenDir, "db", "d22_empty", "db")
	for _, c := range []struct {
		args     []string
		out, err string
		status   int
	}{
		{[]string{"/usr/bin/ldb", "list_column_families", db}, "Column families in " + db[5:] + ": \n{default}\n", "", 0},
		{[]string{"ldb.exe", "list_column_families", db}, "Column families in " + db[5:] + ": \n{default}\n", "", 0},
		{[]string{"/x/sst_dump", "--parse_internal_key=0x6B0100000000000000"}, "key='6B' seq:0, type:1\n", "", 0},
		{[]string{"/x/sst_dump", "--parse_internal_key=6B"}, "", "Invalid hex input 6B.  Must start with 0x", 1},
		{[]string{"db_bench", "--no_such_flag=1"}, "", "bench: ", 1},
		{[]string{"flatrock", "db_bench", "--benchmarks=no_such_benchmark"}, "", "bench: ", 1},
		{[]string{"ldb", "nonsense", db}, "", "Unknown command", 1},
		{[]string{"flatrock", "ldb", "nonsense", db}, "", "Unknown command", 2},
		{[]string{"flatrock", "nonsense"}, "", "unknown tool", 2},
		{[]string{"flatrock", "ldb", "scan", "--nonsense=1", db}, "", "Invalid command-line option nonsense", 2},
		{[]string{"flatrock", "ldb", "scan"}, "", "--db=DIR must be given", 2},
		{[]string{"flatrock", "ldb", "update_manifest", db}, "", "Failed: No action like --update_temperatures specified", 1},
		{[]string{"flatrock", "ldb", "scan", "--fs_uri=x", db}, "", "--fs_uri is not supported: Flatrock works on", 1},
		{[]string{"flatrock", "ldb", "scan", "--read_timestamp=1", db}, "", "--read_timestamp is not supported: user-defined timestamps", 1},
		{[]string{"flatrock", "ldb", "delete", "k", "--ttl", db}, "", "Invalid command-line option ttl for delete", 2},
		{[]string{"flatrock", "sst_dump", "--env_uri=x", "x.sst"}, "", "--env_uri is not supported", 1},
		{[]string{"flatrock", "ldb", "put", "k", "v", "--enable_blob_files", db}, "", "--enable_blob_files is not supported: Flatrock reads blob files", 1},
		{[]string{"flatrock", "ldb", "dump", "--start_time=1", db}, "", "--start_time is about values with times", 2},
		{[]string{"flatrock", "sst_dump", "x.sst", "--compression_types=kFoo"}, "", "kFoo is not a valid CompressionType\n", 2},
		{[]string{"flatrock", "sst_dump", "x.sst", "--set_block_size=x"}, "", "block size must be numeric\n", 2},
		{[]string{"flatrock", "sst_dump", "x.sst", "--compression_level_from=1"}, "", "Specify both --compression_level_from and --compression_level_to.\n", 2},
		{[]string{"flatrock", "sst_dump", "x.sst", "--command=walk"}, "", "Unrecognized command 'walk'", 2},
		{[]string{"flatrock", "sst_dump"}, "", "file or directory must be specified", 2},
		{[]string{"flatrock", "repair"}, "", "repair wants one directory", 2},
	} {
		var out, errs bytes.Buffer
		status := run(context.Background(), c.args, strings.NewReader(""), &out, &errs)
		if out.String() != c.out || !strings.HasPrefix(errs.String(), c.err) || (c.err == "") != (errs.Len() == 0) || status != c.status {
			t.Errorf("%q: %q, %q, status %d", c.args, out.String(), errs.String(), status)
		}
	}
}

// TestHelpKnowsEveryCommand: all of them, one by one, and examples are of commands that exist.
func TestHelpKnowsEveryCommand(t *testing.T) {
	all := mustExec(t, "help", "--all")
	names := map[string]bool{}
	for _, c := range ldbCommands() {
		names[c.name] = true
		if !strings.Contains(all, "\n    "+c.name) {
			t.Errorf("help --all lacks %s", c.name)
		}
		if one := mustExec(t, "help", "ldb", c.name); !strings.Contains(one, c.about) {
			t.Errorf("help ldb %s: %q", c.name, one)
		}
	}
	for name, text := range ldbExamples {
		if !names[name] {
			t.Errorf("examples of %s, which does not exist", name)
		}
		for _, line := range strings.Split(text, "\n") {
			for i, command := range strings.Split(line, " | flatrock ldb ") {
				command, _, _ = strings.Cut(command, "   #")
				a := parseArguments(strings.Fields(command))
				if i == 0 && !slices.Contains(a.words, name) {
					t.Errorf("an example of %s is of something else: %s", name, command)
				}
				at := slices.IndexFunc(ldbCommands(), func(c ldbCommand) bool { return len(a.words) > 0 && c.name == a.words[0] })
				if at < 0 {
					t.Errorf("%s: no command", command)
				} else if option, found := a.unknown(commonOptions, ldbCommands()[at].options); found {
					t.Errorf("%s: no option %s", command, option)
				}
			}
		}
	}
	for _, tool := range tools {
		if tool == "help" || tool == "version" { // of one line each
			continue
		}
		if one := strings.TrimSpace(mustExec(t, "help", tool)); !strings.Contains(all, one) || !strings.Contains(one, "Example") && tool != "ldb" && tool != "db_bench" {
			t.Errorf("help --all lacks the help of %s, or that has no example", tool)
		}
	}
	for name := range names {
		if one := strings.TrimSpace(mustExec(t, "help", "ldb", name)); !strings.Contains(all, one) {
			t.Errorf("help --all lacks the help of ldb %s", name)
		}
		if !strings.Contains(mustExec(t, "help", "ldb", name), "\nExample:\n    flatrock ldb ") || ldbExamples[name] == "" {
			t.Errorf("no example of %s", name)
		}
	}
	for _, args := range [][]string{nil, {"help"}, {"help", "ldb"}, {"help", "sst_dump"}, {"ldb", "--help"}, {"sst_dump", "--help"}} {
		if mustExec(t, args...) == "" {
			t.Errorf("%q prints nothing", args)
		}
	}
	check(t, "", "no help for", 2, "help", "nothing")
	check(t, "", "no help for", 2, "help", "ldb", "nothing")
}

// TestDamagedDatabasesFailClearly: a missing, cut or altered file is an error of every
// command that needs it.
func TestDamagedDatabasesFailClearly(t *testing.T) {
	src := filepath.Join(goldenDir, "db", "d03_levels_block", "db")
	tables, err := filepath.Glob(filepath.Join(src, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	victim := filepath.Base(tables[0])
	manifests, _ := filepath.Glob(filepath.Join(src, "MANIFEST-*"))
	for name, harm := range map[string]func(dir string) error{
		victim: func(dir string) error { return os.Remove(filepath.Join(dir, victim)) },
		"cut":  func(dir string) error { return os.Truncate(filepath.Join(dir, victim), 100) },
		"CURRENT": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("MANIFEST-999999\n"), 0o600)
		},
		"MANIFEST": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, filepath.Base(manifests[0])), bytes.Repeat([]byte{7}, 500), 0o600)
		},
	} {
		dir := filepath.Join(t.TempDir(), "db")
		if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
			t.Fatal(err)
		}
		if err := harm(dir); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"checkconsistency", "dump_all", "scan", "idump", "put k v", "list_file_range_deletes"} {
			r := exec(t, "", append([]string{"ldb", "--db=" + dir}, strings.Fields(command)...)...)
			if r.status != 1 || r.err == "" {
				t.Errorf("%s, %s: %+v, want a failure", name, command, r)
			}
		}
	}
}

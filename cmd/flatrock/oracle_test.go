//go:build oracle

package main

import (
	"bytes"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// oracle runs RocksDB's tool of that name.
func oracle(t testing.TB, stdin, tool string, args ...string) result {
	t.Helper()
	cmd := osexec.Command("/usr/bin/"+tool, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if exit := (*osexec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		t.Fatalf("%s: %v", tool, err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

func asExit(err error, target **osexec.ExitError) bool {
	e, ok := err.(*osexec.ExitError)
	*target = e
	return ok
}

// address is what RocksDB's sst_dump prints first, on a line of its own.
var address = regexp.MustCompile(`options\.env is 0x[0-9a-f]+\n`)

// unavailable is what RocksDB's manifest_dump says of comparators other than the
// default one; ours just names them.
var unavailable = regexp.MustCompile(`<([^>]*)>, but the comparator object is not available\.`)

// hashedFamilies are the families of a database whose memtables are hashes.
func hashedFamilies(t testing.TB, dir string) map[string]bool {
	t.Helper()
	f, _, err := optionsfile.LoadLatest(mmapfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	hashed := map[string]bool{}
	for _, name := range f.Families() {
		o, _ := f.Family(name).Lookup("memtable_factory")
		hashed[name] = strings.Contains(o.Text(), "Hash")
	}
	return hashed
}

// firstDifference shows where two texts part.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			return "ours    " + p + "\nRocksDB " + q
		}
	}
	return ""
}

// copyDB is a copy of a golden database.
func copyDB(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "db", name, "db"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readable are the golden databases that RocksDB 7.8.3 and we both read, with the
// family to look at beside the default one.
func readable(t testing.TB) (names []string) {
	for _, current := range glob(t, "db/*/db/CURRENT", 25) {
		name := filepath.Base(filepath.Dir(filepath.Dir(current)))
		switch name {
		case "d27_upgraded_11_9", "d28_fresh_11_9": // 7.8.3 refuses their OPTIONS files
		default:
			names = append(names, name)
		}
	}
	return names
}

// withoutPlainEntries is what dump_live_files or dump --path printed, without the entries and properties of plain
// tables: RocksDB's fail to read them. They must be what sst_dump prints, which is compared with listings.
func withoutPlainEntries(t *testing.T, dir, out string, args []string) string {
	t.Helper()
	path := ""
	for _, a := range args {
		if p, ok := strings.CutPrefix(a, "--path="); ok {
			path = p
		}
	}
	if args[0] != "dump_live_files" && (args[0] != "dump" || !strings.HasSuffix(path, ".sst")) {
		return out
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if path != "" && path != table {
			continue
		}
		head := "Process " + table + "\nSst file format: plain table\n"
		at := strings.Index(out, head)
		if at < 0 {
			continue // block-based, or not live
		}
		_, entries, ok := strings.Cut(mustExec(t, "sst_dump", "--command=scan", table), "from [] to []\n")
		text := strings.TrimPrefix(mustExec(t, "ldb", "dump", "--path="+table), head)
		if at += len(head); !ok || entries == "" || !strings.HasPrefix(text, entries+"\nTable Properties:\n") || !strings.HasPrefix(out[at:], text) {
			t.Fatalf("%q lacks the entries of %s", args, table)
		}
		out = out[:at] + out[at+len(text):]
	}
	return out
}

// TestLDBReadsLikeRocksDB: every reading command prints what RocksDB's does, for every
// family of every golden database.
func TestLDBReadsLikeRocksDB(t *testing.T) {
	perFamily := []string{
		"scan", "scan --hex", "scan --hex --no_value --max_keys=3", "scan --max_keys=0", "dump --max_keys=0", "idump --max_keys=0", "dump --max_keys=-1", "scan --hex --from=0x6B303035 --to=0x6B303130",
		"dump --hex", "dump --count_only --count_delim=/", "dump --count_only", "dump --max_keys=2",
		"idump --hex", "idump --count_only", "idump --max_keys=4", "idump --from=k003 --to=k010 --hex",
		"idump --input_key_hex --from=0x6B303035 --max_keys=3",
		"get --hex 0x6B3030302F30", "get k000/0", "get nothing", "get", "scan --max_keys=x", "list_file_range_deletes", "list_file_range_deletes --max_keys=2",
		"approxsize --from=a --to=z", "approxsize --from=k005 --to=k010", "approxsize --from=k010 --to=z", "approxsize --from=a --to=k0201", "approxsize --from=a",
		"approxsize --to=a",
	}
	perDatabase := []string{
		"list_column_families", "list_live_files_metadata", "list_live_files_metadata --sort_by_filename", "checkconsistency",
		"manifest_dump", "manifest_dump --hex", "manifest_dump --verbose", "manifest_dump --verbose --hex", "scan --column_family=nothing",
	}
	for _, name := range readable(t) {
		t.Run(name, func(t *testing.T) {
			dir := copyDB(t, name)
			hashed := hashedFamilies(t, dir)
			var families []string
			for _, f := range parseListing(t, name, mustExec(t, "ldb", "list_column_families", "--json", "--db="+dir)) {
				families = append(families, f.CF)
			}
			compare := func(args []string) {
				t.Helper()
				want := oracle(t, "", "ldb", args...)
				got := exec(t, "", append([]string{"ldb"}, args...)...)
				if want.status != 0 && strings.Contains(want.err, "not implemented for PlainTable") {
					return // ours has total order in plain tables, too
				}
				if want.status < 0 {
					return // RocksDB died of an assertion: a range that ends before it begins, a short key
				}
				want.out = unavailable.ReplaceAllString(want.out, "$1")
				got.out = withoutPlainEntries(t, dir, got.out, args)
				if name == "d13_corrupt_mid_wal" && (strings.Contains(strings.Join(args, " "), ".log") || args[0] == "dump_live_files") {
					want.status = 1 // RocksDB reports the damage, and succeeds
				}
				if got.out != want.out || (got.status == 0) != (want.status == 0) {
					t.Errorf("%q: status %d, RocksDB %d\n%s\n%s%s", args, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
				}
			}
			for _, c := range perDatabase {
				compare(append(strings.Fields(c), "--db="+dir))
			}
			for _, f := range families {
				for _, c := range perFamily {
					if strings.HasPrefix(c, "idump") && hashed[f] {
						continue // RocksDB leaves out what is in a memtable of hashes
					}
					if name == "d15_reverse" && strings.Contains(c, "--to=") {
						continue // RocksDB compares --to bytewise
					}
					compare(append(strings.Fields(c), "--db="+dir, "--column_family="+f))
				}
			}
			tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range tables {
				compare([]string{"dump", "--path=" + path})
			}
			if name != "d18_wide_columns" && name != "d21_wal_only" { // entities in logs, which RocksDB 7.8 does not print
				for _, c := range []string{"dump_live_files", "dump_live_files --decode_blob_index", "dump_live_files --dump_uncompressed_blobs"} {
					compare(append(strings.Fields(c), "--db="+dir))
				}
			}
			logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
			if err != nil {
				t.Fatal(err)
			}
			for _, log := range logs {
				if name == "d21_wal_only" || name == "d18_wide_columns" || name == "d10_recycled_wal" {
					continue // entities, which RocksDB 7.8 does not print; and a log that it needs another mode for
				}
				compare([]string{"dump_wal", "--walfile=" + log})
				compare([]string{"dump_wal", "--walfile=" + log, "--header", "--print_value"})
				compare([]string{"dump", "--path=" + log})
			}
		})
	}
}

// TestLDBWritesLikeRocksDB: the same commands on two copies, one for each tool, say
// the same, and RocksDB's ldb then finds the same in both.
func TestLDBWritesLikeRocksDB(t *testing.T) {
	steps := []string{
		"put a b", "put a", "put --hex 0x00FF 0x0001", "batchput x 1 y 2", "batchput x", "batchput x 1 y", "batchput", "delete x", "delete", "delete nothing",
		"put one 1", "singledelete one", "singledelete", "deleterange k005 k008", "deleterange k005", "create_column_family fresh",
		"create_column_family fresh", "create_column_family", "put --column_family=fresh k v", "scan --column_family=fresh", "put --column_family=none k v",
		"compact", "compact --from=k001 --to=k010", "scan --hex", "drop_column_family fresh", "drop_column_family fresh", "drop_column_family",
		"drop_column_family default", "list_column_families", "put --bogus k v", "checkconsistency",
		"query", "query --hex", "get_property rocksdb.num-files-at-level0", "get_property rocksdb.estimate-num-keys", "get_property rocksdb.num-entries-active-mem-table", "get_property rocksdb.num-immutable-mem-table", "get_property rocksdb.nothing", "get_property",
		"compact --compression_type=zstd --block_size=512", "scan --block_size=0", "scan --compression_type=foo", "load", "load --hex --compact", "load --disable_wal", "dump --hex",
	}
	input := map[string]string{
		"query":                "foo\nput a\nput a b c\nget\n\nput k v\nget k\nhelp me\ndelete k\ndelete nothing\nput  x y\nget x\nget k\n",
		"query --hex":          "put 0x00 0xFF\nget 0x00",
		"load":                 "one ==> 1\nnothing here\ntwo ==> 2 ==> 3\n ==> empty key\nlast ==> ",
		"load --hex --compact": "0x00 ==> 0x\n0x01 ==> 0xFF00\n",
		"load --disable_wal":   "without ==> log\n",
	}
	for _, name := range []string{"d03_levels_block", "d05_deleterange", "d16_reopen", "d22_empty"} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := copyDB(t, name), copyDB(t, name)
			for _, step := range steps {
				args := strings.Fields(step)
				want := oracle(t, input[step], "ldb", append(args, "--db="+theirs)...)
				got := exec(t, input[step], append([]string{"ldb"}, append(args, "--db="+ours)...)...)
				want.out = strings.ReplaceAll(want.out, theirs, ours)
				if got.out != want.out || (got.status == 0) != (want.status == 0) {
					t.Errorf("%s: status %d, RocksDB %d\n%s\n%s%s", step, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
				}
				if got.err != want.err && strings.HasPrefix(want.err, "Failed: ") {
					t.Errorf("%s: ours %q, RocksDB %q", step, got.err, want.err)
				}
			}
			a, b := oracle(t, "", "ldb", "dump", "--hex", "--db="+ours), oracle(t, "", "ldb", "dump", "--hex", "--db="+theirs)
			if a.status != 0 || b.status != 0 || a.out != b.out {
				t.Errorf("RocksDB reads ours: %s%s", firstDifference(a.out, b.out), a.err)
			}
		})
	}
}

// TestDumpAndLoadRoundTrip: what dump prints of any family, load makes again, in a
// database that RocksDB reads, and the other way round.
func TestDumpAndLoadRoundTrip(t *testing.T) {
	for _, current := range glob(t, "db/*/db/CURRENT", 25) {
		name := filepath.Base(filepath.Dir(filepath.Dir(current)))
		dir := copyDB(t, name)
		families := strings.TrimSpace(mustExec(t, "ldb", "list_column_families", "--json", "--db="+dir))
		for i, f := range parseListing(t, name, families) {
			text := mustExec(t, "ldb", "dump", "--hex", "--db="+dir, "--column_family="+f.CF)
			fresh, reverse := filepath.Join(t.TempDir(), "fresh"), decodeObject(t, strings.Split(families, "\n")[i])["comparator"] == flatrock.ReverseBytewise.Name()
			if reverse { // load by itself makes a database in byte order
				db, err := flatrock.Open(fresh, &flatrock.Options{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{Comparator: flatrock.ReverseBytewise}})
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if r := exec(t, text, "ldb", "load", "--hex", "--create_if_missing", "--db="+fresh); r.status != 0 || r.out != "" {
				t.Fatalf("%s: load: %+v", name, r)
			}
			if got := oracle(t, "", "ldb", "dump", "--hex", "--db="+fresh); got.out != text {
				t.Errorf("%s %s: %s", name, f.CF, firstDifference(got.out, text))
			}
			if reverse {
				continue // RocksDB's load takes byte order for granted
			}
			theirs := filepath.Join(t.TempDir(), "theirs")
			if r := oracle(t, text, "ldb", "load", "--hex", "--create_if_missing", "--db="+theirs); r.status != 0 {
				t.Errorf("%s %s: RocksDB's load: %s", name, f.CF, r.err)
			}
			if got := mustExec(t, "ldb", "dump", "--hex", "--db="+theirs); got != text {
				t.Errorf("%s %s, loaded by RocksDB: %s", name, f.CF, firstDifference(got, text))
			}
		}
	}
}

// TestSSTDumpLikeRocksDB compares sst_dump for every golden block-based table that
// RocksDB 7.8 reads; it cannot read plain tables itself.
func TestSSTDumpLikeRocksDB(t *testing.T) {
	commands := []string{
		"--command=check", "--command=scan --output_hex", "--command=scan --read_num=5", "--command=none --show_properties",
		"--command=verify", "--command=identify", "--show_summary --verify_checksum", "--command=scan --from=key000030 --to=key000060",
		"--command=scan --prefix=key00003 --output_hex", "--command=scan --input_key_hex --from=0x6B6579303030303330 --read_num=2 --output_hex",
	}
	for _, path := range glob(t, "block/*.sst", 137) {
		name := filepath.Base(path)
		for _, c := range commands {
			switch {
			case (strings.HasPrefix(name, "reverse") || name == "db_timestamps.sst") && strings.Contains(c, "0"):
				continue // in ranges RocksDB compares bytewise, or with timestamps
			}
			args := append(strings.Fields(c), "--file="+path)
			want := oracle(t, "", "sst_dump", args...)
			want.out = address.ReplaceAllString(want.out, "")
			got := exec(t, "", append([]string{"sst_dump"}, args...)...)
			if got.out != want.out || got.status != want.status {
				t.Errorf("%s %s: status %d, RocksDB %d\n%s\n%s%s", name, c, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
			}
		}
	}
}

// TestRawDumpLikeRocksDB compares the text files of --command=raw.
func TestRawDumpLikeRocksDB(t *testing.T) {
	for _, path := range glob(t, "block/*.sst", 137) {
		dir := t.TempDir()
		var text [2]string
		for i := range text {
			copied := filepath.Join(dir, "x.sst")
			if err := os.WriteFile(copied, []byte(readText(t, path)), 0o600); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				mustExec(t, "sst_dump", "--command=raw", copied)
			} else {
				oracle(t, "", "sst_dump", "--command=raw", "--file="+copied)
			}
			text[i] = readText(t, filepath.Join(dir, "x_dump.txt"))
			if err := os.Remove(filepath.Join(dir, "x_dump.txt")); err != nil {
				t.Fatal(err)
			}
		}
		if text[0] != text[1] {
			t.Errorf("%s:\n%s", path, firstDifference(text[0], text[1]))
		}
	}
}

// TestExternalFilesAreIngestedByRocksDB: what write_extern_sst makes.
func TestExternalFilesAreIngestedByRocksDB(t *testing.T) {
	dir := copyDB(t, "d22_empty")
	text := "0x00 ==> 0x\n0x6162 ==> 0x0102\n0x6163 ==> 0xFF\n"
	sst := filepath.Join(t.TempDir(), "x.sst")
	if r := exec(t, text, "ldb", "--hex", "--db="+dir, "write_extern_sst", sst); r.status != 0 {
		t.Fatal(r.err)
	}
	if r := oracle(t, "", "ldb", "--db="+dir, "ingest_extern_sst", sst); r.status != 0 {
		t.Fatal(r.err)
	}
	if got := oracle(t, "", "ldb", "--hex", "--db="+dir, "dump").out; got != text+"Keys in range: 3\n" {
		t.Errorf("RocksDB reads %q", got)
	}
	if got := mustExec(t, "ldb", "--hex", "--db="+dir, "dump"); got != text+"Keys in range: 3\n" {
		t.Errorf("we read %q", got)
	}
}

// TestFileChecksumsLikeRocksDB: the same lines, in any order.
func TestFileChecksumsLikeRocksDB(t *testing.T) {
	compared := 0
	for _, name := range readable(t) {
		dir := copyDB(t, name)
		theirs := oracle(t, "", "ldb", "file_checksum_dump", "--hex", "--db="+dir)
		if theirs.status != 0 || theirs.out == "" {
			continue // it reads a MANIFEST for one comparator and opens no plain tables
		}
		compared++
		want := strings.Split(theirs.out, "\n")
		got := strings.Split(mustExec(t, "ldb", "file_checksum_dump", "--hex", "--db="+dir), "\n")
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, RocksDB %q", name, got, want)
		}
	}
	if compared < 15 {
		t.Errorf("compared %d databases, want 15 or more", compared)
	}
}

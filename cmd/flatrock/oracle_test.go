//go:build oracle

package main

import (
	"bytes"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
		case "d08_blob": // blob files are not read yet
		default:
			names = append(names, name)
		}
	}
	return names
}

// TestLDBReadsLikeRocksDB: every reading command prints what RocksDB's does, for every
// family of every golden database.
func TestLDBReadsLikeRocksDB(t *testing.T) {
	perFamily := []string{
		"scan", "scan --hex", "scan --hex --no_value --max_keys=3", "scan --max_keys=0", "scan --hex --from=0x6B303035 --to=0x6B303130",
		"dump --hex", "dump --count_only --count_delim=/", "dump --count_only", "dump --max_keys=2",
		"idump --hex", "idump --count_only", "idump --max_keys=4", "idump --from=k003 --to=k010 --hex --input_key_hex=false",
		"idump --hex --from=0x6B303035 --to=0x6B303130", "idump --input_key_hex --from=0x6B303035 --max_keys=3",
		"get --hex 0x6B3030302F30", "get k000/0", "get nothing", "get", "scan --max_keys=x", "list_file_range_deletes", "list_file_range_deletes --max_keys=2",
	}
	perDatabase := []string{
		"list_column_families", "list_live_files_metadata", "list_live_files_metadata --sort_by_filename", "checkconsistency",
		"manifest_dump", "manifest_dump --hex", "manifest_dump --verbose", "manifest_dump --verbose --hex", "scan --column_family=nothing",
	}
	for _, name := range readable(t) {
		t.Run(name, func(t *testing.T) {
			dir := copyDB(t, name)
			var families []string
			for _, f := range parseListing(t, name, mustExec(t, "ldb", "list_column_families", "--json", "--db="+dir)) {
				families = append(families, f.CF)
			}
			compare := func(args []string) {
				t.Helper()
				want := oracle(t, "", "ldb", args...)
				got := exec(t, "", append([]string{"ldb"}, args...)...)
				if got.out != want.out || (got.status == 0) != (want.status == 0) {
					t.Errorf("%q: status %d, RocksDB %d\n%s\n%s%s", args, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
				}
			}
			for _, c := range perDatabase {
				compare(append(strings.Fields(c), "--db="+dir))
			}
			for _, f := range families {
				for _, c := range perFamily {
					compare(append(strings.Fields(c), "--db="+dir, "--column_family="+f))
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

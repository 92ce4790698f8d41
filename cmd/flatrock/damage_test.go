package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// readingCommands are all that read a database, or TABLE or LOG of it, and write nothing.
var readingCommands = []string{
	"ldb --db=DIR get k000/0", "ldb --db=DIR get_entity k000/0", "ldb --db=DIR multi_get k000/0 k001/7919", "ldb --db=DIR multi_get_entity k000/0 k001/7919",
	"ldb --db=DIR scan --hex", "ldb --db=DIR scan --hex --max_keys=1", "ldb --db=DIR dump --hex", "ldb --db=DIR dump --count_only", "ldb --db=DIR dump_all --json",
	"ldb --db=DIR idump --hex", "ldb --db=DIR idump --json", "ldb --db=DIR approxsize --from=a --to=z", "ldb --db=DIR list_column_families",
	"ldb --db=DIR list_live_files_metadata", "ldb --db=DIR list_live_files_metadata --sort_by_filename", "ldb --db=DIR dump_live_files", "ldb --db=DIR dump_live_files --json",
	"ldb --db=DIR list_file_range_deletes", "ldb --db=DIR get_property rocksdb.estimate-num-keys", "ldb --db=DIR file_checksum_dump",
	"ldb --db=DIR manifest_dump --verbose", "ldb --db=DIR manifest_dump --json", "ldb --db=DIR checkconsistency",
	"ldb dump_wal --walfile=LOG --header --print_value", "ldb dump_wal --json --walfile=LOG", "ldb dump --path=TABLE", "ldb dump --path=LOG",
	"sst_dump --json TABLE", "sst_dump --command=scan --output_hex TABLE", "sst_dump --command=verify TABLE", "sst_dump --command=check TABLE",
	"sst_dump --command=none --show_properties TABLE", "sst_dump --command=identify TABLE", "sst_dump --command=recompress --json --compression_types=kNoCompression TABLE",
}

// spoil rewrites a file, or removes it if change is nil.
func spoil(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	var err error
	if change == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, change([]byte(readText(t, path))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// middle flips a bit in the middle of a log.
func middle(b []byte) []byte {
	b[len(b)/2] ^= 0x20
	return b
}

// TestDamageIsNamedOrDoesNotMatter: every reading command on damaged copies of golden databases. Either it fails
// with a message that names the file, or it prints what it prints of the whole database.
func TestDamageIsNamedOrDoesNotMatter(t *testing.T) {
	damages := []struct {
		name, file string
		change     func(b []byte) []byte
		strict     bool     // logs must be whole: without it, recovery ends at the damage, as RocksDB's
		must       []string // commands that cannot do without
	}{
		{"MANIFEST cut", "MANIFEST-*", func(b []byte) []byte { return b[:20] }, false, []string{"get", "scan", "dump_all", "idump", "list_column_families", "manifest_dump", "checkconsistency", "dump_live_files"}},
		{"MANIFEST flipped", "MANIFEST-*", func(b []byte) []byte { b[40] ^= 1; return b }, false, []string{"get", "scan", "dump_all", "idump", "list_column_families", "manifest_dump", "checkconsistency", "dump_live_files"}},
		{"MANIFEST missing", "MANIFEST-*", nil, false, []string{"get", "scan", "list_column_families", "manifest_dump"}},
		{"CURRENT garbage", "CURRENT", func([]byte) []byte { return []byte("garbage\x00\xff") }, false, []string{"get", "scan", "dump_all", "idump", "list_column_families", "manifest_dump", "checkconsistency"}},
		{"CURRENT empty", "CURRENT", func([]byte) []byte { return nil }, false, []string{"get", "scan", "manifest_dump"}},
		{"table's index flipped", "TABLE", nil, false, []string{"--json", "--command=scan", "--command=verify"}},
		{"table missing", "TABLE", nil, false, []string{"scan", "dump_all", "idump", "checkconsistency", "dump_live_files", "--json", "--command=verify"}},
		{"table cut", "TABLE", func(b []byte) []byte { return b[:len(b)/2] }, false, []string{"scan", "dump_all", "idump", "checkconsistency", "dump_live_files", "--json", "--command=verify"}},
		{"record of a log flipped", "LOG", middle, true, []string{"scan", "dump_all", "idump", "dump_wal"}},
	}
	names := []string{"d03_levels_block", "d04_levels_plain", "d05_deleterange", "d01_multi_cf"}
	if testing.Short() {
		names = names[:2]
	}
	for _, name := range names {
		for _, damage := range damages {
			t.Run(name+"/"+damage.name, func(t *testing.T) {
				dir := goldenCopy(t, name)
				table, log := pick(t, dir, ".sst"), pick(t, dir, ".log")
				file := map[string]string{"TABLE": table, "LOG": log}[damage.file]
				if file == "" {
					matches, err := filepath.Glob(filepath.Join(dir, damage.file))
					if err != nil || len(matches) != 1 {
						t.Fatal(damage.file, matches, err)
					}
					file = matches[0]
				}
				paths := strings.NewReplacer("DIR", dir, "TABLE", table, "LOG", log)
				var whole []result
				arguments := func(i int) []string {
					args := strings.Fields(paths.Replace(readingCommands[i]))
					if damage.strict && args[0] == "ldb" {
						args = append(args, "--wal_recovery_mode=kAbsoluteConsistency")
					}
					return args
				}
				for i := range readingCommands {
					whole = append(whole, exec(t, "", arguments(i)...))
				}
				change := damage.change
				if damage.name == "table's index flipped" {
					at := indexOffset(t, table)
					change = func(b []byte) []byte { b[at] ^= 0x10; return b }
				}
				spoil(t, file, change)
				failed := map[string]bool{}
				for i := range readingCommands {
					args := arguments(i)
					got := exec(t, "", args...)
					if strings.Contains(strings.Join(args, " "), "recompress") { // which says how long it took
						whole[i].out, got.out = "", ""
					}
					switch {
					case got.status == whole[i].status && got.out == whole[i].out && got.err == whole[i].err:
					case got.status == 0 || got.err == "":
						t.Errorf("%q: status %d, %q:\n%s", args, got.status, got.err, firstDifferenceOf(got.out, whole[i].out))
					case !strings.Contains(got.err, filepath.Base(file)):
						t.Errorf("%q does not name %s: %s", args, filepath.Base(file), got.err)
					default:
						for _, a := range args {
							failed[a] = true
						}
					}
				}
				for _, m := range damage.must {
					if !failed[m] && !(strings.HasPrefix(name, "d04") && strings.Contains(damage.name, "index")) {
						t.Errorf("no command with %s has failed", m)
					}
				}
				r := exec(t, "", "doctor", dir)
				if r.status != 2 || !strings.Contains(r.out, filepath.Base(file)) {
					t.Errorf("doctor: status %d, %s", r.status, r.out)
				}
			})
		}
	}
}

// pick is the newest file of that kind that the database has.
func pick(t *testing.T, dir, extension string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"+extension))
	if err != nil || len(list) == 0 {
		t.Fatal(dir, extension, err)
	}
	if extension == ".sst" { // one that the default family has
		list = nil
		for _, line := range strings.Split(mustExec(t, "ldb", "--db="+dir, "list_live_files_metadata", "--sort_by_filename"), "\n") {
			if path, rest, ok := strings.Cut(line, " : "); ok && strings.HasSuffix(rest, "'default'") {
				list = append(list, path)
			}
		}
	}
	slices.Sort(list)
	return list[len(list)-1]
}

// indexOffset is where the index of a table begins, or with plain tables its properties.
func indexOffset(t *testing.T, path string) int64 {
	t.Helper()
	f, err := openTableFile(path, tableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	at := int64(f.footer.Index.Offset)
	if f.footer.Plain() {
		at = int64(f.footer.MetaIndex.Offset)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return at + 1
}

//go:build oracle

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What becomes of a flag of RocksDB's: the same as there, in output, status and contents, unless the table says
// otherwise.
const (
	refusedHere = "refused"   // with a reason
	ownOutput   = "own words" // served, and printed in another way
	anyOrder    = "any order" // of lines
	timed       = "timed"     // compared in TestTTLLikeRocksDB, on databases whose values have times
	brokenThere = "broken"    // served, too, where RocksDB's ldb fails at what its help says
)

// audited is a command of RocksDB's ldb, and all flags that its help says it has.
type audited struct {
	args   string // DIR is the database, NUMBER and LOG a table and a log of it
	stdin  string
	before []string          // RocksDB's commands that make what the command needs
	after  []string          // RocksDB's commands that look at the outcome, beside a dump
	state  string            // of the command itself
	writes bool              // so that what it leaves is looked at
	flags  map[string]string // with sample values, and what becomes of them
}

const someLines = "0x6B3030 ==> 0x31\n0x6B303031FF00 ==> 0x00FF\n0x7A ==> 0x\n"

// auditedCommands are all commands that `ldb --help` lists, and singledelete, which it does not.
var auditedCommands = map[string]audited{
	"put":          {writes: true, args: "put k v", flags: map[string]string{"create_if_missing": "", "ttl": timed}},
	"get":          {args: "get k000/0", flags: map[string]string{"ttl": timed}},
	"batchput":     {writes: true, args: "batchput k v l w", flags: map[string]string{"create_if_missing": "", "ttl": timed}},
	"delete":       {writes: true, args: "delete k000/0"},
	"deleterange":  {writes: true, args: "deleterange k000/0 k005"},
	"singledelete": {writes: true, args: "singledelete once", before: []string{"put once 1 --db=DIR"}},
	"scan": {args: "scan --hex", flags: map[string]string{"from=0x6B303035": "", "to=0x6B3130": "", "max_keys=3": "", "no_value": "",
		"ttl": timed, "timestamp": refusedHere, "start_time=1": refusedHere, "end_time=9": refusedHere}},
	"query":                   {writes: true, args: "query", stdin: "put a 1\nget a\ndelete a\nhelp\n", flags: map[string]string{"ttl": timed}},
	"approxsize":              {args: "approxsize --from=a --to=z", flags: map[string]string{"from=k005": "", "to=k010": ""}},
	"checkconsistency":        {args: "checkconsistency"},
	"list_file_range_deletes": {args: "list_file_range_deletes", flags: map[string]string{"max_keys=1": ""}},
	"dump_wal":                {args: "dump_wal --walfile=LOG", flags: map[string]string{"walfile=LOG": "", "header": "", "print_value": "", "write_committed=true": ""}},
	"compact":                 {writes: true, args: "compact", flags: map[string]string{"from=k005": "", "to=k010": ""}},
	"reduce_levels":           {writes: true, args: "reduce_levels --new_levels=2", flags: map[string]string{"new_levels=3": "", "print_old_levels": ""}},
	"change_compaction_style": {writes: true, args: "change_compaction_style --old_compaction_style=0 --new_compaction_style=1",
		flags: map[string]string{"old_compaction_style=1": "", "new_compaction_style=0": ""}},
	"dump": {args: "dump --hex", flags: map[string]string{"from=0x6B303035": "", "to=0x6B3130": "", "max_keys=3": "", "count_only": "", "count_delim=0": "", "stats": ownOutput,
		"path=LOG": ownOutput, "decode_blob_index": "", "dump_uncompressed_blobs": "",
		"ttl": timed, "timestamp": refusedHere, "bucket=9": refusedHere, "start_time=1": refusedHere, "end_time=9": refusedHere}},
	"load":                 {writes: true, args: "load --hex", stdin: someLines, flags: map[string]string{"create_if_missing": "", "disable_wal": "", "bulk_load": "", "compact": ""}},
	"manifest_dump":        {args: "manifest_dump", flags: map[string]string{"verbose": "", "json": ownOutput, "path=MANIFEST": ""}},
	"update_manifest":      {writes: true, args: "update_manifest --update_temperatures", flags: map[string]string{"update_temperatures": ""}},
	"file_checksum_dump":   {args: "file_checksum_dump", state: anyOrder, flags: map[string]string{"path=MANIFEST": brokenThere}},
	"get_property":         {args: "get_property rocksdb.num-files-at-level0"},
	"list_column_families": {args: "list_column_families"},
	"create_column_family": {writes: true, args: "create_column_family fresh", flags: map[string]string{"db=DIR": ""}},
	"drop_column_family":   {writes: true, args: "drop_column_family doomed", before: []string{"create_column_family doomed --db=DIR"}, flags: map[string]string{"db=DIR": ""}},
	"dump_live_files":      {args: "dump_live_files", flags: map[string]string{"decode_blob_index": "", "dump_uncompressed_blobs": ""}},
	"idump": {args: "idump --hex", flags: map[string]string{"from=k005": "", "to=k010": "", "input_key_hex": "", "max_keys=3": "", "count_only": "", "count_delim=0": ownOutput,
		"stats": ownOutput, "decode_blob_index": ""}},
	"list_live_files_metadata": {args: "list_live_files_metadata", flags: map[string]string{"sort_by_filename": ""}},
	"repair":                   {writes: true, args: "repair", state: brokenThere, flags: map[string]string{"verbose": ownOutput}},
	"backup": {writes: true, args: "backup --backup_dir=DIR.backup", after: []string{"restore --db=DIR.restored --backup_dir=DIR.backup", "dump --hex --db=DIR.restored"},
		flags: map[string]string{"backup_env_uri=x": refusedHere, "backup_fs_uri=x": refusedHere, "backup_dir=DIR.other": "", "num_threads=2": "", "stderr_log_level=3": ""}},
	"restore": {writes: true, args: "restore --backup_dir=DIR.backup", before: []string{"backup --db=DIR --backup_dir=DIR.backup"},
		flags: map[string]string{"backup_env_uri=x": refusedHere, "backup_fs_uri=x": refusedHere, "backup_dir=DIR.backup": "", "num_threads=2": "", "stderr_log_level=3": ""}},
	"checkpoint": {writes: true, args: "checkpoint --checkpoint_dir=DIR.checkpoint", after: []string{"dump --hex --db=DIR.checkpoint", "checkconsistency --db=DIR.checkpoint"},
		flags: map[string]string{"checkpoint_dir=DIR.checkpoint": ""}},
	"write_extern_sst": {writes: true, args: "write_extern_sst DIR.sst --hex", stdin: someLines, after: []string{"ingest_extern_sst DIR.sst --db=DIR"}},
	"ingest_extern_sst": {writes: true, args: "ingest_extern_sst DIR.sst", before: []string{"write_extern_sst DIR.sst --hex --db=DIR"},
		flags: map[string]string{"move_files": "", "snapshot_consistency": "", "allow_global_seqno": "", "allow_blocking_flush": "", "ingest_behind": "", "write_global_seqno": ""}},
	"unsafe_remove_sst_file": {writes: true, args: "unsafe_remove_sst_file NUMBER"},
}

// commonFlags are those that `ldb --help` says all commands have, tried with put and scan.
var commonFlags = map[string]string{
	"db=DIR": "", "env_uri=x": refusedHere, "fs_uri=x": refusedHere, "secondary_path=DIR.secondary": "", "key_hex": "", "value_hex": "", "hex": "", "column_family=default": "",
	"ttl": timed, "try_load_options": "", "disable_consistency_checks": "", "ignore_unknown_options": "", "bloom_bits=14": "", "fix_prefix_len=3": "",
	"compression_type=zstd": "", "compression_max_dict_bytes=16384": "", "block_size=4096": "", "auto_compaction=true": "", "db_write_buffer_size=16777216": brokenThere,
	"write_buffer_size=4194304": "", "file_size=2097152": "", "enable_blob_files": refusedHere, "min_blob_size=10": refusedHere, "blob_file_size=2097152": refusedHere,
	"blob_compression_type=no": refusedHere, "enable_blob_garbage_collection": refusedHere, "blob_garbage_collection_age_cutoff=0.25": refusedHere,
	"blob_garbage_collection_force_threshold=0.25": refusedHere, "blob_compaction_readahead_size=2097152": refusedHere,
}

// sstDumpFlags are those of `sst_dump --help`.
var sstDumpFlags = map[string]string{
	"file=TABLE": "", "env_uri=x": refusedHere, "fs_uri=x": refusedHere, "command=scan": "", "output_hex": "", "decode_blob_index": "", "from=k005": "", "to=k010": "", "prefix=k00": "",
	"read_num=3": "", "verify_checksum": "", "input_key_hex": "", "show_properties": "", "set_block_size=512": "", "compression_types=kSnappyCompression,kNoCompression": "",
	"parse_internal_key=0x6B0100000000000000": ownOutput, "compression_level_from=1": "", "compression_level_to=2": "", "compression_max_dict_bytes=1024": "",
	"compression_zstd_max_train_bytes=2048": "", "compression_max_dict_buffer_bytes=4096": "", "compression_use_zstd_finalize_dict": "",
}

var helpFlag = regexp.MustCompile(`--([a-z_]+)`)

func flagName(flag string) string { name, _, _ := strings.Cut(flag, "="); return name }

// compareFlags fails unless the table has what the help text has, and nothing else.
func compareFlags(t *testing.T, what, help string, table map[string]string) {
	t.Helper()
	want, got := map[string]bool{}, map[string]bool{}
	for _, m := range helpFlag.FindAllStringSubmatch(help, -1) {
		want[m[1]] = true
	}
	for flag := range table {
		got[flagName(flag)] = true
	}
	if !maps.Equal(want, got) {
		t.Errorf("%s: RocksDB's help has the flags %q, the table %q", what, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
}

// TestEveryFlagOfRocksDBsHelpIsAudited: a command or flag in the help of Debian's tools that the tables lack is an
// error, and so is one that they have and the help lacks.
func TestEveryFlagOfRocksDBsHelpIsAudited(t *testing.T) {
	help := oracle(t, "", "ldb", "--help").out
	head, commands, ok := strings.Cut(help, "Data Access Commands:\n")
	if !ok {
		t.Fatalf("ldb --help: %q", help)
	}
	compareFlags(t, "ldb", head, commonFlags)
	seen := map[string]bool{"singledelete": true}
	for line := range strings.Lines(commands) {
		if !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			continue
		}
		name := strings.Fields(line)[0]
		seen[name] = true
		c, ok := auditedCommands[name]
		if !ok {
			t.Errorf("ldb %s is not in the table", name)
			continue
		}
		if name == "update_manifest" || name == "unsafe_remove_sst_file" {
			line, _, _ = strings.Cut(line, "MUST NOT")
		}
		compareFlags(t, "ldb "+name, line, c.flags)
	}
	for name := range auditedCommands {
		if !seen[name] {
			t.Errorf("the table has %s, RocksDB's help has not", name)
		}
		if !slices.ContainsFunc(ldbCommands(), func(c ldbCommand) bool { return c.name == name }) {
			t.Errorf("there is no command %s", name)
		}
	}
	sst := oracle(t, "", "sst_dump", "--help")
	flags := ""
	for line := range strings.Lines(sst.out + sst.err) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			flags += line
		}
	}
	compareFlags(t, "sst_dump", flags, sstDumpFlags)
}

// audition is a database to try commands on, in a directory that both tools find again.
type audition struct{ source string }

// on is a copy of it, at the same place each time, after commands of RocksDB's.
func (a audition) on(t *testing.T, c audited) (dir string, paths *strings.Replacer) {
	t.Helper()
	root := filepath.Join(filepath.Dir(a.source), "audition")
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(root, "db")
	if err := os.CopyFS(dir, os.DirFS(a.source)); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.before {
		if r := oracle(t, someLines, "ldb", strings.Fields(strings.ReplaceAll(b, "DIR", dir))...); r.status != 0 {
			t.Fatalf("%s: %s", b, r.err)
		}
	}
	one := func(pattern string) string {
		list, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(list) == 0 {
			t.Fatalf("%s has no %s", dir, pattern)
		}
		return list[0]
	}
	table := one("*.sst")
	return dir, strings.NewReplacer("DIR", dir, "NUMBER", strings.TrimSuffix(filepath.Base(table), ".sst"), "TABLE", table, "LOG", one("*.log"), "MANIFEST", one("MANIFEST-*"))
}

// newerFields are what a MANIFEST of ours has, and manifest_dump prints as later versions do.
var newerFields = regexp.MustCompile(` epoch_number:\d+| tail size: ?\d+| User-defined timestamps persisted: (true|false)`)

func sortedLines(s string) string {
	lines := strings.Split(s, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// try runs a command by both tools on copies of the database, and has RocksDB look at what each left.
func (a audition) try(t *testing.T, name string, c audited, flag, state string) {
	t.Helper()
	var got, want result
	var left [2]string
	var what string
	for i := range left {
		dir, paths := a.on(t, c)
		args := strings.Fields(paths.Replace(c.args))
		if name := flagName(flag); flag != "" {
			args = slices.DeleteFunc(args, func(a string) bool { return flagName(a) == "--"+name })
			args = append(args, "--"+paths.Replace(flag))
		}
		if flagName(flag) != "db" && flagName(flag) != "path" && !strings.HasPrefix(c.args, "dump_wal") {
			args = append(args, "--db="+dir)
		}
		what = strings.Join(args, " ")
		if i == 0 {
			got = exec(t, c.stdin, append([]string{"ldb"}, args...)...)
		} else {
			want = oracle(t, c.stdin, "ldb", args...)
		}
		if !c.writes {
			continue
		}
		look := append([]string{"dump --hex --db=DIR", "list_column_families --db=DIR"}, c.after...)
		for _, l := range look {
			r := oracle(t, "", "ldb", strings.Fields(strings.ReplaceAll(l, "DIR", dir))...)
			left[i] += r.out + r.err
		}
	}
	switch {
	case state == refusedHere:
		if got.status == 0 || got.out != "" || !strings.Contains(got.err, flagName(flag)) || !strings.Contains(got.err, ": ") {
			t.Errorf("%s: expected a refusal with a reason: %+v", what, got)
		}
		return
	case strings.Contains(got.err, "not supported") || strings.Contains(got.err, "Invalid command-line"):
		t.Errorf("%s: %s", what, got.err)
	case state == timed:
		return
	case state == brokenThere && want.status != 0:
		if got.status != 0 {
			t.Errorf("%s: status %d: %s", what, got.status, got.err)
		}
		return
	case state == ownOutput:
		if got.status != want.status || got.out == "" {
			t.Errorf("%s: status %d, RocksDB %d: %s", what, got.status, want.status, got.err)
		}
	default:
		want.out = unavailable.ReplaceAllString(want.out, "$1")
		got.out = newerFields.ReplaceAllString(got.out, "")
		if state == anyOrder {
			got.out, want.out = sortedLines(got.out), sortedLines(want.out)
		}
		if got.status != want.status || got.out != want.out {
			t.Errorf("%s: status %d, RocksDB %d\n%s\n%s%s", what, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
		}
	}
	if left[0] != left[1] {
		t.Errorf("%s: RocksDB finds other things in what ours left: %s", what, firstDifference(left[0], left[1]))
	}
}

// TestEveryCommandAndFlagLikeRocksDB: all of them on a golden database, and on fresh ones that either tool made.
func TestEveryCommandAndFlagLikeRocksDB(t *testing.T) {
	make := func(run func(stdin string, args ...string) result) string {
		dir := filepath.Join(t.TempDir(), "fresh")
		lines := mustExec(t, "ldb", "dump", "--hex", "--db="+filepath.Join(goldenDir, "db", "d03_levels_block", "db"))
		for _, c := range []struct{ stdin, args string }{
			{lines, "load --hex --create_if_missing"}, {someLines, "load --hex"}, {"", "deleterange k001 k0015"}, {"", "compact"}, {"", "put late 1"}, {"", "deleterange k002 k0025"},
			{"", "compact"}, {"", "put later 2"},
		} {
			if r := run(c.stdin, append(strings.Fields(c.args), "--db="+dir)...); r.status != 0 {
				t.Fatalf("%s: %s", c.args, r.err)
			}
		}
		return dir
	}
	for name, source := range map[string]string{
		"golden": copyDB(t, "d03_levels_block"),
		"theirs": make(func(stdin string, args ...string) result { return oracle(t, stdin, "ldb", args...) }),
		"ours":   make(func(stdin string, args ...string) result { return exec(t, stdin, append([]string{"ldb"}, args...)...) }),
	} {
		t.Run(name, func(t *testing.T) {
			a := audition{source}
			for _, command := range slices.Sorted(maps.Keys(auditedCommands)) {
				c := auditedCommands[command]
				a.try(t, command, c, "", c.state)
				if name != "ours" {
					continue // flags do not care who made it
				}
				for _, flag := range slices.Sorted(maps.Keys(c.flags)) {
					a.try(t, command, c, flag, c.flags[flag])
				}
			}
			if name != "ours" {
				return
			}
			for _, flag := range slices.Sorted(maps.Keys(commonFlags)) {
				a.try(t, "scan", audited{args: "scan"}, flag, commonFlags[flag])
				if n := flagName(flag); n == "secondary_path" || strings.HasSuffix(n, "hex") {
					continue // of what reads; what is put is no hex
				}
				a.try(t, "put", audited{args: "put k v"}, flag, commonFlags[flag])
			}
		})
	}
}

// TestEveryFlagOfSSTDumpLikeRocksDB: on a table of the golden database.
func TestEveryFlagOfSSTDumpLikeRocksDB(t *testing.T) {
	table := paths(t, filepath.Join(copyDB(t, "d03_levels_block"), "*.sst"))[0]
	for _, flag := range slices.Sorted(maps.Keys(sstDumpFlags)) {
		args := []string{"--" + strings.ReplaceAll(flag, "TABLE", table)}
		if flagName(flag) != "file" {
			args = append(args, "--file="+table)
		}
		switch name := flagName(flag); {
		case strings.HasPrefix(name, "compression") || name == "set_block_size":
			args = append(args, "--command=recompress")
			switch name {
			case "compression_level_from":
				args = append(args, "--compression_level_to=2", "--compression_types=kZlibCompression")
			case "compression_level_to":
				args = append(args, "--compression_level_from=1", "--compression_types=kZlibCompression")
			case "set_block_size":
				args = append(args, "--compression_types=kNoCompression")
			case "compression_types":
			default:
				args = append(args, "--compression_types=kZSTD")
			}
		case name == "input_key_hex":
			args = append(args, "--command=scan", "--from=0x6B303035")
		case name != "command":
			args = append(args, "--command=scan")
		}
		got := exec(t, "", append([]string{"sst_dump"}, args...)...)
		if sstDumpFlags[flag] == refusedHere {
			if got.status != 1 || !strings.Contains(got.err, flagName(flag)+" is not supported: ") {
				t.Errorf("%q: %+v", args, got)
			}
			continue
		}
		want := oracle(t, "", "sst_dump", args...)
		clean := func(s string) string {
			lines := strings.Split(sizeAndTime.ReplaceAllString(address.ReplaceAllString(s, ""), ""), "\n")
			for i, l := range lines {
				lines[i], _, _ = strings.Cut(l, " Compressed: ")
			}
			return strings.Join(lines, "\n")
		}
		if got.status != want.status || clean(got.out) != clean(want.out) && sstDumpFlags[flag] != ownOutput {
			t.Errorf("%q: status %d, RocksDB %d\n%s\n%s%s", args, got.status, want.status, firstDifference(clean(got.out), clean(want.out)), got.err, want.err)
		}
	}
}

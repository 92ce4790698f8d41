package main

import (
	"fmt"
	"slices"
	"strings"
)

const helpText = `flatrock looks into and changes RocksDB and Flatrock databases.

    flatrock ldb --db=DIR COMMAND ...   keys, column families, files, logs of a database
    flatrock sst_dump FILE|DIR ...      table files by themselves, of both formats
    flatrock doctor DIR                 what a directory is, whether it is well, and advice
    flatrock repair [--dry-run] DIR     make a damaged database open again
    flatrock stress ...                 random operations, crashes and faults, all checked
    flatrock trace KIND COMMAND FILE    block cache and query traces: analyze, replay
    flatrock help ldb [COMMAND]         more about it
    flatrock help sst_dump
    flatrock help trace
    flatrock help doctor
    flatrock help repair
    flatrock help --all

Through a link named ldb or sst_dump it is that tool, with RocksDB 7.8.3's options
and output. db_bench is in the source directory: go run ./bench.

--json makes the reading commands write a JSON object a line, keys and values in hex.
Errors go to stderr. The exit status is 0 if all went well, 1 if the command failed,
2 if it was not understood (1 under the names of RocksDB's tools); doctor: 1 with
warnings, 2 with errors.
`

const ldbText = `flatrock ldb --db=DIR [options] COMMAND ...

Options:
    --column_family=NAME   the family to work on; default: default
    --hex                  keys and values are given and printed in hex, 0x0123
    --key_hex --value_hex  likewise, keys or values only
    --json                 reading commands print a JSON object a line
    --wal_dir=DIR          where the logs are, if not in the database's directory
    --wal_recovery_mode=M  kPointInTimeRecovery, kTolerateCorruptedTailRecords,
                           kAbsoluteConsistency or kSkipAnyCorruptedRecords;
                           default: what the database's OPTIONS file says
    --try_load_options     always: families open as the OPTIONS file describes them

Reading commands open the database read-only, and may do so while another process has
it open. Without --hex, text that is printed ends at a zero byte, as in RocksDB's ldb.

Commands:
`

const sstDumpText = `flatrock sst_dump [--file=]FILE|DIR ... [options]

    --command=check        read all entries (the default)
             scan          and print them
             none          read what opening the file reads
             verify        check all checksums
             identify      tell which files are tables
             raw           write all of FILE.sst, in blocks, to FILE_dump.txt (block-based)
    --output_hex           print keys and values in hex
    --from=K --to=K        entries from K up to, and without, K
    --prefix=K             entries whose keys begin with K
    --input_key_hex        these are in hex, 0x0123
    --read_num=N           at most N entries
    --verify_checksum      check all checksums first
    --show_properties      print the table properties
    --show_summary         print sums over all files
    --parse_internal_key=0xKEY
    --json                 print {"k":hex,"seq":n,"type":n,"v":hex} an entry, in file
                           order, and range deletes (type 15) after all others; and
                           the properties as one object

Any comparator will do, as entries are read in file order; ranges need one of RocksDB's
two. recompress is not built yet.

Examples:
    flatrock sst_dump --json 000012.sst
    flatrock sst_dump --file=DIR --command=verify
    flatrock sst_dump 000012.sst --command=none --show_properties
`

// ldbExamples are shown with the commands.
var ldbExamples = map[string]string{
	"get":                  "flatrock ldb --db=DIR --hex get 0x6B6579",
	"scan":                 "flatrock ldb --db=DIR scan --from=a --to=b --max_keys=10",
	"dump":                 "flatrock ldb --db=DIR --hex dump | flatrock ldb --db=NEW --hex load --create_if_missing",
	"dump_all":             "flatrock ldb dump_all --json --db=DIR",
	"load":                 "flatrock ldb --db=DIR --hex load < dump.txt",
	"idump":                "flatrock ldb --db=DIR --column_family=users idump --max_keys=100 --hex",
	"dump_wal":             "flatrock ldb dump_wal --walfile=DIR/000012.log --header --print_value",
	"manifest_dump":        "flatrock ldb --db=DIR manifest_dump --verbose",
	"create_column_family": "flatrock ldb --db=DIR create_column_family users",
	"batchput":             "flatrock ldb --db=DIR batchput k1 v1 k2 v2",
}

// help prints what args ask for.
func (a *app) help(args []string) error {
	text := helpText
	switch {
	case len(args) == 0:
	case args[0] == "--all":
		text += "\n" + ldbHelp() + "\n" + sstDumpText + "\n" + doctorText + "\n" + repairText + "\n" + stressText
	case args[0] == "stress":
		text = stressText
	case args[0] == "doctor":
		text = doctorText
	case args[0] == "repair":
		text = repairText
	case args[0] == "trace":
		text = traceText
	case args[0] == "sst_dump":
		text = sstDumpText
	case args[0] == "ldb" && len(args) == 1:
		text = ldbHelp()
	case args[0] == "ldb":
		i := slices.IndexFunc(ldbCommands(), func(c ldbCommand) bool { return c.name == args[1] })
		if i < 0 {
			return usagef("no help for %q; see flatrock help ldb", args[1])
		}
		text = ldbCommands()[i].help()
	default:
		return usagef("no help for %q; see flatrock help", strings.Join(args, " "))
	}
	_, err := fmt.Fprint(a.out, text)
	return err
}

func ldbHelp() string {
	var b strings.Builder
	b.WriteString(ldbText)
	for _, c := range ldbCommands() {
		fmt.Fprintf(&b, "    %s\n        %s\n", strings.TrimSpace(c.name+" "+c.usage), c.about)
	}
	fmt.Fprintf(&b, "\nNot built yet: %s.\n", strings.Join(notBuiltCommands, ", "))
	return b.String()
}

// help is about one command.
func (c ldbCommand) help() string {
	text := fmt.Sprintf("flatrock ldb --db=DIR %s\n\n%s\n", strings.TrimSpace(c.name+" "+c.usage), c.about)
	if e := ldbExamples[c.name]; e != "" {
		text += "\nExample:\n    " + e + "\n"
	}
	return text
}

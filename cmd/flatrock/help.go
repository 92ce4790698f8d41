package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/dbbench"
)

const helpText = `flatrock looks into and changes RocksDB and Flatrock databases.

    flatrock ldb --db=DIR COMMAND ...   keys, column families, files, logs of a database
    flatrock sst_dump FILE|DIR ...      table files by themselves, of both formats
    flatrock doctor DIR                 what a directory is, whether it is well, and advice
    flatrock repair [--dry-run] DIR     make a damaged database open again
    flatrock stress ...                 random operations, crashes and faults, all checked
    flatrock trace KIND COMMAND FILE    block cache and query traces: analyze, replay
    flatrock db_bench ...               benchmarks, with the flags of RocksDB's db_bench
    flatrock help ldb [COMMAND]         more about it
    flatrock help sst_dump
    flatrock help trace
    flatrock help db_bench
    flatrock help doctor
    flatrock help repair
    flatrock completion bash|zsh|fish   what makes a shell complete all this
    flatrock version                    what this is
    flatrock help --all                 everything, as a manual

Through a link named ldb, sst_dump or db_bench it is that tool, with RocksDB 7.8.3's
options and output.

--json makes the reading commands write a JSON object a line, keys and values in hex.
Errors go to stderr. The exit status is 0 if all went well, 1 if the command failed,
2 if it was not understood (1 under the names of RocksDB's tools), 130 after Ctrl-C;
doctor: 1 with warnings, 2 with errors.
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
    --file_mode=0600       of the files that a command creates, in octal; default: 0644
    --max_decompressed_size=N  refuse a block, blob or log record that holds more bytes,
                           in files that somebody else may have made
    --try_load_options=false   families open with default options, and not as the OPTIONS
                           file describes them
    --secondary_path=DIR   read beside the process that has the database open
    --ttl                  values end in the time when they were written, as those of
                           RocksDB's DBWithTTL do: it is added and taken off; with
                           --timestamp it is shown, with --start_time=N and
                           --end_time=N, in seconds since 1970, it is asked for
    --bloom_bits=N --block_size=N --compression_type=zstd --compression_max_dict_bytes=N
    --fix_prefix_len=N --file_size=N --write_buffer_size=N --db_write_buffer_size=N
    --auto_compaction=B --merge_operator=stringappend
                           for this run, over what is stored

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
             recompress    print how large FILE would be with other compressions
    --output_hex           print keys and values in hex
    --from=K --to=K        entries from K up to, and without, K
    --prefix=K             entries whose keys begin with K
    --input_key_hex        these are in hex, 0x0123
    --read_num=N           at most N entries
    --verify_checksum      check all checksums first
    --show_properties      print the table properties
    --show_summary         print sums over all files
    --decode_blob_index    a blob index is printed as what it points to
    --set_block_size=N     of recompress; default: 16384
    --compression_types=kSnappyCompression,kZSTD,...
    --compression_level_from=N --compression_level_to=N
    --compression_max_dict_bytes=N --compression_zstd_max_train_bytes=N
    --compression_max_dict_buffer_bytes=N --compression_use_zstd_finalize_dict
    --parse_internal_key=0xKEY   print the parts of an internal key
    --max_decompressed_size=N  refuse blocks that hold more bytes
    --json                 print {"k":hex,"seq":n,"type":n,"v":hex} an entry, in file
                           order, and range deletes (type 15) after all others; and
                           the properties as one object

FILE may be -, for standard input; raw then writes to standard output.

Any comparator will do, as entries are read in file order; ranges need one of RocksDB's
two.

Examples:
    flatrock sst_dump --json 000012.sst
    flatrock sst_dump --file=DIR --command=verify
    flatrock sst_dump 000012.sst --command=none --show_properties
    flatrock sst_dump 000012.sst --command=recompress --compression_types=kZSTD \
        --compression_level_from=1 --compression_level_to=9
`

// help prints what args ask for.
func (a *app) help(args []string) error {
	text := helpText
	switch {
	case len(args) == 0:
	case args[0] == "--all":
		parts := []string{text, ldbHelp()}
		for _, c := range ldbCommands() {
			parts = append(parts, c.help())
		}
		var bench strings.Builder
		dbbench.Help(&bench)
		text = strings.Join(append(parts, sstDumpText, doctorText, repairText, stressText, traceText, bench.String(), completionText), "\n")
	case args[0] == "version":
		text = "flatrock version\n\nSays what was built, from what revision, for what machine, and whose files it knows.\n\nExample:\n    flatrock version\n"
	case args[0] == "stress":
		text = stressText
	case args[0] == "doctor":
		text = doctorText
	case args[0] == "repair":
		text = repairText
	case args[0] == "completion":
		text = completionText
	case args[0] == "trace":
		text = traceText
	case args[0] == "db_bench":
		dbbench.Help(a.out)
		return nil
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
	return b.String()
}

// help is about one command.
func (c ldbCommand) help() string {
	text := fmt.Sprintf("flatrock ldb --db=DIR %s\n\n%s\n", strings.TrimSpace(c.name+" "+c.usage), c.about)
	if c.more != "" {
		text += "\n" + c.more + "\n"
	}
	return text + "\nExample:\n    flatrock ldb " + strings.ReplaceAll(ldbExamples[c.name], "\n", "\n    flatrock ldb ") + "\n"
}

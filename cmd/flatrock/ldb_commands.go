package main

// ldbCommands are the commands of ldb that work, in the order of help.
func ldbCommands() []ldbCommand {
	dump := []string{"from", "to", "max_keys", "count_only", "count_delim"}
	return []ldbCommand{
		{name: "get", usage: "<key>", about: "print the value of a key", run: (*ldb).get},
		{name: "multi_get", usage: "<key> [<key>...]", about: "print keys and values", run: (*ldb).multiGet},
		{name: "scan", usage: "[--from=K] [--to=K] [--max_keys=N] [--no_value]", about: "print live keys in order",
			options: []string{"from", "to", "max_keys", "no_value"}, run: (*ldb).scan},
		{name: "put", usage: "<key> <value> [--create_if_missing]", about: "set a key", options: []string{"create_if_missing"}, run: (*ldb).put},
		{name: "batchput", usage: "<key> <value> [<key> <value>...] [--create_if_missing]", about: "set keys in one batch",
			options: []string{"create_if_missing"}, run: (*ldb).batchPut},
		{name: "delete", usage: "<key>", about: "remove a key", run: (*ldb).delete},
		{name: "singledelete", usage: "<key>", about: "remove a key that was written once", run: (*ldb).singleDelete},
		{name: "deleterange", usage: "<begin> <end>", about: "remove the keys from begin up to, and without, end", run: (*ldb).deleteRange},
		{name: "dump", usage: "[--from=K] [--to=K] [--max_keys=N] [--count_only] [--count_delim=C] [--path=FILE]",
			about: "print live keys, for load; or the log, table or MANIFEST file FILE", options: append([]string{"path"}, dump...), noDB: true, run: (*ldb).dump},
		{name: "dump_all", about: "print the live keys of all families; --json is for scripts", run: (*ldb).dumpAll},
		{name: "idump", usage: "[--from=K] [--to=K] [--input_key_hex] [--max_keys=N] [--count_only] [--count_delim=C]",
			about: "print internal entries: every version that is still there", options: append([]string{"input_key_hex"}, dump...), run: (*ldb).internalDump},
		{name: "load", usage: "[--create_if_missing] [--disable_wal] [--bulk_load] [--compact] < FILE", about: "put what dump printed",
			options: []string{"create_if_missing", "disable_wal", "bulk_load", "compact"}, run: (*ldb).load},
		{name: "compact", usage: "[--from=K] [--to=K]", about: "compact a range of keys", options: []string{"from", "to"}, run: (*ldb).compact},
		{name: "checkconsistency", about: "open the database and all of its files, and compare them with the MANIFEST", run: (*ldb).checkConsistency},
		{name: "list_column_families", about: "print the names of the column families", run: (*ldb).listColumnFamilies},
		{name: "create_column_family", usage: "<name>", about: "add a column family", run: (*ldb).createColumnFamily},
		{name: "drop_column_family", usage: "<name>", about: "remove a column family and its data", run: (*ldb).dropColumnFamily},
		{name: "list_live_files_metadata", usage: "[--sort_by_filename]", about: "print table files with level and family",
			options: []string{"sort_by_filename"}, run: (*ldb).listLiveFiles},
		{name: "list_file_range_deletes", usage: "[--max_keys=N]", about: "print the range deletes in table files",
			options: []string{"max_keys"}, run: (*ldb).listRangeDeletes},
		{name: "manifest_dump", usage: "[--verbose] [--path=FILE]", about: "print what a MANIFEST says",
			options: []string{"verbose", "path"}, noDB: true, run: (*ldb).manifestDump},
		{name: "dump_wal", usage: "--walfile=FILE [--header] [--print_value]", about: "print the batches of a log file",
			options: []string{"walfile", "header", "print_value", "write_committed"}, noDB: true, run: (*ldb).dumpWAL},
	}
}

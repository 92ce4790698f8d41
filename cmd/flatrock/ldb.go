package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// ldb is one run of a command of ldb.
type ldb struct {
	*app
	arguments // without the command
	dir       string
	family    string
	keyHex    bool
	valueHex  bool
	json      bool
}

// ldbCommand is a command of ldb.
type ldbCommand struct {
	name    string
	usage   string // what follows the name
	about   string
	options []string // beyond commonOptions
	noDB    bool     // works without --db
	run     func(l *ldb) error
}

// commonOptions are taken by every command.
var commonOptions = []string{"db", "column_family", "hex", "key_hex", "value_hex", "json", "try_load_options",
	"ignore_unknown_options", "disable_consistency_checks", "wal_recovery_mode", "wal_dir", "secondary_path",
	"bloom_bits", "fix_prefix_len", "compression_type", "compression_max_dict_bytes", "block_size", "auto_compaction", "write_buffer_size", "file_size"}

// refusedOptions are RocksDB's options that every command knows and none serves.
var refusedOptions = []string{"env_uri", "fs_uri", "ttl", "timestamp", "start_time", "end_time", "read_timestamp",
	"db_write_buffer_size", "stats", "bucket", "enable_blob_files", "min_blob_size", "blob_file_size",
	"blob_compression_type", "enable_blob_garbage_collection", "blob_garbage_collection_age_cutoff",
	"blob_garbage_collection_force_threshold", "blob_compaction_readahead_size", "decode_blob_index", "dump_uncompressed_blobs"}

// notBuiltCommands belong to features that Flatrock does not have yet.
var notBuiltCommands = []string{"put_entity", "get_entity",
	"reduce_levels", "change_compaction_style",
	"unsafe_remove_sst_file", "update_manifest"}

// failedf is a command's failure in RocksDB's words.
func failedf(format string, args ...any) error {
	return fmt.Errorf("Failed: "+format, args...)
}

func (a *app) ldb(args []string) error {
	l := &ldb{app: a, arguments: parseArguments(args)}
	if l.has("version") {
		_, err := fmt.Fprintln(a.out, "ldb (Flatrock, as RocksDB 7.8.3)")
		return err
	}
	if len(l.words) == 0 || l.has("help") {
		if !l.has("help") && len(args) > 0 {
			return usagef("Command not specified; see flatrock help ldb")
		}
		return a.help(append([]string{"ldb"}, l.words...))
	}
	name := l.words[0]
	l.words = l.words[1:]
	if slices.Contains(notBuiltCommands, name) {
		return notBuilt("ldb " + name)
	}
	i := slices.IndexFunc(ldbCommands(), func(c ldbCommand) bool { return c.name == name })
	if i < 0 {
		return usagef("Unknown command %q; see flatrock help ldb", name)
	}
	return l.start(ldbCommands()[i])
}

// start checks the options and runs the command.
func (l *ldb) start(c ldbCommand) (err error) {
	if name, found := l.unknown(commonOptions, refusedOptions, c.options); found {
		return usagef("Invalid command-line option %s", name)
	}
	for _, name := range refusedOptions {
		if l.has(name) && !slices.Contains(c.options, name) {
			return notBuilt(fmt.Sprintf("ldb %s --%s", c.name, name))
		}
	}
	l.dir = l.text("db")
	if l.dir == "" && !c.noDB {
		return usagef("--db=DIR must be given for %s", c.name)
	}
	l.family = flatrock.DefaultColumnFamilyName
	if l.has("column_family") {
		l.family = l.text("column_family")
	}
	l.keyHex, l.valueHex, l.json = l.flag("hex") || l.flag("key_hex"), l.flag("hex") || l.flag("value_hex"), l.flag("json")
	return c.run(l)
}

// open opens the database, with the options stored in it.
func (l *ldb) open(readOnly bool) (*flatrock.DB, error) {
	o := flatrock.Options{ReadOnly: readOnly, CreateIfMissing: !readOnly && l.flag("create_if_missing"), WALDir: l.text("wal_dir")}
	mode, err := l.recoveryModeName()
	if err != nil {
		return nil, err
	}
	o.WALRecoveryMode = recoveryModes[mode]
	if err := l.override(&o); err != nil {
		return nil, err
	}
	open := flatrock.Open
	if l.has("secondary_path") { // beside the process that has it open; nothing is written there
		if !readOnly {
			return nil, failedf("--secondary_path: a secondary writes nothing")
		}
		open = flatrock.OpenAsSecondary
	}
	db, err := open(l.dir, &o)
	switch {
	case errors.Is(err, flatrock.ErrNoDatabase) && readOnly:
		return nil, failedf("IO error: No such file or directory: While opening a file for sequentially reading: %s/CURRENT: No such file or directory", l.dir)
	case errors.Is(err, flatrock.ErrNoDatabase):
		return nil, failedf("Invalid argument: %s/CURRENT: does not exist (create_if_missing is false)", l.dir)
	case err != nil:
		return nil, failedf("%w", err)
	}
	return db, nil
}

var recoveryModes = map[string]flatrock.WALRecoveryMode{
	"kTolerateCorruptedTailRecords": flatrock.TolerateCorruptedTailRecords,
	"kAbsoluteConsistency":          flatrock.AbsoluteConsistency,
	"kPointInTimeRecovery":          flatrock.PointInTimeRecovery,
	"kSkipAnyCorruptedRecords":      flatrock.SkipAnyCorruptedRecords,
}

// recoveryModeName is what the command line says, or else the database's OPTIONS
// file, in RocksDB's words.
func (l *ldb) recoveryModeName() (string, error) {
	const normal = "kPointInTimeRecovery"
	if l.has("wal_recovery_mode") {
		name := l.text("wal_recovery_mode")
		if _, ok := recoveryModes[name]; !ok {
			return "", usagef("--wal_recovery_mode: unknown mode %q", name)
		}
		return name, nil
	}
	f, _, err := optionsfile.LoadLatest(mmapfs.OS, l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return normal, nil
	}
	if err != nil {
		return "", failedf("%w", err)
	}
	if o, ok := f.DB().Lookup("wal_recovery_mode"); ok {
		if _, ok := recoveryModes[o.Text()]; ok {
			return o.Text(), nil
		}
	}
	return normal, nil
}

// withDB runs f on the open database, and closes it.
func (l *ldb) withDB(readOnly bool, f func(db *flatrock.DB) error) (err error) {
	db, err := l.open(readOnly)
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil && e != nil {
			err = failedf("%w", e)
		}
	}()
	return f(db)
}

// withFamily runs f on the column family asked for.
func (l *ldb) withFamily(readOnly bool, f func(cf *flatrock.ColumnFamily) error) error {
	return l.withDB(readOnly, func(db *flatrock.DB) error {
		cf := db.ColumnFamily(l.family)
		if cf == nil {
			return l.noFamily()
		}
		return f(cf)
	})
}

func (l *ldb) noFamily() error { return failedf("Non-existing column family %s", l.family) }

// keyOf reads a key of the command line.
func (l *ldb) keyOf(s string) ([]byte, error) {
	if l.keyHex {
		return fromHex(s)
	}
	return []byte(s), nil
}

func (l *ldb) valueOf(s string) ([]byte, error) {
	if l.valueHex {
		return fromHex(s)
	}
	return []byte(s), nil
}

// keyOption reads a key given as an option; nil if it is not there.
func (l *ldb) keyOption(name string) ([]byte, error) {
	if !l.has(name) {
		return nil, nil
	}
	return l.keyOf(l.text(name))
}

// shown is a key or value as it is printed.
func shown(b []byte, hex bool) string {
	if hex {
		return toHex(b)
	}
	return cText(b)
}

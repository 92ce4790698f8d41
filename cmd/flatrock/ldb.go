package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
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
	ttl       bool // values end in the time when they were written

	severalFiles bool // JSON lines name the file

	maxDecompressed int64       // of --max_decompressed_size
	fileMode        fs.FileMode // of --file_mode
	statistics      *statistics.Statistics
}

// ldbCommand is a command of ldb.
type ldbCommand struct {
	name    string
	usage   string // what follows the name
	about   string
	more    string   // in the help of the command alone
	options []string // beyond commonOptions
	noDB    bool     // works without --db
	run     func(l *ldb) error
}

// takesWords reports whether the command has arguments besides options.
func (c *ldbCommand) takesWords() bool {
	return strings.Contains(c.usage, "<") || strings.Contains(c.usage, "[FILE]") || c.name == "dump_all" // which says so itself
}

// ldbNames are the names of all commands.
func ldbNames() (names []string) {
	for _, c := range ldbCommands() {
		names = append(names, c.name)
	}
	return names
}

// commonOptions are taken by every command.
var commonOptions = []string{"db", "column_family", "hex", "key_hex", "value_hex", "json", "try_load_options",
	"ignore_unknown_options", "disable_consistency_checks", "wal_recovery_mode", "wal_dir", "secondary_path",
	"bloom_bits", "fix_prefix_len", "compression_type", "compression_max_dict_bytes", "block_size", "auto_compaction", "write_buffer_size", "file_size",
	"db_write_buffer_size", "merge_operator", "max_decompressed_size", "file_mode"}

// Why options of RocksDB's are known, and not served.
const (
	whyEnvironment = "Flatrock works on the operating system's files alone, and has no other environments or file systems to choose by a URI"
	whyTimestamp   = "user-defined timestamps are not built in Flatrock; it refuses to open column families that have them"
	whyBlobs       = "Flatrock reads blob files and keeps those there are, and does not write them"
	whyFollower    = "followers are not built in Flatrock; --secondary_path reads beside the process that has the database open"
)

// refusedOptions are RocksDB's options that every command knows and none serves, with the reason.
var refusedOptions = map[string]string{
	"env_uri": whyEnvironment, "fs_uri": whyEnvironment, "backup_env_uri": whyEnvironment, "backup_fs_uri": whyEnvironment,
	"read_timestamp": whyTimestamp, "leader_path": whyFollower,
	"enable_blob_files": whyBlobs, "min_blob_size": whyBlobs, "blob_file_size": whyBlobs, "blob_compression_type": whyBlobs,
	"enable_blob_garbage_collection": whyBlobs, "blob_garbage_collection_age_cutoff": whyBlobs, "blob_garbage_collection_force_threshold": whyBlobs,
	"blob_compaction_readahead_size": whyBlobs, "blob_file_starting_level": whyBlobs, "prepopulate_blob_cache": whyBlobs,
}

// refused is the first option, by name, that is known and not served.
func (a *arguments) refused() error {
	for _, name := range slices.Sorted(maps.Keys(a.options)) {
		if why, ok := refusedOptions[name]; ok {
			return fmt.Errorf("--%s is not supported: %s. Nothing was done", name, why)
		}
	}
	return nil
}

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
	if len(l.words) > 0 && l.words[0] == "help" {
		return a.help(append([]string{"ldb"}, l.words[1:]...))
	}
	if len(l.words) == 0 || l.has("help") {
		if !l.has("help") && len(args) > 0 {
			return usagef("Command not specified; see flatrock help ldb")
		}
		return a.help(append([]string{"ldb"}, l.words...))
	}
	name := l.words[0]
	l.words = l.words[1:]
	i := slices.IndexFunc(ldbCommands(), func(c ldbCommand) bool { return c.name == name })
	if i < 0 {
		return usagef("Unknown command %q%s; see flatrock help ldb", name, didYouMean(name, ldbNames()))
	}
	return l.start(ldbCommands()[i])
}

// start checks the options and runs the command.
func (l *ldb) start(c ldbCommand) (err error) {
	if err := l.refused(); err != nil {
		return err
	}
	if name, found := l.unknown(commonOptions, c.options); found {
		return usagef("Invalid command-line option %s for %s%s; see flatrock help ldb %s", name, c.name, didYouMean(name, slices.Concat(commonOptions, c.options)), c.name)
	}
	l.dir = l.text("db")
	if l.dir == "" && !c.noDB {
		return usagef("--db=DIR must be given for %s", c.name)
	}
	l.family = flatrock.DefaultColumnFamilyName
	if l.has("column_family") {
		l.family = l.text("column_family")
	}
	if len(l.words) > 0 && !c.takesWords() { // passed over, as in RocksDB's ldb; perhaps an option without its dashes
		fmt.Fprintf(l.err, "Warning: %s takes no arguments, and passes over %q\n", c.name, l.words)
	}
	l.ttl = l.flag("ttl")
	l.keyHex, l.valueHex, l.json = l.flag("hex") || l.flag("key_hex"), l.flag("hex") || l.flag("value_hex"), l.flag("json")
	if l.maxDecompressed, l.fileMode, err = l.limits(); err != nil {
		return err
	}
	return c.run(l)
}

// open opens the database, with the options stored in it.
func (l *ldb) open(readOnly bool) (*flatrock.DB, error) {
	o := flatrock.Options{ReadOnly: readOnly, CreateIfMissing: !readOnly && l.flag("create_if_missing"), WALDir: l.text("wal_dir"),
		MaxDecompressedSize: l.maxDecompressed, FileMode: l.fileMode, Statistics: l.statistics}
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

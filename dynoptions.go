package flatrock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
)

// Options that change while the database is open. The options that Open was given
// stay as they are in db.opts and cf.opts; those in force are copies behind atomic
// pointers, which SetOptions replaces whole. Whoever needs an option that may
// change reads it through mutable, once per decision; a test sees to that.

// mutable returns the family's options in force. They are not changed in place.
func (cf *ColumnFamily) mutable() *ColumnFamilyOptions { return cf.inForce.Load() }

// mutable returns the database's options in force. They are not changed in place.
func (db *DB) mutable() *Options { return db.inForce.Load() }

// changeableFamilyOptions are the options of a family that SetOptions changes, by
// RocksDB's names. Each is in familySettings or compressionSettings.
var changeableFamilyOptions = []string{
	"write_buffer_size", "max_write_buffer_number",
	"soft_pending_compaction_bytes_limit", "hard_pending_compaction_bytes_limit",
	"level0_file_num_compaction_trigger", "level0_slowdown_writes_trigger", "level0_stop_writes_trigger",
	"target_file_size_base", "target_file_size_multiplier",
	"max_bytes_for_level_base", "max_bytes_for_level_multiplier",
	"disable_auto_compactions", "paranoid_file_checks",
	"max_bytes_for_level_multiplier_additional", "max_compaction_bytes", "ttl", "periodic_compaction_seconds",
	"bottommost_file_compaction_delay", "compaction_options_universal", "compaction_options_fifo",
	"compression", "compression_per_level", "bottommost_compression",
	"compression_opts", "bottommost_compression_opts",
}

// changeableDBOptions are the options of a database that SetDBOptions changes, by
// RocksDB's names. Each is in dbSettings.
var changeableDBOptions = []string{
	"max_total_wal_size", "delayed_write_rate", "avoid_flush_during_shutdown",
	"bytes_per_sync", "wal_bytes_per_sync", "compaction_readahead_size",
	"max_background_jobs", "max_background_compactions", "max_background_flushes", "max_subcompactions",
	"stats_dump_period_sec",
}

// blockOptionsAtOpen are the options of block-based tables that SetOptions does not
// change: open files depend on them. The others count for files that are written later.
var blockOptionsAtOpen = []string{
	"no_block_cache", "cache_index_and_filter_blocks", "pin_l0_filter_and_index_blocks_in_cache",
	"initial_auto_readahead_size", "max_auto_readahead_size", "num_file_reads_for_auto_readahead",
}

// SetOptions is ColumnFamily.SetOptions for the default column family.
func (db *DB) SetOptions(options map[string]string) error {
	return db.defaultCF.SetOptions(options)
}

// SetOptions changes options of the family while it is open, by RocksDB's names and
// in the form they have in OPTIONS files: {"write_buffer_size": "128M"}. All of them
// change together, or none. They are in force when SetOptions returns: sizes of memtables
// from the next one on, options of files for files that are begun later, triggers and limits at
// once. Options of block-based tables change inside their object:
// {"block_based_table_factory": "{block_size=8192;}"}.
//
// A name that is unknown or cannot change while open, or a value that does not
// fit, gives ErrInvalidArgument, and nothing has changed then. The options are kept in a new
// OPTIONS file; if only that fails, they are in force, and the error says so.
// RocksDB: SetOptions.
func (cf *ColumnFamily) SetOptions(options map[string]string) error {
	db := cf.db
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if len(options) == 0 {
		return fmt.Errorf("%w: SetOptions without options", ErrInvalidArgument)
	}
	db.optionsMu.Lock()
	defer db.optionsMu.Unlock()
	if err := db.usable(cf); err != nil {
		return err
	}
	o, err := changedFamily(cf.mutable(), options)
	if err == nil {
		err = o.validate(cf.name)
	}
	if err != nil {
		return fmt.Errorf("SetOptions of column family %q: %w", cf.name, err)
	}
	cf.inForce.Store(o)
	db.log.Info("SetOptions", "family", cf.name, "options", optionList(options))
	return db.optionsChanged()
}

// SetDBOptions changes options of the database while it is open; see
// ColumnFamily.SetOptions. RocksDB: SetDBOptions.
func (db *DB) SetDBOptions(options map[string]string) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if len(options) == 0 {
		return fmt.Errorf("%w: SetDBOptions without options", ErrInvalidArgument)
	}
	db.optionsMu.Lock()
	defer db.optionsMu.Unlock()
	if err := db.usable(db.defaultCF); err != nil {
		return err
	}
	o := *db.mutable()
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if err := setChangeable(name, options[name], changeableDBOptions, dbSettings, &o); err != nil {
			return fmt.Errorf("SetDBOptions: %w", err)
		}
	}
	if err := o.fill(); err != nil {
		return fmt.Errorf("SetDBOptions: %w", err)
	}
	db.inForce.Store(&o)
	db.log.Info("SetDBOptions", "options", optionList(options))
	return db.optionsChanged()
}

// optionsChanged saves the options in force, recomputes what follows from them, and lets
// background work look again.
func (db *DB) optionsChanged() error {
	err := db.writeOptionsLocked()
	if err != nil {
		err = fmt.Errorf("the options are in force, but no OPTIONS file could be written: %w", err)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.setFamiliesLocked(db.families)
	db.delays.setMax(db.mutable().DelayedWriteRate)
	db.updateStallLocked(db.families...)
	return err
}

// changedFamily is a copy of old with the options set.
func changedFamily(old *ColumnFamilyOptions, options map[string]string) (*ColumnFamilyOptions, error) {
	o := *old
	for _, name := range slices.Sorted(maps.Keys(options)) {
		value := options[name]
		switch name {
		case "table_factory", "block_based_table_factory":
			t, err := changedTable(o.Table, optionsfile.Option{Key: name, Value: value})
			if err != nil {
				return nil, err
			}
			o.Table = t
			continue
		}
		table := familySettings
		if settingNamed(compressionSettings, name) != nil {
			if _, ok := o.Table.(BlockBasedTableOptions); !ok {
				return nil, fmt.Errorf("%w: %s: plain tables are never compressed", ErrInvalidArgument, name)
			}
			table = compressionSettings
			if name == "compression_per_level" {
				o.CompressionPerLevel = nil // the setting appends, and the old ones are shared
			}
		}
		if err := setChangeable(name, value, changeableFamilyOptions, table, &o); err != nil {
			return nil, err
		}
	}
	filled := o.withDefaults()
	for name, value := range options {
		if s := settingNamed(familySettings, name); s != nil && s.get != nil && isZero(value) && s.get(&o) != s.get(filled) {
			return nil, fmt.Errorf("%w: %s=%s: want a positive number", ErrInvalidArgument, name, value)
		}
	}
	return filled, nil
}

func isZero(value string) bool {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err == nil && n == 0
}

// changedTable is the table format with the fields set that v has.
func changedTable(old TableFactory, v optionsfile.Option) (TableFactory, error) {
	b, ok := old.(BlockBasedTableOptions)
	if !ok {
		return nil, fmt.Errorf("%w: %s: the family has %ss, whose options are fixed at open", ErrInvalidArgument, v.Key, old.tableFactoryName())
	}
	fields, err := v.Object()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	for _, f := range fields {
		if f.Key == "id" && strings.HasPrefix(f.Text(), old.tableFactoryName()) {
			continue
		}
		if slices.Contains(blockOptionsAtOpen, f.Key) {
			return nil, fmt.Errorf("%w: %s: %s is fixed at open", ErrInvalidArgument, v.Key, f.Key)
		}
		s := settingNamed(blockSettings, f.Key)
		if s == nil {
			return nil, fmt.Errorf("%w: %s: unknown option %q of block-based tables", ErrInvalidArgument, v.Key, f.Key)
		}
		if err := s.set(&b, f); err != nil {
			return nil, fmt.Errorf("%w: %s: %s=%s: %w", ErrInvalidArgument, v.Key, f.Key, f.Value, err)
		}
	}
	return b, nil
}

// setChangeable sets one option by name, if it is one of those that may change.
func setChangeable[T any](name, value string, changeable []string, table []setting[T], o *T) error {
	s := settingNamed(table, name)
	switch {
	case s == nil:
		return fmt.Errorf("%w: unknown option %q; those that can be set are %s", ErrInvalidArgument, name, strings.Join(changeable, ", "))
	case !slices.Contains(changeable, name):
		return fmt.Errorf("%w: option %q is fixed at open; those that can be set are %s", ErrInvalidArgument, name, strings.Join(changeable, ", "))
	}
	v := optionsfile.Option{Key: name, Value: strings.TrimSpace(value)}
	if n, err := strconv.ParseFloat(v.Value, 64); err == nil && n < 0 {
		return fmt.Errorf("%w: %s=%s: want no negative number", ErrInvalidArgument, name, value)
	}
	if err := s.set(o, v); err != nil {
		if errors.Is(err, ErrInvalidArgument) {
			return fmt.Errorf("%s=%s: %w", name, value, err)
		}
		return fmt.Errorf("%w: %s=%s: %w", ErrInvalidArgument, name, value, err)
	}
	return nil
}

func settingNamed[T any](table []setting[T], name string) *setting[T] {
	for i := range table {
		if table[i].name == name {
			return &table[i]
		}
	}
	return nil
}

// optionList is for the log.
func optionList(options map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		list = append(list, name+"="+options[name])
	}
	return strings.Join(list, " ")
}

// OptionValues returns the family's options in force as its OPTIONS section has
// them, by RocksDB's names. Those of the table format carry its name and a dot in front,
// as in "BlockBasedTable.block_size". RocksDB: GetOptions, as text.
func (cf *ColumnFamily) OptionValues() map[string]string {
	f := optionsfile.New(writtenAs)
	cf.writeOptions(f)
	values := map[string]string{}
	for _, s := range f.Sections {
		prefix := ""
		if t := s.Factory(); t != "" {
			prefix = t + "."
		} else if s.Title != optionsfile.TitleFamily {
			continue
		}
		for _, o := range s.Options {
			values[prefix+o.Key] = o.Value
		}
	}
	return values
}

// DBOptionValues returns the database's options in force as the OPTIONS file has
// them, by RocksDB's names. RocksDB: GetDBOptions, as text.
func (db *DB) DBOptionValues() map[string]string {
	f := optionsfile.New(writtenAs)
	db.writeDBOptions(f)
	values := map[string]string{}
	for _, o := range f.DB().Options {
		values[o.Key] = o.Value
	}
	return values
}

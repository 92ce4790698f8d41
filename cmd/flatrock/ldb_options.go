package main

import (
	"errors"
	"strconv"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// tuning changes a family's options as one option of the command line says.
type tuning struct {
	name  string
	apply func(o *flatrock.ColumnFamilyOptions, value string) error
}

// positive reads the value of an option that RocksDB wants above zero.
func positive(name, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 0, 64)
	if err != nil {
		return 0, failedf("%s has an invalid value", name)
	}
	if n <= 0 {
		return 0, failedf("%s must be > 0.", name)
	}
	return n, nil
}

// blockBased changes the options of a block-based table, and no others.
func blockBased(o *flatrock.ColumnFamilyOptions, change func(*flatrock.BlockBasedTableOptions)) {
	t, ok := o.Table.(flatrock.BlockBasedTableOptions)
	if ok || o.Table == nil {
		change(&t)
		o.Table = t
	}
}

// number makes a tuning of a positive number.
func number(name string, set func(o *flatrock.ColumnFamilyOptions, n int64)) tuning {
	return tuning{name, func(o *flatrock.ColumnFamilyOptions, value string) error {
		n, err := positive(name, value)
		if err == nil {
			set(o, n)
		}
		return err
	}}
}

var tunings = []tuning{
	number("bloom_bits", func(o *flatrock.ColumnFamilyOptions, n int64) {
		blockBased(o, func(b *flatrock.BlockBasedTableOptions) { b.FilterPolicy = flatrock.BloomFilter(float64(n)) })
	}),
	number("block_size", func(o *flatrock.ColumnFamilyOptions, n int64) {
		blockBased(o, func(b *flatrock.BlockBasedTableOptions) { b.BlockSize = int(n) })
	}),
	number("fix_prefix_len", func(o *flatrock.ColumnFamilyOptions, n int64) { o.PrefixExtractor = flatrock.FixedPrefix(int(n)) }),
	number("write_buffer_size", func(o *flatrock.ColumnFamilyOptions, n int64) { o.WriteBufferSize = n }),
	number("file_size", func(o *flatrock.ColumnFamilyOptions, n int64) { o.TargetFileSizeBase = n }),
	number("compression_max_dict_bytes", func(o *flatrock.ColumnFamilyOptions, n int64) { o.CompressionOptions.MaxDictBytes = int(n) }),
	{"compression_type", func(o *flatrock.ColumnFamilyOptions, value string) error {
		name := value
		if name == "no" {
			name = "none"
		}
		c, err := flatrock.ParseCompression(name)
		if err != nil {
			return failedf("Unknown compression algorithm: %s", value)
		}
		o.Compression, o.CompressionPerLevel = c, nil
		return nil
	}},
	{"merge_operator", func(o *flatrock.ColumnFamilyOptions, value string) (err error) {
		if o.MergeOperator, err = flatrock.ParseMergeOperator(value); err != nil {
			return failedf("%w", err)
		}
		return nil
	}},
	{"auto_compaction", func(o *flatrock.ColumnFamilyOptions, value string) error {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return failedf("auto_compaction has an invalid value")
		}
		o.DisableAutoCompactions = !on
		return nil
	}},
}

// override sets the families' options in o to what the command line wants other than
// what is stored: defaults with --try_load_options=false, and tunings.
func (l *ldb) override(o *flatrock.Options) error {
	stored, err := l.boolean("try_load_options", true)
	if err != nil {
		return err
	}
	if l.has("db_write_buffer_size") {
		n, err := strconv.ParseInt(l.text("db_write_buffer_size"), 0, 64)
		switch {
		case err != nil:
			return failedf("db_write_buffer_size has an invalid value")
		case n < 0:
			return failedf("db_write_buffer_size must be >= 0.")
		}
		o.DBWriteBufferSize = n
	}
	tuned := false
	for _, t := range tunings {
		if l.has(t.name) {
			if l.options[t.name].bare {
				return usagef("--%s: expected a value", t.name)
			}
			tuned = true
		}
	}
	if stored && !tuned && !l.ttl {
		return nil
	}
	if o.ColumnFamilies, err = l.families(stored, o); err != nil {
		return err
	}
	for _, d := range o.ColumnFamilies {
		for _, t := range tunings {
			if l.has(t.name) {
				if err := t.apply(d.Options, l.text(t.name)); err != nil {
					return err
				}
			}
		}
	}
	if l.ttl {
		return l.ttlOperators(o.ColumnFamilies)
	}
	return nil
}

// families are those of the database with options that may be changed: the stored
// ones, or defaults. A database that does not exist has the default family.
func (l *ldb) families(stored bool, o *flatrock.Options) (list []flatrock.ColumnFamilyDescriptor, err error) {
	read := *o
	read.ReadOnly, read.CreateIfMissing = true, false
	if stored {
		db, err := flatrock.Open(l.dir, &read)
		if err == nil {
			for _, cf := range db.ColumnFamilies() {
				options := *cf.Options()
				list = append(list, flatrock.ColumnFamilyDescriptor{Name: cf.Name(), Options: &options})
			}
			err = db.Close()
		}
		if err == nil || !errors.Is(err, flatrock.ErrNoDatabase) {
			return list, err
		}
	}
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil { // Open will tell
		return []flatrock.ColumnFamilyDescriptor{{Name: flatrock.DefaultColumnFamilyName, Options: &flatrock.ColumnFamilyOptions{}}}, nil
	}
	for _, f := range s.Families {
		options := &flatrock.ColumnFamilyOptions{}
		if f.Comparator == flatrock.ReverseBytewise.Name() {
			options.Comparator = flatrock.ReverseBytewise
		}
		list = append(list, flatrock.ColumnFamilyDescriptor{Name: f.Name, Options: options})
	}
	return list, nil
}

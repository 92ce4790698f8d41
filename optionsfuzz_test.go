package flatrock

import (
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// FuzzStoredOptions opens a database with any OPTIONS file: an error, or a database that closes.
func FuzzStoredOptions(f *testing.F) {
	image := hostileDatabase(f)
	names, err := image.List("/db")
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	for _, n := range names {
		if strings.HasPrefix(n, "OPTIONS-") {
			all = append(all, n)
			f.Add(readDamaged(f, image, n), true)
		}
	}
	f.Add([]byte("[Version]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n[DBOptions]\n[CFOptions \"default\"]\n  compression=kZSTD\n  prefix_extractor={id=fixed:3;}\n[TableOptions/PlainTable \"default\"]\n  user_key_len=-1\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, readOnly bool) {
		mem := image.Kill()
		for _, n := range all {
			writeDamaged(t, mem, n, text)
		}
		db, err := Open("/db", &Options{FS: mem, ReadOnly: readOnly})
		if err != nil {
			return
		}
		db.Get(nil, hostileKey(3), nil)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzSetOptions sets any option of a family or of the database to any value: it is refused by name,
// or can be set to what it says it is.
func FuzzSetOptions(f *testing.F) {
	db, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	for name, value := range db.DBOptionValues() {
		f.Add(name, value, true)
	}
	for _, s := range [][2]string{{"write_buffer_size", "1048576"}, {"compression_opts", "1:2:3"}, {"compaction_options_universal", "{size_ratio=1;}"},
		{"block_based_table_factory", "{block_size=4096;}"}, {"level0_stop_writes_trigger", "-1"}, {"ttl", "99999999999999999999"}, {"max_bytes_for_level_multiplier", "nan"}} {
		f.Add(s[0], s[1], false)
	}
	f.Fuzz(func(t *testing.T, name, value string, whole bool) {
		if strings.Contains(name, "period") || strings.Contains(name, "rate") || strings.Contains(name, "background") {
			return // what it changes goes on in the background of all inputs that follow
		}
		if !whole {
			if err := db.SetOptions(map[string]string{name: value}); err == nil {
				if err := db.SetOptions(map[string]string{name: value}); err != nil {
					t.Fatalf("%s=%q is taken, and then refused: %v", name, value, err)
				}
			}
			return
		}
		if err := db.SetDBOptions(map[string]string{name: value}); err != nil {
			return
		}
		now := db.DBOptionValues()[name]
		if err := db.SetDBOptions(map[string]string{name: now}); err != nil {
			t.Fatalf("%s=%q is %q, which is refused: %v", name, value, now, err)
		}
	})
}

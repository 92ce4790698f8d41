package flatrock

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// changeableFields are the fields of T that the named settings set: each is tried
// on a zero value.
func changeableFields[T any](t *testing.T, names []string, tables ...[]setting[T]) map[string]bool {
	t.Helper()
	fields := map[string]bool{}
	for _, name := range names {
		var s *setting[T]
		for _, table := range tables {
			if found := settingNamed(table, name); found != nil {
				s = found
			}
		}
		if s == nil {
			t.Fatalf("changeable option %q is in no table of settings", name)
		}
		changed := ""
		for _, value := range []string{"7", "true", "false", "kZSTD", "{level=7;}", "{level=7;enabled=true;}", "1:2", "a", "{max_table_files_size=7;}", "{size_ratio=7;}"} {
			before, after := new(T), new(T)
			if s.set(after, optionsfile.Option{Key: name, Value: value}) != nil {
				continue
			}
			b, a := reflect.ValueOf(before).Elem(), reflect.ValueOf(after).Elem()
			for i := range b.NumField() {
				if b.Type().Field(i).IsExported() && !reflect.DeepEqual(b.Field(i).Interface(), a.Field(i).Interface()) {
					changed = b.Type().Field(i).Name
				}
			}
		}
		if changed == "" {
			t.Errorf("option %q: no value of the test's changes a field", name)
		}
		fields[changed] = true
	}
	return fields
}

// TestOptionsThatChangeAreReadInForce looks for code that reads an option that
// SetOptions may change from where only the options of Open are.
func TestOptionsThatChangeAreReadInForce(t *testing.T) {
	fields := changeableFields(t, changeableFamilyOptions, familySettings, compressionSettings)
	maps.Copy(fields, changeableFields(t, changeableDBOptions, dbSettings))
	if !fields["WriteBufferSize"] || !fields["Compression"] || !fields["DelayedWriteRate"] {
		t.Fatalf("the fields found lack some that are known: %v", fields)
	}
	set := token.NewFileSet()
	packages, err := parser.ParseDir(set, ".", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range packages {
		ast.Inspect(p, func(n ast.Node) bool {
			outer, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			inner, ok := outer.X.(*ast.SelectorExpr)
			if !ok || inner.Sel.Name != "opts" {
				return true
			}
			seen++
			if fields[outer.Sel.Name] {
				t.Errorf("%s: opts.%s is what Open was given, and SetOptions may have changed it since: read it through mutable()", set.Position(n.Pos()), outer.Sel.Name)
			}
			return true
		})
	}
	if seen < 20 {
		t.Fatalf("only %d reads of options found in the sources", seen)
	}
}

func openDyn(t *testing.T, fsys mmapfs.FS, o *ColumnFamilyOptions) *DB {
	t.Helper()
	db, err := Open("db", &Options{FS: fsys, CreateIfMissing: true, ColumnFamily: o})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestSetOptionsTakesEffectAndIsKept(t *testing.T) {
	fsys := mmapfs.NewMem()
	db := openDyn(t, fsys, &ColumnFamilyOptions{DisableAutoCompactions: true})
	ctx := context.Background()
	value := make([]byte, 1000)
	fill := func(n int) {
		t.Helper()
		for i := range n {
			if err := db.Put(nil, fmt.Appendf(nil, "k%06d", i), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	memtables := func() uint64 {
		db.mu.Lock()
		defer db.mu.Unlock()
		return db.defaultCF.memID
	}
	before := memtables()
	fill(600)
	if n := memtables() - before; n != 1 {
		t.Fatalf("%d new memtables with the default buffer, want 1", n)
	}
	before = memtables()
	if err := db.SetOptions(map[string]string{"write_buffer_size": "128K", "max_write_buffer_number": "8"}); err != nil {
		t.Fatal(err)
	}
	if o := db.DefaultColumnFamily().Options(); o.WriteBufferSize != 128<<10 || o.MaxWriteBufferNumber != 8 {
		t.Fatalf("options in force: %d, %d", o.WriteBufferSize, o.MaxWriteBufferNumber)
	}
	fill(600)
	if n := memtables() - before; n < 4 {
		t.Fatalf("%d new memtables after the buffer became small, want several", n)
	}
	fill(1)
	fill(1)
	if err := db.SetOptions(map[string]string{"level0_file_num_compaction_trigger": "2", "disable_auto_compactions": "false"}); err != nil {
		t.Fatal(err)
	}
	err := db.waitUntil(ctx, func() (bool, error) { return len(db.defaultCF.files.version.Levels[0]) < 2, db.background })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.SetOptions(map[string]string{"compression": "kNoCompression", "block_based_table_factory": "{block_size=16384;filter_policy=bloomfilter:10:false;}"}); err != nil {
		t.Fatal(err)
	}
	if err := db.SetDBOptions(map[string]string{"max_total_wal_size": "16M", "delayed_write_rate": "1048576"}); err != nil {
		t.Fatal(err)
	}
	if db.logLimit.Load() != 16<<20 {
		t.Errorf("log limit %d", db.logLimit.Load())
	}
	if got := db.DBOptionValues()["delayed_write_rate"]; got != "1048576" {
		t.Errorf("delayed_write_rate=%s", got)
	}
	want := db.DefaultColumnFamily().OptionValues()
	if want["BlockBasedTable.block_size"] != "16384" || want["compression"] != "kNoCompression" || want["write_buffer_size"] != "131072" {
		t.Fatalf("option values: %v", want)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openDyn(t, fsys, nil)
	defer db.Close()
	if got := db.DefaultColumnFamily().OptionValues(); !maps.Equal(got, want) {
		t.Errorf("options after reopen: %v, want %v", got, want)
	}
}

func TestSetOptionsRefusesWhatItCannotDo(t *testing.T) {
	db := openDyn(t, mmapfs.NewMem(), nil)
	before := db.DefaultColumnFamily().OptionValues()
	for _, c := range []struct{ name, value, want string }{
		{"write_buffer_sise", "1", "unknown option"},
		{"num_levels", "4", "fixed at open"},
		{"write_buffer_size", "many", "expected a number"},
		{"write_buffer_size", "-1", "negative"},
		{"write_buffer_size", "9223372036854775807", "want at most"},
		{"level0_stop_writes_trigger", "0", "positive"},
		{"disable_auto_compactions", "maybe", "expected true or false"},
		{"compression", "kNone", "unknown compression"},
		{"block_based_table_factory", "{blocksize=3;}", "unknown option"},
		{"block_based_table_factory", "{no_block_cache=true;}", "fixed at open"},
		{"block_based_table_factory", "{block_size=", "expected"},
		{"table_factory", "{block_align=true;}", "BlockAlign"},
		{"max_total_wal_size", "1", "unknown option"},
	} {
		err := db.SetOptions(map[string]string{c.name: c.value, "target_file_size_base": "12345"})
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s=%s: %v, want %q", c.name, c.value, err, c.want)
		}
	}
	if err := db.SetDBOptions(map[string]string{"write_buffer_size": "1"}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("SetDBOptions with an option of a family: %v", err)
	}
	if err := db.SetDBOptions(map[string]string{"max_manifest_file_size": "1"}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "fixed at open") {
		t.Errorf("SetDBOptions with a fixed option: %v", err)
	}
	if err := db.SetOptions(nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("SetOptions without options: %v", err)
	}
	if got := db.DefaultColumnFamily().OptionValues(); !maps.Equal(got, before) {
		t.Errorf("options after refusals: %v, want %v", got, before)
	}
	cf, err := db.CreateColumnFamily("plain", &ColumnFamilyOptions{Table: PlainTableOptions{HashTableRatio: TotalOrder}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cf.SetOptions(map[string]string{"compression": "kZSTD"}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("compression of plain tables: %v", err)
	}
	if err := cf.SetOptions(map[string]string{"table_factory": "{user_key_len=4;}"}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("table options of plain tables: %v", err)
	}
	if err := db.DropColumnFamily(cf); err != nil {
		t.Fatal(err)
	}
	if err := cf.SetOptions(map[string]string{"write_buffer_size": "1M"}); !errors.Is(err, ErrColumnFamilyDropped) {
		t.Errorf("a dropped family: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.SetOptions(map[string]string{"write_buffer_size": "1M"}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed database: %v", err)
	}
}

// TestSetOptionsDuringWrites is for the race detector: writers, flushes and
// compactions go on while options change.
func TestSetOptionsDuringWrites(t *testing.T) {
	db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{WriteBufferSize: 64 << 10})
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 3000 && err == nil; i++ {
			err = db.Put(nil, fmt.Appendf(nil, "k%06d", i*7919%3000), make([]byte, 300))
		}
		done <- err
	}()
	for i := 0; ; i++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
		err := db.SetOptions(map[string]string{
			"write_buffer_size":                  fmt.Sprint(64<<10 + i%3*(32<<10)),
			"level0_file_num_compaction_trigger": fmt.Sprint(2 + i%4),
			"target_file_size_base":              fmt.Sprint(32<<10 + i%2*(32<<10)),
			"compression":                        []string{"kLZ4Compression", "kNoCompression"}[i%2],
		})
		if err == nil {
			err = db.SetDBOptions(map[string]string{"max_total_wal_size": fmt.Sprint(i % 2 * (1 << 20))})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

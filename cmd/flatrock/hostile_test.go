package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/hostile"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// hostileDirectory is a small database with a file of every kind that Flatrock writes.
func hostileDirectory(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, CreateMissingColumnFamilies: true,
		ColumnFamily: &flatrock.ColumnFamilyOptions{Table: flatrock.BlockBasedTableOptions{BlockSize: 300, FilterPolicy: flatrock.BloomFilter(8)}, Compression: flatrock.NoCompression},
		ColumnFamilies: []flatrock.ColumnFamilyDescriptor{
			{Name: "plain", Options: &flatrock.ColumnFamilyOptions{PrefixExtractor: flatrock.FixedPrefix(3), Table: flatrock.PlainTableOptions{}}},
			{Name: "zstd", Options: &flatrock.ColumnFamilyOptions{Compression: flatrock.ZSTDCompression}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for _, cf := range db.ColumnFamilies() {
			for i := range 30 {
				if err := cf.Put(nil, fmt.Appendf(nil, "key%03d", i), bytes.Repeat(fmt.Appendf(nil, "value %03d ", i), 6)); err != nil {
					t.Fatal(err)
				}
			}
			if round == 0 {
				if err := cf.Flush(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	copied := t.TempDir() // as after kill -9: the logs are not flushed
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

// hostileCommands are what looks at a damaged database, DIR, or at the file FILE of it.
var hostileCommands = [][]string{
	{"doctor", "DIR"}, {"doctor", "--json", "DIR"}, {"repair", "--dry-run", "DIR"},
	{"ldb", "--db=DIR", "dump_all"}, {"ldb", "--db=DIR", "scan", "--column_family=plain"}, {"ldb", "--db=DIR", "idump", "--hex"},
	{"ldb", "--db=DIR", "idump", "--column_family=plain"}, {"ldb", "--db=DIR", "get", "key001"}, {"ldb", "--db=DIR", "multi_get", "key001", "key029", "--column_family=zstd"},
	{"ldb", "--db=DIR", "manifest_dump", "--verbose"}, {"ldb", "--db=DIR", "manifest_dump", "--json"}, {"ldb", "--db=DIR", "dump_live_files"},
	{"ldb", "--db=DIR", "list_column_families"}, {"ldb", "--db=DIR", "list_live_files_metadata"}, {"ldb", "--db=DIR", "list_file_range_deletes"},
	{"ldb", "--db=DIR", "checkconsistency"}, {"ldb", "--db=DIR", "approxsize", "--from=a", "--to=z"}, {"ldb", "--db=DIR", "file_checksum_dump"},
	{"ldb", "--db=DIR", "get_property", "rocksdb.stats"}, {"ldb", "--db=DIR", "dump", "--count_only"},
	{"ldb", "dump", "--path=FILE"}, {"ldb", "dump_wal", "--walfile=FILE", "--header", "--print_value"}, {"ldb", "manifest_dump", "--path=FILE"},
	{"sst_dump", "FILE"}, {"sst_dump", "--command=scan", "FILE", "--show_properties"}, {"sst_dump", "--command=verify", "FILE"},
	{"sst_dump", "--command=raw", "FILE"}, {"sst_dump", "--command=identify", "DIR"}, {"sst_dump", "--json", "FILE"},
	{"ldb", "--db=DIR", "multi_get_entity", "key001"}, {"ldb", "--db=DIR", "get_entity", "key002", "--json"}, {"ldb", "--db=DIR", "idump", "--decode_blob_index"},
	{"sst_dump", "--command=recompress", "FILE"}, {"sst_dump", "--command=scan", "--decode_blob_index", "FILE"}, {"ldb", "--db=DIR", "update_manifest", "--update_temperatures"},
	{"ldb", "--db=DIR", "unsafe_remove_sst_file", "12"}, {"ldb", "--db=DIR", "reduce_levels", "--new_levels=1"},
	{"ldb", "--db=DIR", "change_compaction_style", "--old_compaction_style=0", "--new_compaction_style=1"},
	{"ldb", "--db=DIR", "put", "k", "v"}, {"ldb", "--db=DIR", "batchput", "k", "v"}, {"ldb", "--db=DIR", "delete", "k"}, {"ldb", "--db=DIR", "singledelete", "k"},
	{"ldb", "--db=DIR", "deleterange", "key001", "key009"}, {"ldb", "--db=DIR", "put_entity", "k", "c:v"}, {"ldb", "--db=DIR", "load"}, {"ldb", "--db=DIR", "query"},
	{"ldb", "--db=DIR", "create_column_family", "fresh"}, {"ldb", "--db=DIR", "drop_column_family", "zstd"}, {"ldb", "--db=DIR", "checkpoint", "--checkpoint_dir=DIR.checkpoint"},
	{"ldb", "--db=DIR", "backup", "--backup_dir=DIR.backup"}, {"ldb", "--db=DIR", "write_extern_sst", "DIR.sst"}, {"ldb", "--db=DIR", "ingest_extern_sst", "FILE"},
	{"ldb", "--db=DIR", "scan", "--ttl"}, {"ldb", "--db=DIR", "compact", "--ttl"}, {"ldb", "--db=DIR", "restore", "--backup_dir=DIR"},
	{"ldb", "--db=DIR", "compact"}, {"repair", "DIR"}, {"ldb", "--db=DIR", "repair"},
}

// TestHostileCommandsAreAll: no command of ldb is left out.
func TestHostileCommandsAreAll(t *testing.T) {
	for _, c := range ldbCommands() {
		if !slices.ContainsFunc(hostileCommands, func(args []string) bool { return slices.Contains(args, c.name) }) {
			t.Errorf("hostile files are not shown to ldb %s", c.name)
		}
	}
}

// errTooMuch ends a command that says too much.
var errTooMuch = errors.New("more output than a small database has")

type limitedOutput struct{ left int }

func (w *limitedOutput) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errTooMuch
	}
	return len(p), nil
}

// surviveHostile runs a command on what is damaged: any exit status, in bounded memory and output, and no
// panic. A hang shows as all goroutines' stacks.
func surviveHostile(t *testing.T, what string, stdin string, args []string) {
	t.Helper()
	const memory, output = 400 << 20, 16 << 20
	out := &limitedOutput{output}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	held := mmapfs.OffHeap()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		var errs bytes.Buffer
		status := run(context.Background(), append([]string{"flatrock"}, args...), strings.NewReader(stdin), out, &errs)
		var wrong error
		switch {
		case status != 0 && status != 1 && status != 2:
			wrong = fmt.Errorf("status %d: %s", status, errs.String())
		case status != 0 && errs.Len() == 0 && args[0] != "doctor": // whose report it is
			wrong = fmt.Errorf("status %d without a message", status)
		case errs.Len() > output:
			wrong = errTooMuch
		}
		done <- wrong
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s, %q: %v", what, args, err)
		}
	case <-time.After(time.Minute):
		stacks := make([]byte, 64<<10)
		t.Fatalf("%s, %q: hangs\n%s", what, args, stacks[:runtime.Stack(stacks, true)])
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > memory {
		t.Errorf("%s, %q: %d bytes allocated", what, args, n)
	}
	if out.left < 0 {
		t.Errorf("%s, %q: %v", what, args, errTooMuch)
	}
	if now := mmapfs.OffHeap(); now.Mapped != held.Mapped || now.ArenaReserved != held.ArenaReserved {
		t.Errorf("%s, %q: off the heap %d bytes mapped and %d reserved afterwards, %d and %d before", what, args, now.Mapped, now.ArenaReserved, held.Mapped, held.ArenaReserved)
	}
}

// TestToolsSurviveHostileFiles spoils one file of a database in every way, with checksums as they fall or
// made right, and has each tool look at what is left.
func TestToolsSurviveHostileFiles(t *testing.T) {
	rounds := 2
	if testing.Short() {
		rounds = 1
	}
	source := hostileDirectory(t)
	files, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(12, 12))
	turn := 0
	for _, file := range files {
		name := filepath.Base(file)
		pristine, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := manifest.ParseName(name)
		if len(pristine) == 0 || kind == manifest.KindInfoLog {
			continue
		}
		other, err := os.ReadFile(files[rng.IntN(len(files))])
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range hostile.Ways {
			for round := range rounds {
				dir := filepath.Join(t.TempDir(), "db")
				if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
					t.Fatal(err)
				}
				b := way.Spoil(rng, bytes.Clone(pristine), other)
				sealed := (turn+round)%2 == 0
				if sealed {
					hostile.Seal(name, pristine, b)
				}
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
				paths := strings.NewReplacer("DIR", dir, "FILE", filepath.Join(dir, name))
				for range 2 {
					var args []string
					for _, a := range hostileCommands[turn%len(hostileCommands)] {
						args = append(args, paths.Replace(a))
					}
					turn++
					surviveHostile(t, fmt.Sprintf("%s %s, sealed %v", name, way.Name, sealed), "", args)
				}
			}
		}
	}
	if turn < len(hostileCommands) {
		t.Errorf("%d of %d commands ran", turn, len(hostileCommands))
	}
}

// TestToolsSurviveOddDirectories: what stands in the place of a file is a directory, a link to nowhere, a link to
// itself, or a device without an end; names are odd.
func TestToolsSurviveOddDirectories(t *testing.T) {
	source := hostileDirectory(t)
	names, err := mmapfs.OS.List(source)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []struct {
		name string
		make func(path string) error
	}{
		{"directory", func(path string) error { return os.MkdirAll(filepath.Join(path, "in", "it"), 0o700) }},
		{"link to nowhere", func(path string) error { return os.Symlink(filepath.Join(filepath.Dir(path), "nowhere"), path) }},
		{"link to itself", func(path string) error { return os.Symlink(path, path) }},
		{"link to its directory", func(path string) error { return os.Symlink(filepath.Dir(path), path) }},
		{"endless device", func(path string) error { return os.Symlink("/dev/zero", path) }},
	}
	if runtime.GOOS == "windows" {
		kinds = kinds[:1]
	}
	turn := 0
	for _, name := range names {
		for _, kind := range kinds {
			dir := filepath.Join(t.TempDir(), "db")
			if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := kind.make(path); err != nil {
				t.Fatal(err)
			}
			for _, odd := range []string{"999999999999999999999.sst", "18446744073709551615.log", "-5.sst", "MANIFEST-", "OPTIONS-x", "\xff\xfe.sst", "000009.SST"} {
				if err := os.WriteFile(filepath.Join(dir, odd), []byte("odd"), 0o600); err != nil && runtime.GOOS == "linux" {
					t.Fatal(err)
				}
			}
			paths := strings.NewReplacer("DIR", dir, "FILE", path)
			for range 3 {
				var args []string
				for _, a := range hostileCommands[turn%len(hostileCommands)] {
					args = append(args, paths.Replace(a))
				}
				turn++
				surviveHostile(t, fmt.Sprintf("%s is a %s", name, kind.name), "", args)
			}
		}
	}
}

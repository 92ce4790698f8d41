//go:build oracle

package oracle_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// externFamilies are families of both formats.
func externFamilies() map[string]*flatrock.ColumnFamilyOptions {
	return map[string]*flatrock.ColumnFamilyOptions{
		"default": {Table: flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10), BlockSize: 512}},
		"reverse": {Comparator: flatrock.ReverseBytewise, Compression: flatrock.ZSTDCompression},
		"hash": {PrefixExtractor: flatrock.FixedPrefix(4), Table: flatrock.PlainTableOptions{},
			MemTable: flatrock.MemTableOptions{Kind: flatrock.HashSkipList, BucketCount: 1000}},
		"total": {Table: flatrock.PlainTableOptions{HashTableRatio: flatrock.TotalOrder}},
	}
}

type contents map[string]map[string]string // by family

func (c contents) clone() contents {
	d := contents{}
	for name, m := range c {
		d[name] = maps.Clone(m)
	}
	return d
}

// rocksDBHas asks the C++ program whether dir holds what it should, before and after
// a compaction of everything by RocksDB.
func (c contents) rocksDBHas(t *testing.T, dir string) {
	t.Helper()
	var expected, script strings.Builder
	script.WriteString("open\ncheck EXPECTED\n")
	for _, name := range slices.Sorted(maps.Keys(c)) {
		backward := " backward"
		if name == "hash" || name == "total" {
			backward = ""
		}
		fmt.Fprintf(&expected, "family %s%s\n", name, backward)
		ks := slices.Sorted(maps.Keys(c[name]))
		if strings.HasPrefix(name, "reverse") {
			slices.Reverse(ks)
		}
		for _, k := range ks {
			fmt.Fprintf(&expected, "has %s %s\n", word(k), word(c[name][k]))
		}
		fmt.Fprintf(&expected, "lacks %s\nlacks %s\n", word("key09999"), word("aaaa"))
		fmt.Fprintf(&script, "compact %s\n", name)
	}
	script.WriteString("check EXPECTED\nclose\n")
	tmp := t.TempDir()
	want := filepath.Join(tmp, "expected")
	for path, text := range map[string]string{want: expected.String(), filepath.Join(tmp, "script"): strings.ReplaceAll(script.String(), "EXPECTED", want)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := runRocksDB(dir, filepath.Join(tmp, "script")); err != nil {
		t.Fatal(err)
	}
}

// flatrockHas is rocksDBHas by Flatrock.
func (c contents) flatrockHas(t *testing.T, db *flatrock.DB) {
	t.Helper()
	for name, want := range c {
		it, err := db.ColumnFamily(name).NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for k, v := range it.All() {
			got[string(k)] = string(v)
		}
		if err := it.Close(); err != nil || !maps.Equal(got, want) {
			t.Fatalf("family %s: %d keys, want %d, %v", name, len(got), len(want), err)
		}
	}
}

// ingestInto adds a file with the keys from to to by step, and updates c.
func (c contents) ingestInto(t *testing.T, cf *flatrock.ColumnFamily, o *flatrock.IngestExternalFileOptions, from, to, step int, value string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.sst")
	w, err := flatrock.NewSstFileWriter(path, &flatrock.SstFileWriterOptions{Family: cf})
	if err != nil {
		t.Fatal(err)
	}
	var ks []string
	for i := from; i < to; i += step {
		ks = append(ks, fmt.Sprintf("key%05d", i))
	}
	if cf.Name() == "reverse" {
		slices.Reverse(ks)
	}
	for i, k := range ks {
		if i%7 == 3 {
			err = w.Delete([]byte(k))
			delete(c[cf.Name()], k)
		} else {
			err = w.Put([]byte(k), []byte(value))
			c[cf.Name()][k] = value
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := cf.IngestExternalFile(context.Background(), []string{path}, o); err != nil {
		t.Fatal(err)
	}
}

// TestIngestedCheckpointedExported: a database with ingested files of every kind, its
// checkpoints, and a database that imported its families are opened by RocksDB, which
// finds what they should hold, compacts them, and finds it again; then Flatrock does.
func TestIngestedCheckpointedExported(t *testing.T) {
	ctx := context.Background()
	tmp := t.TempDir()
	dir := filepath.Join(tmp, "db")
	o := &flatrock.Options{CreateIfMissing: true, CreateMissingColumnFamilies: true}
	for name, f := range externFamilies() {
		o.ColumnFamilies = append(o.ColumnFamilies, flatrock.ColumnFamilyDescriptor{Name: name, Options: f})
	}
	db, err := flatrock.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	now := contents{}
	for _, cf := range db.ColumnFamilies() {
		now[cf.Name()] = map[string]string{}
		now.ingestInto(t, cf, &flatrock.IngestExternalFileOptions{MoveFiles: true}, 0, 3000, 3, "bottom") // into the last level, number 0
		for i := 0; i < 3000; i += 5 {
			k := fmt.Sprintf("key%05d", i)
			must(cf.Put(nil, []byte(k), []byte("written")))
			now[cf.Name()][k] = "written"
		}
		now.ingestInto(t, cf, nil, 500, 2500, 4, "over a memtable")
		s, err := db.NewSnapshot()
		must(err)
		now.ingestInto(t, cf, &flatrock.IngestExternalFileOptions{WriteGlobalSeqno: true, VerifyChecksumsBeforeIngest: true}, 6000, 6100, 1, "beside a snapshot")
		s.Release()
		must(cf.Delete(nil, []byte("key06001")))
		delete(now[cf.Name()], "key06001")
	}
	copies := map[string]contents{}
	for name, co := range map[string]*flatrock.CheckpointOptions{"flushed": nil, "with logs": {LogSizeForFlush: flatrock.NeverFlush}} {
		_, err := db.CreateCheckpoint(ctx, filepath.Join(tmp, name), co)
		must(err)
		copies[name] = now.clone()
		must(db.Put(nil, []byte("key05000"), []byte("after "+name)))
		now["default"]["key05000"] = "after " + name
	}
	other, err := flatrock.Open(filepath.Join(tmp, "imported"), &flatrock.Options{CreateIfMissing: true})
	must(err)
	imported := contents{"default": {}}
	for name, f := range externFamilies() {
		m, err := db.ExportColumnFamily(ctx, db.ColumnFamily(name), filepath.Join(tmp, "export "+name))
		must(err)
		if name == "hash" || name == "total" {
			name += "2"
		} else {
			name = "reverse2"
			if f.Comparator == nil {
				name = "bytewise2"
			}
		}
		cf, err := other.CreateColumnFamilyWithImport(ctx, name, f, nil, m)
		must(err)
		must(cf.Put(nil, []byte("key07000"), []byte("later")))
		from := strings.TrimSuffix(name, "2")
		if from == "bytewise" {
			from = "default"
		}
		imported[name] = maps.Clone(now[from])
		imported[name]["key07000"] = "later"
	}
	must(db.Close())
	must(other.Close())
	now.rocksDBHas(t, dir)
	copies["flushed"].rocksDBHas(t, filepath.Join(tmp, "flushed"))
	copies["with logs"].rocksDBHas(t, filepath.Join(tmp, "with logs"))
	imported.rocksDBHasForward(t, filepath.Join(tmp, "imported"))
	for where, want := range map[string]contents{"db": now, "flushed": copies["flushed"], "with logs": copies["with logs"], "imported": imported} {
		again, err := flatrock.Open(filepath.Join(tmp, where), nil)
		must(err)
		want.flatrockHas(t, again)
		must(again.VerifyChecksum(ctx))
		must(again.Close())
	}
}

// rocksDBHasForward is rocksDBHas through ldb, which asks for no family by kind.
func (c contents) rocksDBHasForward(t *testing.T, dir string) {
	t.Helper()
	for name, want := range c {
		out, err := tool("ldb", "--db="+dir, "--try_load_options", "--hex", "--column_family="+name, "scan")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(out) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), " : ")
			key, err1 := hex.DecodeString(strings.TrimPrefix(k, "0x"))
			value, err2 := hex.DecodeString(strings.TrimPrefix(v, "0x"))
			if err1 != nil || err2 != nil || want[string(key)] != string(value) {
				t.Fatalf("ldb scan of %s: %q", name, line)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("ldb scan of %s: %d keys, want %d", name, n, len(want))
		}
	}
	if out, err := tool("ldb", "--db="+dir, "--try_load_options", "checkconsistency"); err != nil || strings.TrimSpace(out) != "OK" {
		t.Fatalf("ldb checkconsistency: %v\n%s", err, out)
	}
}

// TestIngestsRocksDBsFiles: files of RocksDB's SstFileWriter, and a file that RocksDB
// wrote a number into, join a database of Flatrock.
func TestIngestsRocksDBsFiles(t *testing.T) {
	tmp := t.TempDir()
	theirs, dir, file := filepath.Join(tmp, "theirs"), filepath.Join(tmp, "db"), filepath.Join(tmp, "x.sst")
	text := "key1 ==> new\nkey3 ==> new\n"
	if err := os.WriteFile(filepath.Join(tmp, "in"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tool("ldb", "--db="+theirs, "--create_if_missing", "put", "key1", "old"); err != nil {
		t.Fatal(err)
	}
	if _, err := tool("sh", "-c", fmt.Sprintf("ldb --db=%s write_extern_sst %s < %s && ldb --db=%s ingest_extern_sst %s", theirs, file, filepath.Join(tmp, "in"), theirs, file)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(theirs, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"key1", "key2"} {
		if err := db.Put(nil, []byte(k), []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.IngestExternalFile(context.Background(), []string{file}, nil); err != nil {
		t.Fatal(err)
	}
	numbered := 0
	for _, f := range files { // one of them is the ingested one, with RocksDB's number in it
		if db.IngestExternalFile(context.Background(), []string{f}, nil) == nil {
			numbered++
		}
	}
	if numbered != 1 {
		t.Errorf("%d of RocksDB's own files %q are external files, want 1", numbered, files)
	}
	want := contents{"default": {"key1": "new", "key2": "old", "key3": "new"}}
	want.flatrockHas(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want.rocksDBHas(t, dir)
}

// TestBlobsAfterFlatrock: RocksDB still reads its blob database after Flatrock has
// compacted it and deleted a part.
func TestBlobsAfterFlatrock(t *testing.T) {
	const golden = "../testdata/golden/db/d08_blob"
	dir := filepath.Join(t.TempDir(), "db")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(golden, "db"))); err != nil {
		t.Fatal(err)
	}
	db, err := flatrock.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := contents{}
	for _, cf := range db.ColumnFamilies() {
		want[cf.Name()] = map[string]string{}
		it, err := cf.NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for k, v := range it.All() {
			if n++; n%3 == 0 {
				if err := cf.Delete(nil, k); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want[cf.Name()][string(k)] = string(v)
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		o := &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}
		if err := cf.CompactRange(context.Background(), o, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want.rocksDBHas(t, dir)
	if db, err = flatrock.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	want.flatrockHas(t, db)
	m, err := db.GetColumnFamilyMetaData()
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(m.BlobFiles); len(m.BlobFiles) == 0 {
		t.Errorf("no blob file is left: %s", text)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBackupsTravel: RocksDB's ldb restores our backups, and ours restores RocksDB's.
func TestBackupsTravel(t *testing.T) {
	tmp, ctx := t.TempDir(), context.Background()
	dir, backups := filepath.Join(tmp, "db"), filepath.Join(tmp, "backups")
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, FileChecksumGenFactory: flatrock.FileChecksumGenCrc32c})
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := flatrock.OpenBackupEngine(backups, nil)
	must(err)
	want := contents{"default": {}}
	for round := range 3 {
		for i := round * 100; i < round*100+300; i++ {
			k, v := fmt.Sprintf("key%05d", i), fmt.Sprintf("round %d", round)
			must(db.Put(nil, []byte(k), []byte(v)))
			want["default"][k] = v
		}
		_, err := e.CreateNewBackup(ctx, db, &flatrock.CreateBackupOptions{FlushBeforeBackup: round == 1, AppMetadata: "x"})
		must(err)
	}
	must(db.Close())
	for _, engine := range []string{"ours", "theirs"} {
		restored := filepath.Join(tmp, "restored from "+engine)
		out, err := tool("ldb", "--db="+restored, "--backup_dir="+backups, "restore")
		must(err)
		if !strings.Contains(out, "restore from backup OK") {
			t.Fatal(out)
		}
		want.rocksDBHasForward(t, restored)
		// A backup by RocksDB, into the same directory, restored by us.
		out, err = tool("ldb", "--db="+restored, "--backup_dir="+backups, "backup")
		must(err)
		if !strings.Contains(out, "create new backup OK") {
			t.Fatal(out)
		}
		again, err := flatrock.OpenBackupEngine(backups, nil)
		must(err)
		for _, i := range again.GetBackupInfo() {
			must(again.VerifyBackup(ctx, i.BackupID))
		}
		ours := filepath.Join(tmp, "restored by us from "+engine)
		must(again.RestoreDBFromLatestBackup(ctx, ours, ""))
		db, err := flatrock.Open(ours, nil)
		must(err)
		want.flatrockHas(t, db)
		must(db.Close())
	}
	if out, err := tool("ldb", "--db="+dir, "file_checksum_dump"); err != nil || !strings.Contains(out, "FileChecksumCrc32c") {
		t.Fatalf("file_checksum_dump: %v\n%s", err, out)
	}
}

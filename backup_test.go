package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// openRestored restores a backup and opens it.
func openRestored(t *testing.T, e *BackupEngine, id uint32, dir, walDir string, families map[string]*ColumnFamilyOptions) *DB {
	t.Helper()
	if err := e.RestoreDBFromBackup(context.Background(), id, dir, walDir); err != nil {
		t.Fatal(err)
	}
	o := ingestOptions(e.fs, families)
	o.WALDir, o.CreateIfMissing, o.CreateMissingColumnFamilies = walDir, false, false
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestBackups: each backup gives the state of its moment back, shares table files with
// the others, and goes without harm to them.
func TestBackups(t *testing.T) {
	mem, ctx := mmapfs.NewMem(), context.Background()
	db, err := Open("/db", ingestOptions(mem, ingestFamilies()))
	if err != nil {
		t.Fatal(err)
	}
	e, err := OpenBackupEngine("/backups", mem)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rng, now := rand.New(rand.NewPCG(2, 2)), model{}
	var then []model
	for i := range 4 {
		fillCheckpointed(t, db, rng, now, 60)
		id, err := e.CreateNewBackup(ctx, db, &CreateBackupOptions{FlushBeforeBackup: i%2 == 0, AppMetadata: fmt.Sprint("note ", i)})
		if err != nil || id != uint32(i+1) {
			t.Fatal(id, err)
		}
		then = append(then, now.clone())
	}
	fillCheckpointed(t, db, rng, now, 60)
	must(db.Close())
	if e, err = OpenBackupEngine("/backups", mem); err != nil { // read from the files
		t.Fatal(err)
	}
	shared, listed := len(dirNames(t, mem, "/backups/shared_checksum")), 0
	for i, info := range e.GetBackupInfo() {
		must(e.VerifyBackup(ctx, info.BackupID))
		if info.AppMetadata != fmt.Sprint("note ", i) || info.Sequence == 0 || info.Timestamp == 0 {
			t.Errorf("backup %d: %+v", i, info)
		}
		for _, f := range info.Files {
			if strings.HasPrefix(f.RelativeFilename, "shared") {
				listed++
			}
		}
		walDir := ""
		if i == 3 {
			walDir = "/restored-logs"
		}
		r := openRestored(t, e, info.BackupID, "/restored", walDir, ingestFamilies()) // over the one before
		checkModel(t, fmt.Sprint("backup ", info.BackupID), r, then[i])
		must(r.Close())
	}
	if shared >= listed {
		t.Errorf("%d files in shared_checksum for %d listed: nothing is shared", shared, listed)
	}
	must(e.DeleteBackup(2))
	must(e.PurgeOldBackups(2))
	if n := len(e.GetBackupInfo()); n != 2 || len(dirNames(t, mem, "/backups/private")) != 2 || len(dirNames(t, mem, "/backups/shared_checksum")) >= shared {
		t.Errorf("%d backups, %v, %v", n, dirNames(t, mem, "/backups/private"), dirNames(t, mem, "/backups/shared_checksum"))
	}
	r := openRestored(t, e, 3, "/restored", "", ingestFamilies())
	checkModel(t, "backup 3 after deletions", r, then[2])
	must(r.Close())
	if err := e.RestoreDBFromBackup(ctx, 2, "/restored", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted backup: %v", err)
	}

	// A damaged file is named, by verification and restore.
	name := e.GetBackupInfo()[1].Files[0].RelativeFilename
	f, err := mem.OpenReadWrite("/backups/" + name)
	must(err)
	_, err = f.WriteAt([]byte{0x5a}, 100)
	must(err)
	must(f.Close())
	for what, err := range map[string]error{"VerifyBackup": e.VerifyBackup(ctx, 4), "restore": e.RestoreDBFromLatestBackup(ctx, "/restored", "")} {
		where := new(CorruptionError)
		if !errors.As(err, &where) || where.File != name {
			t.Errorf("%s of a damaged file: %v", what, err)
		}
	}
	if _, err := Open("/restored", &Options{FS: mem}); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("what a failed restore left opens: %v", err)
	}
}

// TestBackupIsWholeOrAbsent fails the n-th operation of a backup, and dies there: the
// backups that are listed verify, restore, and are at least those acknowledged.
func TestBackupIsWholeOrAbsent(t *testing.T) {
	step := 2
	if testing.Short() {
		step = 7
	}
	ctx := context.Background()
	for n := 1; ; n += step {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		db, err := Open("/db", &Options{FS: mem, CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		now := model{}
		fillCheckpointed(t, db, rand.New(rand.NewPCG(3, 4)), now, 40)
		e, err := OpenBackupEngine("/backups", mem)
		if err == nil {
			_, err = e.CreateNewBackup(ctx, db, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put(nil, []byte("k00001"), []byte("second")); err != nil {
			t.Fatal(err)
		}
		now["default"]["k00001"] = "second"
		e.fs = fault
		fault.FailNth(n, mmapfs.OpAll, true)
		id, err := e.CreateNewBackup(ctx, db, nil)
		injected := fault.Injected()
		for what, fsys := range map[string]*mmapfs.MemFS{"running": mem, "killed": mem.Kill(), "power loss": mem.Crash(nil)} {
			again, oerr := OpenBackupEngine("/backups", fsys)
			if oerr != nil {
				t.Fatalf("n=%d, %s: %v", n, what, oerr)
			}
			infos := again.GetBackupInfo()
			if len(infos) < 1 || err == nil && len(infos) != 2 {
				t.Fatalf("n=%d, %s: %d backups, the second gave %d, %v", n, what, len(infos), id, err)
			}
			for _, i := range infos {
				if verr := again.VerifyBackup(ctx, i.BackupID); verr != nil {
					t.Fatalf("n=%d, %s: %v", n, what, verr)
				}
			}
			if len(infos) == 2 {
				r := openRestored(t, again, 2, "/restored", "", nil)
				checkModel(t, what, r, now)
				r.Close()
			}
			if gerr := again.GarbageCollect(); gerr != nil {
				t.Fatal(gerr)
			}
		}
		db.Close()
		if injected == 0 {
			if n < 15 {
				t.Fatalf("a backup has only %d operations", n)
			}
			return
		}
	}
}

// TestGoldenBackup restores RocksDB's own backups, which share files and hold a log.
func TestGoldenBackup(t *testing.T) {
	e, err := OpenBackupEngine(goldenDB(t, "d25_backup"), nil)
	if err != nil {
		t.Fatal(err)
	}
	infos := e.GetBackupInfo()
	if len(infos) != 3 || infos[0].AppMetadata != "app-meta-0" {
		t.Fatalf("%+v", infos)
	}
	for _, i := range infos {
		if err := e.VerifyBackup(context.Background(), i.BackupID); err != nil {
			t.Fatal(err)
		}
		db := openRestored(t, e, i.BackupID, filepath.Join(t.TempDir(), "db"), "", nil)
		compareListings(t, listDB(t, db, nil), readListing(t, fmt.Sprintf("testdata/golden/db/d25_backup/expected.backup%d.jsonl", i.BackupID)))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFileChecksums: files have the checksum that RocksDB would give them, and damage
// that no block knows of is found.
func TestFileChecksums(t *testing.T) {
	if h := FileChecksumGenCrc32c.New(); true {
		h.Write([]byte("123456"))
		h.Write([]byte("789"))
		if got := h.Sum(nil); !bytes.Equal(got, []byte{0xe3, 0x06, 0x92, 0x83}) {
			t.Fatalf("CRC32C is %x", got)
		}
	}
	mem, ctx := mmapfs.NewMem(), context.Background()
	families := ingestFamilies()
	o := ingestOptions(mem, families)
	o.FileChecksumGenFactory = FileChecksumGenCrc32c
	db, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fillCheckpointed(t, db, rand.New(rand.NewPCG(7, 7)), model{}, 100)
	for i, cf := range db.ColumnFamilies() {
		path := fmt.Sprintf("/f%d.sst", i)
		externalOf(t, cf, path, map[string]string{"k00001": "file"})
		must(cf.IngestExternalFile(ctx, []string{path}, nil))
		must(cf.CompactRange(ctx, nil, []byte("k00300"), nil))
	}
	must(db.VerifyFileChecksums(ctx))
	must(db.Close())
	db, err = Open("/db", o)
	must(err)
	files, err := db.GetLiveFilesMetaData()
	must(err)
	for _, f := range files {
		if f.FileChecksumFuncName != "FileChecksumCrc32c" || len(f.FileChecksum) != 4 {
			t.Fatalf("%s has checksum %x (%q)", f.Name, f.FileChecksum, f.FileChecksumFuncName)
		}
		handle, err := mem.OpenReadWrite("/db/" + f.Name)
		must(err)
		var b [1]byte
		_, err = handle.ReadAt(b[:], int64(f.Size)/2)
		must(err)
		flipped := [1]byte{b[0] ^ 1}
		_, err = handle.WriteAt(flipped[:], int64(f.Size)/2)
		must(err)
		where := new(CorruptionError)
		if err := db.VerifyFileChecksums(ctx); !errors.As(err, &where) || where.File != f.Name {
			t.Fatalf("a flipped bit in %s: %v", f.Name, err)
		}
		_, err = handle.WriteAt(b[:], int64(f.Size)/2)
		must(err)
		must(handle.Close())
	}
	must(db.VerifyFileChecksums(ctx))
	must(db.Close())
	again := ingestOptions(mem, families)
	again.FileChecksumGenFactory = NoFileChecksums // else the OPTIONS file has it
	db, err = Open("/db", again)
	must(err)
	if err := db.VerifyFileChecksums(ctx); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("without a factory: %v", err)
	}
	must(db.Close())
}

// FuzzBackupMeta: an error, or files that stay below the directory.
func FuzzBackupMeta(f *testing.F) {
	f.Add([]byte("1796063469\n120\nmetadata 6170702D6D6574612D30\n2\nshared_checksum/000011_sXNZ4GVJ558GLI1LQPQHE_2779.sst crc32 1556137120\nprivate/1/CURRENT crc32 2659179228\n"))
	f.Add([]byte("schema_version 2.1\n1\n2\nfuture x\n1\nprivate/1/MANIFEST-000005 crc32 1 size 5 temp kWarm\n// FOOTER\n"))
	f.Add([]byte("1\n2\n1\n../../etc/passwd crc32 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := parseBackupMeta("meta/1", bytes.NewReader(b))
		if err != nil {
			return
		}
		for _, f := range i.Files {
			if p := filepath.Join("/b", filepath.FromSlash(f.RelativeFilename)); !strings.HasPrefix(p, "/b"+string(os.PathSeparator)) && os.PathSeparator == '/' {
				t.Fatalf("%q leaves the directory", f.RelativeFilename)
			}
		}
	})
}

// TestBackupsRecordWhatTheyHold: a bit that flips while a table is read for its checksum, or is copied, is an
// error of the backup, and not a checksum that its files do not have.
func TestBackupsRecordWhatTheyHold(t *testing.T) {
	ctx := t.Context()
	for _, left := range []bool{false, true} { // a file from a backup that nobody knows any more
		for nth := range 2 {
			mem := mmapfs.NewMem()
			fault := mmapfs.NewFault(mem)
			db := mustOpen(t, fault, &Options{CreateIfMissing: true})
			if err := errors.Join(db.Put(nil, []byte("key"), []byte("value")), db.Flush(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			engine := func() *BackupEngine {
				t.Helper()
				e, err := OpenBackupEngine("/backups", fault)
				if err != nil {
					t.Fatal(err)
				}
				return e
			}
			if left {
				if _, err := engine().CreateNewBackup(ctx, db, nil); err != nil {
					t.Fatal(err)
				}
				if err := mem.Remove("/backups/meta/1"); err != nil {
					t.Fatal(err)
				}
			}
			reads := 0
			fault.SetReadHook(func(name string, p []byte) {
				if strings.HasPrefix(name, db.dir) && strings.HasSuffix(name, ".sst") && len(p) > 0 {
					if reads == nth {
						p[0] ^= 1
					}
					reads++
				}
			})
			e := engine()
			id, err := e.CreateNewBackup(ctx, db, nil)
			fault.SetReadHook(nil)
			if err == nil {
				err = e.VerifyBackup(ctx, id)
			} else if !errors.Is(err, ErrCorruption) {
				t.Errorf("left %v, read %d: %v", left, nth, err)
			} else {
				err = nil
			}
			if err != nil {
				t.Errorf("left %v, read %d: the backup is not what it says: %v", left, nth, err)
			}
			e = engine()
			if id, err = e.CreateNewBackup(ctx, db, nil); err == nil {
				err = e.VerifyBackup(ctx, id)
			}
			if err := errors.Join(err, db.Close()); err != nil {
				t.Errorf("left %v, read %d: without a flip: %v", left, nth, err)
			}
		}
	}
}

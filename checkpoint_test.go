package flatrock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// fillCheckpointed writes to all families, in files and in memory.
func fillCheckpointed(t *testing.T, db *DB, rng *rand.Rand, now model, n int) {
	t.Helper()
	for i := range n {
		for _, cf := range db.ColumnFamilies() {
			k, v := fmt.Sprintf("k%05d", rng.IntN(500)), fmt.Sprintf("%d %d", i, rng.IntN(1e6))
			if now[cf.Name()] == nil {
				now[cf.Name()] = map[string]string{}
			}
			var err error
			if rng.IntN(5) == 0 {
				err = cf.Delete(nil, []byte(k))
				delete(now[cf.Name()], k)
			} else {
				err = cf.Put(nil, []byte(k), []byte(v))
				now[cf.Name()][k] = v
			}
			if err == nil && rng.IntN(60) == 0 {
				err = cf.Flush(context.Background(), nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func checkModel(t *testing.T, what string, db *DB, want model) {
	t.Helper()
	for name, m := range want {
		cf := db.ColumnFamily(name)
		if cf == nil {
			t.Fatalf("%s: no family %q", what, name)
		}
		compareContents(t, what, cf, nil, m)
	}
}

// TestCheckpoint: a checkpoint holds the state of its moment, whatever becomes of the
// database, by links and by copies, with and without a flush, with logs elsewhere.
func TestCheckpoint(t *testing.T) {
	for name, c := range map[string]struct {
		noLinks bool
		o       *CheckpointOptions
		walDir  string
	}{
		"links":             {},
		"copies":            {noLinks: true},
		"logs":              {o: &CheckpointOptions{LogSizeForFlush: NeverFlush}},
		"logs by copy":      {o: &CheckpointOptions{LogSizeForFlush: NeverFlush}, noLinks: true, walDir: "/logs"},
		"logs elsewhere":    {o: &CheckpointOptions{LogSizeForFlush: 1 << 40}, walDir: "/logs"},
		"more logs than so": {o: &CheckpointOptions{LogSizeForFlush: 10}, walDir: "/logs"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := mmapfs.NewMem()
			fault := mmapfs.NewFault(mem)
			if c.noLinks {
				fault.SetHook(func(op mmapfs.Op, name string) error {
					if op == mmapfs.OpLink {
						return errors.New("another file system")
					}
					return nil
				})
			}
			o := ingestOptions(fault, ingestFamilies())
			o.WALDir = c.walDir
			db, err := Open("/db", o)
			if err != nil {
				t.Fatal(err)
			}
			rng, now := rand.New(rand.NewPCG(3, 3)), model{}
			var then []model
			for i := range 3 {
				fillCheckpointed(t, db, rng, now, 80)
				seq, err := db.CreateCheckpoint(context.Background(), fmt.Sprintf("/copies/%d", i), c.o)
				if err != nil || seq != db.visibleSeq.Load() {
					t.Fatalf("sequence number %d of %d, %v", seq, db.visibleSeq.Load(), err)
				}
				then = append(then, now.clone())
			}
			fillCheckpointed(t, db, rng, now, 80)
			for _, cf := range db.ColumnFamilies() {
				if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range then {
				dir := fmt.Sprintf("/copies/%d", i)
				for _, readOnly := range []bool{true, false, true} {
					o := ingestOptions(mem, ingestFamilies())
					o.ReadOnly, o.CreateIfMissing, o.CreateMissingColumnFamilies = readOnly, false, false
					cp, err := Open(dir, o)
					if err != nil {
						t.Fatal(err)
					}
					checkModel(t, dir, cp, want)
					if !readOnly {
						if err := cp.VerifyChecksum(context.Background()); err != nil {
							t.Fatal(err)
						}
						if err := cp.Put(nil, []byte("k00001"), []byte("diverged")); err != nil {
							t.Fatal(err)
						}
						want["default"]["k00001"] = "diverged"
						if err := cp.CompactRange(context.Background(), nil, nil, nil); err != nil {
							t.Fatal(err)
						}
					}
					if err := cp.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			checkModel(t, "the original", db, now)
			if _, err := db.CreateCheckpoint(context.Background(), "/copies/0", nil); !errors.Is(err, ErrExists) {
				t.Errorf("a second checkpoint of that name: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCheckpointIsWholeOrAbsent fails the n-th operation of a checkpoint, and crashes
// there, for every n: the directory is not there, or holds all of it.
func TestCheckpointIsWholeOrAbsent(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 4
	}
	for n := 1; ; n += step {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		families := ingestFamilies()
		delete(families, "total")
		db, err := Open("/db", ingestOptions(fault, families))
		if err != nil {
			t.Fatal(err)
		}
		now := model{}
		fillCheckpointed(t, db, rand.New(rand.NewPCG(8, 8)), now, 15)
		if err := db.SyncWAL(); err != nil {
			t.Fatal(err)
		}
		o := &CheckpointOptions{LogSizeForFlush: uint64(n%2) * NeverFlush}
		crashed := map[string]*mmapfs.MemFS{}
		ops := 0
		fault.SetHook(func(op mmapfs.Op, name string) error {
			if ops++; ops == n {
				crashed["killed in the middle"], crashed["power loss in the middle"] = mem.Kill(), mem.Crash(nil)
				return errors.New("here")
			}
			return nil
		})
		_, err = db.CreateCheckpoint(context.Background(), "/copy", o)
		done := ops < n
		fault.SetHook(nil)
		if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
			t.Fatalf("n=%d: %v", n, err)
		}
		if _, serr := mem.Stat("/copy.tmp"); serr == nil && n%2 == 1 && err == nil {
			t.Fatalf("n=%d: the staging directory is left", n)
		}
		crashed["running"], crashed["killed"], crashed["power loss"] = mem, mem.Kill(), mem.Crash(nil)
		for what, fsys := range crashed {
			_, serr := fsys.Stat("/copy")
			if err == nil && serr != nil && !strings.Contains(what, "middle") {
				t.Fatalf("n=%d, %s: an acknowledged checkpoint is gone: %v", n, what, serr)
			}
			if serr != nil {
				continue
			}
			o := ingestOptions(fsys, families)
			o.ReadOnly, o.CreateIfMissing, o.CreateMissingColumnFamilies = true, false, false
			cp, oerr := Open("/copy", o)
			if oerr != nil {
				t.Fatalf("n=%d, %s: %v", n, what, oerr)
			}
			checkModel(t, fmt.Sprintf("n=%d, %s", n, what), cp, now)
			cp.Close()
		}
		checkModel(t, "the original", db, now)
		db.Close()
		if done {
			if n < 20 {
				t.Fatalf("a checkpoint has only %d operations", n)
			}
			return
		}
	}
}

// TestExportAndImport: a family travels to another database and to the same one, by
// way of JSON; its sequence numbers stay, and later writes win over it.
func TestExportAndImport(t *testing.T) {
	for _, noLinks := range []bool{false, true} {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		families := ingestFamilies()
		db, err := Open("/db", ingestOptions(fault, families))
		if err != nil {
			t.Fatal(err)
		}
		rng, now := rand.New(rand.NewPCG(5, 5)), model{}
		ctx := context.Background()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			fillCheckpointed(t, db, rng, now, 80)
			for _, cf := range db.ColumnFamilies() {
				must(cf.CompactRange(ctx, nil, []byte("k00100"), []byte("k00300")))
			}
		}
		fillCheckpointed(t, db, rng, now, 40)
		if noLinks {
			fault.SetHook(func(op mmapfs.Op, name string) error {
				if op == mmapfs.OpLink {
					return errors.New("another file system")
				}
				return nil
			})
		}
		other, err := Open("/other", &Options{FS: mem, CreateIfMissing: true})
		must(err)
		for name := range families {
			exported, err := db.ExportColumnFamily(ctx, db.ColumnFamily(name), "/export-"+name)
			must(err)
			text, err := json.Marshal(exported)
			must(err)
			var m ExportImportFilesMetaData
			must(json.Unmarshal(text, &m))
			want := maps.Clone(now[name])
			for i, to := range []*DB{other, db} {
				io := &ImportColumnFamilyOptions{MoveFiles: i == 1}
				if _, err := to.CreateColumnFamilyWithImport(ctx, "wrong", &ColumnFamilyOptions{Comparator: Bytewise}, io, &m); name == "reverse" && !errors.Is(err, ErrInvalidArgument) {
					t.Fatalf("another comparator: %v", err)
				} else if err == nil {
					must(to.DropColumnFamily(to.ColumnFamily("wrong")))
					continue // of block-based tables in Bytewise order
				}
				cf, err := to.CreateColumnFamilyWithImport(ctx, name+"2", families[name], io, &m)
				must(err)
				compareContents(t, "imported", cf, nil, want)
				must(cf.Put(nil, []byte("k00200"), []byte("newer")))
				must(cf.Delete(nil, []byte("k00201")))
				must(cf.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
				after := maps.Clone(want)
				after["k00200"] = "newer"
				delete(after, "k00201")
				compareContents(t, "compacted", cf, nil, after)
				now[name+"2"] = after
			}
		}
		must(db.Close())
		must(other.Close())
		o := ingestOptions(mem, nil)
		for _, dir := range []string{"/db", "/other"} {
			again, err := Open(dir, o)
			must(err)
			for _, cf := range again.ColumnFamilies() {
				if strings.HasSuffix(cf.Name(), "2") {
					compareContents(t, dir, cf, nil, now[cf.Name()])
				}
			}
			must(again.Close())
		}
	}
}

// TestImportIsAtomic fails the n-th operation of an import: the family is there with
// all that it holds, or not at all.
func TestImportIsAtomic(t *testing.T) {
	for _, moveFiles := range []bool{false, true} {
		for _, once := range []bool{true, false} {
			t.Run(fmt.Sprintf("move=%v/once=%v", moveFiles, once), func(t *testing.T) {
				t.Parallel()
				importWithFaults(t, moveFiles, once)
			})
		}
	}
}

func importWithFaults(t *testing.T, moveFiles, once bool) {
	step := 1
	if testing.Short() {
		step = 3
	}
	for n := 1; ; n += step {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		now := model{}
		fillCheckpointed(t, db, rand.New(rand.NewPCG(8, 8)), now, 30)
		m, err := db.ExportColumnFamily(context.Background(), db.DefaultColumnFamily(), "/export")
		if err != nil {
			t.Fatal(err)
		}
		fault.FailNth(n, mmapfs.OpAll, once)
		_, err = db.CreateColumnFamilyWithImport(context.Background(), "copy", nil, &ImportColumnFamilyOptions{MoveFiles: moveFiles}, m)
		injected := fault.Injected()
		for what, fsys := range map[string]*mmapfs.MemFS{"killed": mem.Kill(), "power loss": mem.Crash(nil)} {
			again, oerr := Open("/db", &Options{FS: fsys})
			if oerr != nil {
				t.Fatalf("n=%d, %s: %v", n, what, oerr)
			}
			cf := again.ColumnFamily("copy")
			if err == nil && cf == nil {
				t.Fatalf("n=%d, %s: an acknowledged import is gone", n, what)
			}
			if cf != nil {
				compareContents(t, fmt.Sprintf("n=%d, %s", n, what), cf, nil, now["default"])
			}
			again.Close()
		}
		if err != nil { // what was exported is still there, whole
			for _, f := range m.Files {
				if info, serr := mem.Stat("/export/" + f.Name); serr != nil || uint64(info.Size()) != f.Size {
					t.Fatalf("n=%d: the import failed (%v), and of the export %s: %v", n, err, f.Name, serr)
				}
			}
		}
		db.Close()
		if injected == 0 {
			if n < 8 {
				t.Fatalf("an import has only %d operations", n)
			}
			return
		}
	}
}

// TestExportIsWholeOrAbsent fails the n-th operation of an export, and crashes there, for every
// n: the directory is not there, or holds files that can be imported.
func TestExportIsWholeOrAbsent(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 3
	}
	var whole *ExportImportFilesMetaData // of the export that nothing disturbs
	for n := 0; ; n += step {
		mem := mmapfs.NewMem()
		fault := mmapfs.NewFault(mem)
		db, err := Open("/db", &Options{FS: fault, CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		now := model{}
		fillCheckpointed(t, db, rand.New(rand.NewPCG(8, 8)), now, 30)
		if err := errors.Join(db.Flush(context.Background(), nil), db.Put(nil, []byte("k00001"), []byte("in the memtable"))); err != nil {
			t.Fatal(err)
		}
		now["default"]["k00001"] = "in the memtable"
		crashed := map[string]*mmapfs.MemFS{}
		ops := 0
		fault.SetHook(func(op mmapfs.Op, name string) error {
			if ops++; ops == n {
				crashed["killed in the middle"], crashed["power loss in the middle"] = mem.Kill(), mem.Crash(nil)
				return errors.New("here")
			}
			return nil
		})
		m, err := db.ExportColumnFamily(context.Background(), db.DefaultColumnFamily(), "/export")
		done := ops < n
		fault.SetHook(nil)
		if n == 0 {
			whole = m
		}
		crashed["running"], crashed["killed"], crashed["power loss"] = mem, mem.Kill(), mem.Crash(nil)
		for what, fsys := range crashed {
			_, serr := fsys.Stat("/export")
			if err == nil && serr != nil && !strings.Contains(what, "middle") {
				t.Fatalf("n=%d, %s: an acknowledged export is gone: %v", n, what, serr)
			}
			if serr != nil {
				continue
			}
			other, oerr := Open("/other", &Options{FS: fsys, CreateIfMissing: true})
			if oerr != nil {
				t.Fatal(oerr)
			}
			cf, ierr := other.CreateColumnFamilyWithImport(context.Background(), "copy", nil, nil, whole)
			if ierr != nil {
				t.Fatalf("n=%d, %s: %v", n, what, ierr)
			}
			compareContents(t, fmt.Sprintf("n=%d, %s", n, what), cf, nil, now["default"])
			other.Close()
		}
		db.Close()
		if done {
			if n < 10 {
				t.Fatalf("an export has only %d operations", n)
			}
			return
		}
	}
}

// TestDisabledDeletionsKeepFiles: what GetLiveFiles and GetLiveFilesStorageInfo name
// stays until deletions are enabled again, and is what a copy needs.
func TestDisabledDeletionsKeepFiles(t *testing.T) {
	mem := mmapfs.NewMem()
	db, err := Open("/db", ingestOptions(mem, ingestFamilies()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rng, now := rand.New(rand.NewPCG(4, 4)), model{}
	fillCheckpointed(t, db, rng, now, 100)
	if err := db.DisableFileDeletions(); err != nil {
		t.Fatal(err)
	}
	names, size, err := db.GetLiveFiles()
	if err != nil || size == 0 {
		t.Fatal(names, size, err)
	}
	then := now.clone()
	infos, err := db.GetLiveFilesStorageInfo(&CheckpointOptions{LogSizeForFlush: NeverFlush})
	if err != nil {
		t.Fatal(err)
	}
	fillCheckpointed(t, db, rng, now, 100)
	for _, cf := range db.ColumnFamilies() {
		if err := cf.CompactRange(context.Background(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if _, err := mem.Stat("/db" + name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := mem.MkdirAll("/copy"); err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		to := "/copy/" + i.RelativeFilename
		if i.ReplacementContents != nil {
			f, err := mem.Create(to)
			if err == nil {
				_, err = f.Write(i.ReplacementContents)
			}
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		} else if err := copyFile(mem, i.Directory+"/"+i.RelativeFilename, to, int64(i.Size)); err != nil {
			t.Fatal(err)
		}
	}
	cp, err := Open("/copy", ingestOptions(mem, ingestFamilies()))
	if err != nil {
		t.Fatal(err)
	}
	checkModel(t, "the copy", cp, then)
	if err := cp.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.EnableFileDeletions(); err != nil {
		t.Fatal(err)
	}
	live, err := db.GetLiveFilesMetaData()
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, l := range live {
		tables[l.Name] = true
	}
	for _, name := range dirNames(t, mem, "/db") {
		if strings.HasSuffix(name, ".sst") && !tables[name] {
			t.Errorf("%s is still there after deletions were enabled", name)
		}
	}
}

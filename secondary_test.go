package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestSecondaryFollows: after each catch-up a secondary holds what the primary holds,
// over flushes, compactions, ingestions, new and dropped families, range deletes,
// reopening of the primary and new MANIFESTs, while readers run.
func TestSecondaryFollows(t *testing.T) {
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			mem := mmapfs.NewMem()
			ctx := context.Background()
			families := ingestFamilies()
			openPrimary := func() *DB {
				o := ingestOptions(mem, families)
				o.WALWriteMode, o.MaxManifestFileSize = mode, 4000
				db, err := Open("/db", o)
				if err != nil {
					t.Fatal(err)
				}
				return db
			}
			primary := openPrimary()
			follower, err := OpenAsSecondary("/db", &Options{FS: mem})
			if err != nil {
				t.Fatal(err)
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			stop := make(chan struct{})
			var readers sync.WaitGroup
			readers.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := follower.Get(nil, fmt.Appendf(nil, "k%05d", i%500), nil); err != nil && !errors.Is(err, ErrNotFound) {
						t.Error(err)
						return
					}
				}
			})
			rng, now := rand.New(rand.NewPCG(9, 9)), model{}
			for round := range 25 {
				fillCheckpointed(t, primary, rng, now, 15)
				switch round % 6 {
				case 1:
					for _, cf := range primary.ColumnFamilies() {
						must(cf.CompactRange(ctx, nil, nil, nil))
					}
				case 2:
					name := fmt.Sprintf("new%d", round)
					cf, err := primary.CreateColumnFamily(name, families["plain"])
					must(err)
					must(cf.Put(nil, []byte("k00001"), []byte("v")))
					now[name] = map[string]string{"k00001": "v"}
					if round > 6 {
						old := fmt.Sprintf("new%d", round-6)
						must(primary.DropColumnFamily(primary.ColumnFamily(old)))
						delete(now, old)
					}
				case 3:
					path := fmt.Sprintf("/f%d.sst", round)
					externalOf(t, primary.DefaultColumnFamily(), path, map[string]string{"k00002": "file", "k00400": "file"})
					must(primary.IngestExternalFile(ctx, []string{path}, nil))
					now["default"]["k00002"], now["default"]["k00400"] = "file", "file"
				case 4:
					must(primary.DeleteRange(nil, []byte("k00100"), []byte("k00150")))
					for k := range now["default"] {
						if k >= "k00100" && k < "k00150" {
							delete(now["default"], k)
						}
					}
					must(primary.Flush(ctx, nil))
				case 5:
					must(primary.Close())
					primary = openPrimary()
				}
				must(follower.TryCatchUpWithPrimary())
				checkModel(t, fmt.Sprintf("round %d", round), follower, now)
				if n := len(follower.ColumnFamilies()); n != len(now) {
					t.Fatalf("round %d: %d families, want %d", round, n, len(now))
				}
			}
			its, err := follower.NewIterators(nil, follower.ColumnFamilies())
			must(err)
			for _, it := range its {
				must(it.Close())
			}
			if results, err := follower.MultiGetFamilies(nil, []*ColumnFamily{nil, follower.ColumnFamily("plain")}, [][]byte{[]byte("none"), []byte("none")}, nil); err != nil ||
				!errors.Is(results[0].Err, ErrNotFound) || !errors.Is(results[1].Err, ErrNotFound) {
				t.Errorf("MultiGet over families of a secondary: %v, %v", results, err)
			}
			if err := follower.Put(nil, []byte("k"), nil); !errors.Is(err, ErrReadOnly) {
				t.Errorf("Put into a secondary: %v", err)
			}
			if _, err := follower.NewSnapshot(); !errors.Is(err, ErrNotSupported) {
				t.Errorf("a snapshot of a secondary: %v", err)
			}
			if err := primary.TryCatchUpWithPrimary(); !errors.Is(err, ErrNotSupported) {
				t.Errorf("catching up with oneself: %v", err)
			}
			close(stop)
			readers.Wait()
			must(primary.Close())
			must(follower.TryCatchUpWithPrimary())
			checkModel(t, "the primary is closed", follower, now)
			must(follower.Close())
		})
	}
}

// secondaryChildEnv makes the test binary a primary: the value is the directory.
const secondaryChildEnv = "FLATROCK_SECONDARY_CHILD"

const secondaryBatches = 1500

// secondaryChild writes numbered batches, flushes and compacts.
func secondaryChild(dir string) error {
	o := crashOptions(mmapfs.OS, WALAuto)
	o.MaxManifestFileSize = 8000
	db, err := Open(dir, o)
	if err != nil {
		return err
	}
	var b Batch
	other := db.ColumnFamily("other")
	for i := uint64(1); i <= secondaryBatches && err == nil; i++ {
		b.Reset()
		crashBatch(i, &b, other)
		err = db.Write(nil, &b)
		if err == nil && i%97 == 0 {
			err = other.Flush(context.Background(), nil)
		}
		if err == nil && i%211 == 0 {
			err = db.CompactRange(context.Background(), nil, nil, nil)
		}
	}
	return errors.Join(err, db.Close())
}

// TestSecondaryFollowsAProcess: another process writes, flushes and compacts; every
// catch-up gives the state after some batch, in both families, and never goes back.
func TestSecondaryFollowsAProcess(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir, crashOptions(mmapfs.OS, WALAuto))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), secondaryChildEnv+"="+dir)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	o := crashOptions(mmapfs.OS, WALAuto)
	o.CreateIfMissing, o.CreateMissingColumnFamilies = false, false
	follower, err := OpenAsSecondary(dir, o)
	if err != nil {
		child.Process.Kill()
		t.Fatal(err)
	}
	defer follower.Close()
	last, states := uint64(0), 0
	for running := true; running; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false // once more, to the end
		default:
		}
		if err := follower.TryCatchUpWithPrimary(); err != nil {
			t.Fatalf("after batch %d: %v", last, err)
		}
		n, err := recoveredPrefix(follower)
		if err != nil || n < last {
			t.Fatalf("after batch %d came %d: %v", last, n, err)
		}
		if n > last {
			states++
		}
		last = n
	}
	if last != secondaryBatches || states < 2 {
		t.Fatalf("%d states, the last after batch %d of %d", states, last, secondaryBatches)
	}
}

// readHook calls a function once, after bytes of a log were read.
type readHook struct {
	mmapfs.FS
	then func()
}

type hookedFile struct {
	mmapfs.File
	hook *readHook
}

func (h *readHook) Open(name string) (mmapfs.File, error) {
	f, err := h.FS.Open(name)
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return hookedFile{f, h}, nil
}

func (f hookedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if then := f.hook.then; then != nil && n > 0 {
		f.hook.then = nil
		then()
	}
	return n, err
}

// TestSecondaryReadsAgainWhatWasZeros: the primary fills the block of its log that the
// secondary has just read, and the next ones, before the secondary reads these. The records
// divide a block, so that none goes on in the next block, which would tell.
func TestSecondaryReadsAgainWhatWasZeros(t *testing.T) {
	mem := mmapfs.NewMem()
	primary := mustOpen(t, mem, &Options{CreateIfMissing: true, WALWriteMode: WALMapped})
	n := 0
	put := func(count int) {
		for range count {
			if err := primary.Put(nil, fmt.Appendf(nil, "%03d", n), make([]byte, 998)); err != nil {
				t.Error(err)
			}
			n++
		}
	}
	put(1)
	if f, err := primary.GetCurrentWalFile(); err != nil || f.SizeFileBytes != 1024 {
		t.Fatalf("a log of %d bytes, %v; want one record of 1024", f.SizeFileBytes, err)
	}
	hook := &readHook{FS: mem}
	follower, err := OpenAsSecondary("/db", &Options{FS: hook})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	for range 3 {
		hook.then = func() { put(70) }
		if err := follower.TryCatchUpWithPrimary(); err != nil {
			t.Fatal(err)
		}
		if hook.then != nil {
			t.Fatal("nothing of the log was read")
		}
		for i := range n {
			if _, err := follower.Get(nil, fmt.Appendf(nil, "%03d", i), nil); err != nil {
				t.Fatalf("key %d of %d: %v", i, n, err)
			}
		}
	}
}

// TestSecondaryOutlivesAnEditTakenBack: one that it has read, but of which the primary could
// not make sure, and which Resume has made good.
func TestSecondaryOutlivesAnEditTakenBack(t *testing.T) {
	mem := mmapfs.NewMem()
	fault := mmapfs.NewFault(mem)
	db := mustOpen(t, fault, &Options{CreateIfMissing: true})
	second := func() *DB {
		s, err := OpenAsSecondary(db.dir, &Options{FS: mem})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put := func(key string) {
		t.Helper()
		if err := db.Put(nil, []byte(key), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	has := func(s *DB, key string) {
		t.Helper()
		if v, err := s.Get(nil, []byte(key), nil); err != nil || string(v) != "v" {
			t.Errorf("%s: %q, %v", key, v, err)
		}
	}
	put("first")
	s := second()
	has(s, "first")
	fault.SetHook(func(op mmapfs.Op, name string) error {
		if op&mmapfs.OpSync != 0 && strings.Contains(name, "MANIFEST") {
			return errors.New("the disk is away")
		}
		return nil
	})
	if err := db.Flush(t.Context(), nil); err == nil {
		t.Fatal("a flush whose edit could not be synced")
	}
	if err := s.TryCatchUpWithPrimary(); err != nil {
		t.Fatal(err) // it reads the edit
	}
	has(s, "first")
	fault.SetHook(nil)
	if err := db.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	put("second")
	if err := s.TryCatchUpWithPrimary(); err != nil {
		t.Fatal(err)
	}
	has(s, "first")
	has(s, "second")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = second()
	has(s, "first")
	has(s, "second")
	if err := errors.Join(s.Close(), db.Close()); err != nil {
		t.Error(err)
	}
}

// TestSecondaryKnowsAStateThatWentBack: each number that only grows, and each family's log.
func TestSecondaryKnowsAStateThatWentBack(t *testing.T) {
	at := func(change func(*manifest.State)) *manifest.State {
		st := &manifest.State{NextFileNumber: 20, LastSeq: 100, MaxColumnFamily: 1,
			Families: []*manifest.ColumnFamily{{ID: 0, LogNumber: 7}, {ID: 1, LogNumber: 9}}}
		change(st)
		return st
	}
	earlier := at(func(*manifest.State) {})
	for name, c := range map[string]struct {
		change func(*manifest.State)
		behind bool
	}{
		"the same":       {func(*manifest.State) {}, false},
		"newer":          {func(s *manifest.State) { s.NextFileNumber, s.LastSeq, s.Families[0].LogNumber = 21, 101, 9 }, false},
		"a family gone":  {func(s *manifest.State) { s.Families = s.Families[:1] }, false},
		"files":          {func(s *manifest.State) { s.NextFileNumber-- }, true},
		"writes":         {func(s *manifest.State) { s.LastSeq-- }, true},
		"families":       {func(s *manifest.State) { s.MaxColumnFamily-- }, true},
		"a family's log": {func(s *manifest.State) { s.LastSeq++; s.Families[1].LogNumber-- }, true},
	} {
		if got := behind(at(c.change), earlier); got != c.behind {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !moved(fmt.Errorf("%w: %w", errMoved, ErrSecondaryStale)) {
		t.Error("it is not tried again")
	}
}

// TestSecondaryCatchesUpWhileFilesAreLoaded: a file that is brought into memory in the background gives its
// family another set of files while a catch-up looks at it.
func TestSecondaryCatchesUpWhileFilesAreLoaded(t *testing.T) {
	mem := mmapfs.NewMem()
	o := &Options{FS: mem, CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		DisableAutoCompactions: true, PrefixExtractor: FixedPrefix(2), Table: PlainTableOptions{Memory: MemoryResident, LoadInBackground: On}}}
	primary, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	const files = 12
	for i := range files {
		if err := errors.Join(primary.Put(nil, fmt.Appendf(nil, "key%02d", i), []byte("v")), primary.Flush(context.Background(), nil)); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		follower, err := OpenAsSecondary("/db", o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if err := follower.TryCatchUpWithPrimary(); err != nil {
				t.Fatal(err)
			}
			if v, err := follower.Get(nil, fmt.Appendf(nil, "key%02d", i), nil); err != nil || string(v) != "v" {
				t.Fatalf("%q %v", v, err)
			}
		}
		if err := follower.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package mmapfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, f FS, name string, content []byte) File {
	t.Helper()
	w, err := f.Create(name)
	must(t, err)
	_, err = w.Write(content)
	must(t, err)
	return w
}

func list(t testing.TB, f FS, dir string) string {
	t.Helper()
	names, err := f.List(dir)
	must(t, err)
	return strings.Join(names, " ")
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 11)) }

func TestStrictCrashKeepsWhatWasSyncedAndNothingElse(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/db/archive"))
	a := create(t, m, "/db/a", []byte("synced"))
	must(t, a.Sync(), m.SyncDir("/db"))
	a.Write([]byte(" lost"))
	b := create(t, m, "/db/b", []byte("entry never synced"))
	must(t, b.Sync())
	create(t, m, "/db/c", []byte("content never synced"))
	must(t, m.SyncDir("/db"))
	must(t, m.Rename("/db/a", "/db/d"), m.Link("/db/b", "/db/e"), m.Remove("/db/c"), m.Rename("/db/b", "/db/archive/b"))

	c := m.Crash(nil)
	if got := list(t, c, "/db"); got != "a archive b c" {
		t.Errorf("/db has %s", got)
	}
	if got := list(t, c, "/db/archive"); got != "" {
		t.Errorf("/db/archive has %s", got)
	}
	for name, want := range map[string]string{"/db/a": "synced", "/db/b": "entry never synced", "/db/c": ""} {
		if got := string(readAll(t, c, name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// The receiver did not notice.
	if got := list(t, m, "/db"); got != "archive d e" {
		t.Errorf("the living /db has %s", got)
	}
	// Of a rename between directories, each half waits for its own directory.
	must(t, m.SyncDir("/db/archive"))
	c = m.Crash(nil)
	if got := list(t, c, "/db") + "; " + list(t, c, "/db/archive"); got != "a archive b c; b" {
		t.Errorf("after syncing one directory: %s", got)
	}
	must(t, m.SyncDir("/db"))
	c = m.Crash(nil)
	if got := list(t, c, "/db") + "; " + list(t, c, "/db/archive"); got != "archive d e; b" {
		t.Errorf("after syncing both: %s", got)
	}
	if len(m.pending) != 0 {
		t.Errorf("%d changes pending although all is synced", len(m.pending))
	}
}

func TestAFileThatWasNeverLinkedDurablyIsLost(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/db"))
	must(t, create(t, m, "/db/x", []byte("x")).Sync())
	if got := list(t, m.Crash(nil), "/db"); got != "" {
		t.Errorf("found %s", got)
	}
}

func TestDirectoriesOfMkdirAllAreDurable(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/data/db"))
	must(t, m.RemoveAll("/data/db"), m.MkdirAll("/data/db/wal"))
	for seed := range uint64(20) {
		if got := list(t, m.Crash(seeded(seed)), "/data/db"); got != "wal" {
			t.Fatalf("seed %d: /data/db has %q", seed, got)
		}
	}
}

// TestCrashOfAnAppendedFile checks every image of a log of which a part is synced, and that all kinds of damage occur.
func TestCrashOfAnAppendedFile(t *testing.T) {
	const syncedSize = 3333
	content := pattern(20000, 5)
	for _, mapped := range []bool{false, true} {
		m := NewMem()
		w := create(t, m, "/log", content[:syncedSize])
		must(t, w.SyncData(), m.SyncDir("/"))
		size := len(content)
		if mapped {
			size = 30000 // zeros at the end
			mw, err := w.MapWrite(syncedSize, int64(size-syncedSize))
			must(t, err)
			must(t, mw.WriteAt(content[syncedSize:], 0))
		} else {
			_, err := w.Write(content[syncedSize:])
			must(t, err)
		}
		full := append(slices.Clone(content), make([]byte, size-len(content))...)
		seen := map[string]int{}
		for seed := range uint64(400) {
			got := readAll(t, m.Crash(seeded(seed)), "/log")
			if !bytes.Equal(got, readAll(t, m.Crash(seeded(seed)), "/log")) {
				t.Fatalf("seed %d chooses twice differently", seed)
			}
			seen[classify(t, got, full, syncedSize)]++
		}
		for _, kind := range []string{"nothing", "everything", "torn within a sector", "hole"} {
			if seen[kind] < 10 {
				t.Errorf("mapped %v: %q in %d of 400 crashes", mapped, kind, seen[kind])
			}
		}
	}
}

func classify(t *testing.T, got, full []byte, syncedSize int) string {
	t.Helper()
	if len(got) < syncedSize || len(got) > len(full) || !bytes.Equal(got[:syncedSize], full[:syncedSize]) {
		t.Fatalf("synced bytes lost: %d bytes", len(got))
	}
	switch {
	case len(got) == syncedSize:
		return "nothing"
	case bytes.Equal(got, full):
		return "everything"
	}
	hole := false
	for i := syncedSize; i < len(got); i++ {
		if got[i] == full[i] {
			continue
		}
		if got[i] != 0 {
			t.Fatalf("byte %d was never written", i)
		}
		// A sector is written wholly or not, unless it is the last.
		hole = true
	}
	switch {
	case hole:
		return "hole"
	case len(got)%crashBlock != 0:
		return "torn within a sector"
	}
	return "torn between sectors"
}

// TestCrashOfAnOverwrittenFile: each sector shows what was synced or what was written, also after a truncation.
func TestCrashOfAnOverwrittenFile(t *testing.T) {
	for seed := range uint64(300) {
		rng := seeded(seed)
		m := NewMem()
		before := pattern(8000, seed)
		w := create(t, m, "/f", before)
		must(t, w.Sync(), m.SyncDir("/"))
		after := slices.Clone(before)
		for range 1 + rng.IntN(12) {
			p := pattern(1+rng.IntN(2000), rng.Uint64())
			off := rng.IntN(9000)
			if rng.IntN(4) == 0 {
				must(t, w.Truncate(int64(off)))
				after = append(after, make([]byte, max(0, off-len(after)))...)[:off]
				continue
			}
			_, err := w.WriteAt(p, int64(off))
			must(t, err)
			after = append(after, make([]byte, max(0, off+len(p)-len(after)))...)
			copy(after[off:], p)
		}
		if got := readAll(t, m, "/f"); !bytes.Equal(got, after) {
			t.Fatalf("seed %d: the living file is wrong", seed)
		}
		for range 5 {
			got := readAll(t, m.Crash(rng), "/f")
			if len(got) > max(len(before), len(after)) || len(got) < min(len(before), len(after)) {
				t.Fatalf("seed %d: %d bytes, was %d, then %d", seed, len(got), len(before), len(after))
			}
			for i, c := range got {
				old := i < len(before) && c == before[i]
				now := i < len(after) && c == after[i]
				if !old && !now && c != 0 {
					t.Fatalf("seed %d: byte %d is neither old nor new", seed, i)
				}
			}
		}
		// Once it is synced there is one answer.
		must(t, w.SyncData())
		for range 5 {
			if got := readAll(t, m.Crash(rng), "/f"); !bytes.Equal(got, after) {
				t.Fatalf("seed %d: a synced file changed", seed)
			}
		}
	}
}

func TestRenameIsAtomicOverACrash(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(200) {
		m := NewMem()
		must(t, m.MkdirAll("/db"))
		must(t, create(t, m, "/db/CURRENT", []byte("old")).Sync(), m.SyncDir("/db"))
		must(t, create(t, m, "/db/tmp", []byte("new")).Sync(), m.Rename("/db/tmp", "/db/CURRENT"))
		c := m.Crash(seeded(seed))
		seen[string(readAll(t, c, "/db/CURRENT"))+":"+list(t, c, "/db")]++
	}
	for state, n := range seen {
		switch state {
		case "old:CURRENT", "old:CURRENT tmp", "new:CURRENT":
			if n < 5 {
				t.Errorf("%s only %d times of 200", state, n)
			}
		default:
			t.Errorf("impossible: %s", state)
		}
	}
	if len(seen) != 3 {
		t.Errorf("saw only %v", seen)
	}
}

func TestKillKeepsEveryWriteAndRemembersWhatIsNotDurable(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/db"))
	w := create(t, m, "/db/log", []byte("synced"))
	must(t, w.Sync(), m.SyncDir("/db"))
	w.Write([]byte(" and not"))
	must(t, m.Rename("/db/log", "/db/log2"), m.Link("/db/log2", "/db/log3"))
	_, err := m.Lock("/db/LOCK")
	must(t, err)

	k := m.Kill()
	if got := list(t, k, "/db"); got != "LOCK log2 log3" {
		t.Errorf("found %s", got)
	}
	if got := string(readAll(t, k, "/db/log2")); got != "synced and not" {
		t.Errorf("found %q", got)
	}
	l, err := k.Lock("/db/LOCK")
	if err != nil {
		t.Errorf("the lock outlived its process: %v", err)
	}
	must(t, l.Close())
	for _, f := range []*MemFS{k.Crash(nil), m.Crash(nil)} {
		if got := list(t, f, "/db") + ": " + string(readAll(t, f, "/db/log")); got != "log: synced" {
			t.Errorf("after the machine died too: %s", got)
		}
		if _, err := f.Lock("/db/LOCK"); err != nil {
			t.Errorf("the lock outlived the machine: %v", err)
		}
	}
	// Links stay links, and the images share nothing.
	f, err := k.OpenReadWrite("/db/log3")
	must(t, err)
	_, err = f.WriteAt([]byte("S"), 0)
	must(t, err)
	if got := string(readAll(t, k, "/db/log2") /* the same file */); got != "Synced and not" {
		t.Errorf("found %q", got)
	}
	if got := string(readAll(t, m, "/db/log2")); got != "synced and not" {
		t.Errorf("the original changed: %q", got)
	}
}

func TestMemMappingsNeverChange(t *testing.T) {
	m := NewMem()
	content := pattern(5000, 9)
	w := create(t, m, "/f", content)
	read := func(size int64) *Mapping {
		mp, err := w.Map(size, MapOptions{Memory: MemoryPopulate})
		must(t, err)
		return mp
	}
	all, head := read(5000), read(100)
	if &all.Bytes()[0] != &head.Bytes()[0] {
		t.Error("mapping copies")
	}
	if !all.Anonymous() || cap(head.Bytes()) != 100 {
		t.Error("a mapping in memory could fault, or be appended to")
	}
	w.Write(pattern(9000, 1))
	w.WriteAt(pattern(50, 2), 4990)
	must(t, w.Truncate(10))
	w.Write(pattern(3000, 3))
	must(t, m.Remove("/f"), w.Close())
	if !bytes.Equal(all.Bytes(), content) || !bytes.Equal(head.Bytes(), content[:100]) {
		t.Error("a mapping changed")
	}
	if n, err := all.Resident(); err != nil || n != 5000 {
		t.Errorf("resident %d, %v", n, err)
	}
	must(t, all.Close(), all.Close(), head.Close())
}

func TestMemFilesRefuseWhatTheyShould(t *testing.T) {
	m := NewMem()
	w := create(t, m, "/f", []byte("12345"))
	r, err := m.Open("/f")
	must(t, err)
	for name, err := range map[string]error{
		"write":    second(r.Write([]byte("x"))),
		"writeat":  second(r.WriteAt([]byte("x"), 0)),
		"truncate": r.Truncate(0),
		"prealloc": r.Preallocate(0, 1),
		"mapwrite": second(r.MapWrite(0, 1)),
	} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s of a file opened for reading: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"writeat":  second(w.WriteAt([]byte("x"), -1)),
		"readat":   second(w.ReadAt(make([]byte, 1), -1)),
		"truncate": w.Truncate(-1),
		"prealloc": w.Preallocate(1<<62, 1<<62),
		"mapwrite": second(w.MapWrite(1<<62, 1<<62)),
	} {
		if !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s out of range: %v", name, err)
		}
	}
	must(t, w.Close())
	for name, err := range map[string]error{
		"close": w.Close(), "sync": w.Sync(), "write": second(w.Write(nil)), "size": second(w.Size()),
		"map": second(w.Map(1, MapOptions{})),
	} {
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s of a closed file: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestMemFSIsSafeForConcurrentUse(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("/db"))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			name := fmt.Sprintf("/db/%d", i)
			w, err := m.Create(name)
			if err != nil {
				t.Error(err)
				return
			}
			mw, err := w.MapWrite(0, 4000)
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 100 {
				err := errors.Join(mw.WriteAt(pattern(40, uint64(j)), j*40), w.SyncData(), m.SyncDir("/db"))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for seed := range uint64(50) {
		// A file's sync came before its directory's, so what is there has whole records up to the last sync.
		c := m.Crash(seeded(seed))
		names, err := c.List("/db")
		must(t, err)
		for _, n := range names {
			readAll(t, c, "/db/"+n)
		}
	}
	wg.Wait()
	c := m.Crash(nil)
	for i := range 4 {
		got := readAll(t, c, fmt.Sprintf("/db/%d", i))
		for j := range 100 {
			if !bytes.Equal(got[j*40:j*40+40], pattern(40, uint64(j))) {
				t.Fatalf("file %d, record %d", i, j)
			}
		}
	}
}

// TestDirtySpans compares the bookkeeping with a bit a byte.
func TestDirtySpans(t *testing.T) {
	for seed := range uint64(200) {
		rng := seeded(seed)
		var n memNode
		var bits [300]bool
		for range 40 {
			lo := rng.IntN(300)
			hi := lo + rng.IntN(301-lo)/(1+rng.IntN(8))
			n.touch(lo, hi)
			for i := lo; i < hi; i++ {
				bits[i] = true
			}
		}
		var got [300]bool
		last := -1
		for _, s := range n.dirty {
			if s.lo <= last || s.lo >= s.hi {
				t.Fatalf("seed %d: spans %v", seed, n.dirty)
			}
			last = s.hi
			for i := s.lo; i < s.hi; i++ {
				got[i] = true
			}
		}
		if got != bits {
			t.Fatalf("seed %d: spans %v", seed, n.dirty)
		}
	}
}

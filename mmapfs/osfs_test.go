package mmapfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// pattern is n bytes that differ from place to place.
func pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32()) | 1 // never zero
	}
	return b
}

// TestMemFSAgreesWithTheOS runs the same random operations on both, and through a FaultFS that injects nothing.
func TestMemFSAgreesWithTheOS(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			root := t.TempDir()
			d := &duo{t: t, rng: rand.New(rand.NewPCG(seed, 2)), root: root, mem: NewFault(NewMem())}
			if err := d.mem.MkdirAll(root); err != nil {
				t.Fatal(err)
			}
			for range 400 {
				d.step()
			}
			d.compareTrees(root)
		})
	}
}

// duo applies operations to two file systems and compares what they answer.
type duo struct {
	t    *testing.T
	rng  *rand.Rand
	root string
	mem  FS
	os   [4]File // open files, the same in both
	memf [4]File
	log  []string
}

func (d *duo) name() string {
	names := []string{"a", "b", "c", "dir/a", "dir/b", "dir/sub/a", "dir", "dir/sub", "a/below"}
	return filepath.Join(d.root, names[d.rng.IntN(len(names))])
}

func kindOf(err error) string {
	switch {
	case err == nil:
		return "nil"
	case err == io.EOF:
		return "EOF"
	case errors.Is(err, fs.ErrNotExist):
		return "not exist"
	case errors.Is(err, fs.ErrExist):
		return "exist"
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	case errors.Is(err, keys.ErrCorruption):
		return "corruption"
	}
	return "other"
}

func (d *duo) same(what string, a, b any, errA, errB error) {
	d.t.Helper()
	d.log = append(d.log, fmt.Sprintf("%s: %v", what, errA))
	if kindOf(errA) != kindOf(errB) || !reflect.DeepEqual(a, b) {
		d.t.Fatalf("%s:\n OS  %v, %v\n mem %v, %v\nhistory:\n%s", what, a, errA, b, errB, strings.ReplaceAll(strings.Join(d.log, "\n"), d.root, ""))
	}
}

func (d *duo) step() {
	switch d.rng.IntN(12) {
	case 0, 1, 2:
		d.open()
	case 3:
		n := d.name()
		d.same("remove "+n, 0, 0, OS.Remove(n), d.mem.Remove(n))
	case 4:
		from, to := d.name(), d.name()
		d.same("rename "+from+" "+to, 0, 0, OS.Rename(from, to), d.mem.Rename(from, to))
	case 5:
		from, to := d.name(), d.name()
		d.same("link "+from+" "+to, 0, 0, OS.Link(from, to), d.mem.Link(from, to))
	case 6:
		n := filepath.Join(d.root, []string{"dir", "dir/sub"}[d.rng.IntN(2)])
		if d.rng.IntN(3) == 0 {
			d.same("removeall "+n, 0, 0, OS.RemoveAll(n), d.mem.RemoveAll(n))
		} else {
			d.same("mkdir "+n, 0, 0, OS.MkdirAll(n), d.mem.MkdirAll(n))
		}
	case 7:
		n := d.name()
		a, errA := OS.List(n)
		b, errB := d.mem.List(n)
		d.same("list "+n, strings.Join(a, " "), strings.Join(b, " "), errA, errB)
		d.same("syncdir "+n, 0, 0, OS.SyncDir(filepath.Dir(d.root)), d.mem.SyncDir(d.root))
	default:
		d.useFile(d.rng.IntN(len(d.os)))
	}
}

func (d *duo) open() {
	slot, n := d.rng.IntN(len(d.os)), d.name()
	if d.os[slot] != nil {
		d.same("close", 0, 0, d.os[slot].Close(), d.memf[slot].Close())
		d.os[slot], d.memf[slot] = nil, nil
	}
	var a, b File
	var errA, errB error
	how := ""
	switch d.rng.IntN(3) {
	case 0:
		how = "create "
		a, errA = OS.Create(n)
		b, errB = d.mem.Create(n)
	case 1:
		how = "openreadwrite "
		a, errA = OS.OpenReadWrite(n)
		b, errB = d.mem.OpenReadWrite(n)
	case 2:
		how = "open "
		if info, err := OS.Stat(n); err == nil && info.IsDir() {
			return // the OS opens directories for reading, and MemFS need not
		}
		a, errA = OS.Open(n)
		b, errB = d.mem.Open(n)
	}
	d.same(how+n, a == nil, b == nil, errA, errB)
	if errA == nil {
		d.os[slot], d.memf[slot] = a, b
	}
}

func (d *duo) useFile(slot int) {
	a, b := d.os[slot], d.memf[slot]
	if a == nil {
		return
	}
	p := pattern(d.rng.IntN(3000), d.rng.Uint64())
	off := int64(d.rng.IntN(9000))
	switch d.rng.IntN(9) {
	case 0, 1:
		if d.shared(slot) {
			return // Write's contract
		}
		n, errA := a.Write(p)
		m, errB := b.Write(p)
		d.same("write", n, m, errA, errB)
	case 2:
		n, errA := a.WriteAt(p, off)
		m, errB := b.WriteAt(p, off)
		d.same("writeat", n, m, errA, errB)
	case 3:
		d.same("truncate", 0, 0, a.Truncate(off), b.Truncate(off))
	case 4:
		q, r := make([]byte, len(p)), make([]byte, len(p))
		n, errA := a.ReadAt(q, off)
		m, errB := b.ReadAt(r, off)
		d.same("readat", q[:n], r[:m], errA, errB)
	case 5:
		q, r := make([]byte, len(p)), make([]byte, len(p))
		n, errA := a.Read(q)
		m, errB := b.Read(r)
		d.same("read", q[:n], r[:m], errA, errB)
	case 6:
		d.same("sync", 0, 0, errors.Join(a.Sync(), a.SyncData()), errors.Join(b.Sync(), b.SyncData()))
	case 7:
		x, errA := a.Map(off, MapOptions{})
		y, errB := b.Map(off, MapOptions{})
		d.same("map", x == nil, y == nil, errA, errB)
		if errA == nil {
			d.same("mapped", x.Bytes(), y.Bytes(), nil, nil)
			d.same("unmap", 0, 0, x.Close(), y.Close())
		}
	case 8:
		d.mapWrite(a, b, off, p)
	}
	n, errA := a.Size()
	m, errB := b.Size()
	d.same("size", n, m, errA, errB)
}

// shared reports whether the file's size was changed through another File, or this one cannot write.
func (d *duo) shared(slot int) bool {
	size, err := d.os[slot].Size()
	return err != nil || d.os[slot].(*osFile).end.Load() != size
}

func (d *duo) mapWrite(a, b File, off int64, p []byte) {
	n := int64(1 + d.rng.IntN(10000))
	x, errA := a.MapWrite(off, n)
	if errors.Is(errA, ErrMapWriteUnsupported) {
		// What the mapping would have done, so that both stay equal on any file system.
		size, err := a.Size()
		if err != nil {
			d.t.Fatal(err)
		}
		if err := a.Truncate(max(size, off+n)); err != nil {
			return // read-only
		}
		if _, err := a.WriteAt(p[:min(int64(len(p)), n)], off); err != nil {
			d.t.Fatal(err)
		}
	}
	y, errB := b.MapWrite(off, n)
	if x == nil {
		if y != nil {
			d.same("mapped write", 0, 0, nil, y.WriteAt(p[:min(int64(len(p)), n)], 0))
		}
		return
	}
	d.same("mapwrite", x == nil, y == nil, errA, errB)
	at := d.rng.IntN(int(n) + 1)
	d.same("populate", 0, 0, x.Populate(at, int(n)-at), y.Populate(at, int(n)-at))
	d.same("mapped write", 0, 0, x.WriteAt(p, at), y.WriteAt(p, at))
	d.same("unmap", x.Len(), y.Len(), x.Close(), y.Close())
	d.same("write when closed", x.Offset(), y.Offset(), x.WriteAt(p, 0), y.WriteAt(p, 0))
}

func (d *duo) compareTrees(dir string) {
	a, errA := OS.List(dir)
	b, errB := d.mem.List(dir)
	d.same("list "+dir, strings.Join(a, " "), strings.Join(b, " "), errA, errB)
	for _, base := range a {
		n := filepath.Join(dir, base)
		x, errA := OS.Stat(n)
		y, errB := d.mem.Stat(n)
		if errA != nil || errB != nil {
			d.t.Fatal(errA, errB)
		}
		d.same("stat "+n, x.IsDir(), y.IsDir(), nil, nil)
		if x.IsDir() {
			d.compareTrees(n)
			continue
		}
		d.same("content of "+n, readAll(d.t, OS, n), readAll(d.t, d.mem, n), nil, nil)
	}
}

func readAll(t testing.TB, f FS, name string) []byte {
	t.Helper()
	r, err := f.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWriteAppendsAtTheEndWhateverWasReadOrWritten(t *testing.T) {
	for name, f := range map[string]FS{"os": OS, "mem": NewMem()} {
		dir := t.TempDir()
		if err := f.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "000001.log")
		w, err := f.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("ab"))
		w.Read(make([]byte, 1))
		w.WriteAt([]byte("XYZ"), 1)
		if _, err := io.Copy(w, strings.NewReader("copied")); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if w, err = f.OpenReadWrite(path); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte("!"))
		w.Close()
		if got := string(readAll(t, f, path)); got != "aXYZcopied!" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestMapOfAShortFileIsCorruptionThatNamesIt(t *testing.T) {
	_, f := realFile(t, make([]byte, 100))
	for _, o := range []MapOptions{{}, {Memory: MemoryResident}} {
		m, err := f.Map(101, o)
		var ce *keys.CorruptionError
		if m != nil || !errors.As(err, &ce) || ce.File != "000007.sst" || ce.Offset != 100 {
			t.Errorf("Map(101) of 100 bytes: %v, %v", m, err)
		}
	}
	if _, err := f.Map(-1, MapOptions{}); err == nil {
		t.Error("mapped -1 bytes")
	}
	m := mustMap(t, f, 0, MapOptions{Memory: MemoryResident})
	if len(m.Bytes()) != 0 {
		t.Error("a mapping of nothing has bytes")
	}
}

func TestMemoryPolicies(t *testing.T) {
	content := pattern(5<<20+123, 7)
	before := OffHeap()
	for policy := MemoryNone; policy <= MemoryResident; policy++ {
		_, f := realFile(t, content)
		size := int64(len(content)) - 23
		m, err := f.Map(size, MapOptions{Memory: policy})
		if err != nil {
			if policy == MemoryLock && strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
				// The limit of whoever runs this is below 5 MiB: TestLockErrorNamesTheLimit looks at the error.
				m = mustMap(t, f, size, MapOptions{})
			} else {
				t.Fatalf("%v: %v", policy, err)
			}
		}
		if !bytes.Equal(m.Bytes(), content[:size]) {
			t.Errorf("%v: wrong bytes", policy)
		}
		if m.Anonymous() != (policy == MemoryResident) {
			t.Errorf("%v: Anonymous is %v", policy, m.Anonymous())
		}
		in, err := m.Resident()
		if err != nil && !errors.Is(err, ErrNotSupported) {
			t.Errorf("%v: %v", policy, err)
		}
		if err == nil && in != size { // it was just compared
			t.Errorf("%v: %d of %d bytes in memory", policy, in, size)
		}
		u := OffHeap()
		if got := u.Mapped + u.Resident - before.Mapped - before.Resident; got != size {
			t.Errorf("%v: OffHeap counts %d bytes", policy, got)
		}
		for range 2 {
			if err := m.Close(); err != nil {
				t.Errorf("%v: close: %v", policy, err)
			}
		}
	}
	if u := OffHeap(); u.Mapped != before.Mapped || u.Locked != before.Locked || u.Resident != before.Resident {
		t.Errorf("left over: %+v, was %+v", u, before)
	}
	_, f := realFile(t, content)
	if _, err := f.Map(10, MapOptions{Memory: 77}); err == nil {
		t.Error("an unknown policy maps")
	}
}

func TestParseMemory(t *testing.T) {
	for m := MemoryNone; m <= MemoryResident; m++ {
		if got, err := ParseMemory(m.String()); err != nil || got != m {
			t.Errorf("%v became %v, %v", m, got, err)
		}
	}
	if _, err := ParseMemory("hot"); err == nil {
		t.Error("parsed nonsense")
	}
}

func TestMkdirAllRefusesAFileInTheWay(t *testing.T) {
	for name, f := range map[string]FS{"os": OS, "mem": NewMem()} {
		dir := t.TempDir()
		if err := f.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		deep := filepath.Join(dir, "a", "b", "c")
		for range 2 {
			if err := f.MkdirAll(deep); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		file := filepath.Join(deep, "file")
		w, err := f.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
		for _, d := range []string{file, filepath.Join(file, "below")} {
			if err := f.MkdirAll(d); err == nil {
				t.Errorf("%s: made %s over a file", name, d)
			}
		}
		if n, err := f.Free(deep); err != nil || n == 0 {
			t.Errorf("%s: free %d, %v", name, n, err)
		}
		if got, err := f.List(deep); err != nil || !slices.Equal(got, []string{"file"}) {
			t.Errorf("%s: list %v, %v", name, got, err)
		}
	}
}

// TestMain lets the lock test start this binary again as the other process.
func TestMain(m *testing.M) {
	if path := os.Getenv("MMAPFS_TEST_LOCK"); path != "" {
		os.Exit(lockInChild(path))
	}
	os.Exit(m.Run())
}

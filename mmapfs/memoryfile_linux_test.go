package mmapfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// memoryFileOf makes a file on tmpfs, wherever that is mounted, and returns its name.
func memoryFileOf(t *testing.T, content []byte) (name string, f *os.File) {
	t.Helper()
	fd, err := unix.MemfdCreate("memoryfile", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f = os.NewFile(uintptr(fd), "memoryfile")
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), f
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// openMapped opens a file and maps it.
func openMapped(t *testing.T, fsys FS, name string, size int64) (plain, mapped File) {
	t.Helper()
	plain, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	mapped = MapMemory(plain, size)
	t.Cleanup(func() { mapped.Close() })
	return plain, mapped
}

func TestMapMemoryReadsWhatPreadReads(t *testing.T) {
	const size = 3*populateStep + 777
	name, _ := memoryFileOf(t, randomBytes(size))
	before := memoryFiles.Load()
	plain, mapped := openMapped(t, OS, name, size)
	if !InMemory(mapped) || InMemory(plain) || memoryFiles.Load() != before+1 {
		t.Fatalf("in memory: %v and %v, %d files", InMemory(mapped), InMemory(plain), memoryFiles.Load()-before)
	}
	var wg sync.WaitGroup
	for seed := range uint64(3) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, seed))
			want, got := make([]byte, populateStep+populateStep/2), make([]byte, populateStep+populateStep/2)
			for range 300 {
				off := rng.Int64N(size+100) - 10
				n := rng.IntN(5000)
				if rng.IntN(20) == 0 {
					n = rng.IntN(len(want) + 1)
				}
				wn, werr := plain.ReadAt(want[:n], off)
				gn, gerr := mapped.ReadAt(got[:n], off)
				if wn != gn || !bytes.Equal(want[:wn], got[:gn]) || (werr == nil) != (gerr == nil) || werr == io.EOF != (gerr == io.EOF) {
					t.Errorf("%d bytes at %d: %d, %v; want %d, %v", n, off, gn, gerr, wn, werr)
					return
				}
			}
		})
	}
	wg.Wait()
	buf := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() { mapped.ReadAt(buf, 12345) }); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
	if err := mapped.Close(); err != nil || memoryFiles.Load() != before {
		t.Errorf("close: %v, %d files are still counted", err, memoryFiles.Load()-before)
	}
}

// A file that is written after it was mapped shows what was written, as one that is read does.
func TestMapMemorySeesLaterWrites(t *testing.T) {
	name, f := memoryFileOf(t, randomBytes(10000))
	_, mapped := openMapped(t, OS, name, 10000)
	got := make([]byte, 5)
	if _, err := mapped.ReadAt(got, 5000); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("later"), 5000); err != nil {
		t.Fatal(err)
	}
	if _, err := mapped.ReadAt(got, 5000); err != nil || string(got) != "later" {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestMapMemoryOfTruncatedFileIsEOF(t *testing.T) {
	const size = 2 * populateStep
	content := randomBytes(size)
	name, f := memoryFileOf(t, content)
	_, mapped := openMapped(t, OS, name, size)
	buf := make([]byte, 8192)
	for _, off := range []int64{0, size - 8192} { // one step is mapped in the page tables, and loses pages
		if _, err := mapped.ReadAt(buf, off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	if n, err := mapped.ReadAt(buf, 4096); n != 4096 || !errors.Is(err, io.EOF) || !bytes.Equal(buf[:n], content[4096:8192]) {
		t.Errorf("across the new end: %d bytes, %v; want 4096 and EOF", n, err)
	}
	for _, off := range []int64{8192, populateStep, size - 8192} {
		if n, err := mapped.ReadAt(buf, off); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("at %d: %d bytes, %v; want EOF", off, n, err)
		}
	}
	if n, err := mapped.ReadAt(buf, 0); n != len(buf) || err != nil || !bytes.Equal(buf, content[:len(buf)]) {
		t.Errorf("what is left: %d bytes, %v", n, err)
	}
}

// What is not the system's own file on tmpfs stays as it is: faults must be injectable, and reads around
// the page cache must be that.
func TestMapMemoryLeavesOthersAlone(t *testing.T) {
	name, _ := memoryFileOf(t, randomBytes(10000))
	check := func(what string, f File, err error, size int64) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer f.Close()
		if got := MapMemory(f, size); got != f || InMemory(got) {
			t.Errorf("%s: mapped", what)
		}
	}
	f, err := NewFault(OS).Open(name)
	check("a file that faults are injected into", f, err, 10000)
	if d, err := OpenDirect(OS, name); err == nil { // not on every kernel
		check("a file that is read directly", d, err, 10000)
	}
	mem := NewMem()
	f, err = mem.Create("/x")
	check("a file of MemFS", f, err, 10000)
	f, err = OS.Open("/proc/version")
	check("a file on another file system", f, err, 10)
	f, err = OS.Open(name)
	check("an empty file", f, err, 0)
	f, err = OS.Open(name)
	check("a file that is shorter than said", f, err, 10001)
	f, err = OS.Open(filepath.Join(t.TempDir(), "..", ".."))
	if err == nil {
		f.Close()
		t.Error("a directory was opened as a file")
	}
}

func TestMapMemoryStopsAtItsLimit(t *testing.T) {
	name, _ := memoryFileOf(t, randomBytes(10000))
	if limit := memoryFileLimit(); limit < 1000 || limit > 1<<40 {
		t.Fatalf("a limit of %d files", limit)
	}
	before := memoryFiles.Swap(memoryFileLimit())
	defer memoryFiles.Store(before)
	plain, mapped := openMapped(t, OS, name, 10000)
	if mapped != plain || memoryFiles.Load() != memoryFileLimit() {
		t.Errorf("mapped beyond the limit; %d files", memoryFiles.Load())
	}
	memoryFiles.Store(before)
	if _, again := openMapped(t, OS, name, 10000); !InMemory(again) {
		t.Error("not mapped below the limit")
	}
}

func TestApproachMapsWhatIsAsked(t *testing.T) {
	const size = 5 * populateStep
	name, f := memoryFileOf(t, randomBytes(size))
	plain, mapped := openMapped(t, OS, name, size)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	m := mapped.(*memoryFile)
	Approach(plain, 0, size) // nothing
	Approach(mapped, populateStep, populateStep+1)
	Approach(mapped, size-1, 100)
	for _, off := range []int64{-1, size, size + 1} {
		Approach(mapped, off, 100)
	}
	Approach(mapped, 0, 0)
	m.ahead.Wait()
	for i, want := range []bool{false, true, true, false, true} {
		if got := m.asked[i].Load(); got != want {
			t.Errorf("step %d: mapped: %v", i, got)
		}
	}
	// A file that became shorter ends nobody but its readers.
	if err := f.Truncate(populateStep); err != nil {
		t.Fatal(err)
	}
	Approach(mapped, 0, size)
	if err := mapped.Close(); err != nil {
		t.Error(err)
	}
}

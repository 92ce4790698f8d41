package mmapfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// mappedLog makes a file with a writable mapping on a file system that has them: the temporary directory's, or else
// one in memory.
func mappedLog(t testing.TB, off, n int64) (f FS, path string, file File, w *WriteMapping) {
	t.Helper()
	f, path = OS, filepath.Join(t.TempDir(), "000003.log")
	for {
		var err error
		if file, err = f.Create(path); err != nil {
			t.Fatal(err)
		}
		if w, err = file.MapWrite(off, n); err == nil {
			t.Cleanup(func() { w.Close(); file.Close() })
			return f, path, file, w
		}
		file.Close()
		if f != OS || !errors.Is(err, ErrMapWriteUnsupported) || !errors.Is(err, ErrNotSupported) {
			t.Fatal(err)
		}
		f, path = NewMem(), "/000003.log"
	}
}

func TestMappedWritesAreTheFilesContent(t *testing.T) {
	const off, n = 5000, 20000 // neither on a page
	before := OffHeap().Mapped
	f, path, file, w := mappedLog(t, off, n)
	if got := OffHeap().Mapped - before; f == OS && got != n {
		t.Errorf("OffHeap counts %d bytes more", got)
	}
	if size, err := file.Size(); err != nil || size != off+n {
		t.Fatalf("size %d, %v", size, err)
	}
	want := make([]byte, off+n)
	for _, at := range []int{0, 1, 4096, n - 300} {
		p := pattern(300, uint64(at))
		if err := w.WriteAt(p, at); err != nil {
			t.Fatal(err)
		}
		copy(want[off+at:], p)
	}
	if err := errors.Join(file.SyncData(), w.Populate(0, n)); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, f, path); !bytes.Equal(got, want) {
		t.Error("the file differs from what was written")
	}
	for _, c := range []struct{ n, at int }{{1, n}, {2, n - 1}, {1, -1}, {0, n + 1}, {n + 1, 0}} {
		if err := w.WriteAt(make([]byte, c.n), c.at); err == nil {
			t.Errorf("wrote %d bytes at %d of %d", c.n, c.at, n)
		}
	}
	if err := w.WriteAt(nil, n); err != nil {
		t.Errorf("nothing at the end: %v", err)
	}
	if err := w.Populate(1, n); err == nil {
		t.Error("populated beyond the end")
	}
	// A plain append goes behind the mapping, and the mapping stays usable when the file is closed.
	if _, err := file.Write([]byte("tail")); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if err := w.WriteAt([]byte("late"), 10); err != nil {
		t.Fatal(err)
	}
	copy(want[off+10:], "late")
	if got := readAll(t, f, path); !bytes.Equal(got, append(want, "tail"...)) {
		t.Error("append and late write")
	}
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := OffHeap().Mapped; got != before {
		t.Errorf("OffHeap counts %d bytes after Close, was %d", got, before)
	}
	if err := w.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
}

func TestMappedWriteBeyondATruncationIsAFault(t *testing.T) {
	f, path, file, w := mappedLog(t, 0, int64(4*pageSize))
	if err := file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	err := w.WriteAt([]byte("lost"), 2*pageSize+5)
	var fe *FaultError
	if !errors.As(err, &fe) || fe.File != path || fe.Offset < 0 || fe.Offset > int64(2*pageSize+5) {
		t.Errorf("%T: %v", err, err)
	}
	if f == OS && fe != nil && fe.Offset != int64(2*pageSize+5) {
		t.Errorf("fault at %d", fe.Offset)
	}
}

func TestMapWriteRefusesNonsense(t *testing.T) {
	_, _, file, _ := mappedLog(t, 0, 4096)
	for _, c := range []struct{ off, n int64 }{{-1, 10}, {0, 0}, {0, -5}, {1 << 62, 1 << 62}, {1<<63 - 1, 1}} {
		if w, err := file.MapWrite(c.off, c.n); err == nil {
			w.Close()
			t.Errorf("mapped %d bytes at %d", c.n, c.off)
		}
	}
	if size, err := file.Size(); err != nil || size != 4096 {
		t.Errorf("size %d, %v after refusals", size, err)
	}
}

func TestMappedWriteAllocatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := OS.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// The fast path needs no file system with reservations: any writable memory does.
	a := newArena(t, 1<<16, ArenaOptions{Name: t.Name()})
	w := &WriteMapping{data: a.Bytes()[:1<<16], n: 1 << 16, file: path}
	p, at := pattern(140, 1), 0
	var failure error
	if n := testing.AllocsPerRun(400, func() {
		if err := w.WriteAt(p, at); err != nil {
			failure = err
		}
		at += len(p)
	}); n != 0 || failure != nil {
		t.Errorf("%v allocations, error %v", n, failure)
	}
	if !bytes.Equal(a.Bytes()[140:280], p) {
		t.Error("not written")
	}
}

// fullDisk runs on every disk of 8 MiB that this machine lets us have.
func fullDisk(t *testing.T, f FS, dir string) {
	path := filepath.Join(dir, "000009.log")
	file, err := f.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := file.MapWrite(0, 6<<20)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.MapWrite(6<<20, 4<<20); !IsNoSpace(err) {
		t.Fatalf("4 MiB more on a disk of 8 MiB: %v", err)
	}
	if size, err := file.Size(); err != nil || size != 6<<20 {
		t.Errorf("the failure left a size of %d, %v", size, err)
	}
	if err := file.Preallocate(6<<20, 4<<20); !IsNoSpace(err) {
		t.Errorf("preallocate: %v", err)
	}
	// Fill the rest. A plain write says how much it could write.
	other, err := f.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	n, err := other.Write(pattern(4<<20, 1))
	if !IsNoSpace(err) || n <= 0 || n > 2<<20 {
		t.Errorf("filling the disk wrote %d, %v", n, err)
	}
	// What was reserved can be written although the disk is full: that is the promise.
	p := pattern(6<<20, 2)
	for at := 0; at < len(p); at += 1000 {
		if err := w.WriteAt(p[at:min(at+1000, len(p))], at); err != nil {
			t.Fatalf("reserved block at %d: %v", at, err)
		}
	}
	if err := errors.Join(file.SyncData(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readAll(t, f, path), p) {
		t.Error("content lost")
	}
}

func TestFullDiskIsAnErrorAndReservedBlocksStayWritable(t *testing.T) {
	t.Run("injected", func(t *testing.T) {
		f := NewFault(NewMem())
		f.FailWritesAfter(8 << 20)
		fullDisk(t, f, "/")
		if f.Injected() == 0 {
			t.Error("nothing was injected")
		}
	})
	if dir, ok := smallTmpfs(t, 8<<20); ok {
		t.Run("tmpfs", func(t *testing.T) { fullDisk(t, OS, dir) })
	}
}

func BenchmarkMappedWrite140(b *testing.B) {
	dir := b.TempDir()
	if d, err := os.MkdirTemp("/dev/shm", "mmapfs"); err == nil {
		defer os.RemoveAll(d)
		dir = d
	}
	file, err := OS.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	const n = 4 << 20
	w, err := file.MapWrite(0, n)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	if err := w.Populate(0, n); err != nil {
		b.Fatal(err)
	}
	p, at := pattern(140, 1), 0
	for b.Loop() {
		if at+140 > n {
			at = 0
		}
		if err := w.WriteAt(p, at); err != nil {
			b.Fatal(err)
		}
		at += 140
	}
}

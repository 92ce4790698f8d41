package mmapfs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// directOrRefused opens a file for direct reads; where the file system refuses, that must be said clearly, and there is
// nothing more to test.
func directOrRefused(t *testing.T, name string) File {
	t.Helper()
	f, err := OpenDirect(OS, name)
	if errors.Is(err, ErrNotSupported) {
		t.Logf("no direct reads here: %v", err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestDirectReadsAreTheFilesBytes: any offset and length, aligned memory or not, and both sides of the end of the file.
func TestDirectReadsAreTheFilesBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 511, 4096, 4097, 100_000} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(rng.Uint32())
		}
		name := filepath.Join(t.TempDir(), "f")
		w, err := OS.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		f := directOrRefused(t, name)
		if f == nil {
			return
		}
		aligned := alignedBuffer(nil, 1<<20, minDirectAlign)
		for range 500 {
			off, n, at := rng.IntN(size+2), rng.IntN(size+5000), rng.IntN(3)
			if rng.IntN(3) == 0 {
				off, n, at = off&^4095, (n+4095)&^4095, 0
			}
			p := aligned[at : at+n]
			clear(p)
			got, err := f.ReadAt(p, int64(off))
			want := content[min(off, size):min(off+n, size)]
			if got != len(want) || !bytes.Equal(p[:got], want) {
				t.Fatalf("ReadAt(%d bytes, %d) of %d: %d bytes, %v", n, off, size, got, err)
			}
			if short := got < n; short != errors.Is(err, io.EOF) || !short && err != nil {
				t.Fatalf("ReadAt(%d bytes, %d) of %d: %d bytes and error %v", n, off, size, got, err)
			}
		}
		p := make([]byte, 100)
		if n := testing.AllocsPerRun(100, func() { f.ReadAt(p, 0) }); n >= 1 {
			t.Errorf("%v allocations for a read of %d bytes", n, size)
		}
		w.Close()
	}
}

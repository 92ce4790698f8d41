package mmapfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestHugePagesUnderAMapping: whatever the file system makes of it, the mapping shows the file, faults name it, and
// closing it leaves nothing behind.
func TestHugePagesUnderAMapping(t *testing.T) {
	dirs := []string{t.TempDir()}
	if runtime.GOOS == "linux" {
		if shm, err := os.MkdirTemp("/dev/shm", "flatrock-test-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(shm) })
			dirs = append(dirs, shm)
		}
	}
	for _, dir := range dirs {
		for _, size := range []int{1 << 20, 2 << 20, 9<<20 + 12345} {
			name := filepath.Join(dir, "table")
			content := make([]byte, size)
			for i := range content {
				content[i] = byte(i ^ i>>9)
			}
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := OS.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			before := OffHeap()
			m, err := f.Map(int64(size), MapOptions{Memory: MemoryPopulate, HugePages: true})
			if err != nil {
				t.Fatal(err)
			}
			if m.Anonymous() {
				t.Error("the mapping of a file says that it cannot fault")
			}
			if !bytes.Equal(m.Bytes(), content) {
				t.Errorf("%s: the mapping of %d bytes does not show the file", dir, size)
			}
			if n, err := m.Resident(); err != nil && !errors.Is(err, ErrNotSupported) || err == nil && n != int64(size) {
				t.Errorf("%d of %d bytes in memory, %v", n, size, err)
			}
			if runtime.GOOS != "windows" { // where a mapped file cannot be cut
				if err := os.Truncate(name, 4096); err != nil {
					t.Fatal(err)
				}
				err := touchPages(m.Bytes())
				var fault *FaultError
				if !errors.As(err, &fault) || fault.File != name {
					t.Errorf("reading past the end of the cut file: %v, want a fault that names it", err)
				}
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			if after := OffHeap(); after.Mapped != before.Mapped {
				t.Errorf("%d bytes are mapped after Close, %d were before", after.Mapped, before.Mapped)
			}
			f.Close()
		}
	}
}

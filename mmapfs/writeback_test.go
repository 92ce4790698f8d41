package mmapfs

import (
	"bytes"
	"path/filepath"
	"testing"
)

// TestWriteback: it changes nothing that a reader sees, on any file system.
func TestWriteback(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		fs  FS
		dir string
	}{"os": {OS, dir}, "faults": {NewFault(OS), dir}, "memory": {NewMem(), "/"}} {
		f, err := c.fs.Create(filepath.Join(c.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		if _, err := f.Write(want); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []bool{false, true} {
			if err := Writeback(f, 4096, 1<<19, wait); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: read back %d bytes, %v", name, len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package mmapfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestOpenDirectRefuses: a file system without direct reads says so, also behind injected faults, which come first.
func TestOpenDirectRefuses(t *testing.T) {
	mem := NewMem()
	f, err := mem.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	fault := NewFault(mem)
	for _, fsys := range []FS{mem, fault} {
		if _, err := OpenDirect(fsys, "/f"); !errors.Is(err, ErrNotSupported) {
			t.Errorf("%T: %v", fsys, err)
		}
	}
	fault.FailNth(1, OpOpen, true)
	if _, err := OpenDirect(fault, "/f"); !errors.Is(err, ErrInjected) {
		t.Errorf("an injected fault: %v", err)
	}
	if _, err := OpenDirect(OS, filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrNotSupported) {
		t.Errorf("no file: %v", err)
	}
}

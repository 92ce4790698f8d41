package stress

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHalfMadeStateFileIsBegunAnew: a kill while the file is made leaves it under
// another name, and the next child begins again.
func TestHalfMadeStateFileIsBegunAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(name+".new", make([]byte, 64), 0o644); err != nil {
		t.Fatal(err)
	}
	s := shape{Workers: 2}
	for range 2 { // made, and opened again
		h, err := openStateFile(name, s, 16)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.file.close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(name + ".new"); !os.IsNotExist(err) {
		t.Errorf("the name of a half made file is still there: %v", err)
	}
}

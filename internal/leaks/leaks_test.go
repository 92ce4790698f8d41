package leaks

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestLeaksAreNoticed: whatever is held is named, and nothing once it is let go.
func TestLeaksAreNoticed(t *testing.T) {
	defer func(n int) { looks = n }(looks)
	for what, hold := range map[string]func(t *testing.T) (release func()){
		"arenas": func(t *testing.T) func() {
			a, err := mmapfs.NewArena(1<<20, mmapfs.ArenaOptions{Name: "held"})
			if err != nil {
				t.Fatal(err)
			}
			return func() { a.Free() }
		},
		"goroutines": func(*testing.T) func() {
			wait, ended := make(chan struct{}), make(chan struct{})
			go func() { <-wait; close(ended) }()
			return func() { close(wait); <-ended }
		},
		"held.file": func(t *testing.T) func() {
			if runtime.GOOS != "linux" {
				t.Skip("the system does not tell which files are open")
			}
			f, err := os.Create(filepath.Join(t.TempDir(), "held.file"))
			if err != nil {
				t.Fatal(err)
			}
			return closing(t, f)
		},
		"mapped": func(t *testing.T) func() {
			name := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := mmapfs.OS.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := f.Map(7, mmapfs.MapOptions{})
			if err != nil {
				t.Fatal(err)
			}
			closing(t, f)()
			return closing(t, m)
		},
	} {
		t.Run(what, func(t *testing.T) {
			before := Now()
			release := hold(t)
			looks = 1
			if err := before.Leaked(); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("while it is held: %v", err)
			}
			release()
			looks = 1000
			if err := before.Leaked(); err != nil {
				t.Errorf("once it is let go: %v", err)
			}
		})
	}
}

func closing(t *testing.T, c io.Closer) func() {
	return func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

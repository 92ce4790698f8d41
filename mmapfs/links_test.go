//go:build !windows

package mmapfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinksAreNotFollowedWhenCreating: a link at the name of a new file is refused by name,
// whether it leads to a file or nowhere, and stays as it is with what it points to. Links
// among the directories above are a matter of who put the database there.
func TestLinksAreNotFollowedWhenCreating(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	precious, nowhere := filepath.Join(outside, "precious"), filepath.Join(outside, "nowhere")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{precious, nowhere} {
		name := filepath.Join(dir, filepath.Base(target))
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		for _, f := range []FS{OS, NewFault(OS)} {
			refused := func(what string, err error) {
				if !errors.Is(err, errLink) || !strings.Contains(err.Error(), name) {
					t.Errorf("%s %s: %v, want an error that names it and the link", what, name, err)
				}
			}
			_, err := f.Create(name)
			refused("Create", err)
			_, err = f.Lock(name)
			refused("Lock", err)
		}
		if !IsLink(OS, name) {
			t.Errorf("%s is no link any more", name)
		}
	}
	if b, err := os.ReadFile(precious); string(b) != "precious" {
		t.Errorf("what the link points to: %q, %v", b, err)
	}
	if _, err := os.Lstat(nowhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file appeared where the link points to: %v", err)
	}
	above := filepath.Join(dir, "above")
	if err := os.Symlink(outside, above); err != nil {
		t.Fatal(err)
	}
	f, err := OS.Create(filepath.Join(above, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

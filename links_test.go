//go:build !windows

package flatrock

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOddNamesAndLinks: what lies in the directory beside the database's files stays, and
// a symbolic link is removed as a link: what it points to is nobody's business.
func TestOddNamesAndLinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	o := &Options{CreateIfMissing: true}
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(outside, "000001.log")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "000005.sst.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	odd := []string{"notes.txt", "000001.sst.bak", "-1.log", "00000x.sst", "MANIFEST-", "CURRENT.old", "a\nb", strings.Repeat("n", 200)}
	for _, n := range odd {
		if err := os.WriteFile(filepath.Join(dir, n), []byte("odd"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []string{"000002.sst", "000003.dbtmp", "000000.log", "OPTIONS-000001.dbtmp"} {
		if err := os.Symlink(precious, filepath.Join(dir, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "archive")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if db, err = Open(dir, o); err != nil {
			t.Fatal(err)
		}
		if err := db.Put(nil, []byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(precious); string(b) != "precious" {
		t.Errorf("what the links point to: %q, %v", b, err)
	}
	for _, n := range odd {
		if _, err := os.Stat(filepath.Join(dir, n)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "000002.sst")); err == nil {
		t.Error("the link with a table's name is left")
	}
}

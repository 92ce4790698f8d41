//go:build unix

package flatrock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestFileModeOfEverything: with FileMode nobody but the owner has a right to any file or
// directory that the database makes: tables, logs, MANIFEST, OPTIONS, LOG, LOCK, checkpoints.
func TestFileModeOfEverything(t *testing.T) {
	base := t.TempDir()
	dir, ctx := filepath.Join(base, "db"), context.Background()
	o := &Options{CreateIfMissing: true, FileMode: 0o600, WALDir: filepath.Join(base, "logs")}
	for range 2 {
		db, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Put(nil, []byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		if err := db.Flush(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if err := db.SetOptions(map[string]string{"disable_auto_compactions": "true"}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.CreateCheckpoint(ctx, filepath.Join(base, "checkpoint"), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(base, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == base {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", strings.TrimPrefix(p, base), info.Mode())
		}
		return nil
	})
	if err != nil || seen < 15 {
		t.Errorf("%d files, %v", seen, err)
	}
	if _, err := Open("/db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, FileMode: 0o600}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("files in memory with a mode: %v", err)
	}
	if _, err := Open(dir, &Options{FileMode: 0o400}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("files that nobody may write: %v", err)
	}
}

// TestAnotherProcessHoldsTheLock: what another process has open nobody opens for writing, nor
// repairs; reading beside it goes.
func TestAnotherProcessHoldsTheLock(t *testing.T) {
	if dir := os.Getenv("FLATROCK_TEST_HOLD"); dir != "" {
		db, err := Open(dir, &Options{CreateIfMissing: true})
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("open\n")
		os.Stdin.Read(make([]byte, 1)) // until the parent is done, or gone
		db.Close()
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestAnotherProcessHoldsTheLock$")
	child.Env = append(os.Environ(), "FLATROCK_TEST_HOLD="+dir)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err := out.Read(said); err != nil || string(said) != "open" {
		t.Fatalf("the child said %q, %v", said, err)
	}
	if _, err := Open(dir, nil); !errors.Is(err, mmapfs.ErrLocked) {
		t.Errorf("Open: %v", err)
	} else if lock := new(mmapfs.LockError); !errors.As(err, &lock) || lock.Holder == "this process" {
		t.Errorf("Open: held by %+v", lock)
	}
	if _, err := Repair(t.Context(), dir, nil); !errors.Is(err, mmapfs.ErrLocked) {
		t.Errorf("Repair: %v", err)
	}
	db, err := Open(dir, &Options{ReadOnly: true})
	if err != nil {
		t.Errorf("read-only: %v", err)
	} else if err := db.Close(); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, nil); err != nil {
		t.Fatalf("after it ended: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

//go:build unix

package mmapfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileModes: what is created has the mode asked for, less the umask; what exists keeps its own.
func TestFileModes(t *testing.T) {
	umask := unix.Umask(0o022)
	defer unix.Umask(umask)
	for _, c := range []struct{ ask, file, dir fs.FileMode }{
		{0o644, 0o644, 0o755}, {0o600, 0o600, 0o700}, {0o640, 0o640, 0o750}, {0o666, 0o644, 0o755}, {0o660, 0o640, 0o750},
	} {
		fsys, err := WithFileMode(OS, c.ask)
		if err != nil {
			t.Fatal(err)
		}
		base := t.TempDir()
		dir := filepath.Join(base, "a", "b")
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		old := filepath.Join(dir, "old")
		if err := os.WriteFile(old, []byte("x"), 0o604); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"old", "new"} {
			f, err := fsys.Create(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		lock, err := fsys.Lock(filepath.Join(dir, "LOCK"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OS.Lock(filepath.Join(dir, "LOCK")); !errors.Is(err, ErrLocked) {
			t.Errorf("%o: locked twice: %v", c.ask, err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]fs.FileMode{
			filepath.Join(base, "a"): c.dir | fs.ModeDir, dir: c.dir | fs.ModeDir,
			filepath.Join(dir, "new"): c.file, filepath.Join(dir, "LOCK"): c.file, old: 0o604,
		} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != want {
				t.Errorf("%o: %s has mode %v, want %v", c.ask, filepath.Base(name), info.Mode(), want)
			}
		}
	}
	for _, bad := range []fs.FileMode{0, 0o400, 0o200, 0o066, fs.ModeDir | 0o700, fs.ModeSetuid | 0o600} {
		if _, err := WithFileMode(OS, bad); err == nil {
			t.Errorf("mode %v is taken", bad)
		}
	}
	if _, err := WithFileMode(NewMem(), 0o600); !errors.Is(err, ErrNotSupported) {
		t.Errorf("files in memory: %v", err)
	}
}

// TestOnlyRegularFilesAreOpened: a named pipe in the place of a file kept whoever opened it waiting, for good.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, sub, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "sub"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(op, name string, err error) {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s of %s: %v", op, name, err)
		}
	}
	for _, name := range []string{pipe, sub, os.DevNull} {
		_, err := OS.Open(name)
		refused("Open", name, err)
		_, err = OS.OpenReadWrite(name)
		refused("OpenReadWrite", name, err)
		if name == os.DevNull {
			continue
		}
		_, err = OS.Create(name)
		refused("Create", name, err)
		_, err = OS.Lock(name)
		refused("Lock", name, err)
	}
	f, err := OS.Create(os.DevNull)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Errorf("writing to %s: %v", os.DevNull, err)
	}
	if f, err = OS.Open(file); err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

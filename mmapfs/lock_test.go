package mmapfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lockInChild takes the lock, says so, and holds it until its input ends.
func lockInChild(path string) int {
	l, err := OS.Lock(path)
	if err != nil {
		fmt.Println("failed:", errors.Is(err, ErrLocked), err)
		return 0
	}
	fmt.Println("locked")
	io.Copy(io.Discard, os.Stdin)
	l.Close()
	return 0
}

// otherProcess tries the lock in another process, returns what it said, and a function that ends it.
func otherProcess(t *testing.T, path string) (said string, pid int, end func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MMAPFS_TEST_LOCK="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(said), cmd.Process.Pid, func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestLockExcludesOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "LOCK")
	said, pid, end := otherProcess(t, path)
	if said != "locked" {
		t.Fatal(said)
	}
	_, err := OS.Lock(path)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	// Unix names the holder; Windows cannot.
	if s := err.Error(); !strings.Contains(s, fmt.Sprintf("process %d", pid)) && !strings.Contains(s, "another process") {
		t.Errorf("unclear: %v", err)
	}
	end()

	l, err := OS.Lock(path)
	if err != nil {
		t.Fatalf("after the other process ended: %v", err)
	}
	said, _, end = otherProcess(t, path)
	if !strings.HasPrefix(said, "failed: true") {
		t.Errorf("the other process said %q", said)
	}
	end()
	// A refused attempt of our own must not lose the lock, as closing a descriptor would.
	if _, err := OS.Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice in one process: %v", err)
	}
	said, _, end = otherProcess(t, path)
	if !strings.HasPrefix(said, "failed: true") {
		t.Errorf("after a refused attempt, the other process said %q", said)
	}
	end()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	said, _, end = otherProcess(t, path)
	if said != "locked" {
		t.Errorf("after Close, the other process said %q", said)
	}
	end()
}

func TestLockExcludesWithinAProcess(t *testing.T) {
	for name, f := range map[string]FS{"os": OS, "mem": NewMem(), "fault": NewFault(NewMem())} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := f.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "LOCK")
			l, err := f.Lock(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Link(path, path+"2"); err != nil {
				t.Fatal(err)
			}
			again := []string{path, filepath.Join(dir, "x", "..", "LOCK")}
			if name == "os" {
				again = append(again, path+"2") // another name of the same file
			}
			for _, p := range again {
				if _, err := f.Lock(p); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "this process") {
					t.Errorf("second lock as %s: %v", p, err)
				}
			}
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			l, err = f.Lock(path)
			if err != nil {
				t.Fatalf("after Close: %v", err)
			}
			l.Close()
			if _, err := f.Lock(filepath.Join(dir, "missing", "LOCK")); err == nil || errors.Is(err, ErrLocked) {
				t.Errorf("lock in a missing directory: %v", err)
			}
		})
	}
}

package program

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunSaysWhatAProgramDid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	o, err := Run(context.Background(), script(t, `printf '%s\n' "$1" two; head -c 100000 /dev/zero > `+file), "one")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.Lines, "|"); got != "one|two|" {
		t.Errorf("lines %q", got)
	}
	if runtime.GOOS == "linux" && (o.Wrote < 100_000 || o.MaxRSS <= 0) {
		t.Errorf("%+v", o)
	}
}

func TestRunSaysWhyAProgramFailed(t *testing.T) {
	if _, err := Run(context.Background(), script(t, "echo out; echo reason >&2; exit 3"), "-flag"); err == nil || !strings.Contains(err.Error(), "reason") || !strings.Contains(err.Error(), "out") || !strings.Contains(err.Error(), "-flag: exit status 3") {
		t.Errorf("%v", err)
	}
	if _, err := Run(context.Background(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a program that is not there ran")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	path := script(t, "trap 'exit 0' INT\necho > \"$1\"\nwhile :; do sleep 0.01; done")
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(ready); err == nil {
				cancel()
				return
			}
			runtime.Gosched()
		}
	}()
	if _, err := Run(ctx, path, ready); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}

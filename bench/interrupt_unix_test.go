//go:build unix

package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the program, for tests that need a process.
func TestMain(m *testing.M) {
	if os.Getenv("FLATROCK_BENCH_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// An interrupt from the keyboard ends the main job with its directory removed.
func TestSignalCleansUp(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		parent := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FLATROCK_BENCH_MAIN=1", "TMPDIR="+parent)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Its first line says that the database is open.
		first, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(first, "Flatrock ") || !strings.Contains(first, parent) {
			t.Errorf("%q %v", first, err)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || errs.String() != "bench: interrupted\n" {
			t.Errorf("%v: %v %q", sig, err, errs.String())
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
			t.Errorf("%v: left behind: %v %v", sig, entries, err)
		}
	}
}

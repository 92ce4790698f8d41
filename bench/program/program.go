// Package program runs a benchmark program, RocksDB's db_bench or ours, as a process of its own,
// and reads its output lines. bench/compare, bench/experiment and bench/peers measure with it.
package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Output is what a run left.
type Output struct {
	Lines  Lines         // of standard output
	CPU    time.Duration // user and system, of all threads
	MaxRSS int64         // bytes of resident memory at its largest; zero if the system does not say
	Wrote  int64         // bytes passed to write calls; zero if the system does not say
}

// Run runs a program to its end. An interrupt of ctx is passed on, and the program gets some
// time to clean up. The error of a program that fails has the end of what it said.
func Run(ctx context.Context, path string, args ...string) (*Output, error) {
	c := exec.CommandContext(ctx, path, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 20 * time.Second
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	o := new(Output)
	err := c.Start()
	if err == nil {
		o.Wrote = awaitWrites(c.Process.Pid)
		err = c.Wait()
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w\n%s\n%s", strings.Join(c.Args, " "), err, LastLines(errs.String()), LastLines(out.String()))
	}
	o.Lines = strings.Split(out.String(), "\n")
	o.CPU = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	o.MaxRSS = maxRSS(c.ProcessState)
	return o, nil
}

// LastLines keeps the end of what a failed program said.
func LastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// BuildDriver builds Flatrock's driver (go run ./bench) into a directory.
func BuildDriver(ctx context.Context, dir string) (path string, err error) {
	path = filepath.Join(dir, "bench")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/flatrock-db/flatrock/bench")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build, err, text)
	}
	return path, nil
}

// FindDBBench finds RocksDB's db_bench; flag and without say what the caller's user can do if
// it is not there.
func FindDBBench(name, flag, without string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", fmt.Errorf("%s: %w (Debian's package rocksdb-tools has it; %s leaves RocksDB out)", flag, err, without)
	}
	return path, nil
}

// Version is what db_bench says it is; empty if it does not.
func Version(ctx context.Context, path string) string {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return strings.TrimPrefix(first, "db_bench version ")
}

// TreeVersion is the commit of the source tree that the working directory is in, which is what
// go run and go build make the driver of.
func TreeVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "this tree"
	}
	return strings.TrimSpace(string(out))
}

//go:build oracle

package oracle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary a Flatrock process that runs one script: the
// value is the database's directory, a newline, and the script's file.
const childEnv = "FLATROCK_ORACLE_PLAY"

// rocksDB is the C++ program, built once for each run.
var rocksDB string

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		dir, file, _ := strings.Cut(child, "\n")
		if err := play(dir, file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	tmp, err := os.MkdirTemp("", "flatrock-oracle-")
	if err == nil {
		defer os.RemoveAll(tmp)
		err = findOracles(tmp)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v\nrun oracle/install.sh to install the oracles\n", err)
		return 1
	}
	return m.Run()
}

func findOracles(tmp string) error {
	for _, tool := range []string{"ldb", "sst_dump", "db_bench", "g++"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	rocksDB = filepath.Join(tmp, "oracle")
	out, err := exec.Command("g++", "-std=c++17", "-O1", "-o", rocksDB, filepath.Join("cpp", "oracle.cc"), "-lrocksdb", "-lpthread").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the oracle: %w\n%s", err, out)
	}
	return nil
}

// toolTimeout bounds every child process, so that a hang is a failure with output.
const toolTimeout = 3 * time.Minute

// tool runs a program and returns what it printed.
func tool(name string, args ...string) (stdout string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, diag strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, tail(out.String()), tail(diag.String()))
	}
	return out.String(), nil
}

// tail is the end of a long output.
func tail(s string) string {
	if n := len(s) - 4000; n > 0 {
		return "..." + s[n:]
	}
	return s
}

func runRocksDB(dir, file string) error {
	_, err := tool(rocksDB, dir, file)
	return err
}

// runFlatrock plays the script: in this process, or in one of its own that is
// killed at the end.
func runFlatrock(dir, file string, crash bool) error {
	if !crash {
		return play(dir, file)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+dir+"\n"+file)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the process was to be killed by its own hand: %v\n%s", err, out)
}

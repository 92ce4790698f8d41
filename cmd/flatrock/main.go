// Command flatrock inspects and changes RocksDB and Flatrock databases: RocksDB's
// ldb and sst_dump in one static binary.
//
//	flatrock ldb --db=DIR scan
//	flatrock sst_dump --file=FILE --command=scan
//	flatrock trace block-cache analyze FILE
//	flatrock doctor DIR
//	flatrock repair --dry-run DIR
//	flatrock db_bench --benchmarks=fillrandom,readrandom
//	flatrock help
//
// Started through a link named ldb, sst_dump or db_bench it is that tool. Commands, options
// and output are those of RocksDB 7.8.3, line for line where they are
// deterministic; oracle_test.go compares them. With --json the reading commands
// write one JSON object a line instead, keys and values in hex.
//
// The exit status is 0 if all went well, 1 if the command failed, 2 if it was
// not understood (1 under the names ldb and sst_dump, as RocksDB has it), and 130
// after Ctrl-C.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/flatrock-db/flatrock/internal/dbbench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	status := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// app is one run of the command.
type app struct {
	ctx context.Context
	in  io.Reader
	out *bufio.Writer // flushed when run returns
	to  io.Writer     // what out writes to
	err io.Writer
}

// exitInterrupted is the exit status after Ctrl-C, as shells have it.
const exitInterrupted = 130

// errUsage marks errors about the command line.
var errUsage = errors.New("usage")

// errReported is a failure whose message has been written already.
var errReported = errors.New("reported")

func usagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// run is main without the process around it; args[0] is the name it was started by.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	a := &app{ctx: ctx, in: interruptible(ctx, in), out: bufio.NewWriterSize(out, 64<<10), to: out, err: errw}
	tool := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	args = args[1:]
	linked := true
	switch tool {
	case "ldb", "sst_dump", "db_bench":
	default:
		linked = false
		tool = "help"
		if len(args) > 0 {
			tool, args = args[0], args[1:]
		}
	}
	err := a.dispatch(tool, args)
	if e := a.out.Flush(); err == nil && e != nil {
		err = e
	}
	return a.exit(err, linked)
}

func (a *app) dispatch(tool string, args []string) error {
	switch tool {
	case "ldb":
		return a.ldb(args)
	case "sst_dump":
		return a.sstDump(args)
	case "db_bench":
		return a.dbBench(args)
	case "trace":
		return a.trace(args)
	case "help", "--help", "-h":
		return a.help(args)
	case "version", "--version":
		_, err := fmt.Fprintln(a.out, versionText())
		return err
	case "stress":
		return a.stress(args)
	case "doctor":
		return a.doctor(args)
	case "repair":
		return a.repair(args)
	case "completion":
		return a.completion(args)
	}
	return usagef("unknown tool %q%s; see flatrock help", tool, didYouMean(tool, tools))
}

// versionText says what was built, from what, and for which files.
func versionText() string {
	version := "(devel)"
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = ", revision " + s.Value
			}
		}
	}
	return fmt.Sprintf("flatrock %s%s, %s, %s/%s; files and tools as RocksDB 7.8.3", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// dbBench is what bench is, with RocksDB's name. It writes as it goes.
func (a *app) dbBench(args []string) error {
	if status := dbbench.Main(a.ctx, args, a.to, a.err); status != 0 {
		return exitStatus(status)
	}
	return nil
}

// exit reports err and turns it into the exit status.
func (a *app) exit(err error, linked bool) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case a.ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(a.err, "interrupted")
		return exitInterrupted
	case errors.Is(err, errReported):
		return 1
	case errors.Is(err, errUsage):
		fmt.Fprintln(a.err, strings.TrimPrefix(err.Error(), errUsage.Error()+": "))
		if !linked {
			return 2
		}
		return 1
	}
	fmt.Fprintln(a.err, err)
	return 1
}

// Package dbbench measures Flatrock with the flags, benchmarks and output lines of RocksDB's
// db_bench, so that command lines and scripts written for one serve both, and either
// reads the database that the other filled. Without arguments it runs the main job:
// see runMainJob. bench/README.md describes the flags that are ours.
package dbbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/internal/progress"
)

// Main is the program without the process around it: it returns the exit status.
func Main(ctx context.Context, args []string, out, errs io.Writer) int {
	return run(ctx, args, out, errs, progress.Terminal(errs))
}

// Help prints the flags and benchmarks.
func Help(w io.Writer) { printHelp(w) }

// Flags are the names of the flags that have a meaning.
func Flags() (names []string) {
	for _, b := range bindings(newConfig()) {
		names = append(names, b.name)
	}
	return names
}

// Exit codes.
const (
	exitFailed      = 1
	exitInterrupted = 130
)

// run is the program. show says that errs is a terminal.
func run(ctx context.Context, args []string, out, errs io.Writer, show bool) int {
	err := func() error {
		if len(args) == 0 {
			return runMainJob(ctx, out, errs, show, mainJob{})
		}
		c := newConfig()
		if err := parseFlags(c, args, errs); err != nil {
			return err
		}
		if c.version {
			fmt.Fprintln(out, "db_bench version 7.8.3, as Flatrock has it")
			return nil
		}
		if c.help {
			printHelp(out)
			return nil
		}
		b := newBench(ctx, c, out, errs, show)
		b.dir = c.directory()
		return b.runAll()
	}()
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(errs, "bench: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(errs, "bench: %v\n", err)
	return exitFailed
}

func newBench(ctx context.Context, c *config, out, log io.Writer, show bool) *bench {
	// Threads report too.
	b := &bench{c: c, ctx: ctx, out: &lockedWriter{w: out}, log: &lockedWriter{w: log}, show: show, seed: uint64(c.seed), gc: readGC()}
	if c.seed == 0 {
		b.seed = uint64(time.Now().UnixMicro())
	}
	return b
}

// lockedWriter lets several goroutines write whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

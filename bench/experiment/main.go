// Experiment runs the published experiments that Flatrock is measured by, scaled to the
// machine, and prints their tables beside the published ones.
//
//	go run ./bench/experiment                     lists the experiments
//	go run ./bench/experiment e5                  one of them
//	go run ./bench/experiment -num=300000 e5
//
// An experiment is a file here, with an entry in experiments. It runs the driver (go run
// ./bench), and RocksDB's db_bench if there is one, as programs of their own with the
// published command lines, so that each starts from nothing; databases go under -dir and are
// removed at the end.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// experiments is the list of all of them.
var experiments = []experiment{
	{"e2", "block cache traces: what reads lose by them", runE2, 5},
	{"e5", "checksums for each entry of cached blocks: what reads lose by them", runE5, 3},
}

// experiment is one of the list.
type experiment struct {
	name, about string
	run         func(*lab) error
	rounds      int // unless -rounds says otherwise
}

// lab is where an experiment runs.
type lab struct {
	settings
	ctx      context.Context
	out, log io.Writer
}

// settings are the flags, the same for all experiments.
type settings struct {
	num      int64
	rounds   int
	duration time.Duration
	dir      string
	bench    string // the driver; empty builds it
	dbBench  string // RocksDB's; empty leaves it out
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "experiment: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) (err error) {
	l := &lab{ctx: ctx, out: out, log: log}
	f := flag.NewFlagSet("experiment", flag.ContinueOnError)
	f.SetOutput(log)
	f.Int64Var(&l.num, "num", 0, "keys; zero means as many as the experiment had, or what fits the machine")
	f.IntVar(&l.rounds, "rounds", 3, "alternating runs, of which tables show medians; five for e2")
	f.DurationVar(&l.duration, "duration", 0, "how long a run reads, where it is not a number of reads; zero means what the experiment chooses")
	f.StringVar(&l.dir, "dir", "/dev/shm", "directory under which databases are made, and removed at the end")
	f.StringVar(&l.bench, "bench", "", "Flatrock's driver; empty builds it with go build")
	f.StringVar(&l.dbBench, "db_bench", "db_bench", "RocksDB's db_bench, left out if it is not there")
	f.Usage = func() {
		fmt.Fprintln(log, "go run ./bench/experiment [flags] NAME; the experiments:")
		for _, e := range experiments {
			fmt.Fprintf(log, "  %-4s %s\n", e.name, e.about)
		}
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		f.Usage()
		return nil
	}
	given := false
	f.Visit(func(g *flag.Flag) { given = given || g.Name == "rounds" })
	i := slices.IndexFunc(experiments, func(e experiment) bool { return e.name == f.Arg(0) })
	switch {
	case i < 0:
		return fmt.Errorf("no experiment %q; without arguments they are listed", f.Arg(0))
	case f.NArg() > 1:
		return fmt.Errorf("unexpected argument %q: flags come before the name", f.Arg(1))
	case l.num < 0 || l.rounds < 1 || l.duration < 0:
		return fmt.Errorf("-num=%d -rounds=%d -duration=%v: want at least 0, 1 and 0", l.num, l.rounds, l.duration)
	}
	if !given {
		l.rounds = experiments[i].rounds
	}
	if l.dbBench, err = exec.LookPath(l.dbBench); err != nil {
		fmt.Fprintf(log, "without RocksDB: %v\n", err)
		l.dbBench = ""
	}
	if l.dir, err = os.MkdirTemp(l.dir, "flatrock-"+f.Arg(0)+"-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.bench == "" {
		l.bench = filepath.Join(l.dir, "bench")
		build := exec.CommandContext(ctx, "go", "build", "-o", l.bench, "github.com/flatrock-db/flatrock/bench")
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", build, err, text)
		}
	}
	return experiments[i].run(l)
}

// child runs a program and returns the lines it printed and the CPU time it took, user and
// system, of all its threads.
func (l *lab) child(program string, args ...string) (lines []string, cpu time.Duration, err error) {
	c := exec.CommandContext(l.ctx, program, args...)
	var text, errs bytes.Buffer
	c.Stdout, c.Stderr = &text, &errs
	if err := c.Run(); err != nil {
		return nil, 0, fmt.Errorf("%v: %w\n%s%s", c, err, text.Bytes(), errs.Bytes())
	}
	return strings.Split(text.String(), "\n"), c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}

// median of what was measured; zero of nothing.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}

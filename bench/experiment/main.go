// Experiment runs the published experiments that Flatrock is measured by, scaled to the
// machine, and prints their tables beside the published ones.
//
//	go run ./bench/experiment                     lists the experiments
//	go run ./bench/experiment e5                  one of them
//	go run ./bench/experiment e3 --scale=0.1      at a tenth of the published number of keys
//
// An experiment is a file here, with an entry in experiments. It runs the driver (go run
// ./bench) and RocksDB's db_bench (see engine) as programs of their own with the
// published command lines, so that each starts from nothing, and takes turns between them;
// databases go under -dir and are removed at the end. A count that cannot be right fails it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// experiments is the list of all of them.
var experiments = []experiment{
	{"e1", "RAM-resident plain tables read while written: what placing threads and memory on NUMA nodes gains", runE1, 3, e1Keys, 0.0625},
	{"e2", "block cache traces: what reads lose by them", runE2, 5, e2Keys, 1},
	{"e3", "range tombstones: what reads lose by them", runE3, 3, e3Keys, 1},
	{"e4", "read while writing: what more readers gain", runE4, 3, e4Keys, 0.002},
	{"e5", "checksums for each entry of cached blocks: what reads lose by them", runE5, 3, e5Keys, 1},
	{"sustained", "fillrandom and overwrite until levels settle: amplification, level 0 and stalls", runSustained, 1, sustainedKeys, 1},
}

// experiment is one of the list.
type experiment struct {
	name, about string
	run         func(*lab) error
	rounds      int     // unless -rounds says otherwise
	keys        int64   // as published
	scale       float64 // of keys that fits two databases into /dev/shm of a machine with 24 GiB
}

// lab is where an experiment runs.
type lab struct {
	settings
	ctx      context.Context
	out, log io.Writer
	report   *report.Report // what -json and -html write
}

// settings are the flags, the same for all experiments.
type settings struct {
	num      int64
	scale    float64
	rounds   int
	duration time.Duration
	dir      string
	bench    string // the driver; empty builds it
	json     string
	html     string
	dbBench  string // RocksDB's; empty leaves it out (-db_bench=none)
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
	f.Int64Var(&l.num, "num", 0, "keys; zero means what -scale says")
	f.Float64Var(&l.scale, "scale", 0, "share of the published number of keys; zero means what fits 24 GiB of memory")
	f.IntVar(&l.rounds, "rounds", 0, "alternating runs, of which tables show medians; zero means what the experiment chooses")
	f.DurationVar(&l.duration, "duration", 0, "how long a run reads, where it is not a number of reads; zero means what the experiment chooses")
	f.StringVar(&l.dir, "dir", "/dev/shm", "directory under which databases are made, and removed at the end")
	f.StringVar(&l.bench, "bench", "", "Flatrock's driver; empty builds it with go build")
	f.StringVar(&l.dbBench, "db_bench", "db_bench", "RocksDB's db_bench; none leaves RocksDB out")
	f.StringVar(&l.json, "json", "", "file for what was measured as JSON, which bench/compare -report reads")
	f.StringVar(&l.html, "html", "", "the same as an HTML page")
	f.Usage = func() {
		fmt.Fprintln(log, "go run ./bench/experiment NAME [flags]; the experiments:")
		for _, e := range experiments {
			fmt.Fprintf(log, "  %-9s %s; %d keys published, %d by default\n", e.name, e.about, e.keys, int64(e.scale*float64(e.keys)))
		}
		f.PrintDefaults()
	}
	var names []string // flags may stand before and behind them
	for rest := args; ; {
		if err := f.Parse(rest); err != nil {
			return err
		}
		if f.NArg() == 0 {
			break
		}
		names, rest = append(names, f.Arg(0)), f.Args()[1:]
	}
	if len(names) == 0 {
		f.Usage()
		return nil
	}
	i := slices.IndexFunc(experiments, func(e experiment) bool { return e.name == names[0] })
	switch {
	case i < 0:
		return fmt.Errorf("no experiment %q; without arguments they are listed", names[0])
	case len(names) > 1:
		return fmt.Errorf("unexpected argument %q: one experiment at a time", names[1])
	case l.num < 0 || l.rounds < 0 || l.duration < 0 || !(l.scale >= 0) || l.scale > 0 && l.num > 0:
		return fmt.Errorf("-num=%d -scale=%g -rounds=%d -duration=%v: want no negative numbers, and -num or -scale", l.num, l.scale, l.rounds, l.duration)
	}
	e := experiments[i]
	l.rounds = cmp.Or(l.rounds, e.rounds)
	if l.num == 0 {
		l.num = max(int64(cmp.Or(l.scale, e.scale)*float64(e.keys)), 1)
	}
	if l.dbBench == "none" {
		l.dbBench = ""
	} else if l.dbBench, err = program.FindDBBench(l.dbBench, "-db_bench", "-db_bench=none"); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp(l.dir, "flatrock-"+e.name+"-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.dir)) }()
	if l.bench == "" {
		if l.bench, err = program.BuildDriver(ctx, l.dir); err != nil {
			return err
		}
	}
	l.newReport(e.name, args)
	if err := e.run(l); err != nil {
		return err
	}
	return l.report.WriteFiles(l.json, l.html)
}

// Peers runs the same workloads over Flatrock, RocksDB and the Go stores that a person
// would choose between, one process each and in turn, and reports medians: README.md says
// what is measured and how each store is set up.
//
//	cd bench/peers && go run .                       everything, within a quarter of an hour
//	go run . --scale=0.1 --rounds=1                  a first look
//	go run . --stores=flatrock-plain,pebble --workloads=readrandom --html=peers.html
//
// Every value that is read is compared with what was written (db_bench has only counts);
// a store that answers wrongly, or fails otherwise, is left out of the report, which says so, and fails the run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// settings are the flags.
type settings struct {
	scale    float64
	sizes    []float64
	stores   []string
	reads    []string // workloads
	rounds   int
	threads  []int
	duration time.Duration
	writes   int
	dir      string
	dbBench  string
	json     string
	html     string
	args     []string
}

// keysAtScaleOne is the data at --scale=1: 120 MB, which fits the caches of all.
const keysAtScaleOne = 1_000_000

func main() {
	if len(os.Args) == 2 && os.Args[1] == childFlag {
		if err := childMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	s, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		_, err = compare(ctx, s, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "peers: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (s settings, err error) {
	s.args = args
	var names []string
	for _, w := range readWorkloads {
		names = append(names, w.Name)
	}
	dir := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		dir = "/dev/shm"
	}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(errs)
	f.Float64Var(&s.scale, "scale", 0.5, "share of a million keys")
	sizes := f.String("sizes", "0.1,1", "sizes of the data, as shares of --scale; more than one makes a curve. The largest is read with all numbers of threads, others with the first")
	stores := f.String("stores", peerNames(), "stores")
	reads := f.String("workloads", strings.Join(names, ","), "workloads that read; load, reopen, memory and disk are always measured")
	f.IntVar(&s.rounds, "rounds", 3, "alternating runs, of which medians are shown")
	threads := f.String("threads", "1,2,4", "numbers of reader threads (goroutines); those between the least and the most read with "+strings.Join(curveWorkloads, " and ")+" only")
	f.DurationVar(&s.duration, "duration", time.Second, "length of each workload that reads; db_bench takes whole seconds")
	f.IntVar(&s.writes, "writes", 10240, "writes a second of the paced writer in readwhilewriting")
	f.StringVar(&s.dir, "dir", dir, "directory under which databases are made, and removed at the end")
	f.StringVar(&s.dbBench, "db_bench", "db_bench", "RocksDB's db_bench (Debian's package rocksdb-tools)")
	f.StringVar(&s.json, "json", "", "file for the report as JSON, which bench/compare -report reads")
	f.StringVar(&s.html, "html", "", "file for the report as an HTML page")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if !(s.scale > 0) || s.scale > 1000 || s.rounds < 1 || s.duration <= 0 || s.writes < 0 {
		return s, fmt.Errorf("--scale=%g --rounds=%d --duration=%v --writes=%d: want positive numbers, and a scale up to 1000", s.scale, s.rounds, s.duration, s.writes)
	}
	for _, text := range strings.Split(*sizes, ",") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) || v*s.scale > 4000 {
			return s, fmt.Errorf("--sizes=%s: want positive numbers separated by commas, up to 4 billion keys", *sizes)
		}
		s.sizes = append(s.sizes, v)
	}
	slices.Sort(s.sizes)
	for _, text := range strings.Split(*threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return s, fmt.Errorf("--threads=%s: want positive numbers separated by commas", *threads)
		}
		s.threads = append(s.threads, n)
	}
	slices.Sort(s.threads)
	s.threads = slices.Compact(s.threads)
	if s.stores, err = choose("stores", *stores, peerNames()); err != nil {
		return s, err
	}
	s.reads, err = choose("workloads", *reads, strings.Join(names, ","))
	return s, err
}

// choose takes names from a list, in the list's order.
func choose(name, chosen, all string) (out []string, err error) {
	known, want := strings.Split(all, ","), strings.Split(chosen, ",")
	for _, w := range want {
		if !slices.Contains(known, w) {
			return nil, fmt.Errorf("--%s=%s: no %q; there are %s", name, chosen, w, all)
		}
	}
	return slices.DeleteFunc(known, func(k string) bool { return !slices.Contains(want, k) }), nil
}

// keys are the sizes in keys: whole batches, since db_bench writes nothing else.
func (s settings) keys() (all []int64) {
	for _, size := range s.sizes {
		n := max(int64(size*s.scale*keysAtScaleOne)/loadBatch*loadBatch, loadBatch)
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// compare runs everything and writes the report. A store that fails is left out of it, and fails the run
// in the end.
func compare(ctx context.Context, s settings, out, log io.Writer) (r *report.Report, err error) {
	dir, err := os.MkdirTemp(s.dir, "flatrock-peers-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if r, err = s.newReport(ctx); err != nil {
		return nil, err
	}
	p := s.plan()
	fmt.Fprintf(log, "%d runs, about %s\n", len(p.runs), roughly(p.remaining()))
	var failures []error
	for !p.done() {
		x := p.next()
		begin := time.Now()
		samples, err := s.runStore(ctx, self, filepath.Join(dir, "db"), x)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			err = fmt.Errorf("%s, %d keys: %w", x.store, x.keys, err)
			fmt.Fprintf(log, "FAILED: %v\n", err)
			failures = append(failures, err)
			r.Fail(x.store, err)
			p.drop(x.store)
			continue
		}
		for _, v := range samples {
			r.Add(x.store, v.Workload, v.Metric, v.Threads, x.keys, v.Value)
		}
		p.took(x, time.Since(begin))
		fmt.Fprintf(log, "%d of %d: %s, %d keys, round %d of %d took %.1f s; about %s left\n", p.at, len(p.runs), x.store, x.keys, x.round+1, s.rounds, time.Since(begin).Seconds(), roughly(p.remaining()))
	}
	if err := r.WriteFiles(s.json, s.html); err != nil {
		return nil, err
	}
	return r, errors.Join(append(failures, r.Text(out))...)
}

// newReport describes what will run.
func (s *settings) newReport(ctx context.Context) (*report.Report, error) {
	r := &report.Report{
		Title: "Flatrock beside its peers", Date: time.Now().UTC().Truncate(time.Second), Machine: report.DescribeMachine(s.dir),
		Commands:  []string{strings.TrimSpace("cd bench/peers && go run . " + strings.Join(s.args, " "))},
		Workloads: s.workloads(),
		Notes: []string{
			fmt.Sprintf("Keys of %d bytes, values of %d; nothing is compressed. Medians of %d round(s) of %v in which the stores took turns, each in a process of its own.", keySize, valueSize, s.rounds, s.duration),
			"Every value read from the Go stores was compared with what was written; of RocksDB's db_bench the counts of found keys were.",
			"Debian's db_bench has assertions on, which makes it about 1.5 times slower than a release build. It counts latencies in whole microseconds and interpolates, makes an iterator for each seek, and its memory is the peak. Its time to open has no first read in it.",
			fmt.Sprintf("Latencies of the Go stores are of every %dth operation.", timedOneIn),
		},
	}
	for _, name := range s.stores {
		p, _ := findPeer(name)
		version := moduleVersion(p.module)
		if p.module == flatrockModule {
			version = program.TreeVersion(ctx)
		}
		if p.open == nil {
			path, err := program.FindDBBench(s.dbBench, "--db_bench", "--stores")
			if err != nil {
				return nil, err
			}
			s.dbBench, version = path, program.Version(ctx, path)
		}
		r.Stores = append(r.Stores, report.Store{Name: name, Version: version, Settings: p.about, Subject: p.subject})
	}
	return r, nil
}

func (s settings) workloads() (all []report.Workload) {
	for _, w := range readWorkloads {
		if slices.Contains(s.reads, w.Name) {
			if w.Name == "readwhilewriting" {
				w.About += fmt.Sprintf(" (%d a second)", s.writes)
			}
			all = append(all, w)
		}
	}
	return append(all, otherWorkloads...)
}

// runStore loads a database, reads it, and removes it.
func (s settings) runStore(ctx context.Context, self, dir string, x storeRun) (all []sample, err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, _ := findPeer(x.store)
	for _, load := range []bool{true, false} {
		t := task{Store: x.store, Dir: dir, Load: load, Keys: x.keys, Seed: uint64(x.round + 1), Duration: s.duration, Threads: s.threads, Workloads: s.reads, Writes: s.writes}
		if !x.largest {
			t.Threads = t.Threads[:1]
		}
		var samples []sample
		switch c := (rocks{ctx, s.dbBench, p, t, x.largest}); {
		case p.open != nil:
			samples, err = child(ctx, self, t)
		case load:
			samples, err = c.load()
		default:
			samples, err = c.read()
		}
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	return all, nil
}

// child gives a task to a process of its own.
func child(ctx context.Context, self string, t task) (samples []sample, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, self, childFlag)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(text), &out, &errs
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w\n%s", err, program.LastLines(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &samples); err != nil {
		return nil, fmt.Errorf("child's output: %w", err)
	}
	return samples, nil
}

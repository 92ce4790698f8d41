// Compare runs RocksDB's db_bench and Flatrock's driver in turn on the same machine
// and prints throughputs, CPU time an operation, and their ratios. It has two suites:
// plain has the flags of experiment E1 (a RAM-resident database on plain tables) scaled
// to the machine, block those of experiment E5 (block-based tables behind block caches of several sizes).
//
//	go run ./bench/compare                             plain, about half an hour
//	go run ./bench/compare -suite=block
//	go run ./bench/compare -num=200000 -duration=1s -rounds=1
//	go run ./bench/compare -heap                       the Go heap and the collector, ours only
//	go run ./bench/compare -json=plain.json -html=plain.html
//	go run ./bench/compare -report=plain.json,peers.json -html=all.html
//
// With -report it measures nothing: it makes one report, text and with -html a page, of what
// suites, bench/peers and bench/experiment wrote as JSON; several files of one machine are merged.
//
// Each round of plain fills a database of each engine anew, compacts it fully, and reads
// it at each number of threads: RocksDB first, then Flatrock with each memory policy. For
// block see blockRound. Ratios are of medians over the rounds. A benchmark that does not
// find what it should fails the run.
//
// CPU time is user and system time of a process with all its threads, as its parent sees
// it. A machine shared with others hurts it less than it does throughput. Every
// measurement has a process of its own, and what the same process without the benchmark
// takes, a start-up or a warm-up, is subtracted where a table says so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
)

// settings are the flags.
type settings struct {
	suite    string // plain or block
	num      int64
	duration time.Duration
	rounds   int
	threads  []int
	policies []string
	dir      string // where databases go
	dbBench  string
	bench    string // the driver; empty builds it
	heap     bool
	tails    bool     // measure latencies, too
	reports  []string // JSON; instead of measuring
	json     string
	html     string
	writes   int // a second, beside the readers
	args     []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	s, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, s, os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string, errs io.Writer) (settings, error) {
	s := settings{args: args}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&s.suite, "suite", "plain", "plain: a RAM-resident database, experiment E1; block: block-based tables, experiment E5")
	f.Int64Var(&s.num, "num", 0, "keys; zero means 10 million in plain, 5 million in block")
	f.DurationVar(&s.duration, "duration", 10*time.Second, "length of each reading benchmark at random, in whole seconds")
	f.IntVar(&s.rounds, "rounds", 3, "rounds")
	threads := f.String("threads", "1,2", "plain: numbers of reader threads")
	policies := f.String("policies", "resident,populate", "plain: memory policies of Flatrock's plain tables: none, willneed, populate, lock, resident")
	f.StringVar(&s.dir, "dir", "/dev/shm", "directory under which the databases are made, and removed at the end")
	f.StringVar(&s.dbBench, "db_bench", "db_bench", "RocksDB's db_bench")
	f.StringVar(&s.bench, "bench", "", "Flatrock's driver; empty builds it with go build")
	f.IntVar(&s.writes, "writes", 10240, "plain: writes a second of readwhilewriting")
	f.BoolVar(&s.heap, "heap", false, "plain, instead: load, read, and print the Go heap and the collector's share of CPU")
	f.BoolVar(&s.tails, "tails", false, "run each reading benchmark at random once more with histograms, which cost time, for the latencies of the report")
	f.StringVar(&s.json, "json", "", "file for the report as JSON, which -report reads")
	f.StringVar(&s.html, "html", "", "file for the report as an HTML page")
	reports := f.String("report", "", "instead: make one report, text and with -html a page, of these JSON files, separated by commas")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if *reports != "" {
		s.reports = strings.Split(*reports, ",")
	}
	if s.reports != nil && s.json != "" {
		return s, fmt.Errorf("-json and -report: a report has its JSON already")
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if s.suite != "plain" && s.suite != "block" {
		return s, fmt.Errorf("-suite=%s: want plain or block", s.suite)
	}
	if s.num == 0 {
		s.num = 10_000_000
		if s.suite == "block" {
			s.num = 5_000_000
		}
	}
	if s.heap && s.suite != "plain" {
		return s, fmt.Errorf("-heap needs -suite=plain")
	}
	if s.heap && (s.json != "" || s.html != "") {
		return s, fmt.Errorf("-heap makes no report")
	}
	if s.num < 1 || s.rounds < 1 || s.duration < time.Second {
		return s, fmt.Errorf("-num=%d -rounds=%d -duration=%v: want at least 1, 1 and 1s", s.num, s.rounds, s.duration)
	}
	for _, t := range strings.Split(*threads, ",") {
		n, err := strconv.Atoi(t)
		if err != nil || n < 1 {
			return s, fmt.Errorf("-threads=%s: want positive numbers separated by commas", *threads)
		}
		s.threads = append(s.threads, n)
	}
	s.policies = strings.Split(*policies, ",")
	return s, nil
}

func run(ctx context.Context, s settings, out, log io.Writer) (err error) {
	if s.reports != nil {
		return s.writeReport(out)
	}
	dir, err := os.MkdirTemp(s.dir, "flatrock-compare-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if s.bench == "" {
		fmt.Fprintln(log, "building the driver …")
		if s.bench, err = program.BuildDriver(ctx, dir); err != nil {
			return err
		}
	}
	c := newComparison(ctx, s, dir, log)
	if s.heap {
		return c.measureHeap(out)
	}
	round, table := c.round, c.print
	if s.suite == "block" {
		round, table = c.blockRound, c.printBlock
	}
	for i := range s.rounds {
		if err := round(i); err != nil {
			return err
		}
	}
	table(out)
	return c.report.WriteFiles(s.json, s.html)
}

// engine is a program with a memory policy: RocksDB's is empty.
type engine struct{ name, policy string }

var rocksDB = engine{name: "RocksDB"}

func (s settings) flatrocks() []engine {
	var all []engine
	for _, p := range s.policies {
		all = append(all, engine{"Flatrock", p})
	}
	return all
}

// readBenchmarks run on the filled database, the one that writes last.
var readBenchmarks = []string{"readrandom", "readmissing", "multireadrandom", "seekrandom", "readwhilewriting"}

const (
	keySize   = 20
	valueSize = 100
)

// flags are those of E1, as both programs take them.
func (c *comparison) flags(e engine, round int) []string {
	f := strings.Fields(`--num_levels=6 --key_size=20 --prefix_size=20 --keys_per_prefix=0 --value_size=100
		--cache_size=17179869184 --compression_type=none --compression_ratio=1
		--write_buffer_size=134217728 --max_write_buffer_number=2
		--level0_file_num_compaction_trigger=8 --level0_slowdown_writes_trigger=16 --level0_stop_writes_trigger=24
		--target_file_size_base=134217728 --max_bytes_for_level_base=1073741824
		--disable_wal=0 --sync=0 --verify_checksum=1 --statistics=0 --histogram=0
		--use_plain_table=1 --mmap_read=1 --memtablerep=prefix_hash --bloom_bits=10 --bloom_locality=1
		--batch_size=1 --report_open_timing=1`)
	f = append(f,
		"--db="+filepath.Join(c.dir, e.name),
		fmt.Sprintf("--num=%d", c.num),
		fmt.Sprintf("--seed=%d", round+1))
	if e == rocksDB {
		// Without these two db_bench 7.8.3 does not start with a hash memtable.
		return append(f, "--allow_concurrent_memtable_write=0", "--perf_level=1", "--open_files=-1", "--max_background_compactions=4", "--cache_numshardbits=6")
	}
	return append(f, "--plain_table_memory="+e.policy)
}

func (c *comparison) round(round int) error {
	ours := c.flatrocks()
	for _, e := range []engine{rocksDB, ours[0]} {
		if err := os.RemoveAll(filepath.Join(c.dir, e.name)); err != nil {
			return err
		}
		fill, cpu, err := c.fill(round, e, c.flags(e, round), "filluniquerandom")
		if err != nil {
			return err
		}
		// The fill does not depend on how files are read: one measurement serves all policies.
		for _, same := range append([]engine{rocksDB}, ours...) {
			if same.name == e.name {
				c.add(same, "filluniquerandom", 1, fill, cpu)
			}
		}
	}
	for _, threads := range c.threads {
		for _, e := range append([]engine{rocksDB}, ours...) {
			if err := c.read(round, e, threads); err != nil {
				return err
			}
		}
	}
	return nil
}

// read measures the reading benchmarks, each in a process of its own. The compaction
// in front merges what readwhilewriting before left in level 0.
func (c *comparison) read(round int, e engine, threads int) error {
	flags := append(c.flags(e, round), "--use_existing_db=1")
	if _, err := c.child(round, e, threads, flags, "--benchmarks=compactall", "--threads=1"); err != nil {
		return err
	}
	startup, err := c.child(round, e, threads, flags, "--benchmarks=levelstats")
	if err != nil {
		return err
	}
	for _, timing := range []struct{ name, metric string }{{"OpenDb", "open"}, {"LoadDb", "loaded"}} {
		if ms, ok := startup.Lines.Timing(timing.name); ok {
			c.report.Add(e.title(), rowOpen, timing.metric, 0, c.num, ms)
		}
	}
	for _, name := range readBenchmarks {
		more := []string{
			"--benchmarks=" + name,
			fmt.Sprintf("--threads=%d", threads),
			fmt.Sprintf("--duration=%d", int(c.duration.Seconds())),
			"--batch_size=32", "--multiread_batched=1", "--seek_nexts=10",
			fmt.Sprintf("--benchmark_write_rate_limit=%d", c.writes*(keySize+valueSize)),
		}
		o, l, err := c.reading(round, e, threads, flags, name, more...)
		if err != nil {
			return err
		}
		c.add(e, name, threads, l, o.CPU-startup.CPU)
		if w, err := o.Lines.First("bgwriter"); err == nil { // RocksDB prints none
			c.report.Add(e.title(), name, "writer", threads, c.num, w.OpsPerSecond)
		}
		if err := c.tail(round, e, name, threads, flags, name, more...); err != nil {
			return err
		}
	}
	return nil
}

// child runs a program.
func (c *comparison) child(round int, e engine, threads int, flags []string, more ...string) (*program.Output, error) {
	name := c.dbBench
	if e != rocksDB {
		name = c.bench
	}
	what := strings.TrimPrefix(more[0], "--benchmarks=")
	fmt.Fprintf(c.log, "round %d of %d: %s, %d threads: %s …\n", round+1, c.rounds, e.title(), threads, what)
	return program.Run(c.ctx, name, slices.Concat(flags, more)...)
}

// fill runs a benchmark that writes all keys, and says what it and its process took.
func (c *comparison) fill(round int, e engine, flags []string, benchmark string) (program.Result, time.Duration, error) {
	o, err := c.child(round, e, 1, flags, "--benchmarks="+benchmark, "--threads=1")
	if err != nil {
		return program.Result{}, 0, err
	}
	l, err := o.Lines.First(benchmark)
	if err == nil && l.Operations != c.num {
		err = fmt.Errorf("filled %d of %d keys", l.Operations, c.num)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", e.name, err)
	}
	return l, o.CPU, err
}

// reading runs a benchmark that reads, and checks that it found what it should.
func (c *comparison) reading(round int, e engine, threads int, flags []string, benchmark string, more ...string) (*program.Output, program.Result, error) {
	o, err := c.child(round, e, threads, flags, more...)
	if err != nil {
		return nil, program.Result{}, err
	}
	l, err := o.Lines.First(benchmark)
	switch {
	case err != nil:
	case l.Read == 0:
		err = fmt.Errorf("%s read nothing", benchmark)
	case benchmark == "readmissing" && l.Found != 0:
		err = fmt.Errorf("readmissing found %d keys that do not exist", l.Found)
	case benchmark != "readmissing" && l.Found != l.Read:
		err = fmt.Errorf("%s found %d of %d keys", benchmark, l.Found, l.Read)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", e.name, err)
	}
	return o, l, err
}

// tail runs a benchmark that reads once more, with histograms, if that is asked for.
func (c *comparison) tail(round int, e engine, row string, threads int, flags []string, benchmark string, more ...string) error {
	if !c.tails {
		return nil
	}
	_, l, err := c.reading(round, e, threads, flags, benchmark, append(slices.Clone(more), "--histogram=1")...)
	if err != nil {
		return err
	}
	if l.P999 == 0 {
		return fmt.Errorf("%s printed no percentiles of %s", e.name, benchmark)
	}
	c.report.Add(e.title(), c.workload(row), "p50", threads, c.num, l.P50)
	c.report.Add(e.title(), c.workload(row), "p99", threads, c.num, l.P99)
	c.report.Add(e.title(), c.workload(row), "p99.9", threads, c.num, l.P999)
	return nil
}

// measureHeap prints what the driver's benchmark heap says after loading and after reading.
func (c *comparison) measureHeap(out io.Writer) error {
	e := c.flatrocks()[0]
	c.rounds = 1
	o, err := c.child(0, e, c.settings.threads[0], c.flags(e, 0), "--benchmarks=filluniquerandom,compact,heap,readrandom,heap",
		fmt.Sprintf("--threads=%d", c.settings.threads[0]), fmt.Sprintf("--duration=%d", int(c.duration.Seconds())))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d keys of %d bytes with values of %d bytes, policy %s; heap after loading, then after reading for %v:\n",
		c.num, keySize, valueSize, e.policy, c.duration)
	for _, l := range o.Lines {
		if strings.HasPrefix(l, "heap ") || strings.Contains(l, "micros/op") {
			fmt.Fprintln(out, l)
		}
	}
	return nil
}

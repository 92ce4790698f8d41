package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/progress"
	"github.com/flatrock-db/flatrock/internal/traceanalysis"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

const traceText = `flatrock trace block-cache analyze FILE [options]
    Tell what a block cache trace says: hits and misses by block type, caller, level,
    family and over time, reuse, the working set, the most used blocks and keys, and the
    miss ratios that caches of other sizes and policies would have.

    --format=text|csv|html      default: text; html is one page with charts
    --output=PATH               write there instead of to standard output
    --capacities=64MB,1GB       caches to simulate; default: a series that fits the trace
    --policies=lru,flatrock     of lru, clock, flatrock (Flatrock's own), and these behind a
                                ghost cache: ghost_lru, ...; default: all
    --sampling_frequency=N      the trace has one of N blocks; default: found out, which works
                                for traces that Flatrock wrote
    --total_accesses=N          accesses while the trace was written, if it is a sample; default: estimated
    --max_blocks=N              blocks to follow one by one, which bounds memory; default: 1048576
    --top=N                     blocks and keys to list; default: 20

flatrock trace block-cache human FILE [--output=PATH]
    Print RocksDB's human-readable columns, a line an access.

flatrock trace query analyze FILE [--format=text|csv] [--top=N]
    Count the operations of a query trace, by kind, family and over time, and list the most used keys.

flatrock trace query replay FILE --db=DIR [options]
    Execute the operations on the database.

    --trace_replay_fast_forward=X   times faster than they were traced; default: 1
    --trace_replay_threads=N        goroutines; default: 1
    --create_if_missing             begin with an empty database, of the default family

FILE and PATH may be -, for standard input and output. Traces come from DB.StartBlockCacheTrace and DB.StartTrace, from
go run ./bench --block_cache_trace_file=FILE --trace_file=FILE, and from RocksDB.

Examples:
    flatrock trace block-cache analyze --format=html --output=report.html cache.trace
    flatrock trace query analyze --top=50 queries.trace
    flatrock trace query replay queries.trace --db=COPY --trace_replay_threads=4
`

// trace is the tool for traces.
func (a *app) trace(args []string) error {
	p := parseArguments(args)
	if len(p.words) == 0 || p.words[0] == "help" || p.has("help") {
		_, err := io.WriteString(a.out, traceText)
		return err
	}
	if len(p.words) != 3 {
		return usagef("expected flatrock trace KIND COMMAND FILE, found %q; see flatrock help trace", strings.Join(args, " "))
	}
	name := p.words[2]
	var known []string
	var run func(*arguments, string) error
	switch p.words[0] + " " + p.words[1] {
	case "block-cache analyze":
		known = []string{"format", "output", "capacities", "policies", "sampling_frequency", "total_accesses", "max_blocks", "top"}
		run = a.traceAnalyze
	case "block-cache human":
		known, run = []string{"output"}, a.traceHuman
	case "query analyze":
		known, run = []string{"format", "output", "top"}, a.queryAnalyze
	case "query replay":
		known, run = []string{"db", "trace_replay_fast_forward", "trace_replay_threads", "create_if_missing"}, a.queryReplay
	default:
		return usagef("unknown trace command %q; see flatrock help trace", p.words[0]+" "+p.words[1])
	}
	if bad, ok := p.unknown(known); ok {
		return usagef("unknown option --%s; see flatrock help trace", bad)
	}
	return run(&p, name)
}

// openTrace opens a trace for reading.
func (a *app) openTrace(name string) (io.ReadCloser, error) {
	f, err := a.readFrom(name)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{bufio.NewReaderSize(f, 1<<20), f}, nil
}

// output is where a command writes, and what finishes it, given what became of the writing.
func (a *app) output(p *arguments) (io.Writer, func(error) error, error) {
	if !p.has("output") || p.text("output") == dash {
		return a.out, func(err error) error { return err }, nil
	}
	temp, done := whole(p.text("output"))
	f, err := os.Create(temp)
	if err != nil {
		return nil, nil, err
	}
	b := bufio.NewWriterSize(f, 256<<10)
	return b, func(err error) error { return done(errors.Join(err, b.Flush(), f.Close())) }, nil
}

func (a *app) traceAnalyze(p *arguments, name string) error {
	o := traceanalysis.Options{}
	var err error
	number := func(option string) uint64 {
		if err != nil {
			return 0
		}
		var n uint64
		n, err = p.number(option, 0)
		return n
	}
	o.Every, o.Total = number("sampling_frequency"), number("total_accesses")
	blocks, top := number("max_blocks"), number("top")
	o.MaxBlocks, o.Top = int(min(blocks, 1<<30)), int(min(top, 1<<12))
	if err != nil {
		return err
	}
	if p.has("capacities") {
		if o.Capacities, err = parseSizes(p.text("capacities")); err != nil {
			return err
		}
	}
	if p.has("policies") {
		o.Policies = strings.Split(p.text("policies"), ",")
	}
	write := map[string]func(*traceanalysis.Report, io.Writer) error{
		"": (*traceanalysis.Report).WriteText, "text": (*traceanalysis.Report).WriteText,
		"csv": (*traceanalysis.Report).WriteCSV, "html": (*traceanalysis.Report).WriteHTML}[p.text("format")]
	if write == nil {
		return usagef("--format: expected text, csv or html, found %q", p.text("format"))
	}
	path, remove, err := a.spooled(name, "trace") // it is read twice
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return errors.Join(err, remove())
	}
	end := a.traceProgress(&o, info.Size())
	open := func() (io.ReadCloser, error) {
		if err := a.ctx.Err(); err != nil {
			return nil, err
		}
		in, err := a.openTrace(path)
		return &cancelled{a.ctx, in}, err
	}
	r, failed := traceanalysis.Analyze(open, name, o)
	end()
	if err := remove(); err != nil {
		return errors.Join(failed, err)
	}
	if r == nil || errors.Is(failed, context.Canceled) {
		return failed
	}
	w, done, err := a.output(p)
	if err != nil {
		return err
	}
	if err := done(write(r, w)); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("the report is about what comes before this damage: %w", failed)
	}
	return nil
}

// cancelled ends reading with the context.
type cancelled struct {
	ctx context.Context
	io.ReadCloser
}

func (c *cancelled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.ReadCloser.Read(b)
}

// traceProgress shows on a terminal how far a long analysis is.
func (a *app) traceProgress(o *traceanalysis.Options, size int64) (end func()) {
	var pass, at, seen atomic.Int64
	pass.Store(1)
	o.Progress = func(offset int64, accesses uint64) {
		if offset < at.Swap(offset) {
			pass.Add(1)
		}
		seen.Store(int64(accesses))
	}
	return a.showProgress(false, func() string {
		return fmt.Sprintf("reading %d of 2: %s, %d accesses", pass.Load(), progress.Part(at.Load(), size), seen.Load())
	})
}

// parseSizes reads sizes such as 512, 64KB, 1.5GB, separated by commas.
func parseSizes(list string) (out []int64, err error) {
	for _, s := range strings.Split(list, ",") {
		text, unit := strings.ToUpper(strings.TrimSpace(s)), int64(1)
		text = strings.TrimSuffix(strings.TrimSuffix(text, "B"), "I")
		for i, u := range []string{"K", "M", "G", "T"} {
			if t, ok := strings.CutSuffix(text, u); ok {
				text, unit = t, 1<<(10*(i+1))
			}
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v >= 0) || v*float64(unit) > 1<<60 {
			return nil, usagef("expected a size such as 64MB, found %q", s)
		}
		out = append(out, int64(v*float64(unit)))
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func (a *app) traceHuman(p *arguments, name string) error {
	in, err := a.openTrace(name)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := tracefile.NewBlockReader(&cancelled{a.ctx, in}, name)
	if err != nil {
		return err
	}
	w, done, err := a.output(p)
	if err != nil {
		return err
	}
	var h tracefile.Human
	var access tracefile.BlockAccess
	var line []byte
	for {
		if err = r.Read(&access); err != nil {
			break
		}
		line = h.AppendLine(line[:0], &access)
		if _, err = w.Write(line); err != nil {
			break
		}
	}
	if err == io.EOF {
		err = nil
	}
	return done(err)
}

func (a *app) queryAnalyze(p *arguments, name string) error {
	top, err := p.number("top", 20)
	if err != nil {
		return err
	}
	if f := p.text("format"); f != "" && f != "text" && f != "csv" {
		return usagef("--format: expected text or csv, found %q", f)
	}
	in, err := a.openTrace(name)
	if err != nil {
		return err
	}
	defer in.Close()
	r, failed := traceanalysis.AnalyzeQueries(&cancelled{a.ctx, in}, name, int(min(top, 1<<12)))
	if r == nil {
		return failed
	}
	w, done, err := a.output(p)
	if err != nil {
		return err
	}
	write := r.WriteText
	if p.text("format") == "csv" {
		write = r.WriteCSV
	}
	if err := done(write(w)); err != nil {
		return err
	}
	return failed
}

func (a *app) queryReplay(p *arguments, name string) error {
	if p.text("db") == "" {
		return usagef("flatrock trace query replay: --db=DIR is missing")
	}
	threads, err := p.number("trace_replay_threads", 1)
	if err != nil {
		return err
	}
	speed := 1.0
	if p.has("trace_replay_fast_forward") {
		if speed, err = strconv.ParseFloat(p.text("trace_replay_fast_forward"), 64); err != nil || !(speed > 0) {
			return usagef("--trace_replay_fast_forward: expected a number above zero, found %q", p.text("trace_replay_fast_forward"))
		}
	}
	in, err := a.openTrace(name)
	if err != nil {
		return err
	}
	defer in.Close()
	create, err := p.boolean("create_if_missing", false)
	if err != nil {
		return err
	}
	db, err := flatrock.Open(p.text("db"), &flatrock.Options{CreateIfMissing: create})
	if err != nil {
		return err
	}
	r, err := db.NewReplayer(in)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s, err := r.Replay(a.ctx, &flatrock.ReplayOptions{NumThreads: int(min(threads, 1<<12)), FastForward: speed})
	total := int64(0)
	for _, op := range []flatrock.TraceOp{flatrock.TraceWrite, flatrock.TraceGet, flatrock.TraceMultiGet, flatrock.TraceSeek, flatrock.TraceSeekForPrev} {
		if n := s.Ops[op]; n > 0 {
			fmt.Fprintf(a.out, "%-14s %d\n", op, n)
			total += n
		}
	}
	fmt.Fprintf(a.out, "%d operations in %.3f seconds; %d of %d keys found, %d operations failed; at most %.3f seconds late\n",
		total, s.Took.Seconds(), s.Keys-min(s.NotFound, s.Keys), s.Keys, s.Failed, s.Behind.Seconds())
	return errors.Join(err, db.Close())
}

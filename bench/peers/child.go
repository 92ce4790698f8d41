package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
)

// childFlag makes the program a child: it takes a task from standard input and writes
// samples to standard output.
const childFlag = "-child"

// task is what one process does with one store.
type task struct {
	Store, Dir string
	Load       bool // load and settle; otherwise reopen and read
	Keys       int64
	Seed       uint64
	Duration   time.Duration
	Threads    []int
	Workloads  []string
	Writes     int // a second, beside the readers
}

// sample is one figure.
type sample struct {
	Workload, Metric string
	Threads          int
	Value            float64
}

func childMain(in io.Reader, out io.Writer) error {
	var t task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	p, ok := findPeer(t.Store)
	if !ok || p.open == nil {
		return fmt.Errorf("no store %q", t.Store)
	}
	do := readTask
	if t.Load {
		do = loadTask
	}
	samples, err := do(p, t)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(samples)
}

// loadTask loads, settles, closes, and looks at what is on disk.
func loadTask(p peer, t task) (samples []sample, err error) {
	order := shuffled(t.Keys, t.Seed)
	s, err := p.open(t.Dir)
	if err != nil {
		return nil, err
	}
	open := true
	defer func() {
		if open {
			err = errors.Join(err, s.close())
		}
	}()
	ks, vs := make([][]byte, loadBatch), make([][]byte, loadBatch)
	processWrote := wroteBytes()
	cpu, begin := cpuTime(), time.Now()
	for at := 0; at < len(order); at += loadBatch {
		part := order[at:min(at+loadBatch, len(order))]
		for i, n := range part {
			ks[i], vs[i] = putKey(ks[i], int64(n)), putValue(vs[i], int64(n), 0)
		}
		if err := s.write(ks[:len(part)], vs[:len(part)]); err != nil {
			return nil, err
		}
	}
	elapsed, used := time.Since(begin), cpuTime()-cpu
	begin = time.Now()
	if err := s.settle(); err != nil {
		return nil, fmt.Errorf("settle: %w", err)
	}
	settled := time.Since(begin)
	written := s.written()
	open = false
	if err := s.close(); err != nil {
		return nil, err
	}
	if written < 0 {
		written = wroteBytes() - processWrote
	}
	// Some stores keep files of the session for reuse, and remove them when they are opened.
	if s, err = p.open(t.Dir); err == nil {
		err = s.close()
	}
	if err != nil {
		return nil, fmt.Errorf("opening again: %w", err)
	}
	size, err := diskUse(t.Dir)
	if err != nil {
		return nil, err
	}
	return []sample{
		{"load", "throughput", 1, float64(t.Keys) / elapsed.Seconds()},
		{"load", "cpu", 1, float64(used.Nanoseconds()) / 1e3 / float64(t.Keys)},
		{"load", "settle", 1, settled.Seconds() * 1e3},
		{"disk", "size", 0, float64(size)},
		{"disk", "write amplification", 0, float64(written) / float64(t.Keys*(keySize+valueSize))},
	}, nil
}

// readTask opens, checks every value once (which warms what can be warmed), and reads.
func readTask(p peer, t task) (samples []sample, err error) {
	begin := time.Now()
	s, err := p.open(t.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var last atomic.Uint32
	w, err := newWorker(s, t.Keys, t.Seed, &last)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.r.close()) }()
	if err := w.get(t.Keys / 2); err != nil {
		return nil, err
	}
	samples = append(samples, sample{"reopen", "open", 0, time.Since(begin).Seconds() * 1e3})
	for n := range t.Keys {
		if err := w.get(n); err != nil {
			return nil, fmt.Errorf("reading everything once: %w", err)
		}
	}
	for _, workload := range readWorkloads {
		if !slices.Contains(t.Workloads, workload.Name) {
			continue
		}
		for _, threads := range threadsOf(workload.Name, t.Threads) {
			o, err := run(s, workload.Name, t.Keys, threads, t.Duration, t.Seed, t.Writes, &last)
			if err != nil {
				return nil, fmt.Errorf("%s with %d threads: %w", workload.Name, threads, err)
			}
			samples = append(samples, o.samples(workload.Name, threads)...)
		}
	}
	return append(samples, memorySamples()...), nil
}

func (o outcome) samples(workload string, threads int) []sample {
	all := []sample{
		{workload, "throughput", threads, float64(o.ops) / o.elapsed.Seconds()},
		{workload, "p50", threads, percentile(o.latencies, 50)},
		{workload, "p99", threads, percentile(o.latencies, 99)},
		{workload, "p99.9", threads, percentile(o.latencies, 99.9)},
		{workload, "cpu", threads, float64(o.cpu.Nanoseconds()) / 1e3 / float64(o.ops)},
	}
	if workload == "readwhilewriting" {
		all = append(all, sample{workload, "writer", threads, float64(o.written) / o.elapsed.Seconds()})
	}
	return all
}

// memorySamples look at the resident set first: a collection would shrink it. The live
// heap is what one leaves.
func memorySamples() []sample {
	rss := program.ProcNumber("/proc/self/status", "VmRSS:") << 10
	m := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(m)
	goOwn := int64(m[0].Value.Uint64() - m[1].Value.Uint64())
	runtime.GC()
	metrics.Read(m)
	return []sample{
		{"memory", "rss", 0, float64(rss)},
		{"memory", "heap", 0, float64(m[2].Value.Uint64())},
		{"memory", "off-heap", 0, float64(max(rss-goOwn, 0))},
	}
}

// wroteBytes is what this process passed to write calls.
func wroteBytes() int64 { return program.ProcNumber("/proc/self/io", "wchar:") }

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// diskUse sums the blocks of all files under dir, which for files with holes is less than their lengths.
func diskUse(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			total += st.Blocks * 512
		} else {
			total += info.Size()
		}
		return nil
	})
	return total, err
}

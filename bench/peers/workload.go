package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/bench/report"
)

// workloads that read, in the order in which a process runs them: the last one writes.
var readWorkloads = []report.Workload{
	{Name: "readrandom", About: "point reads of keys that exist"},
	{Name: "readmissing", About: "point reads of keys that do not exist, each beside one that does"},
	{Name: "seekrandom", About: fmt.Sprintf("a seek to a key and %d steps", seekNexts)},
	{Name: "multireadrandom", About: fmt.Sprintf("MultiGet of %d keys; throughput counts keys, latencies are of whole calls", multiKeys)},
	{Name: "readwhilewriting", About: "point reads beside one writer with a fixed pace"},
}

// curveWorkloads are read with all numbers of threads, the others with the least and the most.
var curveWorkloads = []string{"readrandom", "readwhilewriting"}

func threadsOf(workload string, threads []int) []int {
	if len(threads) < 3 || slices.Contains(curveWorkloads, workload) {
		return threads
	}
	return []int{threads[0], threads[len(threads)-1]}
}

// otherWorkloads are measured besides.
var otherWorkloads = []report.Workload{
	{Name: "load", About: fmt.Sprintf("all keys once in random order, in batches of %d, not synced", loadBatch)},
	{Name: "reopen", About: "open the settled database and read a value"},
	{Name: "memory", About: "of the process after the reads"},
	{Name: "disk", About: "after load, flush and compaction, opened and closed once more"},
}

// timedOneIn is which share of operations the clock is asked about: it costs some 50 ns,
// which is much beside a read that takes 300.
const timedOneIn = 16

// worker is a goroutine of a workload.
type worker struct {
	s         store
	r         reader
	rand      *rand.Rand
	keys      int64
	last      *atomic.Uint32 // generation that may have been written
	key       []byte
	batch     [][]byte
	numbers   []int64
	latencies []time.Duration
	ops       int64
}

func newWorker(s store, keys int64, seed uint64, last *atomic.Uint32) (*worker, error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	w := &worker{s: s, r: r, rand: rand.New(rand.NewPCG(seed, 3)), keys: keys, last: last,
		key: make([]byte, 0, keySize), numbers: make([]int64, multiKeys), latencies: make([]time.Duration, 0, 1<<17)}
	for range multiKeys {
		w.batch = append(w.batch, make([]byte, 0, keySize))
	}
	return w, nil
}

// step does one operation, checks what it read, and returns how many keys that were.
func (w *worker) step(workload string) (int64, error) {
	n := w.rand.Int64N(w.keys)
	switch workload {
	case "readrandom", "readwhilewriting":
		return 1, w.get(n)
	case "readmissing":
		w.key = putMissing(w.key, n)
		_, found, err := w.r.get(w.key)
		if err == nil && found {
			err = fmt.Errorf("found a key beside key %d that nobody wrote", n)
		}
		return 1, err
	case "seekrandom":
		return 1, w.seek(n)
	case "multireadrandom":
		return multiKeys, w.multiGet()
	}
	return 0, fmt.Errorf("no workload %q", workload)
}

func (w *worker) get(n int64) error {
	w.key = putKey(w.key, n)
	v, found, err := w.r.get(w.key)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("key %d is not found", n)
	}
	return checkValue(n, v, w.last.Load())
}

func (w *worker) seek(n int64) error {
	w.key = putKey(w.key, n)
	next := n
	err := w.r.seek(w.key, seekNexts, func(key, value []byte) error {
		got, ok := keyNumber(key)
		if !ok || got != next {
			return fmt.Errorf("step %d after key %d is at %x, want key %d", next-n, n, key, next)
		}
		next++
		return checkValue(got, value, w.last.Load())
	})
	if want := min(n+seekNexts+1, w.keys); err == nil && next != want {
		err = fmt.Errorf("a seek to key %d ended before key %d, want %d", n, next, want)
	}
	return err
}

func (w *worker) multiGet() error {
	for i := range w.batch {
		w.numbers[i] = w.rand.Int64N(w.keys)
		w.batch[i] = putKey(w.batch[i], w.numbers[i])
	}
	next := 0
	err := w.r.multiGet(w.batch, func(i int, value []byte, found bool) error {
		if i != next || !found {
			return fmt.Errorf("result %d of a MultiGet is number %d, found %v: key %d exists", next, i, found, w.numbers[next])
		}
		next++
		return checkValue(w.numbers[i], value, w.last.Load())
	})
	if err == nil && next != len(w.batch) {
		err = fmt.Errorf("a MultiGet of %d keys has %d results", len(w.batch), next)
	}
	return err
}

// runFor steps until the time is over, for at least one step.
func (w *worker) runFor(workload string, end time.Time, stop *atomic.Bool) error {
	for i := 0; ; i++ {
		timed := i%timedOneIn == 0
		var begin time.Time
		if timed {
			begin = time.Now()
			if i > 0 && (begin.After(end) || stop.Load()) {
				return nil
			}
		}
		n, err := w.step(workload)
		if err != nil {
			return err
		}
		if timed {
			w.latencies = append(w.latencies, time.Since(begin))
		}
		w.ops += n
	}
}

// outcome is what a workload came to.
type outcome struct {
	ops       int64
	elapsed   time.Duration
	cpu       time.Duration
	latencies []time.Duration // sorted
	written   int64           // by the paced writer
}

// run runs a workload with some readers, and a writer where it has one.
func run(s store, workload string, keys int64, threads int, d time.Duration, seed uint64, writes int, last *atomic.Uint32) (o outcome, err error) {
	var workers []*worker
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.r.close())
		}
	}()
	for t := range threads {
		w, err := newWorker(s, keys, seed*1000+uint64(t), last)
		if err != nil {
			return o, err
		}
		workers = append(workers, w)
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	errs := make([]error, threads+1)
	cpu, begin := cpuTime(), time.Now()
	end := begin.Add(d)
	if workload == "readwhilewriting" {
		group.Go(func() {
			o.written, errs[threads] = pacedWriter(s, keys, seed, writes, end, &stop, last)
			if errs[threads] != nil {
				stop.Store(true)
			}
		})
	}
	for t, w := range workers {
		group.Go(func() {
			if errs[t] = w.runFor(workload, end, &stop); errs[t] != nil {
				stop.Store(true)
			}
		})
	}
	group.Wait()
	o.elapsed, o.cpu = time.Since(begin), cpuTime()-cpu
	for _, w := range workers {
		o.ops += w.ops
		o.latencies = append(o.latencies, w.latencies...)
	}
	slices.Sort(o.latencies)
	return o, errors.Join(errs...)
}

// pacedWriter overwrites keys at random, so many a second: each millisecond what is due by
// then, and at most a second's worth behind.
func pacedWriter(s store, keys int64, seed uint64, perSecond int, end time.Time, stop *atomic.Bool, last *atomic.Uint32) (written int64, err error) {
	r := rand.New(rand.NewPCG(seed, 11))
	var key, value []byte
	begin := time.Now()
	for tick := time.NewTicker(time.Millisecond); ; {
		now := time.Now()
		if now.After(end) || stop.Load() {
			tick.Stop()
			return written, nil
		}
		due := int64(now.Sub(begin).Seconds() * float64(perSecond))
		for written < due && !stop.Load() && time.Now().Before(end) {
			n := r.Int64N(keys)
			generation := last.Add(1) // before the write: a reader may see it at once
			key, value = putKey(key, n), putValue(value, n, generation)
			if err := s.put(key, value); err != nil {
				return written, err
			}
			written++
		}
		<-tick.C
	}
}

// percentile of sorted latencies, in microseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(float64(len(sorted))*p/100), len(sorted)-1)
	return float64(sorted[at].Nanoseconds()) / 1e3
}

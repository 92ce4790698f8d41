package dbbench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// opKind is what an operation did, for histograms.
type opKind int

const (
	opRead opKind = iota
	opWrite
	opDelete
	opSeek
	opUpdate
	opMerge
	opScan
	opHash
	opOther
	opKinds
)

func (k opKind) String() string {
	return [...]string{"read", "write", "delete", "seek", "update", "merge", "scan", "hash", "op"}[k]
}

// threadStats is what one thread did. Only the thread writes to it while it runs;
// published is what others may look at meanwhile.
type threadStats struct {
	id         int
	done       int64
	bytes      int64
	found      int64 // of done reads
	read       int64
	seconds    float64
	start, end time.Time
	message    string
	excluded   bool // not merged into the line of the benchmark

	hist       *[opKinds]histogram // nil without --histogram
	lastFinish time.Time
	nextReport int64
	interval   int64 // operations between publications
	everyOps   int64 // --stats_interval
	everyTime  time.Duration
	lastReport time.Time
	lastDone   int64
	reports    io.Writer
	slow       time.Duration // operations that are told of; zero for none
	perReport  func()        // database statistics after a report; nil for none

	published atomic.Int64
	_         [56]byte // the next thread's counter lies in another cache line
}

// publishEvery is how many operations a thread does between two looks at the world.
const publishEvery = 1000

func (s *threadStats) begin(c *config, reports io.Writer, perReport func()) {
	s.reports, s.perReport = reports, perReport
	s.interval, s.slow = publishEvery, c.slow()
	s.everyOps, s.everyTime = c.statsInterval, time.Duration(c.statsIntervalSeconds)*time.Second
	if s.everyOps > 0 && s.everyTime == 0 {
		s.interval = min(s.interval, s.everyOps)
	}
	if c.reportInterval > 0 {
		s.interval = min(s.interval, 10) // what others see of a slow thread
	}
	s.nextReport = s.interval
	if c.histogram {
		s.hist = new([opKinds]histogram)
	}
	s.start = time.Now()
	s.lastFinish, s.lastReport = s.start, s.start
}

// restart forgets what was done so far.
func (s *threadStats) restart(c *config, reports io.Writer) {
	s.done, s.lastDone, s.bytes, s.message = 0, 0, 0, ""
	s.published.Store(0)
	s.begin(c, reports, s.perReport)
}

// finished counts n operations that were done together.
func (s *threadStats) finished(n int64, kind opKind) {
	if s.hist != nil {
		now := time.Now()
		took := now.Sub(s.lastFinish)
		s.hist[kind].add(took)
		s.lastFinish = now
		if s.slow > 0 && took >= s.slow {
			fmt.Fprintf(s.reports, "long op: %d micros\n", took.Microseconds())
		}
	}
	s.done += n
	if s.done >= s.nextReport {
		s.publish()
	}
}

// resetClock forgets the time since the last operation: a paced writer does not
// count its pauses.
func (s *threadStats) resetClock() {
	if s.hist != nil {
		s.lastFinish = time.Now()
	}
}

func (s *threadStats) publish() {
	s.published.Store(s.done)
	s.nextReport = s.done + s.interval
	switch {
	case s.everyTime > 0:
		if now := time.Now(); now.Sub(s.lastReport) >= s.everyTime {
			s.report(now)
		}
	case s.everyOps > 0:
		if s.done-s.lastDone >= s.everyOps {
			s.report(time.Now())
		}
		s.nextReport = min(s.nextReport, s.lastDone+s.everyOps)
	}
}

// report prints db_bench's line of --stats_interval.
func (s *threadStats) report(now time.Time) {
	since, total := now.Sub(s.lastReport).Seconds(), now.Sub(s.start).Seconds()
	fmt.Fprintf(s.reports, "%s ... thread %d: (%d,%d) ops and (%.1f,%.1f) ops/second in (%.6f,%.6f) seconds\n",
		now.Format("2006/01/02-15:04:05"), s.id, s.done-s.lastDone, s.done,
		float64(s.done-s.lastDone)/since, float64(s.done)/total, since, total)
	s.lastReport, s.lastDone = now, s.done
	if s.perReport != nil {
		s.perReport()
	}
}

func (s *threadStats) finish() {
	s.end = time.Now()
	s.seconds = s.end.Sub(s.start).Seconds()
	s.published.Store(s.done)
}

// result is the outcome of a benchmark: all its threads together.
type result struct {
	name        string
	threads     int
	done        int64
	bytes       int64
	found, read int64
	seconds     float64 // sum over the threads
	start, end  time.Time
	message     string
	hist        *[opKinds]histogram
	nodes       []nodeShare // with --enable_numa
}

func (r *result) merge(s *threadStats) {
	if r.threads == 0 || s.start.Before(r.start) {
		r.start = s.start
	}
	if s.end.After(r.end) {
		r.end = s.end
	}
	r.threads++
	r.done += s.done
	r.bytes += s.bytes
	r.found += s.found
	r.read += s.read
	r.seconds += s.seconds
	if r.message == "" {
		r.message = s.message
	}
	if s.hist != nil {
		if r.hist == nil {
			r.hist = new([opKinds]histogram)
		}
		for k := range s.hist {
			r.hist[k].merge(&s.hist[k])
		}
	}
}

func (r *result) elapsed() float64 { return r.end.Sub(r.start).Seconds() }

func (r *result) opsPerSecond() float64 { return perSecond(float64(r.done), r.elapsed()) }
func (r *result) megabytesPerSecond() float64 {
	return perSecond(float64(r.bytes)/(1<<20), r.elapsed())
}

func perSecond(n, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return n / seconds
}

// print writes db_bench's line of a benchmark, and its histograms.
func (r *result) print(w io.Writer) {
	done := max(r.done, 1) // db_bench's guard against a division by zero
	fmt.Fprintf(w, "%-12s : %11.3f micros/op %d ops/sec %.3f seconds %d operations;", r.name,
		r.seconds*1e6/float64(done), int64(perSecond(float64(done), r.elapsed())), r.elapsed(), done)
	if r.bytes > 0 {
		fmt.Fprintf(w, " %6.1f MB/s", r.megabytesPerSecond())
	}
	if r.message != "" {
		fmt.Fprintf(w, " %s", r.message)
	}
	fmt.Fprintln(w)
	if r.hist == nil {
		return
	}
	for k := range r.hist {
		if h := &r.hist[k]; h.count > 0 {
			fmt.Fprintf(w, "Microseconds per %s:\n%s\n", opKind(k), h)
		}
	}
}

// repeats collects the results of a benchmark that runs several times.
type repeats struct {
	name      string
	ops, rate []float64
}

func (r *repeats) add(res *result) {
	r.ops = append(r.ops, res.opsPerSecond())
	if res.bytes > 0 {
		r.rate = append(r.rate, res.megabytesPerSecond())
	}
}

// printSoFar writes what db_bench does after each run but the first.
func (r *repeats) printSoFar(w io.Writer, intervalOnly bool) {
	if len(r.ops) < 2 {
		return
	}
	if intervalOnly {
		low, high := interval(r.ops)
		fmt.Fprintf(w, "%s [CI95 %d runs] : (%d, %d) ops/sec", r.name, len(r.ops), int64(low), int64(high))
		if len(r.rate) > 0 {
			low, high = interval(r.rate)
			fmt.Fprintf(w, "; (%.1f, %.1f) MB/sec", low, high)
		}
		fmt.Fprintln(w)
		return
	}
	fmt.Fprintf(w, "%s [AVG %d runs] :", r.name, len(r.ops))
	r.printAverage(w)
}

// printFinal writes average and median of all runs.
func (r *repeats) printFinal(w io.Writer) {
	if len(r.ops) < 2 {
		return
	}
	fmt.Fprintf(w, "%s [AVG    %d runs] :", r.name, len(r.ops))
	r.printAverage(w)
	fmt.Fprintf(w, "%s [MEDIAN %d runs] : %d ops/sec", r.name, len(r.ops), int64(median(r.ops)))
	if len(r.rate) > 0 {
		fmt.Fprintf(w, "; %6.1f MB/sec", median(r.rate))
	}
	fmt.Fprintln(w)
}

func (r *repeats) printAverage(w io.Writer) {
	fmt.Fprintf(w, " %d (± %d) ops/sec", int64(mean(r.ops)), int64(margin(r.ops)))
	if len(r.rate) > 0 {
		fmt.Fprintf(w, "; %6.1f (± %.1f) MB/sec", mean(r.rate), margin(r.rate))
	}
	fmt.Fprintln(w)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// margin is half the 95 % confidence interval of the mean.
func margin(v []float64) float64 {
	m, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return 1.96 * math.Sqrt(sum/float64(len(v)-1)/float64(len(v)))
}

func interval(v []float64) (low, high float64) {
	return max(mean(v)-margin(v), 0), mean(v) + margin(v)
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}

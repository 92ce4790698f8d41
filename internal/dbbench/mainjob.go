package dbbench

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// mainJob sizes the main job. Zeros mean the job that go run ./bench does.
type mainJob struct {
	keys     int64
	duration time.Duration
	sample   int
	parent   string // of the temporary directory
}

// writesPerSecond is the pace of the writer, that of experiment E1.
const writesPerSecond = 10240

// runMainJob loads a RAM-resident database in a temporary directory, reads it while
// it is written, closes it, opens it again, verifies a sample of what was read, and
// reports. The directory is removed whatever happens, an interrupt included.
func runMainJob(ctx context.Context, out, log io.Writer, show bool, job mainJob) (err error) {
	if job.keys == 0 {
		job = mainJob{keys: 2_000_000, duration: 10 * time.Second, sample: 10_000, parent: job.parent}
	}
	dir, err := os.MkdirTemp(job.parent, "flatrock-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	c := newConfig()
	c.num, c.keySize, c.prefixSize, c.valueSize, c.compressionRatio = job.keys, 20, 20, 100, 1
	c.usePlainTable, c.mmapRead, c.memtablerep, c.bloomBits, c.bloomLocality = true, true, "prefix_hash", 10, 1
	c.writeBufferSize, c.targetFileSizeBase, c.maxBytesForLevelBase = 128<<20, 128<<20, 1<<30
	c.level0Compaction, c.level0Slow, c.level0Stop = 8, 16, 24
	c.numLevels, c.histogram, c.writesPerSecond = 6, true, writesPerSecond
	c.threads = int64(runtime.GOMAXPROCS(0))
	b := newBench(ctx, c, out, log, show)
	b.dir = filepath.Join(dir, "db")
	j := &mainRun{bench: b, job: job}
	err = j.run()
	if b.db != nil {
		err = errors.Join(err, b.db.Close())
	}
	return err
}

// mainRun is a main job under way.
type mainRun struct {
	*bench
	job    mainJob
	sample []sampled
}

// sampled is a key and the digest of the value that was read.
type sampled struct {
	number uint64
	digest uint64
}

func (j *mainRun) run() error {
	if err := j.open(false); err != nil {
		return err
	}
	c := j.c
	fmt.Fprintf(j.out, "Flatrock %s: %d keys of %d bytes with values of %d bytes in %s\n", version(), c.num, c.keySize, c.valueSize, j.dir)
	fmt.Fprintf(j.out, "Plain table, prefix_hash memtable; table memory: %s\n\n", j.memory)
	load, _, err := j.step("filluniquerandom")
	if err != nil {
		return err
	}
	c.duration = 1 // not zero: by time
	before, gcBefore := j.db.Metrics(), readGC()
	read, written, err := j.step("readwhilewriting")
	if err != nil {
		return err
	}
	gc := readGC().since(gcBefore)
	heap, after := readHeap(), j.db.Metrics()
	if err := j.takeSample(); err != nil {
		return err
	}
	closing, opening, loading, err := j.reopen()
	if err != nil {
		return err
	}
	verified, err := j.verify()
	if err != nil {
		return err
	}
	stalled := time.Duration(0)
	for cause, d := range after.StallTime {
		stalled += d - before.StallTime[cause]
	}
	row := func(name, format string, args ...any) {
		fmt.Fprintf(j.out, "%-18s %s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(j.out)
	row("load", "%.0f keys/s", load.opsPerSecond())
	row("reads", "%.0f/s by %d threads, %d of %d found", read.opsPerSecond(), read.threads, read.found, read.read)
	row("read latency", "%s", latencies(&read.hist[opRead]))
	row("writes meanwhile", "%.0f/s of %d/s asked for, stalled %.3f s", written.opsPerSecond(), writesPerSecond, stalled.Seconds())
	row("write latency", "%s", latencies(&written.hist[opWrite]))
	row("flush and close", "%.1f ms", millis(closing))
	row("reopen", "%.1f ms until reads are served, %.1f ms until all files are in memory", millis(opening), millis(loading))
	row("verified", "%d of %d sampled values", verified, len(j.sample))
	row("Go heap", "%.1f MB (%.1f MB from the system)", mb(int64(heap.live)), mb(int64(heap.system)))
	row("off the heap", "%s", describeOffHeap(after.OffHeap))
	row("garbage collector", "%s", gc)
	if verified != len(j.sample) {
		return fmt.Errorf("%d of %d values changed over close and reopen", len(j.sample)-verified, len(j.sample))
	}
	if read.found != read.read {
		return fmt.Errorf("%d of %d keys were not found", read.read-read.found, read.read)
	}
	return nil
}

// step runs a benchmark by name and prints its line without histograms.
func (j *mainRun) step(name string) (main, writer *result, err error) {
	for _, bm := range benchmarks() {
		if bm.name != name {
			continue
		}
		if name == "readwhilewriting" {
			adjust := bm.adjust
			bm.adjust = func(p *params) { adjust(p); p.duration = j.job.duration }
		}
		if main, writer, err = j.measure(bm); err != nil {
			return nil, nil, err
		}
		line := *main
		line.hist, line.message = nil, ""
		line.print(j.out)
		return main, writer, nil
	}
	return nil, nil, fmt.Errorf("no benchmark %s", name)
}

var digestSeed = maphash.MakeSeed()

// takeSample reads random keys and keeps digests of their values.
func (j *mainRun) takeSample() error {
	rng := rand.New(rand.NewPCG(j.seed, 1<<32))
	key, value := j.keys.buffer(), []byte(nil)
	for range j.job.sample {
		n := rng.Uint64N(uint64(j.c.num))
		key = j.keys.put(key, n)
		var err error
		if value, err = j.cf.Get(nil, key, value[:0]); err != nil {
			return fmt.Errorf("key %d: %w", n, err)
		}
		j.sample = append(j.sample, sampled{n, maphash.Bytes(digestSeed, value)})
	}
	return nil
}

// reopen shuts the database down as a service would, with a flush, so that no log
// needs to be replayed, and opens it again. The times are those of Flush and Close, of
// Open, and from the start of Open until all files are in memory.
func (j *mainRun) reopen() (closing, opening, loading time.Duration, err error) {
	o, err := j.options(true)
	if err != nil {
		return 0, 0, 0, err
	}
	start := time.Now()
	if err := j.db.Flush(j.ctx, nil); err != nil {
		return 0, 0, 0, err
	}
	db := j.db
	j.db = nil
	if err := db.Close(); err != nil {
		return 0, 0, 0, err
	}
	closing = time.Since(start)
	start = time.Now()
	if j.db, err = flatrock.Open(j.dir, o); err != nil {
		return 0, 0, 0, err
	}
	opening = time.Since(start)
	j.cf = j.db.DefaultColumnFamily()
	err = j.db.WaitLoaded(j.ctx)
	return closing, opening, time.Since(start), err
}

// verify counts the samples whose value is still the same.
func (j *mainRun) verify() (same int, err error) {
	key, value := j.keys.buffer(), []byte(nil)
	for _, s := range j.sample {
		key = j.keys.put(key, s.number)
		value, err = j.cf.Get(nil, key, value[:0])
		switch {
		case errors.Is(err, flatrock.ErrNotFound):
		case err != nil:
			return same, fmt.Errorf("key %d after reopening: %w", s.number, err)
		case maphash.Bytes(digestSeed, value) == s.digest:
			same++
		}
	}
	return same, nil
}

func latencies(h *histogram) string {
	return fmt.Sprintf("p50 %.2f  p99 %.2f  p99.9 %.2f  p99.99 %.2f  max %.0f µs",
		h.percentile(50), h.percentile(99), h.percentile(99.9), h.percentile(99.99), float64(h.top)/1e3)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
)

// flatrock is our engine in the suite block, which has no memory policies.
var flatrock = engine{name: "Flatrock"}

// blockCache is a size of the block cache in experiment E5, for any number of keys.
type blockCache struct {
	name  string
	bytes func(num int64) int64
}

const (
	e5Keys         = 5_000_000
	blockKeySize   = 32
	blockValueSize = 200
	// blockRowSize is what a key takes in a table: E5's data of 1.2 GB, fifths of which are its caches.
	blockRowSize = 240
)

// blockCaches are the sizes for readrandom. The first holds everything.
var blockCaches = []blockCache{
	{"2GB", func(num int64) int64 { return 2 << 30 * num / e5Keys }},
	{"0.9x", func(num int64) int64 { return num * blockRowSize * 9 / 10 }},
	{"0.8x", func(num int64) int64 { return num * blockRowSize * 8 / 10 }},
	{"0.5x", func(num int64) int64 { return num * blockRowSize * 5 / 10 }},
	{"8MB", func(num int64) int64 { return 8 << 20 * num / e5Keys }},
}

// Rows of the block suite's tables, beside readrandom's.
const (
	rowFill       = "fillseq"
	rowCompact    = "compact"
	rowScanCold   = "readseq cold"
	rowScanWarm   = "readseq"
	rowSeekRandom = "seekrandom"
)

func rowReadRandom(cache blockCache) string { return "readrandom " + cache.name }

func blockRows() []string {
	rows := []string{rowFill, rowCompact}
	for _, cache := range blockCaches {
		rows = append(rows, rowReadRandom(cache))
	}
	return append(rows, rowSeekRandom, rowScanWarm, rowScanCold)
}

// blockFlags are those of E5, as both programs take them.
func (c *comparison) blockFlags(e engine, round int, name string) []string {
	return append(strings.Fields(`--key_size=32 --value_size=200 --compression_type=none
		--write_buffer_size=33554432 --level_compaction_dynamic_level_bytes=1
		--max_background_jobs=8 --target_file_size_base=268435456 --threads=1`),
		"--db="+filepath.Join(c.dir, e.name+name),
		fmt.Sprintf("--num=%d", c.num),
		fmt.Sprintf("--seed=%d", round+1))
}

// blockRound measures, the engines in turn at every step:
//
//   - fillseq, from the start of a process to its end;
//   - compact of a second database, filled with every key once in random order while
//     compactions were off, and flushed: all of it lies in overlapping files of level 0,
//     so the compaction reads every byte, merges, and writes every byte once, into memory
//     that has just been used (warmMemory);
//   - reads of the first database after compact, which rewrites it as one level, with
//     automatic compactions off. Each has a process of its own that reads the database
//     through once before (readtocache), as in E5; a process that does nothing else says
//     how much CPU time that costs, start-up included, and that is subtracted.
func (c *comparison) blockRound(round int) error {
	both := []engine{rocksDB, flatrock}
	for _, e := range both {
		if err := os.RemoveAll(filepath.Join(c.dir, e.name)); err != nil {
			return err
		}
		fill, cpu, err := c.fill(round, e, c.blockFlags(e, round, ""), "fillseq")
		if err != nil {
			return err
		}
		c.add(e, rowFill, 1, fill, cpu)
	}
	for _, e := range both {
		if err := c.blockCompaction(round, e); err != nil {
			return err
		}
	}
	for _, e := range both {
		o, err := c.child(round, e, 1, append(c.blockFlags(e, round, ""), "--use_existing_db=1"), "--benchmarks=compact,levelstats")
		if err != nil {
			return err
		}
		if _, err := oneLevel(o.Lines); err != nil {
			return fmt.Errorf("%s after compact: %w", e.name, err)
		}
	}
	for i, cache := range blockCaches {
		for _, e := range both {
			if err := c.blockReads(round, e, cache, i == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmMemory writes a file of n bytes and removes it. Where the directory is in memory and the machine is virtual, pages
// that have been free for a while have gone back to the host, and the first use of each costs more than all that a
// compaction does with it. So each engine finds as much memory as it is going to write.
func (c *comparison) warmMemory(n int64) (err error) {
	f, err := os.Create(filepath.Join(c.dir, "warm"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	for b := make([]byte, 1<<20); n > 0 && err == nil; n -= int64(len(b)) {
		_, err = f.Write(b)
	}
	return err
}

// blockCompaction measures the compaction of a whole database that lies in level 0.
func (c *comparison) blockCompaction(round int, e engine) (err error) {
	const name = "-compact"
	dir := filepath.Join(c.dir, e.name+name)
	defer func() {
		if removeErr := os.RemoveAll(dir); err == nil {
			err = removeErr
		}
	}()
	flags := append(c.blockFlags(e, round, name), "--disable_auto_compactions=1",
		"--level0_slowdown_writes_trigger=1000000", "--level0_stop_writes_trigger=1000000")
	if _, err := c.child(round, e, 1, flags, "--benchmarks=filluniquerandom,flush"); err != nil {
		return err
	}
	if err := c.warmMemory(c.num * blockRowSize); err != nil {
		return err
	}
	o, err := c.child(round, e, 1, append(flags, "--use_existing_db=1"), "--benchmarks=levelstats,compact,levelstats")
	if err != nil {
		return err
	}
	tables := o.Lines.Levels()
	if len(tables) != 2 || tables[0][0] < 1 || sum(tables[0]) != tables[0][0] {
		return fmt.Errorf("%s: files of the levels before and after the compaction: %v; want all in level 0 before", e.name, tables)
	}
	if _, err := oneLevel(o.Lines); err != nil {
		return fmt.Errorf("%s after the measured compaction: %w", e.name, err)
	}
	l, err := o.Lines.First("compact")
	if err == nil && l.Micros <= 0 {
		err = fmt.Errorf("a compaction that takes %v µs", l.Micros)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	c.add(e, rowCompact, 1, program.Result{OpsPerSecond: float64(c.num) / (l.Micros / 1e6), Operations: c.num}, o.CPU)
	return nil
}

// blockReads measures readrandom with a block cache, and with one that holds all the
// other reads too.
func (c *comparison) blockReads(round int, e engine, cache blockCache, all bool) error {
	flags := append(c.blockFlags(e, round, ""), "--use_existing_db=1", "--disable_auto_compactions=1",
		fmt.Sprintf("--cache_size=%d", cache.bytes(c.num)))
	warm, err := c.child(round, e, 1, flags, "--benchmarks=readtocache")
	if err != nil {
		return err
	}
	l, err := warm.Lines.First("readtocache")
	if err == nil && l.Operations != c.num {
		err = fmt.Errorf("readtocache read %d of %d keys", l.Operations, c.num)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.name, err)
	}
	if all {
		c.add(e, rowScanCold, 1, l, warm.CPU)
	}
	random := func(benchmark, row string, more ...string) error {
		more = append([]string{"--benchmarks=readtocache," + benchmark,
			fmt.Sprintf("--duration=%d", int(c.duration.Seconds()))}, more...)
		o, l, err := c.reading(round, e, 1, flags, benchmark, more...)
		if err != nil {
			return err
		}
		c.add(e, row, 1, l, o.CPU-warm.CPU)
		return c.tail(round, e, row, 1, flags, benchmark, more...)
	}
	if err := random("readrandom", rowReadRandom(cache)); err != nil || !all {
		return err
	}
	if err := random("seekrandom", rowSeekRandom, "--seek_nexts=10"); err != nil {
		return err
	}
	return c.blockScan(round, e, flags, warm.CPU)
}

// blockScan measures readseq with everything in the block cache: so many passes that
// they take much longer than the warm-up that is subtracted from their CPU time.
func (c *comparison) blockScan(round int, e engine, flags []string, warm time.Duration) error {
	passes := min(max(10, 5*e5Keys/c.num), 100)
	o, err := c.child(round, e, 1, flags, fmt.Sprintf("--benchmarks=readtocache,readseq[X%d]", passes))
	if err != nil {
		return err
	}
	var micros float64
	var operations int64
	for _, l := range o.Lines.All("readseq") {
		micros += l.Micros * float64(l.Operations)
		operations += l.Operations
	}
	if operations != passes*c.num || micros <= 0 {
		return fmt.Errorf("%s: readseq read %d keys in %d passes over %d", e.name, operations, passes, c.num)
	}
	c.add(e, rowScanWarm, 1, program.Result{OpsPerSecond: float64(operations) / (micros / 1e6), Operations: operations}, o.CPU-warm)
	return nil
}

// oneLevel is the only level that has files, by the last table of levelstats; it is below level 0.
func oneLevel(lines program.Lines) (level int, err error) {
	tables := lines.Levels()
	if len(tables) == 0 {
		return 0, fmt.Errorf("no table of levels")
	}
	last := tables[len(tables)-1]
	for l, files := range last {
		if l > 0 && files > 0 && files == sum(last) {
			return l, nil
		}
	}
	return 0, fmt.Errorf("files of the levels are %v; want all in one level below 0", last)
}

func sum(n []int) (total int) {
	for _, v := range n {
		total += v
	}
	return total
}

// printBlock writes the tables of the suite block.
func (c *comparison) printBlock(out io.Writer) {
	fmt.Fprintf(out, "%d keys of %d bytes, values of %d bytes, block-based tables without compression, one thread; medians of %d rounds, random reads of %v\n",
		c.num, blockKeySize, blockValueSize, c.rounds, c.duration)
	fmt.Fprint(out, "block caches as for 5 million keys, in proportion:")
	for i, cache := range blockCaches {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, " %s is %.1f MB", cache.name, float64(cache.bytes(c.num))/(1<<20))
	}
	fmt.Fprint(out, `; x is of the data
compact: every key once, in random order, in overlapping files of level 0, merged into one level; a key is an operation
reads: the database is one level, and was read through once before (readtocache), except in readseq cold; seekrandom takes 10 steps; these and readseq have the first cache

ops/s
`)
	table := func(metric, format string, faster func(rocks, ours float64) float64) {
		fmt.Fprintf(out, "%-18s %12s %12s %7s\n", "benchmark", "RocksDB", "Flatrock", "ratio")
		for _, row := range blockRows() {
			rocks, ours := c.median(rocksDB, row, metric, 1), c.median(flatrock, row, metric, 1)
			fmt.Fprintf(out, "%-18s "+format+" "+format+" %6.2fx\n", row, rocks, ours, faster(rocks, ours))
		}
	}
	table("throughput", "%12.0f", func(rocks, ours float64) float64 { return ours / rocks })
	fmt.Fprintln(out, `
CPU microseconds an operation, user and system, of all threads; start-up is not subtracted in fillseq, compact and
readseq cold, start-up and warm-up are in the others; ratio: RocksDB's over ours`)
	table("cpu", "%12.3f", func(rocks, ours float64) float64 { return rocks / ours })
	fmt.Fprintln(out, "\n"+assertions)
}

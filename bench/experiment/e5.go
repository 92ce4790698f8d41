package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// E5: protection of each key and value in blocks (RocksDB's, 2023). 5 million keys of 32
// bytes with values of 200, not compressed, in one level; readrandom with block caches from more
// than the data down to 8 MB, without and with block_protection_bytes_per_key=1. With
// another -num the caches and the reads shrink in proportion.

const e5Keys = 5_000_000

// e5Fill and e5Read are the published command lines, but for what depends on -num.
const (
	e5Fill = `-benchmarks=fillseq,compact0,waitforcompaction,compact,waitforcompaction -write_buffer_size=33554432
		-level_compaction_dynamic_level_bytes=true -max_background_jobs=8 -target_file_size_base=268435456
		--key_size=32 --value_size=200 --compression_type=none`
	e5Read = `--use_existing_db -benchmarks=readtocache,readrandom[-X10] --key_size=32 --disable_auto_compactions`
)

// e5Caches are the columns, with the published ops/s of protection 0 and 1.
var e5Caches = []struct {
	name                 string
	bytes                float64 // for e5Keys
	published, protected float64
}{
	{"2 GB", 2 << 30, 238691, 214983},
	{"0.9x", 0.9 * 1.2e9, 226693, 193199},
	{"0.8x", 0.8 * 1.2e9, 200127, 178532},
	{"0.5x", 0.5 * 1.2e9, 161082, 137013},
	{"8 MB", 8 << 20, 141153, 108211},
}

// e5Row is a way to run it.
type e5Row struct {
	name       string
	program    string
	protection int
	flag       bool // the program knows the flag
}

// e5Result is what a row measured, by cache.
type e5Result struct{ ops, cpu [][]float64 }

func runE5(l *lab) error {
	rows := []e5Row{{"Flatrock, protection 0", l.bench, 0, true}, {"Flatrock, protection 1", l.bench, 1, true}}
	if l.dbBench != "" {
		rows = append([]e5Row{{"RocksDB (Debian)", l.dbBench, 0, false}}, rows...)
	}
	filled := map[string]bool{}
	results := make([]e5Result, len(rows))
	for i, r := range rows {
		results[i] = e5Result{make([][]float64, len(e5Caches)), make([][]float64, len(e5Caches))}
		if !filled[r.program] {
			filled[r.program] = true
			fmt.Fprintf(l.log, "filling with %s\n", r.program)
			if _, err := program.Run(l.ctx, r.program, append(strings.Fields(e5Fill), l.e5Common(r)...)...); err != nil {
				return err
			}
		}
	}
	for round := range l.rounds {
		for c := range e5Caches {
			for i := range rows {
				// The order turns round, so that what warms up or slows down with time hits both.
				if round%2 == 1 {
					i = len(rows) - 1 - i
				}
				fmt.Fprintf(l.log, "round %d of %d, cache %s: %s\n", round+1, l.rounds, e5Caches[c].name, rows[i].name)
				ops, cpu, err := l.e5Measure(rows[i], c)
				if err != nil {
					return err
				}
				results[i].ops[c] = append(results[i].ops[c], ops)
				results[i].cpu[c] = append(results[i].cpu[c], cpu)
				variant := fmt.Sprintf("cache %s, protection %d", e5Caches[c].name, rows[i].protection)
				const about = "point reads of cached blocks, whose entries have a checksum each with protection 1"
				l.add(!rows[i].flag, variant, "E5 readrandom", about, "throughput", 1, ops)
				l.add(!rows[i].flag, variant, "E5 readrandom", about, "cpu", 1, max(cpu, 0))
			}
		}
	}
	l.printE5(rows, results)
	return nil
}

// e5Common are the flags that depend on where and how large the experiment is.
func (l *lab) e5Common(r e5Row) []string {
	return []string{"--db=" + filepath.Join(l.dir, filepath.Base(r.program)+".db"), fmt.Sprintf("--num=%d", l.num)}
}

// e5Measure runs the second command line, and says how many reads a second it did on average over
// its ten runs, and how many microseconds of CPU time a read took. What the process takes besides,
// to start and to fill the cache, is measured by one that does only that.
func (l *lab) e5Measure(r e5Row, cache int) (ops, cpu float64, err error) {
	reads := max(1_000_000*l.num/e5Keys, 1000)
	args := append(strings.Fields(e5Read), l.e5Common(r)...)
	args = append(args, fmt.Sprintf("--reads=%d", reads), fmt.Sprintf("--cache_size=%d", e5CacheSize(cache, l.num)))
	if r.flag {
		args = append(args, fmt.Sprintf("--block_protection_bytes_per_key=%d", r.protection))
	}
	warm, err := program.Run(l.ctx, r.program, append(args, "-benchmarks=readtocache")...)
	if err != nil {
		return 0, 0, err
	}
	all, err := program.Run(l.ctx, r.program, args...)
	if err != nil {
		return 0, 0, err
	}
	average, runs, ok := all.Lines.Average("readrandom")
	if !ok || runs != 10 {
		return 0, 0, fmt.Errorf("%s %v: expected the average of 10 runs of readrandom", r.program, args)
	}
	return average, float64((all.CPU - warm.CPU).Microseconds()) / float64(10*reads), nil
}

func e5CacheSize(cache int, num int64) int64 {
	return int64(e5Caches[cache].bytes * float64(num) / e5Keys)
}

func (l *lab) printE5(rows []e5Row, results []e5Result) {
	fmt.Fprintf(l.out, "E5: %d keys of 32 bytes, values of 200 bytes, no compression, one level; readrandom ops/s, average of 10 runs, medians of %d rounds\n\n",
		l.num, l.rounds)
	line := func(name, format string, value func(c int) float64) {
		fmt.Fprintf(l.out, "%-26s", name)
		for c := range e5Caches {
			fmt.Fprintf(l.out, format, value(c))
		}
		fmt.Fprintln(l.out)
	}
	fmt.Fprintf(l.out, "%-26s", "block cache")
	for _, c := range e5Caches {
		fmt.Fprintf(l.out, " %10s", c.name)
	}
	fmt.Fprintln(l.out)
	line("MB here", " %10.1f", func(c int) float64 { return float64(e5CacheSize(c, l.num)) / (1 << 20) })
	line("published, protection 0", " %10.0f", func(c int) float64 { return e5Caches[c].published })
	line("published, protection 1", " %10.0f", func(c int) float64 { return e5Caches[c].protected })
	line("published cost", " %9.1f%%", func(c int) float64 { return 100 * (1 - e5Caches[c].protected/e5Caches[c].published) })
	fmt.Fprintln(l.out)
	for i, r := range rows {
		line(r.name, " %10.0f", func(c int) float64 { return report.Median(results[i].ops[c]) })
	}
	last := len(rows) - 1
	line("cost", " %9.1f%%", func(c int) float64 {
		return 100 * (1 - report.Median(results[last].ops[c])/report.Median(results[last-1].ops[c]))
	})
	fmt.Fprintln(l.out, "\nCPU microseconds a read, user and system; start-up and readtocache are subtracted")
	for i, r := range rows {
		line(r.name, " %10.3f", func(c int) float64 { return report.Median(results[i].cpu[c]) })
	}
	line("cost", " %9.1f%%", func(c int) float64 {
		return 100 * (report.Median(results[last].cpu[c])/report.Median(results[last-1].cpu[c]) - 1)
	})
	fmt.Fprintln(l.out, "\nAim: a cost of at most 5 % with everything cached, and 10 % at 8 MB. Debian's RocksDB 7.8.3 has assertions on and does not know the option.")
}

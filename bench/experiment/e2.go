package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// E2: block cache traces (RocksDB 6.2, 2019). 10 million keys of 20 bytes with values of
// 100, not compressed; readrandom by 1 and 16 threads, with a block cache that is too small and
// one that holds everything; no trace, a trace of every access, and one of one block in a hundred.
// Each run has a process of its own, and the three rates take turns. The trace goes beside
// the database, and is removed after each run.

const (
	e2Keys     = 10_000_000
	e2Duration = 10 * time.Second // published: 60
)

const (
	e2Fill = `--benchmarks=filluniquerandom,compact --key_size=20 --value_size=100 --compression_type=none --memtablerep=skip_list --disable_wal=1`
	e2Read = `--use_existing_db=1 --key_size=20 --value_size=100 --compression_type=none --memtablerep=skip_list --disable_auto_compactions=1`
)

// e2Rates are the sampling frequencies; 0 is no trace.
var e2Rates = []int{0, 1, 100}

// e2Rows are the lines of the table with the published ops/s, by rate.
var e2Rows = []struct {
	threads   int
	cache     string
	bytes     int64 // for e2Keys
	warm      bool  // the cache holds everything
	published [3]float64
}{
	{1, "1 MB", 1 << 20, false, [3]float64{13094, 13166, 13341}},
	{1, "10 GB", 10 << 30, true, [3]float64{202243, 188677, 229182}},
	{16, "1 MB", 1 << 20, false, [3]float64{208761, 178700, 201872}},
	{16, "10 GB", 10 << 30, true, [3]float64{2645996, 426295, 2587605}},
}

func runE2(l *lab) error {
	if l.duration == 0 {
		l.duration = e2Duration
	}
	engines := l.engines()
	// By program, row and rate.
	ops := make([][][3][]float64, len(engines))
	dropped := 0.0
	for p, engine := range engines {
		ops[p] = make([][3][]float64, len(e2Rows))
		fmt.Fprintf(l.log, "filling with %s\n", engine.path)
		if _, err := program.Run(l.ctx, engine.path, append(strings.Fields(e2Fill), l.e2Common(engine.path)...)...); err != nil {
			return err
		}
	}
	for round := range l.rounds {
		for row := range e2Rows {
			for p, engine := range engines {
				for i := range e2Rates {
					if round%2 == 1 { // what warms up or slows down with time hits all
						i = len(e2Rates) - 1 - i
					}
					fmt.Fprintf(l.log, "round %d of %d, %d threads, cache %s, rate %d: %s\n", round+1, l.rounds, e2Rows[row].threads, e2Rows[row].cache, e2Rates[i], engine.name)
					v, lost, err := l.e2Measure(engine.path, row, e2Rates[i])
					if err != nil {
						return err
					}
					ops[p][row][i] = append(ops[p][row][i], v)
					variant := fmt.Sprintf("cache %s, trace rate %d", e2Rows[row].cache, e2Rates[i])
					l.add(engine.rocks, variant, "E2 readrandom", "point reads while the block cache is traced; rate 0 is no trace", "throughput", e2Rows[row].threads, v)
					dropped += lost
				}
			}
		}
	}
	fmt.Fprintf(l.out, "E2: %d keys of 20 bytes, values of 100 bytes, no compression; readrandom for %v, ops/s, medians of %d alternating runs\n\n", l.num, l.duration, l.rounds)
	fmt.Fprintf(l.out, "%-18s %7s %6s %11s %11s %11s %8s %8s\n", "", "threads", "cache", "off", "rate 1", "rate 100", "1/off", "100/off")
	line := func(name string, row int, v [3]float64) {
		fmt.Fprintf(l.out, "%-18s %7d %6s %11.0f %11.0f %11.0f %8.3f %8.3f\n", name, e2Rows[row].threads, e2Rows[row].cache, v[0], v[1], v[2], v[1]/v[0], v[2]/v[0])
	}
	for row := range e2Rows {
		line("published", row, e2Rows[row].published)
		for p, engine := range engines {
			var v [3]float64
			for i := range v {
				v[i] = report.Median(ops[p][row][i])
			}
			line(engine.name, row, v)
		}
	}
	fmt.Fprintf(l.out, "\n%.0f accesses were dropped from Flatrock's traces.\nAim, with everything cached: rate 1 costs at most 15 %%, rate 100 at most 1 %%.\n", dropped)
	return nil
}

// e2Common are the flags that depend on where and how large the experiment is.
func (l *lab) e2Common(path string) []string {
	return []string{"--db=" + filepath.Join(l.dir, filepath.Base(path)+".db"), fmt.Sprintf("--num=%d", l.num)}
}

// e2Measure runs readrandom, and says how many reads a second it did, and how many accesses its
// trace lacks.
func (l *lab) e2Measure(path string, row, rate int) (ops, dropped float64, err error) {
	r := e2Rows[row]
	args := append(strings.Fields(e2Read), l.e2Common(path)...)
	benchmarks := "readrandom"
	if r.warm {
		benchmarks = "readtocache,readrandom"
	}
	args = append(args, "--benchmarks="+benchmarks, fmt.Sprintf("--threads=%d", r.threads), fmt.Sprintf("--duration=%d", max(int(l.duration.Seconds()), 1)),
		fmt.Sprintf("--cache_size=%d", max(r.bytes*l.num/e2Keys, 64<<10)))
	if rate > 0 {
		file := filepath.Join(l.dir, "trace")
		args = append(args, "--block_cache_trace_file="+file, fmt.Sprintf("--block_cache_trace_sampling_frequency=%d", rate))
		defer func() { err = errors.Join(err, os.Remove(file)) }()
	}
	o, err := program.Run(l.ctx, path, args...)
	if err != nil {
		return 0, 0, err
	}
	read, err := o.Lines.Last("readrandom")
	if err == nil && read.Found != read.Read {
		err = fmt.Errorf("found %d of %d keys, though each was written", read.Found, read.Read)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s %v: %w", path, args, err)
	}
	for _, line := range o.Lines {
		if m := droppedFormat.FindStringSubmatch(line); m != nil {
			dropped, _ = strconv.ParseFloat(m[1], 64)
		}
	}
	return read.OpsPerSecond, dropped, nil
}

var droppedFormat = regexp.MustCompile(`^block cache trace : \d+ records, (\d+) dropped`)

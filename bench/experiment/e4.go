package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/flatrock-db/flatrock/bench/report"
)

// E4: read while writing (RocksDB's, 2013). A database of a billion values of 800 bytes, filled
// by fillrandom, of which the first 10,000 keys or all are read by 1, 8, 16 and 32 threads beside
// a writer of 10,000 operations a second, with statistics and histograms. The command line as it stands has a block cache
// of 16 GiB, which holds all of a database that fits in the memory of one machine. So all keys are read twice: with
// that cache, and with one that is as small beside the data as the published one was.

const (
	e4Keys     = 1_000_000_000
	e4Hot      = 10_000
	e4Duration = 10 * time.Second // published: 1800
	e4Writes   = 10_000           // a second
	e4Cache    = 16 << 30
)

// e4Common is the published command line, but for what depends on -num and the row.
const e4Common = `--disable_seek_compaction=1 --mmap_read=0 --statistics=1 --histogram=1 --readahead=0
	--value_size=800 --block_size=16384 --bloom_bits=10 --cache_numshardbits=4
	--open_files=50000000 --verify_checksum=1 --disable_data_sync=0 --disable_wal=0 --compression_type=none --stats_interval=10000
	--compression_ratio=0.50 --write_buffer_size=67108864 --target_file_size_base=67108864 --max_write_buffer_number=3
	--max_background_compactions=8 --level0_file_num_compaction_trigger=8 --level0_slowdown_writes_trigger=17
	--level0_stop_writes_trigger=24 --num_levels=6 --delete_obsolete_files_period_micros=5000000 --min_level_to_compress=3
	--stats_per_interval=1 --disable_auto_compactions=0 --source_compaction_factor=1
	--rate_limit=2 --mmap_write=0 --max_bytes_for_level_base=536870912 --max_bytes_for_level_multiplier=8`

var e4Threads = []int{1, 8, 16, 32} // as published

// e4Ranges are what is read, and with which cache.
var e4Ranges = [...]struct{ name, about string }{
	{"hot keys", fmt.Sprintf("the first %d keys", e4Hot)},
	{"all keys, cache as published", "all keys, with the published block cache, 16 GiB"},
	{"all keys", "all keys, with a block cache in proportion (published: a billion)"},
}

// e4Readers are those, and as many readers as the machine has CPUs, which are not to do more.
func e4Readers() []int {
	all := slices.Sorted(slices.Values(append(slices.Clone(e4Threads), runtime.NumCPU())))
	return slices.Compact(all)
}

// e4Metrics are the lines of the table, each with the published numbers by range, none where there are none.
var e4Metrics = [...]struct {
	name      string
	digits    int
	published [len(e4Ranges)][]float64
}{
	{"ops/s", 0, [len(e4Ranges)][]float64{{437230, 523286, 437207, 444108}, nil, {14338, 36234, 48749, 56384}}},
	{"µs/op", 3, [len(e4Ranges)][]float64{{4.574, 17.198, 38.882, 74.306}}},
	{"DB_GET p99 µs", 2, [len(e4Ranges)][]float64{{7.28, 31.65, 75.32, 328.51}, nil, {314.69, 448.56, 591.98, 2524.82}}},
	{"DB_WRITE p99 µs", 2, [len(e4Ranges)][]float64{{17.36, 47.24, 98.15, 533.74}, nil, {15.81, 22.51, 29.19, 40.45}}},
	{"stalls s", 3, [len(e4Ranges)][]float64{{10.381, 0, 0, 0}}},
	{"writes/s", 0, [len(e4Ranges)][]float64{}},
}

// e4Sample is what a run measured, in the order of e4Metrics.
type e4Sample [len(e4Metrics)]float64

func runE4(l *lab) error {
	if l.num < e4Hot {
		return fmt.Errorf("%d keys: e4 wants at least %d, the hot ones", l.num, e4Hot)
	}
	if l.duration == 0 {
		l.duration = e4Duration
	}
	engines := l.engines()
	for _, e := range engines {
		if err := l.fillE4(e); err != nil {
			return err
		}
	}
	// By engine, range and threads.
	readers := e4Readers()
	samples := make([][len(e4Ranges)][][]e4Sample, len(engines))
	for e := range samples {
		for i := range e4Ranges {
			samples[e][i] = make([][]e4Sample, len(readers))
		}
	}
	written := make([]e4Written, len(engines))
	err := l.turns(len(e4Ranges)*len(readers)*len(engines), func(i int) error {
		e, row := i%len(engines), i/len(engines)
		which, t := row/len(readers), row%len(readers)
		s, keys, err := l.e4Measure(engines[e], which, readers[t], &written[e])
		if err != nil {
			return fmt.Errorf("%s, %d of %d keys, %d threads: %w", engines[e].name, keys, l.num, readers[t], err)
		}
		samples[e][which][t] = append(samples[e][which][t], s)
		for _, x := range []struct {
			metric string
			of     int // e4Metrics
		}{{"throughput", 0}, {"p99", 2}, {"writer", 5}} {
			l.add(engines[e].rocks, e4Ranges[which].name, "E4 readwhilewriting",
				fmt.Sprintf("point reads beside %d writes a second, with statistics and histograms; of %d keys, or of all", e4Writes, e4Hot), x.metric, readers[t], s[x.of])
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.printE4(engines, readers, samples)
	return nil
}

func (l *lab) fillE4(e engine) error {
	_, err := l.run(e, e4Common, nil, "--benchmarks=fillrandom,waitforcompaction", "--threads=1", "--cache_size=8388608", "--seed=1", fmt.Sprintf("--num=%d", l.num))
	return err
}

// e4Written are the runs since the fill, and what they wrote to the hot keys and to the others.
type e4Written struct {
	runs        int
	hot, others float64
}

// e4Seed is the published one. Each run has another: with the same one its readers would draw what the writers of those
// before have written, and find it.
const e4Seed = 1365556909

func (w *e4Written) add(n float64, keys int64) {
	hot := n * e4Hot / float64(keys)
	w.hot += hot
	w.others += n - hot
}

// share is how much of the first keys, the hot ones or all, is there at most: of n keys, n
// draws leave 1/e unwritten, and each further draw fewer, unless the seed, which is the
// same in all runs, repeats it.
func (w *e4Written) share(keys, num int64) float64 {
	hot := 1 - math.Exp(-1-w.hot/e4Hot)
	if keys == e4Hot {
		return hot
	}
	others := float64(num - e4Hot)
	return (e4Hot*hot + others*(1-math.Exp(-1-w.others/others))) / float64(num)
}

// e4Measure is one run.
func (l *lab) e4Measure(e engine, which, threads int, written *e4Written) (s e4Sample, keys int64, err error) {
	keys = [...]int64{e4Hot, l.num, l.num}[which]
	cache := [...]int64{e4Cache, e4Cache, max(e4Cache*(l.num/1000)/(e4Keys/1000), 8<<20)}[which]
	written.runs++
	benchmarks := "readwhilewriting"
	if which == 1 { // in a database that has been read for some time
		benchmarks = "readtocache,readwhilewriting"
	}
	r, lines, err := l.measure(e, "readwhilewriting", e4Common, []string{fmt.Sprintf("--benchmark_write_rate_limit=%d", e4Writes*(16+800))},
		"--benchmarks="+benchmarks, "--use_existing_db=1", fmt.Sprintf("--num=%d", keys), fmt.Sprintf("--threads=%d", threads), fmt.Sprintf("--cache_size=%d", cache),
		fmt.Sprintf("--seed=%d", e4Seed+1000*written.runs), fmt.Sprintf("--writes_per_second=%d", e4Writes), fmt.Sprintf("--duration=%d", max(int(l.duration.Seconds()), 1)))
	if err != nil {
		return s, keys, err
	}
	wrote, err := lines.Statistic("rocksdb.number.keys.written", "COUNT")
	if err != nil {
		return s, keys, err
	}
	low := new(e4Written).share(keys, l.num)
	written.add(wrote, keys)
	high := written.share(keys, l.num)
	if share, margin := float64(r.Found)/float64(max(r.Read, 1)), 0.02+2/math.Sqrt(float64(max(r.Read, 1))); share < low-margin || share > high+margin {
		return s, keys, fmt.Errorf("found %d of %d, expected %.1f to %.1f %%", r.Found, r.Read, 100*low, 100*high)
	}
	get, err := lines.Statistic("rocksdb.db.get.micros", "P99")
	if err != nil {
		return s, keys, err
	}
	write, err := lines.Statistic("rocksdb.db.write.micros", "P99")
	if err != nil {
		return s, keys, err
	}
	stall, err := lines.Statistic("rocksdb.stall.micros", "COUNT")
	return e4Sample{r.OpsPerSecond, r.Micros, get, write, stall / 1e6, wrote / r.Seconds}, keys, err
}

func (l *lab) printE4(engines []engine, readers []int, samples [][len(e4Ranges)][][]e4Sample) {
	fmt.Fprintf(l.out, "E4: %d values of 800 bytes, not compressed (published: %d on 24 cores); readwhilewriting for %v beside %d writes a second,\nmedians of %d alternating runs\n",
		l.num, e4Keys, l.duration, e4Writes, l.rounds)
	for which, over := range e4Ranges {
		fmt.Fprintf(l.out, "\nOver %s\n%-16s %-18s", over.about, "", "readers")
		for _, t := range readers {
			fmt.Fprintf(l.out, " %10d", t)
		}
		fmt.Fprintln(l.out)
		for m, metric := range e4Metrics {
			value := func(e, t int) float64 {
				var v []float64
				for _, s := range samples[e][which][t] {
					v = append(v, s[m])
				}
				return report.Median(v)
			}
			label := metric.name
			line := func(name string, text func(t int) string) {
				fmt.Fprintf(l.out, "%-16s %-18s", label, name)
				for t := range readers {
					fmt.Fprintf(l.out, " %10s", text(t))
				}
				fmt.Fprintln(l.out)
				label = ""
			}
			number := func(v float64) string { return strconv.FormatFloat(v, 'f', metric.digits, 64) }
			if p := metric.published[which]; p != nil {
				line("published", func(t int) string {
					if i := slices.Index(e4Threads, readers[t]); i >= 0 {
						return number(p[i])
					}
					return "-"
				})
			}
			for e := len(engines) - 1; e >= 0; e-- {
				line(engines[e].name, func(t int) string { return number(value(e, t)) })
			}
			if len(engines) > 1 {
				line("Flatrock/RocksDB", func(t int) string { return ratio(value(0, t), value(1, t)) })
			}
		}
	}
	fmt.Fprintln(l.out, "\nAim: with 8, 16 and 32 readers at least as many operations as with as many readers as CPUs, the writer keeps its rate, no stall.")
}

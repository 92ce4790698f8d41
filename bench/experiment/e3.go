package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// E3: range tombstones in the read path (RocksDB's, 2018). 5 million keys of 16 bytes with
// values of 112, and after each 100 writes a range delete of 100 keys; then readrandom by 32
// threads. A covered key costs less than one that is there, so that besides, Flatrock's Gets of
// the keys that survive are measured on this database and on one without range deletes, filled in
// the same way: there the tombstones are all that differs.

const e3Keys = 5_000_000

const (
	e3Width, e3Every = 100, 100 // keys of a range delete, writes between two
	e3Reads          = 100_000  // a thread
	e3Threads        = 32
)

// The published command lines, but for what depends on -num.
const (
	e3Fill = `-benchmarks=filluniquerandom -write_buffer_size=1048576 -compression_type=lz4 -target_file_size_base=1048576
		-max_bytes_for_level_base=4194304 -value_size=112 -key_size=16 -block_size=4096 -level_compaction_dynamic_level_bytes=true
		-max_background_jobs=12 -benchmark_write_rate_limit=20971520 -range_tombstone_width=100
		-writes_per_range_tombstone=100 -bloom_bits=8`
	e3Read = `-use_existing_db=true -disable_auto_compactions=true -threads=32`
)

const e3About = "point reads, everything cached, of the keys that range deletes leave"

// e3Tombstones is how many range deletes so many writes issue.
func e3Tombstones(num int64) int64 { return num / e3Every }

// e3Survivors is the share of the keys that survive: as many range deletes come after a key as
// are left, each of which covers it with the same small chance.
func e3Survivors(num int64) float64 {
	covered := float64(e3Tombstones(num)*e3Width) / float64(num+e3Tombstones(num))
	return (1 - math.Exp(-covered)) / covered
}

func runE3(l *lab) error {
	if l.num < 10*e3Every {
		return fmt.Errorf("%d keys: e3 wants at least %d", l.num, 10*e3Every)
	}
	engines := l.engines()
	tombstones := e3Tombstones(l.num)
	all := l.num + tombstones // what keys are drawn from
	for _, e := range engines {
		if _, err := l.run(e, e3Fill, nil, fmt.Sprintf("-num=%d", l.num), fmt.Sprintf("-max_num_range_tombstones=%d", tombstones)); err != nil {
			return err
		}
	}
	survivors, err := l.e3Count(engines, all)
	if err != nil {
		return err
	}
	clean := filepath.Join(l.dir, "clean")
	if _, err := l.runOn(engines[0], clean, e3Fill, nil, fmt.Sprintf("-num=%d", all), "-max_num_range_tombstones=0"); err != nil {
		return err
	}
	reads := fmt.Sprintf("-reads=%d", max(e3Reads*l.num/e3Keys, 1000))
	results := make([][]program.Result, len(engines)+2)
	err = l.turns(len(results), func(i int) (err error) {
		var r program.Result
		name := "survivors"
		if i < len(engines) {
			name = engines[i].name
			r, _, err = l.measure(engines[i], "readrandom", e3Read, nil, "-benchmarks=readrandom", fmt.Sprintf("-num=%d", l.num), reads)
		} else {
			dir := l.databaseOf(engines[0])
			if i == len(engines) {
				dir = clean
			}
			var lines program.Lines
			// Everything is cached, by a first pass: the covered keys, which lie in between in one of
			// the databases only, would otherwise take room in the cache.
			lines, err = l.runOn(engines[0], dir, e3Read, nil, "-benchmarks=readrandom,readrandom", "-cache_size=17179869184", "-use_existing_keys", "-existing_keys_db="+l.databaseOf(engines[0]), reads)
			if err == nil {
				r, err = lines.Last("readrandom")
			}
			if err == nil && r.Found != r.Read {
				err = fmt.Errorf("found %d of %d keys, though each survives in %s", r.Found, r.Read, dir)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i < len(engines) {
			if err := checkShare(float64(r.Found)/float64(r.Read), e3Survivors(l.num), tombstones, r.Read); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		results[i] = append(results[i], r)
		switch i - len(engines) {
		case 0:
			l.add(false, "without range deletes", "E3 survivors", e3About, "throughput", e3Threads, r.OpsPerSecond)
		case 1:
			l.add(false, "with range deletes", "E3 survivors", e3About, "throughput", e3Threads, r.OpsPerSecond)
		default:
			l.add(engines[i].rocks, "", "E3 readrandom", "point reads of all keys, of which range deletes cover some", "throughput", e3Threads, r.OpsPerSecond)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.printE3(engines, survivors, results)
	return nil
}

// e3Count has each engine count the keys of each database, and returns the counts by database.
func (l *lab) e3Count(engines []engine, all int64) ([]int64, error) {
	counts := make([]int64, len(engines))
	for d, database := range engines {
		for i, e := range engines {
			lines, err := l.runOn(e, l.databaseOf(database), "--use_existing_db=1 --readonly=1 --benchmarks=readseq", nil, fmt.Sprintf("--num=%d", all))
			if err != nil {
				return nil, err
			}
			r, err := lines.Last("readseq")
			if err != nil {
				return nil, err
			}
			if i > 0 && r.Operations != counts[d] {
				return nil, fmt.Errorf("%s counts %d keys in the database of %s, %s counts %d", e.name, r.Operations, database.name, engines[0].name, counts[d])
			}
			counts[d] = r.Operations
		}
		if err := checkShare(float64(counts[d])/float64(l.num), e3Survivors(l.num), all-l.num, counts[d]); err != nil {
			return nil, fmt.Errorf("%s: %w", database.name, err)
		}
	}
	return counts, nil
}

// checkShare refuses a share of surviving keys that chance does not explain.
func checkShare(got, want float64, tombstones, samples int64) error {
	if margin := 0.01 + 2/math.Sqrt(float64(tombstones)) + 2/math.Sqrt(float64(samples)); math.Abs(got-want) > margin {
		return fmt.Errorf("%.1f %% of the keys survive, expected %.1f ± %.1f %%", 100*got, 100*want, 100*margin)
	}
	return nil
}

func (l *lab) printE3(engines []engine, survivors []int64, results [][]program.Result) {
	fmt.Fprintf(l.out, "E3: %d keys of 16 bytes, values of 112 bytes, lz4, %d range deletes of %d keys; readrandom by %d threads, medians of %d alternating runs\n\n",
		l.num, e3Tombstones(l.num), e3Width, e3Threads, l.rounds)
	fmt.Fprintf(l.out, "%-40s %10s %10s %8s %12s\n", "", "µs/op", "ops/s", "found", "keys in it")
	line := func(name string, micros, ops, found float64, keys any) {
		fmt.Fprintf(l.out, "%-40s %10.3f %10.0f %7.1f%% %12v\n", name, micros, ops, 100*found, keys)
	}
	line("published, before", 4.544, 220090, 0.63103, "")
	line("published, with sequence numbers kept", 11.147, 89707, 0.63103, "")
	of := func(i int, f func(program.Result) float64) float64 {
		var samples []float64
		for _, r := range results[i] {
			samples = append(samples, f(r))
		}
		return report.Median(samples)
	}
	micros := func(r program.Result) float64 { return r.Micros }
	ops := func(r program.Result) float64 { return r.OpsPerSecond }
	found := func(r program.Result) float64 { return float64(r.Found) / float64(r.Read) }
	for _, i := range slices.Backward([]int{0, 1}[:len(engines)]) {
		line(engines[i].name, of(i, micros), of(i, ops), of(i, found), survivors[i])
	}
	if len(engines) > 1 {
		fmt.Fprintf(l.out, "%-40s %10s %10s\n", "Flatrock / RocksDB", ratio(of(0, micros), of(1, micros)), ratio(of(0, ops), of(1, ops)))
	}
	n := len(engines)
	fmt.Fprintln(l.out, "\nThe keys that survive, everything cached:")
	line("Flatrock, without range deletes", of(n, micros), of(n, ops), of(n, found), l.num+e3Tombstones(l.num))
	line("Flatrock, with them", of(n+1, micros), of(n+1, ops), of(n+1, found), survivors[0])
	fmt.Fprintf(l.out, "%-40s %9.1f%%\n", "cost", 100*(1-of(n+1, ops)/of(n, ops)))
	fmt.Fprintln(l.out, "\nEach engine counted the same keys in both databases. Aim: at least twice RocksDB's, and a cost of at most 10 %.")
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/bench/program"
)

// rocksBlock and rocksPlain are flags of db_bench beside those that all runs have.
var (
	rocksBlock = strings.Fields(`--cache_size=1073741824 --bloom_bits=10 --level_compaction_dynamic_level_bytes=1
		--max_background_jobs=4 --write_buffer_size=67108864`)
	rocksPlain = strings.Fields(`--use_plain_table=1 --mmap_read=1 --memtablerep=prefix_hash --prefix_size=20 --keys_per_prefix=0
		--bloom_bits=10 --bloom_locality=1 --write_buffer_size=67108864
		--allow_concurrent_memtable_write=0 --perf_level=1`)
)

// rocks runs db_bench for a task.
type rocks struct {
	ctx     context.Context
	program string
	peer    peer
	task    task
	tails   bool // measure latencies
}

func (r rocks) flags(more ...string) []string {
	t := r.task
	f := []string{
		"--db=" + t.Dir, fmt.Sprintf("--num=%d", t.Keys), fmt.Sprintf("--seed=%d", t.Seed),
		fmt.Sprintf("--key_size=%d", keySize), fmt.Sprintf("--value_size=%d", valueSize),
		"--compression_type=none", "--compression_ratio=1", "--open_files=-1", "--sync=0", "--disable_wal=0", "--verify_checksum=1",
	}
	return append(append(f, r.peer.rocksDB...), more...)
}

func (r rocks) run(args []string) (*program.Output, error) {
	return program.Run(r.ctx, r.program, args...)
}

func (r rocks) load() ([]sample, error) {
	o, err := r.run(r.flags("--threads=1", fmt.Sprintf("--batch_size=%d", loadBatch), "--benchmarks=filluniquerandom,compact"))
	if err != nil {
		return nil, err
	}
	fill, err := o.Lines.First("filluniquerandom")
	if err != nil {
		return nil, err
	}
	if fill.Operations != r.task.Keys {
		return nil, fmt.Errorf("db_bench filled %d keys, want %d", fill.Operations, r.task.Keys)
	}
	compact, err := o.Lines.First("compact")
	if err != nil {
		return nil, err
	}
	if _, err := r.run(r.flags("--use_existing_db=1", "--benchmarks=levelstats")); err != nil { // as the Go stores
		return nil, err
	}
	size, err := diskUse(r.task.Dir)
	if err != nil {
		return nil, err
	}
	return []sample{
		{"load", "throughput", 1, fill.OpsPerSecond},
		{"load", "settle", 1, compact.Micros / 1e3},
		{"disk", "size", 0, float64(size)},
		{"disk", "write amplification", 0, float64(o.Wrote) / float64(r.task.Keys*(keySize+valueSize))},
	}, nil
}

// read runs the benchmarks in one process for each number of threads, and with the least and the most
// again with histograms, which cost db_bench time.
func (r rocks) read() (samples []sample, err error) {
	least, most := r.task.Threads[0], r.task.Threads[len(r.task.Threads)-1]
	for _, threads := range r.task.Threads {
		for _, histogram := range []bool{false, true} {
			if histogram && !(r.tails && (threads == least || threads == most)) {
				continue
			}
			benchmarks := []string{"readtocache"}
			for _, w := range r.task.Workloads {
				if slices.Contains(threadsOf(w, r.task.Threads), threads) {
					benchmarks = append(benchmarks, w)
				}
			}
			o, err := r.run(r.flags("--use_existing_db=1", "--report_open_timing=1",
				fmt.Sprintf("--threads=%d", threads),
				fmt.Sprintf("--duration=%d", max(int(r.task.Duration.Seconds()), 1)),
				fmt.Sprintf("--batch_size=%d", multiKeys), "--multiread_batched=1", fmt.Sprintf("--seek_nexts=%d", seekNexts),
				fmt.Sprintf("--benchmark_write_rate_limit=%d", r.task.Writes*(keySize+valueSize)),
				fmt.Sprintf("--histogram=%t", histogram),
				"--benchmarks="+strings.Join(benchmarks, ",")))
			if err != nil {
				return nil, err
			}
			for _, w := range benchmarks[1:] {
				s, err := r.sample(o.Lines, w, threads, histogram)
				if err != nil {
					return nil, err
				}
				samples = append(samples, s...)
			}
			if histogram {
				continue
			}
			if ms, ok := o.Lines.Timing("OpenDb"); ok && threads == least {
				samples = append(samples, sample{"reopen", "open", 0, ms})
			}
			if threads == most && o.MaxRSS > 0 {
				samples = append(samples, sample{"memory", "rss", 0, float64(o.MaxRSS)})
			}
		}
	}
	return samples, nil
}

// sample takes a benchmark's figures, and checks what it found: db_bench knows no values.
func (r rocks) sample(lines program.Lines, workload string, threads int, histogram bool) ([]sample, error) {
	l, err := lines.First(workload)
	if err != nil {
		return nil, err
	}
	if want := l.Read; workload == "readmissing" && l.Found != 0 || workload != "readmissing" && l.Found != want || l.Read == 0 {
		return nil, fmt.Errorf("db_bench: %s found %d of %d keys", workload, l.Found, l.Read)
	}
	if workload == "seekrandom" {
		// Throughput is the only trace of the steps: db_bench counts the bytes of each. A tenth is for
		// rounding, and for seeks near the end.
		if steps := l.MBPerSecond * (1 << 20) * l.Seconds / float64(l.Operations) / (keySize + valueSize); steps < 0.9*seekNexts {
			return nil, fmt.Errorf("db_bench: a seek took %.1f steps, want %d", steps, seekNexts)
		}
	}
	if !histogram {
		return []sample{{workload, "throughput", threads, l.OpsPerSecond}}, nil
	}
	if l.P999 == 0 {
		return nil, fmt.Errorf("db_bench printed no percentiles of %s", workload)
	}
	return []sample{{workload, "p50", threads, l.P50}, {workload, "p99", threads, l.P99}, {workload, "p99.9", threads, l.P999}}, nil
}

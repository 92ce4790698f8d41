package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/numa"

	"github.com/flatrock-db/flatrock/bench/report"
)

// E1: NUMA and plain tables in memory (RocksDB's, 2014). 157,286,400 keys of 20 bytes with
// values of 100; 24 readers beside a writer of 10,240 operations a second, without and with
// threads and their memory bound to NUMA nodes. Flatrock's threads run as well with
// its data placed: interleaved, and replicated, where the machine has several nodes.

const (
	e1Keys     = 157_286_400
	e1Duration = 10 * time.Second // published: 300
	e1Writes   = 10240            // a second
)

// e1Common are the published flags of both command lines, but for sizes and paths.
const e1Common = `--num_levels=6 --key_size=20 --prefix_size=20 --keys_per_prefix=0 --value_size=100 --block_size=4096
	--cache_size=17179869184 --cache_numshardbits=6 --compression_type=none --compression_ratio=1 --min_level_to_compress=-1
	--disable_seek_compaction=1 --hard_rate_limit=2 --write_buffer_size=134217728 --max_write_buffer_number=2
	--level0_file_num_compaction_trigger=8 --target_file_size_base=134217728 --max_bytes_for_level_base=1073741824
	--disable_wal=0 --sync=0 --disable_data_sync=1 --verify_checksum=1 --delete_obsolete_files_period_micros=314572800
	--max_grandparent_overlap_factor=10 --max_background_compactions=4 --max_background_flushes=0
	--level0_slowdown_writes_trigger=16 --level0_stop_writes_trigger=24 --statistics=0 --stats_per_interval=0
	--stats_interval=1048576 --histogram=0 --use_plain_table=1 --open_files=-1 --mmap_read=1 --mmap_write=0
	--memtablerep=prefix_hash --bloom_bits=10 --bloom_locality=1 --perf_level=0`

// e1Rocks are what RocksDB's 7.8.3 needs for them: it does not start otherwise.
var e1Rocks = []string{"--perf_level=1", "--allow_concurrent_memtable_write=0"}

// e1Published are microseconds an operation of all threads together.
var e1Published = map[bool]float64{false: 0.145, true: 0.161}

// e1Way is a way to read.
type e1Way struct {
	engine
	aware     bool
	placement string // Flatrock's; empty for none
	ops       []float64
	writes    []float64 // a second
}

func runE1(l *lab) error {
	if l.duration == 0 {
		l.duration = e1Duration
	}
	topology, err := numa.Discover()
	if err != nil {
		return err
	}
	nodes := len(topology.CPUNodes())
	var ways []*e1Way
	for _, e := range l.engines() {
		ways = append(ways, &e1Way{engine: e})
		if !e.rocks || nodes > 1 { // RocksDB's ends with an error where the kernel knows no nodes
			ways = append(ways, &e1Way{engine: e, aware: true})
		}
		if !e.rocks && nodes > 1 {
			ways = append(ways, &e1Way{engine: e, aware: true, placement: "interleave"}, &e1Way{engine: e, aware: true, placement: "replicate"})
		}
		wal := "--wal_dir=" + l.databaseOf(e)
		if _, err := l.run(e, e1Common, e1Rocks, "--benchmarks=filluniquerandom", wal, fmt.Sprintf("--num=%d", l.num)); err != nil {
			return err
		}
	}
	var placed []string
	err = l.turns(len(ways), func(i int) error {
		w := ways[i]
		more := []string{"--benchmarks=readwhilewriting", "--use_existing_db=1", "--wal_dir=" + l.databaseOf(w.engine), fmt.Sprintf("--num=%d", l.num), "--threads=24",
			fmt.Sprintf("--duration=%d", max(int(l.duration.Seconds()), 1)), fmt.Sprintf("--writes_per_second=%d", e1Writes), fmt.Sprintf("--numa_aware=%t", w.aware)}
		if w.placement != "" {
			more = append(more, "--numa_placement="+w.placement)
		}
		rocks := append(slices.Clone(e1Rocks), fmt.Sprintf("--benchmark_write_rate_limit=%d", e1Writes*(20+100)), fmt.Sprintf("--enable_numa=%t", w.aware))
		r, lines, err := l.measure(w.engine, "readwhilewriting", e1Common, rocks, more...)
		if err != nil {
			return err
		}
		if r.Read == 0 || r.Found != r.Read {
			return fmt.Errorf("%s: found %d of %d keys, though each was written", w.name, r.Found, r.Read)
		}
		variant := w.placement
		if w.aware {
			variant = strings.TrimSpace("numa_aware " + variant)
		}
		add := func(metric string, v float64) {
			l.add(w.rocks, variant, "E1 readwhilewriting", fmt.Sprintf("point reads of plain tables beside %d writes a second", e1Writes), metric, 24, v)
		}
		w.ops = append(w.ops, r.OpsPerSecond)
		add("throughput", r.OpsPerSecond)
		if writer, err := lines.Last("bgwriter"); err == nil { // RocksDB prints none
			w.writes = append(w.writes, writer.OpsPerSecond)
			add("writer", writer.OpsPerSecond)
		}
		if at := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "NUMA placement") }); at >= 0 {
			placed = lines[at:]
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.printE1(ways, nodes, placed)
	return nil
}

func (l *lab) printE1(ways []*e1Way, nodes int, placed []string) {
	fmt.Fprintf(l.out, "E1: %d keys of 20 bytes, values of 100 bytes, plain tables (published: %d keys, 24 cores, 2 nodes); readwhilewriting by 24 threads for %v,\n"+
		"beside %d writes a second; medians of %d alternating runs; this machine has %d NUMA node(s)\n\n", l.num, e1Keys, l.duration, e1Writes, l.rounds, nodes)
	fmt.Fprintf(l.out, "%-24s %6s %12s %8s %9s %10s %10s\n", "", "aware", "ops/s", "µs/op", "writes/s", "on/off", "/RocksDB")
	for _, aware := range []bool{false, true} {
		us := e1Published[aware]
		fmt.Fprintf(l.out, "%-24s %6t %12.0f %8.3f %9s %10s %10s\n", "published", aware, 1e6/us, us, "", ratio(e1Published[false], us), "")
	}
	find := func(rocks, aware bool) float64 {
		for _, w := range ways {
			if w.rocks == rocks && w.aware == aware && w.placement == "" {
				return report.Median(w.ops)
			}
		}
		return 0
	}
	for _, w := range ways {
		name, ops, writes := w.name, report.Median(w.ops), "-"
		if w.placement != "" {
			name += ", " + w.placement
		}
		if len(w.writes) > 0 {
			writes = fmt.Sprintf("%.0f", report.Median(w.writes))
		}
		fmt.Fprintf(l.out, "%-24s %6t %12.0f %8s %9s %10s %10s\n", name, w.aware, ops, ratio(1e6, ops), writes, ratio(ops, find(w.rocks, false)), ratio(ops, find(true, w.aware)))
	}
	if nodes < 2 {
		fmt.Fprintln(l.out, "\nOne node: nobody is pinned. RocksDB with numa_aware, and --numa_placement=interleave and replicate, which place the data, are left out.")
	}
	fmt.Fprintln(l.out, "\nWhere Flatrock's memory was in its last run with numa_aware:")
	fmt.Fprintln(l.out, strings.TrimSpace(strings.Join(placed, "\n")))
}

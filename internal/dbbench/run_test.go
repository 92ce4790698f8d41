package dbbench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// plainArgs are flags of a small database on plain tables, blockArgs on block-based ones.
func plainArgs(dir string, more ...string) []string {
	return append([]string{"--db=" + dir, "--seed=1", "--key_size=20", "--prefix_size=20", "--use_plain_table", "--mmap_read",
		"--memtablerep=prefix_hash", "--hash_bucket_count=1000", "--write_buffer_size=1048576", "--num=2000"}, more...)
}

func blockArgs(dir string, more ...string) []string {
	return append([]string{"--db=" + dir, "--seed=1", "--write_buffer_size=1048576", "--num=2000", "--bloom_bits=10"}, more...)
}

func forBothFormats(t *testing.T, test func(t *testing.T, args func(dir string, more ...string) []string)) {
	t.Run("plain", func(t *testing.T) { test(t, plainArgs) })
	t.Run("block", func(t *testing.T) { test(t, blockArgs) })
}

// Every benchmark runs, prints its line, and did what the line says.
func TestEveryBenchmark(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		type want struct {
			operations, found, read int64
			rate                    bool
		}
		for _, test := range []struct {
			benchmarks, flags string
			want              map[string]want
		}{
			{"fillseq,readseq,readreverse,readrandom,readmissing", "", map[string]want{
				"fillseq": {2000, -1, -1, true}, "readseq": {2000, -1, -1, true}, "readreverse": {2000, -1, -1, true},
				"readrandom": {2000, 2000, 2000, true}, "readmissing": {2000, 0, 2000, false}}},
			{"fillseq,readtocache", "--threads=3 --reads=7", map[string]want{"readtocache": {2000, -1, -1, true}}},
			{"filluniquerandom,readseq,compact,multireadrandom,seekrandom,newiterator", "--batch_size=8 --seek_nexts=3 --threads=2", map[string]want{
				"filluniquerandom": {2000, -1, -1, true}, "readseq": {4000, -1, -1, true}, "compact": {2, -1, -1, false},
				"multireadrandom": {4000, 4000, 4000, true}, "seekrandom": {4000, 4000, 4000, true}, "newiterator": {4000, -1, -1, false}}},
			{"fillseq,multireadrandom,seekrandom", "--batch_size=4 --multiread_stride=7 --seek_nexts=5 --reverse_iterator --max_scan_distance=3", map[string]want{
				"multireadrandom": {2000, 2000, 2000, true}, "seekrandom": {2000, 2000, 2000, true}}},
			{"fillrandom,overwrite", "--writes=3000 --batch_size=10", map[string]want{
				"fillrandom": {3000, -1, -1, true}, "overwrite": {3000, -1, -1, true}}},
			{"fillsync", "--writes=5", map[string]want{"fillsync": {5, -1, -1, true}}},
			{"fillseq,deleteseq,readrandom", "", map[string]want{"deleteseq": {2000, -1, -1, false}, "readrandom": {2000, 0, 2000, false}}},
			{"fillseq,deleteseq,readseq,flush,readseq", "--deletes=500 --batch_size=5", map[string]want{
				"deleteseq": {500, -1, -1, false}, "readseq": {1500, -1, -1, true}}},
			{"fillseq,deleterandom", "--deletes=100 --threads=3", map[string]want{"deleterandom": {300, -1, -1, false}}},
			{"fillseq,readwhilewriting", "--reads=30000 --threads=2", map[string]want{
				"fillseq": {4000, -1, -1, true}, "readwhilewriting": {60000, 60000, 60000, true}}},
			{"fillseq,readwhilewriting", "--finish_after_writes --num=50 --reads=10", map[string]want{
				"readwhilewriting": {10, 10, 10, true}, "bgwriter": {50, -1, -1, true}}},
			{"fillseq,readrandom", "--read_random_exp_range=5 --value_size_distribution_type=uniform --value_size_min=0 --value_size_max=50", map[string]want{
				"readrandom": {2000, 2000, 2000, true}}},
			{"fillseq,readrandom", "--disable_wal --value_size_distribution_type=normal --value_size_max=300", map[string]want{
				"readrandom": {2000, 2000, 2000, true}}},
		} {
			out := mustRun(t, args(t.TempDir(), append(strings.Fields(test.flags), "--benchmarks="+test.benchmarks)...)...)
			got := parseResults(t, out)
			for name, w := range test.want {
				lines := got[name]
				if len(lines) == 0 {
					t.Errorf("%s %s: no line of %s in\n%s", test.benchmarks, test.flags, name, out)
				}
				for _, l := range lines {
					if l.operations != w.operations || l.found != w.found || l.read != w.read || l.hasRate != w.rate {
						t.Errorf("%s %s: %s: %+v, want %+v", test.benchmarks, test.flags, name, l, w)
					}
				}
			}
		}
	})
}

func TestMetaBenchmarks(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		out := mustRun(t, args(t.TempDir(), "--benchmarks=fillseq,memstats,compact0,flush,levelstats,compact0,compactall,overwrite,flush,compact0,compact1,levelstats,stats,resetstats,stats,compactall,waitforcompaction,heap",
			"--statistics", "--histogram")...)
		for _, want := range []string{
			"\nrocksdb.num-entries-all-mem-tables: 2000\n",
			"\ncompact0 found 0 files to compact\n",
			"\nflush memtable\n",
			"\nLevel Files Size(MB)\n--------------------\n  0        1        0\n  1        0        0\n",
			"\ncompact0 found no data beyond L0\n",
			"\ncompact0 found 1 files to compact from L0 to L",
			"\ncompact1 found no data beyond L",
			"\nLevel Files Size(MB)\n--------------------\n  0        0        0\n",
			"\nCumulative writes: 4000 writes, 4000 keys, ", "\nCumulative writes: 0 writes, 0 keys, ",
			": finished\n",
			"\nheap         : Go heap ",
			"\nrocksdb.number.keys.written COUNT : 4000\n",
			"\nrocksdb.db.write.micros P50 : ",
			"\nMicroseconds per write:\nCount: 2000 Average: ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

func TestRepeatsAndWarmups(t *testing.T) {
	out := mustRun(t, plainArgs(t.TempDir(), "--benchmarks=fillseq,readrandom[W2-X3],readseq[X1],levelstats[X2]")...)
	got := parseResults(t, out)
	if len(got["readrandom"]) != 5 || len(got["readseq"]) != 1 || strings.Count(out, "\nLevel Files") != 2 {
		t.Errorf("%v\n%s", got, out)
	}
	for _, want := range []string{"Warming up benchmark by running 2 times\n", "Running benchmark for 3 times\n",
		"readrandom [AVG 2 runs] : ", "readrandom [AVG    3 runs] : ", "readrandom [MEDIAN 3 runs] : "} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, out)
		}
	}
}

func TestExistingDatabase(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		dir := t.TempDir()
		foreign := filepath.Join(dir, "notes.txt")
		if err := os.WriteFile(foreign, []byte("keep me"), 0o644); err != nil {
			t.Fatal(err)
		}
		wal := filepath.Join(t.TempDir(), "made", "wal")
		mustRun(t, args(dir, "--benchmarks=fillseq", "--wal_dir="+wal)...)
		out := mustRun(t, args(dir, "--use_existing_db", "--benchmarks=fillrandom,readrandom", "--wal_dir="+wal, "--report_open_timing")...)
		if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 2000 {
			t.Errorf("%+v", l)
		}
		for _, want := range []string{"fillrandom   : skipped (--use_existing_db is true)\n", "OpenDb:     "} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		out = mustRun(t, args(dir, "--use_existing_db", "--use_existing_keys", "--num=7", "--reads=100", "--wal_dir="+wal,
			"--benchmarks=readrandom,readmissing,multireadrandom,seekrandom,overwrite")...)
		got := parseResults(t, out)
		if got["readrandom"][0].found != 100 || got["readmissing"][0].found != 0 || got["multireadrandom"][0].found != 100 || got["seekrandom"][0].found != 100 {
			t.Errorf("%+v", got)
		}
		out = mustRun(t, args(dir, "--use_existing_db", "--readonly", "--benchmarks=readrandom", "--wal_dir="+wal)...)
		if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 2000 {
			t.Errorf("%+v", l)
		}
		// A fresh database replaces the old one, and nothing else in the directory.
		out = mustRun(t, args(dir, "--benchmarks=readrandom", "--wal_dir="+wal)...)
		if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 0 {
			t.Errorf("%+v", l)
		}
		if text, err := os.ReadFile(foreign); err != nil || string(text) != "keep me" {
			t.Error(err, text)
		}
	})
}

func TestMemoryPolicies(t *testing.T) {
	for _, policy := range []string{"none", "willneed", "populate", "resident", "auto"} {
		out := mustRun(t, plainArgs(t.TempDir(), "--plain_table_memory="+policy, "--benchmarks=fillseq,flush,readrandom")...)
		want := "Plain table memory: " + policy
		if policy == "auto" {
			want = "data fit in a quarter of"
			if freeMemory() < 0 {
				want = "Plain table memory: populate (auto: free memory is not known here)"
			}
		}
		if !strings.Contains(out, want) || !strings.Contains(out, "; in memory: ") {
			t.Errorf("%s: no %q in\n%s", policy, want, out)
		}
		if got := strings.Contains(out, "MB resident tables"); got != (policy == "resident" || policy == "auto" && freeMemory() >= 0) {
			t.Errorf("%s: resident tables: %v\n%s", policy, got, out)
		}
	}
	m := memoryChoice{auto: true, data: 10 << 20, free: 39 << 20}
	if got, want := m.String(), "populate (auto: 10.0 MB of data do not fit in a quarter of 39.0 MB of free memory)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDurationEndsRandomBenchmarks(t *testing.T) {
	out := mustRun(t, plainArgs(t.TempDir(), "--benchmarks=fillseq,readrandom", "--duration=1", "--threads=2", "--ops_between_duration_checks=10")...)
	// 2,000 operations a thread would take a few milliseconds.
	if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].operations <= 4000 || l[0].found != l[0].read {
		t.Errorf("%+v", l)
	}
}

func TestRangeTombstonesWhileFilling(t *testing.T) {
	for _, expand := range []string{"--noexpand_range_tombstones", "--expand_range_tombstones"} {
		out := mustRun(t, blockArgs(t.TempDir(), "--benchmarks=filluniquerandom,readrandom,readseq", "--range_tombstone_width=50",
			"--writes_per_range_tombstone=100", "--max_num_range_tombstones=10", "--writes_before_delete_range=1000", expand)...)
		got := parseResults(t, out)
		left := got["readseq"][0].operations
		// At most ten deletes of fifty keys, among 2,010.
		if left >= 2000 || left < 1500 || got["readrandom"][0].found >= 2000 {
			t.Errorf("%s: %d keys are left\n%s", expand, left, out)
		}
	}
}

func TestSeeksWithOneTailingIterator(t *testing.T) {
	out := mustRun(t, blockArgs(t.TempDir(), "--benchmarks=fillseq,seekrandom", "--use_tailing_iterator", "--auto_prefix_mode", "--seek_nexts=3")...)
	if l := parseResults(t, out)["seekrandom"]; len(l) != 1 || l[0].found != l[0].read || l[0].read == 0 {
		t.Errorf("%+v", l)
	}
}

func TestPanicOfAThreadIsAnError(t *testing.T) {
	err := guardedRun(func(*thread) error { panic("oops") }, nil)
	if err == nil || !strings.Contains(err.Error(), "oops") {
		t.Fatal(err)
	}
}

// The command lines of the published experiments run as they stand, sizes aside.
func TestExperimentE1(t *testing.T) {
	dir := t.TempDir()
	e1 := strings.Fields(`--num_levels=6 --key_size=20 --prefix_size=20 --keys_per_prefix=0 --value_size=100 --block_size=4096
      --cache_size=17179869184 --cache_numshardbits=6 --compression_type=none --compression_ratio=1 --min_level_to_compress=-1
      --disable_seek_compaction=1 --hard_rate_limit=2 --write_buffer_size=134217728 --max_write_buffer_number=2
      --level0_file_num_compaction_trigger=8 --target_file_size_base=134217728 --max_bytes_for_level_base=1073741824
      --disable_wal=0 --wal_dir=DIR --sync=0 --disable_data_sync=1 --verify_checksum=1 --delete_obsolete_files_period_micros=314572800
      --max_grandparent_overlap_factor=10 --max_background_compactions=4 --max_background_flushes=0
      --level0_slowdown_writes_trigger=16 --level0_stop_writes_trigger=24 --statistics=0 --stats_per_interval=0
      --stats_interval=1048576 --histogram=0 --use_plain_table=1 --open_files=-1 --mmap_read=1 --mmap_write=0
      --memtablerep=prefix_hash --bloom_bits=10 --bloom_locality=1 --perf_level=0 --duration=1`)
	for i, f := range e1 {
		if f == "--wal_dir=DIR" {
			e1[i] = "--wal_dir=" + filepath.Join(dir, "wal")
		}
	}
	e1 = append(e1, "--db="+filepath.Join(dir, "db"), "--num=3000", "--threads=24")
	mustRun(t, append(slices.Clone(e1), "--benchmarks=filluniquerandom", "--writes_per_second=10240")...)
	for _, numa := range []string{"0", "1"} {
		out, errs, code := runProgram(t, append(slices.Clone(e1), "--benchmarks=readwhilewriting", "--use_existing_db=1", "--writes_per_second=10240", "--numa_aware="+numa)...)
		got := parseResults(t, out)
		if l := got["readwhilewriting"]; code != 0 || len(l) != 1 || l[0].found != l[0].read || l[0].operations == 0 || len(got["bgwriter"]) != 1 {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
		if strings.Contains(errs, "enable_numa") {
			t.Errorf("--numa_aware is not taken: %s", errs)
		}
		checkNUMAReport(t, out, numa == "1")
		checkKeys(t, append(slices.Clone(e1), "--use_existing_db=1"), 3000)
		for line := range strings.Lines(errs) {
			if strings.HasPrefix(line, "warning:") && !strings.Contains(line, " is ignored: ") {
				t.Errorf("%q", line)
			}
		}
		for _, flag := range []string{"hard_rate_limit", "disable_data_sync", "max_grandparent_overlap_factor"} {
			if strings.Count(errs, "warning: --"+flag+" ") != 1 {
				t.Errorf("--%s has not one warning in\n%s", flag, errs)
			}
		}
	}
}

func TestExperimentE3(t *testing.T) {
	db := "--db=" + t.TempDir()
	out := mustRun(t, append(strings.Fields(`-benchmarks=filluniquerandom -write_buffer_size=1048576 -compression_type=lz4 -target_file_size_base=1048576
      -max_bytes_for_level_base=4194304 -value_size=112 -key_size=16 -block_size=4096 -level_compaction_dynamic_level_bytes=true
      -max_background_jobs=12 -benchmark_write_rate_limit=20971520 -range_tombstone_width=100
      -writes_per_range_tombstone=100 -max_num_range_tombstones=50000 -bloom_bits=8`), db, "-num=5000")...)
	if l := parseResults(t, out)["filluniquerandom"]; len(l) != 1 || l[0].operations != 5000 {
		t.Errorf("%+v", l)
	}
	out = mustRun(t, append(strings.Fields(`-use_existing_db=true -benchmarks=readrandom -disable_auto_compactions=true -reads=100 -threads=32`), db, "-num=5000")...)
	if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].operations != 3200 || l[0].read != 3200 || l[0].found >= 3200 {
		t.Errorf("%+v", l)
	}
	// Reading each key once finds what a walk meets.
	out = mustRun(t, "-use_existing_db", "-benchmarks=readseq", db, "-num=5050")
	left := parseResults(t, out)["readseq"][0].operations
	out = mustRun(t, "-use_existing_db", "-use_existing_keys", "-benchmarks=readrandom", db, "-reads=10000")
	if l := parseResults(t, out)["readrandom"]; left == 0 || left >= 5000 || l[0].found != 10000 {
		t.Errorf("%d keys are left, then %+v", left, l)
	}
}

// checkKeys counts the keys of a database.
func checkKeys(t *testing.T, args []string, want int64) {
	t.Helper()
	out := mustRun(t, append(args, "--benchmarks=readseq", "--threads=1", "--total_order_seek")...)
	if l := parseResults(t, out)["readseq"]; len(l) != 1 || l[0].operations != want {
		t.Errorf("readseq: %+v, want %d keys", l, want)
	}
}

// E2 was published without its command line; these are its sizes.
func TestExperimentE2(t *testing.T) {
	dir := t.TempDir()
	e2 := append(strings.Fields("--key_size=20 --value_size=100 --compression_type=none --num=2000"), "--db="+filepath.Join(dir, "db"))
	mustRun(t, append(slices.Clone(e2), "--benchmarks=filluniquerandom,compact")...)
	for _, rate := range []string{"1", "100"} {
		out := mustRun(t, append(slices.Clone(e2), "--use_existing_db=1", "--benchmarks=readtocache,readrandom", "--threads=16", "--reads=500", "--cache_size=10737418240",
			"--block_cache_trace_file="+filepath.Join(dir, "trace"), "--block_cache_trace_sampling_frequency="+rate)...)
		if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 8000 || l[0].read != 8000 {
			t.Errorf("%+v", l)
		}
		// Each read looks into one data block at least, and the walk into each of them.
		if n := numbers(t, line(t, out, "block cache trace"), ":"); rate == "1" && n[0]+n[1] < 8000 || rate == "100" && n[0]+n[1] > 8000 {
			t.Errorf("rate %s: %s", rate, line(t, out, "block cache trace"))
		}
	}
}

func TestExperimentE4(t *testing.T) {
	e4 := append(strings.Fields(`--disable_seek_compaction=1 --mmap_read=0 --statistics=1 --histogram=1 --readahead=0
      --threads=2 --value_size=800 --block_size=16384 --cache_size=17179869184 --bloom_bits=10 --cache_numshardbits=4
      --open_files=50000000 --verify_checksum=1 --disable_data_sync=0 --disable_wal=0 --compression_type=none --stats_interval=10000
      --compression_ratio=0.50 --write_buffer_size=67108864 --target_file_size_base=67108864 --max_write_buffer_number=3
      --max_background_compactions=8 --level0_file_num_compaction_trigger=8 --level0_slowdown_writes_trigger=17
      --level0_stop_writes_trigger=24 --num_levels=6 --delete_obsolete_files_period_micros=5000000 --min_level_to_compress=3
      --stats_per_interval=1 --disable_auto_compactions=0 --source_compaction_factor=1 --seed=1365556909
      --rate_limit=2 --mmap_write=0 --max_bytes_for_level_base=536870912 --max_bytes_for_level_multiplier=8
      --writes_per_second=10000`), "--db="+t.TempDir(), "--num=1000")
	mustRun(t, append(slices.Clone(e4), "--benchmarks=fillseq")...)
	out := mustRun(t, append(slices.Clone(e4), "--benchmarks=readwhilewriting", "--use_existing_db=1", "--duration=1")...)
	got := parseResults(t, out)
	if l := got["readwhilewriting"]; len(l) != 1 || l[0].found != l[0].read || len(got["bgwriter"]) != 1 {
		t.Errorf("%+v", got)
	}
	checkKeys(t, append(slices.Clone(e4), "--use_existing_db=1"), 1000)
	wrote, read := got["bgwriter"][0].operations, got["readwhilewriting"][0].operations
	for _, want := range []string{"rocksdb.db.get.micros P50 : ", "rocksdb.db.write.micros P50 : ", fmt.Sprintf("\nrocksdb.number.keys.written COUNT : %d\n", wrote), fmt.Sprintf("\nrocksdb.number.keys.read COUNT : %d\n", read)} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestExperimentE5(t *testing.T) {
	db := "--db=" + t.TempDir()
	out := mustRun(t, append(strings.Fields(`-benchmarks=fillseq,compact0,waitforcompaction,compact,waitforcompaction,levelstats,stats -write_buffer_size=65536
      -level_compaction_dynamic_level_bytes=true -max_background_jobs=8 -target_file_size_base=268435456
      --key_size=32 --value_size=200 --compression_type=none`), db, "--num=5000")...)
	// compact rewrites what compact0 merged: all 1.2 MB, into one file.
	if l := parseResults(t, out)["compact"]; len(l) != 1 || !strings.Contains(out, "\n  6        1        1\n") || !strings.Contains(out, "\nCumulative compaction: ") {
		t.Errorf("%+v\n%s", l, out)
	}
	for _, cache := range []string{"2000000000", "1080000", "600000", "8388", "0"} {
		out := mustRun(t, append(strings.Fields(`--use_existing_db -benchmarks=readtocache,readrandom[-X10] --key_size=32
      --disable_auto_compactions --reads=1000 --threads=2 --block_protection_bytes_per_key=0`), db, "--num=5000", "--cache_size="+cache)...)
		got := parseResults(t, out)
		if l := got["readtocache"]; len(l) != 1 || l[0].operations != 5000 {
			t.Errorf("cache %s: %+v", cache, l)
		}
		if l := got["readrandom"]; len(l) != 10 || l[0].operations != 2000 || l[9].found != 2000 {
			t.Errorf("cache %s: %+v", cache, l)
		}
	}
}

// compact rewrites a database that is one sorted run; compactall does not.
func TestCompactRewrites(t *testing.T) {
	for benchmark, want := range map[string]bool{"compact": true, "compactall": false} {
		dir := t.TempDir()
		mustRun(t, blockArgs(dir, "--benchmarks=fillseq,compact")...)
		before := tableFiles(t, dir)
		mustRun(t, blockArgs(dir, "--use_existing_db", "--benchmarks="+benchmark)...)
		after := tableFiles(t, dir)
		if rewritten := !slices.Equal(before, after); rewritten != want || len(before) != 1 || len(after) != 1 {
			t.Errorf("%s: %v, then %v", benchmark, before, after)
		}
	}
}

func tableFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, plainArgs(filepath.Join(dir, "db"), "--benchmarks=fillseq,readrandom",
		"--cpuprofile="+filepath.Join(dir, "cpu"), "--mutexprofile="+filepath.Join(dir, "mutex"), "--blockprofile="+filepath.Join(dir, "block"))...)
	for _, name := range []string{"cpu", "mutex", "block"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, errs, code := runProgram(t, plainArgs(filepath.Join(dir, "db"), "--cpuprofile="+filepath.Join(dir, "no", "where"))...); code == 0 {
		t.Error(errs)
	}
}

func TestMainJob(t *testing.T) {
	parent := t.TempDir()
	var out strings.Builder
	err := runMainJob(context.Background(), &out, io.Discard, false, mainJob{keys: 20_000, duration: 300 * time.Millisecond, sample: 500, parent: parent})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"filluniquerandom : ", "readwhilewriting : ", "\nread latency       p50 ", "\nwrites meanwhile   ",
		"\nreopen             ", "\nverified           500 of 500 sampled values\n", "\nGo heap            ", "\noff the heap       ", "\ngarbage collector  "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestInterruptedMainJobCleansUp(t *testing.T) {
	// At once, while it loads and while it reads: wherever the end falls, nothing stays.
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond} {
		parent := t.TempDir()
		ctx, cancel := context.WithTimeout(context.Background(), after)
		err := runMainJob(ctx, io.Discard, io.Discard, false, mainJob{keys: 100_000, duration: time.Hour, sample: 10, parent: parent})
		cancel()
		if err == nil {
			t.Errorf("interrupted after %v: no error", after)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) > 0 {
			t.Errorf("interrupted after %v: left behind: %v %v", after, entries, err)
		}
	}
}

// TestKeysOfAnotherDatabase: --existing_keys_db asks one database for the keys of another.
func TestKeysOfAnotherDatabase(t *testing.T) {
	all, half := t.TempDir(), t.TempDir()
	mustRun(t, blockArgs(all, "--benchmarks=fillseq")...)
	mustRun(t, blockArgs(half, "--benchmarks=fillseq,deleterandom,flush")...)
	out := mustRun(t, blockArgs(all, "--use_existing_db", "--use_existing_keys", "--existing_keys_db="+half, "--benchmarks=readseq,readrandom", "--reads=5000")...)
	if got := parseResults(t, out); got["readrandom"][0].found != 5000 || got["readseq"][0].operations != 2000 {
		t.Errorf("%+v", got)
	}
	out = mustRun(t, blockArgs(half, "--use_existing_db", "--use_existing_keys", "--existing_keys_db="+all, "--benchmarks=readrandom", "--reads=5000")...)
	if l := parseResults(t, out)["readrandom"]; l[0].found == 5000 || l[0].found < 500 {
		t.Errorf("%+v", l)
	}
	for args, want := range map[string]string{"--existing_keys_db=x": "needs --use_existing_keys", "--use_existing_db --use_existing_keys --existing_keys_db=/none/such": "--existing_keys_db=/none/such"} {
		if _, errs, code := runProgram(t, blockArgs(all, append(strings.Fields(args), "--benchmarks=readrandom")...)...); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errs)
		}
	}
}

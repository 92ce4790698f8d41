package dbbench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// line is the line of a benchmark in out.
func line(t *testing.T, out, name string) string {
	t.Helper()
	for l := range strings.Lines(out) {
		if strings.HasPrefix(l, name+" ") {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("no line of %s in\n%s", name, out)
	return ""
}

// numbers are those of the part of a line from mark on.
func numbers(t *testing.T, l, mark string) []int64 {
	t.Helper()
	_, rest, ok := strings.Cut(l, mark)
	if !ok {
		t.Fatalf("no %q in %q", mark, l)
	}
	var all []int64
	for _, s := range regexp.MustCompile(`\d+`).FindAllString(rest, -1) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// TestMixedBenchmarks: each runs over both formats, and its message says what was done.
func TestMixedBenchmarks(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		out := mustRun(t, args(t.TempDir(), "--num=2000", "--merge_operator=stringappend", "--mix_get_ratio=0.6", "--mix_put_ratio=0.3", "--mix_seek_ratio=0.1",
			"--mix_max_scan_len=20", "--keyrange_num=5", "--keyrange_dist_a=14", "--keyrange_dist_b=-0.9", "--key_dist_a=0.002", "--key_dist_b=0.3",
			"--benchmarks=fillseq,updaterandom,appendrandom,xorupdaterandom,mergerandom,readrandomwriterandom,readrandommergerandom,mixgraph,readrandomfast,readrandomsmall,readhot")...)
		for _, name := range []string{"updaterandom", "appendrandom", "xorupdaterandom"} {
			if l := line(t, out, name); !strings.HasSuffix(l, "( updates:2000 found:2000)") {
				t.Error(l)
			}
		}
		if l := line(t, out, "mergerandom"); !strings.HasSuffix(l, "( updates:2000)") {
			t.Error(l)
		}
		if l := line(t, out, "readrandomwriterandom"); !strings.HasSuffix(l, "( reads:1800 writes:200 total:2000 found:1800)") {
			t.Error(l)
		}
		// reads, merges, total, hits, longest: each key is there, and what was merged is longer.
		if n := numbers(t, line(t, out, "readrandommergerandom"), "(reads:"); n[0]+n[1] != 2000 || n[1] < 1200 || n[1] > 1600 || n[3] != n[0] || n[4] <= 200 {
			t.Error(line(t, out, "readrandommergerandom"))
		}
		// gets, puts, seeks, found, reads, …: drawn by their shares.
		if n := numbers(t, line(t, out, "mixgraph"), "( Gets:"); n[0]+n[1]+n[2] != 2000 || n[0] < 1000 || n[1] < 400 || n[2] < 100 || n[3] != n[0]+n[2] || n[4] != n[0]+n[2] {
			t.Error(line(t, out, "mixgraph"))
		}
		if n := numbers(t, line(t, out, "readrandomfast"), "operations; ("); n[0]+n[2] != n[1] || n[1] < 2000 {
			t.Error(line(t, out, "readrandomfast"))
		}
		if l := line(t, out, "readrandomsmall"); !strings.Contains(l, "(2 of 2 found)") {
			t.Error(l)
		}
		if l := line(t, out, "readhot"); !strings.Contains(l, "(2000 of 2000 found)") {
			t.Error(l)
		}
	})
}

// TestBesideBenchmarks: readers beside a writer, a merger and a scanner.
func TestBesideBenchmarks(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		out := mustRun(t, args(t.TempDir(), "--merge_operator=put", "--threads=2", "--reads=500",
			"--benchmarks=fillseq,readwhilemerging,readwhilescanning,seekrandomwhilewriting,seekrandomwhilemerging,newiteratorwhilewriting")...)
		for _, name := range []string{"readwhilemerging", "readwhilescanning", "seekrandomwhilewriting", "seekrandomwhilemerging"} {
			if l := line(t, out, name); !strings.Contains(l, "(1000 of 1000 found)") {
				t.Error(l)
			}
		}
		if n := numbers(t, line(t, out, "readwhilescanning"), "seconds "); n[0] < 1000 {
			t.Error("the scanner does not count: " + line(t, out, "readwhilescanning"))
		}
		if n := numbers(t, line(t, out, "newiteratorwhilewriting"), "seconds "); n[0] != 1000 {
			t.Error(line(t, out, "newiteratorwhilewriting"))
		}
		if strings.Count(out, "\nbgwriter ") != 4 {
			t.Errorf("want a line of the writer or merger four times in\n%s", out)
		}
	})
}

// TestBenchmarksWithoutDatabase measure parts alone.
func TestBenchmarksWithoutDatabase(t *testing.T) {
	out := mustRun(t, "--db="+t.TempDir(), "--block_size=65536", "--num=10", "--reads=156",
		"--benchmarks=crc32c,xxhash,xxhash64,xxh3,compress,uncompress,acquireload,readtorowcache,randomtransaction,stats_history")
	for _, name := range []string{"crc32c", "xxhash", "xxhash64", "xxh3"} {
		if l := line(t, out, name); !strings.Contains(l, " 156 operations;") || !strings.HasSuffix(l, "(65536 per op)") {
			t.Error(l)
		}
	}
	if l := line(t, out, "compress"); !strings.Contains(l, "(output: 5") && !strings.Contains(l, "(output: 4") {
		t.Error(l)
	}
	if l := line(t, out, "uncompress"); !strings.Contains(l, " 156 operations;") {
		t.Error(l)
	}
	if l := line(t, out, "acquireload"); !strings.HasSuffix(l, "(each op is 1000 loads)") {
		t.Error(l)
	}
	for _, name := range []string{"readtorowcache", "randomtransaction", "stats_history"} {
		if l := line(t, out, name); !strings.Contains(l, ": skipped (") {
			t.Error(l)
		}
	}
	if _, errs, code := runProgram(t, "--db="+t.TempDir(), "--num=10", "--compression_type=none", "--benchmarks=compress"); code == 0 || !strings.Contains(errs, "--compression_type=none") {
		t.Errorf("compress without compression: exit code %d, %s", code, errs)
	}
}

// TestFillsOfFixedShape: fillbatch, fill100K and levels of fixed sizes.
func TestFillsOfFixedShape(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		out := mustRun(t, args(t.TempDir(), "--num=3000", "--writes=3", "--benchmarks=fill100K,readrandom")...)
		if n := numbers(t, line(t, out, "fill100K"), "seconds "); n[0] != 3 {
			t.Error(line(t, out, "fill100K"))
		}
		for _, order := range []string{"fillseqdeterministic", "filluniquerandomdeterministic"} {
			out := mustRun(t, args(t.TempDir(), "--num=1000", "--num_levels=4", "--disable_auto_compactions", "--benchmarks="+order+",levelstats,readrandom,sstables,verifychecksum,approximatesizerandom")...)
			if n := numbers(t, line(t, out, order), "seconds "); n[0] != 1110 {
				t.Error(line(t, out, order))
			}
			if got := strings.Count(out, "\nLevel["); got != 3 {
				t.Errorf("%s: %d levels listed in\n%s", order, got, out)
			}
			if l := line(t, out, "readrandom"); !strings.Contains(l, "(1000 of 1000 found)") {
				t.Error(l)
			}
			if n := numbers(t, line(t, out, "approximatesizerandom"), "(Avg approx size="); n[0] > 100_000 || n[0] < 10_000 && slices.Contains(args(""), "--bloom_bits=10") {
				// A third of 1000 entries of 120 bytes, in two or three levels; plain tables do not
				// say where in them a key lies.
				t.Error(line(t, out, "approximatesizerandom"))
			}
		}
		if _, errs, code := runProgram(t, args(t.TempDir(), "--benchmarks=fillseqdeterministic")...); code == 0 || !strings.Contains(errs, "--disable_auto_compactions") {
			t.Errorf("without --disable_auto_compactions: exit code %d, %s", code, errs)
		}
	})
}

// TestTimeSeries: events are read back, and expired ones are gone by either style.
func TestTimeSeries(t *testing.T) {
	for _, style := range []string{"none", "delete", "compaction_filter"} {
		out := mustRun(t, blockArgs(t.TempDir(), "--num=3000", "--key_id_range=10", "--time_range=500", "--threads=2", "--expire_style="+style,
			"--benchmarks=timeseries,compact,readseq")...)
		if n := numbers(t, line(t, out, "timeseries write"), "seconds "); n[0] != 3000 {
			t.Errorf("%s: %s", style, line(t, out, "timeseries write"))
		}
		left := numbers(t, line(t, out, "readseq"), "seconds ")[0] / 2
		if style == "none" && left != 3000 || style == "compaction_filter" && (left < 500 || left > 502) || style == "delete" && left > 3000 {
			t.Errorf("%s: %d events are left", style, left)
		}
	}
}

// TestVerifyAgainstTruth: equal databases agree, and a difference is named.
func TestVerifyAgainstTruth(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	mustRun(t, blockArgs(a, "--benchmarks=fillseq")...)
	mustRun(t, blockArgs(b, "--benchmarks=fillseq,compact")...)
	out := mustRun(t, blockArgs(b, "--use_existing_db", "--truth_db="+a, "--benchmarks=verify")...)
	if !strings.Contains(line(t, out, "verify"), "2000 keys agree") {
		t.Error(out)
	}
	mustRun(t, blockArgs(b, "--use_existing_db", "--deletes=100", "--benchmarks=deleteseq")...)
	if _, errs, code := runProgram(t, blockArgs(b, "--use_existing_db", "--truth_db="+a, "--benchmarks=verify")...); code == 0 || !strings.Contains(errs, "after 0 keys") {
		t.Errorf("a difference: exit code %d, %s", code, errs)
	}
}

// TestRandomWithVerify: threes of keys always agree, with several threads.
func TestRandomWithVerify(t *testing.T) {
	out := mustRun(t, blockArgs(t.TempDir(), "--numdistinct=50", "--threads=3", "--readwritepercent=50", "--deletepercent=20", "--benchmarks=randomwithverify")...)
	if n := numbers(t, line(t, out, "randomwithverify"), "( get:"); n[0] != 1000 || n[1] != 600 || n[2] != 400 || n[4] == 0 {
		t.Error(line(t, out, "randomwithverify"))
	}
}

// TestMixKeysFollowTheirDistribution: ranges get the shares that the curve gives them, and
// popular keys of a power law are few.
func TestMixKeysFollowTheirDistribution(t *testing.T) {
	f := defaultMix()
	f.rangeCount, f.rangeA, f.rangeB = 4, 1, -1
	m := newMixKeys(&f, 4000, rand.New(rand.NewPCG(1, 2)), 7)
	var counts [4]float64
	const draws = 100_000
	for range draws {
		k := m.draw()
		if k >= 4000 {
			t.Fatalf("key %d of 4000", k)
		}
		counts[k/1000]++
	}
	total := 0.0
	for i := range 4 {
		total += math.Exp(-float64(i + 1))
	}
	for i, place := range m.place {
		if want := math.Exp(-float64(i+1)) / total; math.Abs(counts[place]/draws-want) > 0.01 {
			t.Errorf("range %d, at %d: %.3f of the keys, want %.3f", i, place, counts[place]/draws, want)
		}
	}
	f = defaultMix()
	f.keyA, f.keyB = 0.002312, 0.3467
	m = newMixKeys(&f, 1<<20, rand.New(rand.NewPCG(1, 2)), 7)
	seen := map[uint64]int{}
	for range draws {
		seen[m.draw()]++
	}
	most := 0
	for _, n := range seen {
		most = max(most, n)
	}
	if most < 50 || len(seen) < draws/10 {
		t.Errorf("%s", fmt.Sprintf("of %d draws, %d keys, the most popular %d times", draws, len(seen), most))
	}
}

package dbbench

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestStatisticsAndPerfContext(t *testing.T) {
	forBothFormats(t, func(t *testing.T, args func(string, ...string) []string) {
		out := mustRun(t, args(t.TempDir(), "--benchmarks=fillseq,readrandom,seekrandom,sstables", "--statistics", "--perf_level=3", "--seek_nexts=3")...)
		for _, want := range []string{
			" PERF_CONTEXT:\nuser_key_comparison_count = ", ", get_from_memtable_count = 2000, ",
			"\nSTATISTICS:\nrocksdb.block.cache.miss COUNT : ",
			"\nrocksdb.number.keys.written COUNT : 2000\n", "\nrocksdb.number.keys.read COUNT : 2000\n", "\nrocksdb.number.db.seek COUNT : 2000\n",
			"\n--- level 0 --- version# ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		if !regexp.MustCompile(`(?m)^rocksdb.db.get.micros P50 : [0-9.]+ P95 : [0-9.]+ P99 : [0-9.]+ P100 : [0-9.]+ COUNT : 2000 SUM : \d+$`).MatchString(out) {
			t.Errorf("no histogram of reads in\n%s", out)
		}
		if m := regexp.MustCompile(`write_wal_time = (\d+)`).FindStringSubmatch(out); m == nil || m[1] == "0" {
			t.Errorf("time of the log: %v", m)
		}
	})
}

func TestReportFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "r.csv")
	mustRun(t, plainArgs(filepath.Join(dir, "db"), "--benchmarks=fillseq,readrandom", "--duration=2", "--report_interval_seconds=1", "--report_file="+file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^secs_elapsed,interval_qps\n1,[1-9]\d*\n`).Match(text) {
		t.Errorf("report:\n%s", text)
	}
	out, errs, code := runProgram(t, plainArgs(filepath.Join(dir, "db2"), "--benchmarks=fillseq", "--report_interval_seconds=1", "--report_file="+filepath.Join(dir, "none", "r.csv"))...)
	if code == 0 || !strings.Contains(errs, "--report_file") {
		t.Errorf("a report file that cannot be made: exit code %d\n%s%s", code, out, errs)
	}
}

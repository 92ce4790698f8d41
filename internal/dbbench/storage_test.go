package dbbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFlagsReachTheDatabase: the OPTIONS file and what is counted show them.
func TestFlagsReachTheDatabase(t *testing.T) {
	dir := t.TempDir()
	out := mustRun(t, blockArgs(dir, "--benchmarks=fillseq,flush,readrandom", "--compression_type=zstd", "--compression_level=7", "--compression_max_dict_bytes=4096",
		"--compression_zstd_max_train_bytes=65536", "--compression_max_dict_buffer_bytes=1048576", "--nocompression_use_zstd_dict_trainer", "--compression_parallel_threads=2",
		"--optimize_filters_for_memory", "--max_bytes_for_level_multiplier_additional=1,2,3", "--mmap_read", "--charge_table_reader", "--statistics", "--stats_level=1")...)
	if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 2000 {
		t.Errorf("%+v", l)
	}
	if !strings.Contains(out, "rocksdb.number.keys.written COUNT : 2000\n") || strings.Contains(out, "rocksdb.db.get.micros P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 P100 : 0.000000 COUNT : 2000") {
		t.Errorf("--stats_level=1:\n%s", out)
	}
	_, text := newestOptions(t, dir)
	for _, want := range []string{"level=7;", "max_dict_bytes=4096;", "zstd_max_train_bytes=65536;", "max_dict_buffer_bytes=1048576;", "use_zstd_dict_trainer=false;", "parallel_threads=2;",
		"optimize_filters_for_memory=true", "max_bytes_for_level_multiplier_additional=1:2:3", "allow_mmap_reads=true"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for flag, want := range map[string]string{"--stats_level=6": "want 0 to 5", "--max_bytes_for_level_multiplier_additional=1,x": "want positive numbers", "--compression_parallel_threads=-1": "no negative"} {
		if _, errs, code := runProgram(t, flag); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s", flag, code, errs)
		}
	}
}

// newestOptions are the name and the text of a database's OPTIONS file.
func newestOptions(t *testing.T, dir string) (name, text string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	name = names[len(names)-1]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, string(b)
}

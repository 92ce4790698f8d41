//go:build oracle

package dbbench

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// runDBBench runs RocksDB's db_bench. It ends lines of its own on standard output.
func runDBBench(t *testing.T, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("db_bench")
	if err != nil {
		t.Fatal("db_bench is needed: install rocksdb-tools")
	}
	// Without these two it does not start with a hash memtable.
	cmd := exec.Command(program, append([]string{"--allow_concurrent_memtable_write=0", "--perf_level=1"}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s\n%s", cmd, err, errs.String(), out)
	}
	return string(out)
}

// oracleArgs are databases that both programs fill and read.
func oracleArgs() map[string][]string {
	return map[string][]string{
		"plain":        strings.Fields("--key_size=20 --prefix_size=20 --use_plain_table=1 --mmap_read=1 --memtablerep=prefix_hash --bloom_bits=10 --bloom_locality=1 --num_levels=6"),
		"plain list":   strings.Fields("--key_size=24 --prefix_size=12 --keys_per_prefix=50 --use_plain_table=1 --mmap_read=1 --memtablerep=hash_linkedlist --bloom_bits=8 --value_size=30"),
		"block":        strings.Fields("--compression_type=none"),
		"block snappy": strings.Fields("--key_size=30 --prefix_size=6 --keys_per_prefix=7 --bloom_bits=10 --compression_type=snappy"),
		"block lz4":    strings.Fields("--key_size=9 --compression_type=lz4 --compression_ratio=0.3 --block_size=1024 --checksum_type=1"),
		"block zstd":   strings.Fields("--compression_type=zstd --partition_index_and_filters=1 --bloom_bits=12 --format_version=5"),
	}
}

const oracleKeys = "--num=5000"

func checkAllFound(t *testing.T, reader, out string, reads int64) {
	t.Helper()
	for name, lines := range parseResults(t, out) {
		for _, l := range lines {
			switch name {
			case "readrandom", "seekrandom":
				if l.found != reads || l.read != reads {
					t.Errorf("%s: %s found %d of %d, want %d of %d", reader, name, l.found, l.read, reads, reads)
				}
			case "readmissing":
				if l.found != 0 {
					t.Errorf("%s: readmissing found %d", reader, l.found)
				}
			case "readseq":
				if l.operations != 5000 {
					t.Errorf("%s: readseq saw %d keys", reader, l.operations)
				}
			}
		}
	}
	if n := len(parseResults(t, out)); n != 4 {
		t.Errorf("%s: %d results in\n%s", reader, n, out)
	}
}

// Either program finds all keys of a database that the other filled, flushed or not,
// and the key generators agree. Both print lines that the same expression parses.
func TestOracleDBBenchReadsOurs(t *testing.T) {
	for name, flags := range oracleArgs() {
		for _, more := range []string{"", ",flush", ",compact"} {
			t.Run(name+more, func(t *testing.T) {
				db := []string{oracleKeys, "--db=" + filepath.Join(t.TempDir(), "db")}
				mustRun(t, append(append(db, flags...), "--benchmarks=filluniquerandom"+more)...)
				out := runDBBench(t, append(append(db, flags...), "--use_existing_db=1", "--benchmarks=readrandom,readmissing,seekrandom,readseq")...)
				checkAllFound(t, "db_bench", out, 5000)
				out = mustRun(t, append(append(db, flags...), "--use_existing_db=1", "--benchmarks=readrandom,readmissing,seekrandom,readseq")...)
				checkAllFound(t, "ours", out, 5000)
			})
		}
	}
}

func TestOracleWeReadDBBenchs(t *testing.T) {
	for name, flags := range oracleArgs() {
		for _, more := range []string{"", ",compact"} {
			t.Run(name+more, func(t *testing.T) {
				db := []string{oracleKeys, "--db=" + filepath.Join(t.TempDir(), "db")}
				runDBBench(t, append(append(db, flags...), "--benchmarks=filluniquerandom"+more)...)
				out := mustRun(t, append(append(db, flags...), "--use_existing_db=1", "--benchmarks=readrandom,readmissing,seekrandom,readseq")...)
				checkAllFound(t, "ours", out, 5000)
			})
		}
	}
}

// The headers have the same lines in the same order, with the same numbers.
func TestOracleHeader(t *testing.T) {
	flags := strings.Fields("--num=1234 --key_size=20 --prefix_size=20 --value_size=77 --compression_ratio=0.4 --benchmark_write_rate_limit=99 --compression_type=lz4 --memtablerep=prefix_hash --benchmarks=levelstats")
	header := func(out string) []string {
		var lines []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "----") {
				break
			}
			name, _, ok := strings.Cut(line, ":")
			if ok && !strings.HasPrefix(line, "WARNING") && name != "Compression sampling rate" && name != "Integrated BlobDB" && !strings.HasPrefix(line, "Initializing") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		return lines
	}
	ours := header(mustRun(t, append(flags, "--db="+t.TempDir())...))
	theirs := header(runDBBench(t, append(flags, "--db="+t.TempDir())...))
	if a, b := strings.Join(ours, "\n"), strings.Join(theirs, "\n"); a != b {
		t.Errorf("ours:\n%s\ndb_bench's:\n%s", a, b)
	}
}

// Either program finds the keys in the column families where the other put them.
func TestOracleColumnFamilies(t *testing.T) {
	for name, flags := range map[string]string{"equal": "--num_column_families=3", "by shares": "--num_column_families=3 --num_hot_column_families=3 --column_family_distribution=20,30,50"} {
		t.Run(name, func(t *testing.T) {
			args := append(strings.Fields(flags), "--num=3000", "--seed=5")
			ours, theirs := "--db="+filepath.Join(t.TempDir(), "db"), "--db="+filepath.Join(t.TempDir(), "db")
			mustRun(t, append(args, ours, "--benchmarks=filluniquerandom")...)
			runDBBench(t, append(args, theirs, "--benchmarks=filluniquerandom")...)
			for reader, out := range map[string]string{
				"db_bench": runDBBench(t, append(args, ours, "--use_existing_db=1", "--benchmarks=readrandom")...),
				"ours":     mustRun(t, append(args, theirs, "--use_existing_db=1", "--benchmarks=readrandom,readseq")...),
			} {
				got := parseResults(t, out)
				if l := got["readrandom"]; len(l) != 1 || l[0].found != 3000 || reader == "ours" && got["readseq"][0].operations != 3000 {
					t.Errorf("%s: %+v", reader, got)
				}
			}
		})
	}
}

// What db_bench backs up, we restore, and the other way round.
func TestOracleBackups(t *testing.T) {
	args := func(dir, what string) []string {
		return []string{"--num=3000", "--db=" + filepath.Join(dir, "db"), "--backup_dir=" + filepath.Join(dir, "backups"), "--restore_dir=" + filepath.Join(dir, "restored"), "--benchmarks=" + what}
	}
	read := func(dir string) []string {
		return []string{"--num=3000", "--db=" + filepath.Join(dir, "restored"), "--use_existing_db=1", "--benchmarks=readrandom"}
	}
	ours, theirs := t.TempDir(), t.TempDir()
	mustRun(t, args(ours, "filluniquerandom,flush,backup")...)
	runDBBench(t, append(args(ours, "restore"), "--use_existing_db=1")...)
	runDBBench(t, args(theirs, "filluniquerandom,flush,backup")...)
	mustRun(t, append(args(theirs, "restore"), "--use_existing_db=1")...)
	for reader, out := range map[string]string{"db_bench": runDBBench(t, read(ours)...), "ours": mustRun(t, read(theirs)...)} {
		if l := parseResults(t, out)["readrandom"]; len(l) != 1 || l[0].found != 3000 {
			t.Errorf("%s: %+v", reader, l)
		}
	}
}

// Every flag in db_bench's help is known.
func TestOracleFlags(t *testing.T) {
	cmd := exec.Command("db_bench", "--help")
	out, _ := cmd.CombinedOutput() // gflags ends with 1 after its help
	known := knownFlags()
	names := regexp.MustCompile(`(?m)^ +-(\w+) \(`).FindAllStringSubmatch(string(out), -1)
	if len(names) < 400 {
		t.Fatalf("%d flags in\n%s", len(names), out)
	}
	for _, n := range names {
		if _, ok := known[n[1]]; !ok {
			t.Errorf("--%s is not in flags.txt", n[1])
		}
	}
}

// Repeats, averages and perf contexts are printed as db_bench prints them, numbers aside.
func TestOracleOutput(t *testing.T) {
	flags := func(benchmarks string) []string {
		return []string{"--num=3000", "--db=" + filepath.Join(t.TempDir(), "db"), "--seed=1", "--perf_level=2", "--report_interval_seconds=1", "--report_file=" + filepath.Join(t.TempDir(), "r.csv"), "--benchmarks=" + benchmarks}
	}
	number := regexp.MustCompile(`-?\d+(\.\d+)?`)
	spaces := regexp.MustCompile(` +`)
	shape := func(out string) string {
		var b strings.Builder
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, "Warming") || strings.HasPrefix(line, "Running") || strings.HasPrefix(line, "readrandom") || strings.HasPrefix(line, "readseq") || strings.HasPrefix(line, "fillseq") || strings.HasPrefix(line, "seekrandom") {
				b.WriteString(spaces.ReplaceAllString(number.ReplaceAllString(line, "N"), " "))
			}
		}
		return b.String()
	}
	for _, benchmarks := range []string{"fillseq,readrandom[X3]", "fillseq,readrandom[-X3],seekrandom[W1-X2]", "fillseq,readseq[X1],readrandom[W2]"} {
		ours, theirs := shape(mustRun(t, flags(benchmarks)...)), shape(runDBBench(t, append(flags(benchmarks), "--perf_level=2")...))
		if ours != theirs {
			t.Errorf("%s: ours:\n%s\ndb_bench's:\n%s", benchmarks, ours, theirs)
		}
	}
	perf := func(out string) map[string]bool {
		names := map[string]bool{}
		_, rest, ok := strings.Cut(out, "PERF_CONTEXT:\n")
		if !ok {
			t.Fatalf("no perf context in\n%s", out)
		}
		line, _, _ := strings.Cut(rest, "\n")
		for _, m := range regexp.MustCompile(`(\w+) =`).FindAllStringSubmatch(line, -1) {
			names[m[1]] = true
		}
		return names
	}
	ours := perf(mustRun(t, flags("fillseq,readrandom")...))
	theirs := perf(runDBBench(t, append(flags("fillseq,readrandom"), "--perf_level=2")...))
	for name := range theirs {
		if !ours[name] {
			t.Errorf("the perf context lacks %s", name)
		}
	}
}

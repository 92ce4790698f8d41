//go:build oracle

package main

import (
	"os/exec"
	"path/filepath"
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
	cmd := exec.Command(program, append(args, "--allow_concurrent_memtable_write=0", "--perf_level=1")...)
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

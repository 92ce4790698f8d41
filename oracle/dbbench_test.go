//go:build oracle

package oracle_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock"
)

// benchKey is db_bench's n-th key of 20 bytes: the number, big-endian, and zeros.
func benchKey(n int) []byte {
	k := bytes.Repeat([]byte{'0'}, 20)
	binary.BigEndian.PutUint64(k, uint64(n))
	return k
}

// found are db_bench's lines about keys that it read.
var found = regexp.MustCompile(`(?m)^(\w+) +:.*\((\d+) of (\d+) found\)`)

// TestDBBench has RocksDB's own benchmark read databases that Flatrock wrote in
// the form of its keys: every key that it asks for must be there.
func TestDBBench(t *testing.T) {
	const n = 20_000
	plain := func(prefix int, encoding flatrock.Encoding) flatrock.ColumnFamilyOptions {
		return flatrock.ColumnFamilyOptions{
			PrefixExtractor: flatrock.FixedPrefix(prefix),
			MemTable:        flatrock.MemTableOptions{Kind: flatrock.HashSkipList, BucketCount: 1000},
			Table:           flatrock.PlainTableOptions{EncodingType: encoding},
			BloomLocality:   1,
		}
	}
	totalOrder := flatrock.ColumnFamilyOptions{Table: flatrock.PlainTableOptions{HashTableRatio: flatrock.TotalOrder}}
	plainFlags := []string{"--use_plain_table=1", "--mmap_read=1", "--memtablerep=prefix_hash", "--hash_bucket_count=1000", "--bloom_locality=1", "--allow_concurrent_memtable_write=false"}
	for _, c := range []struct {
		name    string
		options flatrock.ColumnFamilyOptions
		flags   []string // nil: those of the OPTIONS file
		compact bool
		reads   []string
	}{
		{"plain, as in experiment E1", plain(20, flatrock.PlainEncoding), append(plainFlags, "--prefix_size=20"), true, []string{"readrandom", "multireadrandom", "seekrandom"}},
		{"plain, level 0 and log", plain(20, flatrock.PlainEncoding), append(plainFlags, "--prefix_size=20"), false, []string{"readrandom", "multireadrandom", "seekrandom"}},
		{"shared prefixes", plain(7, flatrock.PrefixEncoding), append(plainFlags, "--prefix_size=7"), true, []string{"readrandom", "seekrandom"}},
		{"our OPTIONS file", plain(8, flatrock.PlainEncoding), nil, true, []string{"readrandom", "seekrandom"}},
		{"total order, our OPTIONS file", totalOrder, nil, false, []string{"readrandom", "seekrandom"}},
		{"block-based, our OPTIONS file", flatrock.ColumnFamilyOptions{Compression: flatrock.ZSTDCompression}, nil, false, []string{"readrandom", "seekrandom"}},
		{"block-based", flatrock.ColumnFamilyOptions{Table: flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10)}}, []string{"--bloom_bits=10"}, true, []string{"readrandom", "multireadrandom", "seekrandom"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.options.WriteBufferSize = 512 << 10
			dir := filepath.Join(t.TempDir(), "db")
			db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, ColumnFamily: &c.options})
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				// Every other key first, so that level 0 overlaps.
				i = i*2%n + i*2/n
				if err := db.Put(nil, benchKey(i), fmt.Appendf(nil, "value of key %06d, and so on", i)); err != nil {
					t.Fatal(err)
				}
			}
			if c.compact {
				if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, read := range c.reads {
				args := append([]string{
					"--db=" + dir, "--use_existing_db=1", "--benchmarks=" + read, "--key_size=20", "--compression_type=none",
					fmt.Sprintf("--num=%d", n), "--reads=5000", "--batch_size=16", "--threads=2",
				}, c.flags...)
				if c.flags == nil {
					args = append(args, "--options_file="+optionsFile(t, dir))
				}
				out, err := tool("db_bench", args...)
				if err != nil {
					t.Fatal(err)
				}
				m := found.FindStringSubmatch(out)
				if m == nil || m[1] != read || m[2] != m[3] || m[2] == "0" {
					t.Errorf("%s did not find every key:\n%s", read, tail(out))
				}
			}
		})
	}
}

// optionsFile is the newest OPTIONS file.
func optionsFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no OPTIONS file: %v", err)
	}
	slices.Sort(files)
	return files[len(files)-1]
}

// TestDBBenchWritesForUs: a database of db_bench opens in Flatrock with every key.
func TestDBBenchWritesForUs(t *testing.T) {
	const n = 20_000
	dir := filepath.Join(t.TempDir(), "db")
	_, err := tool("db_bench", "--db="+dir, "--benchmarks=filluniquerandom", "--key_size=20", "--prefix_size=20", "--value_size=50",
		fmt.Sprintf("--num=%d", n), "--use_plain_table=1", "--mmap_read=1", "--memtablerep=prefix_hash", "--hash_bucket_count=1000",
		"--bloom_locality=1", "--compression_type=none", "--allow_concurrent_memtable_write=false", "--write_buffer_size=400000", "--max_background_jobs=2")
	if err != nil {
		t.Fatal(err)
	}
	db, err := flatrock.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for round := range 2 {
		var v []byte
		for i := range n {
			if v, err = db.Get(nil, benchKey(i), v[:0]); err != nil || len(v) != 50 {
				t.Fatalf("round %d: key %d: %d bytes, %v", round, i, len(v), err)
			}
		}
		if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
)

func TestOneLevel(t *testing.T) {
	if level, err := oneLevel(strings.Split("Level Files Size(MB)\n---\n  0        0        0\n  1        0        0\n  2        2        1", "\n")); err != nil || level != 2 {
		t.Error(level, err)
	}
	for name, text := range map[string]string{
		"none":       "compact      :   98290.000 micros/op 10 ops/sec 0.098 seconds 1 operations;",
		"level 0":    "Level Files Size(MB)\n---\n  0        3        1\n  1        0        0",
		"two levels": "Level Files Size(MB)\n---\n  0        0        0\n  1        1        0\n  2        1        0",
		"empty":      "Level Files Size(MB)\n---\n  0        0        0\n  1        0        0",
	} {
		if level, err := oneLevel(strings.Split(text, "\n")); err == nil {
			t.Errorf("%s: level %d, no error", name, level)
		}
	}
}

// At E5's number of keys the caches are E5's.
func TestBlockCaches(t *testing.T) {
	for num, want := range map[int64][]int64{
		5_000_000: {2 << 30, 1_080_000_000, 960_000_000, 600_000_000, 8 << 20},
		50_000:    {2 << 30 / 100, 10_800_000, 9_600_000, 6_000_000, 8 << 20 / 100},
	} {
		for i, cache := range blockCaches {
			if got := cache.bytes(num); got != want[i] {
				t.Errorf("%s of %d keys: %d, want %d", cache.name, num, got, want[i])
			}
		}
	}
}

func TestBlockTable(t *testing.T) {
	s, err := parse([]string{"-suite=block", "-num=1000000", "-rounds=2", "-duration=3s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := newComparison(context.Background(), s, t.TempDir(), io.Discard)
	for i, row := range blockRows() {
		result := func(ops int) program.Result {
			return program.Result{OpsPerSecond: float64(ops * (i + 1)), Operations: 1_000_000}
		}
		c.add(rocksDB, row, 1, result(100), time.Duration(i+1)*time.Second)
		c.add(rocksDB, row, 1, result(300), time.Duration(i+1)*time.Second)
		c.add(flatrock, row, 1, result(500), time.Duration(i+1)*time.Second/2)
	}
	var b strings.Builder
	c.printBlock(&b)
	const want = `1000000 keys of 32 bytes, values of 200 bytes, block-based tables without compression, one thread; medians of 2 rounds, random reads of 3s
block caches as for 5 million keys, in proportion: 2GB is 409.6 MB, 0.9x is 206.0 MB, 0.8x is 183.1 MB, 0.5x is 114.4 MB, 8MB is 1.6 MB; x is of the data
compact: every key once, in random order, in overlapping files of level 0, merged into one level; a key is an operation
reads: the database is one level, and was read through once before (readtocache), except in readseq cold; seekrandom takes 10 steps; these and readseq have the first cache

ops/s
benchmark               RocksDB     Flatrock   ratio
fillseq                     200          500   2.50x
compact                     400         1000   2.50x
readrandom 2GB              600         1500   2.50x
readrandom 0.9x             800         2000   2.50x
readrandom 0.8x            1000         2500   2.50x
readrandom 0.5x            1200         3000   2.50x
readrandom 8MB             1400         3500   2.50x
seekrandom                 1600         4000   2.50x
readseq                    1800         4500   2.50x
readseq cold               2000         5000   2.50x

CPU microseconds an operation, user and system, of all threads; start-up is not subtracted in fillseq, compact and
readseq cold, start-up and warm-up are in the others; ratio: RocksDB's over ours
benchmark               RocksDB     Flatrock   ratio
fillseq                   1.000        0.500   2.00x
compact                   2.000        1.000   2.00x
readrandom 2GB            3.000        1.500   2.00x
readrandom 0.9x           4.000        2.000   2.00x
readrandom 0.8x           5.000        2.500   2.00x
readrandom 0.5x           6.000        3.000   2.00x
readrandom 8MB            7.000        3.500   2.00x
seekrandom                8.000        4.000   2.00x
readseq                   9.000        4.500   2.00x
readseq cold             10.000        5.000   2.00x

Debian's db_bench has assertions on: about 1.5 times slower than a release build.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	mustReport(t, c, "E5 readrandom 0.8x, 1 thread", "2.50×", "RocksDB")
}

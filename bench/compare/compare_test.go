package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

// Lines as RocksDB's db_bench 7.8.3 and Flatrock's driver print them.
func TestFindParsesBothPrograms(t *testing.T) {
	lines := strings.Split(`DB path: [/dev/shm/x]
OpenDb:     0.5 milliseconds
readrandom   :       2.854 micros/op 350238 ops/sec 0.057 seconds 20000 operations;   40.1 MB/s (20000 of 20000 found)

readmissing  :       1.890 micros/op 529030 ops/sec 0.038 seconds 20000 operations; (0 of 20000 found)

filluniquerandom :       4.861 micros/op 205689 ops/sec 0.097 seconds 20000 operations;   23.5 MB/s
compact      :  379271.000 micros/op 2 ops/sec 0.379 seconds 1 operations;
OpenDb:     6.875 milliseconds
readrandom [AVG 2 runs] : 545231 (± 127340) ops/sec;   52.2 (± 12.2) MB/sec`, "\n")
	for name, want := range map[string]line{
		"readrandom":       {2.854, 350238, 20000, 20000, 20000},
		"readmissing":      {1.890, 529030, 20000, 0, 20000},
		"filluniquerandom": {4.861, 205689, 20000, 0, 0},
		"compact":          {379271, 2, 1, 0, 0},
	} {
		if got, ok := find(lines, name); !ok || got != want {
			t.Errorf("%s: %+v %v, want %+v", name, got, ok, want)
		}
	}
	if _, ok := find(lines, "seekrandom"); ok {
		t.Error("found a line that is not there")
	}
	if ms, ok := findTiming(lines, "OpenDb"); !ok || ms != 6.875 {
		t.Error(ms, ok)
	}
	if _, ok := findTiming(lines, "LoadDb"); ok {
		t.Error("found a time that is not there")
	}
}

func TestTable(t *testing.T) {
	s, err := parse([]string{"-num=1000", "-threads=1,2", "-policies=resident,populate", "-rounds=2", "-duration=3s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{settings: s, samples: map[cell][]float64{}, cpu: map[cell][]float64{}, writer: []float64{10240, 10230}}
	for i, e := range append([]engine{rocksDB}, s.flatrocks()...) {
		c.add(e, "filluniquerandom", 1, float64(100*(i+1)))
		c.addCPU(e, "filluniquerandom", 1, time.Second/time.Duration(i+1), 100_000)
		c.add(e, "OpenDb", 0, float64(i+1))
		for _, b := range readBenchmarks {
			for _, threads := range s.threads {
				c.add(e, b, threads, float64(1000*(i+1)*threads))
				c.add(e, b, threads, float64(1200*(i+1)*threads))
				c.addCPU(e, b, threads, 3*time.Second/time.Duration(threads*(i+1)), 1_000_000)
			}
		}
		if e != rocksDB {
			c.add(e, "LoadDb", 0, 20)
		}
	}
	var b strings.Builder
	c.print(&b)
	const want = `1000 keys of 20 bytes, values of 100 bytes, after a full compaction; ops/s, medians of 2 rounds of 3s

benchmark          threads      RocksDB     resident   ratio     populate   ratio
filluniquerandom         1          100          200   2.00x          300   3.00x
readrandom               1         1100         2200   2.00x         3300   3.00x
readmissing              1         1100         2200   2.00x         3300   3.00x
multireadrandom          1         1100         2200   2.00x         3300   3.00x
seekrandom               1         1100         2200   2.00x         3300   3.00x
readwhilewriting         1         1100         2200   2.00x         3300   3.00x
readrandom               2         2200         4400   2.00x         6600   3.00x
readmissing              2         2200         4400   2.00x         6600   3.00x
multireadrandom          2         2200         4400   2.00x         6600   3.00x
seekrandom               2         2200         4400   2.00x         6600   3.00x
readwhilewriting         2         2200         4400   2.00x         6600   3.00x

CPU microseconds an operation, user and system, of all threads; start-up is subtracted except from the fill; ratio: RocksDB's over ours

benchmark          threads      RocksDB     resident   ratio     populate   ratio
filluniquerandom         1       10.000        5.000   2.00x        3.333   3.00x
readrandom               1        3.000        1.500   2.00x        1.000   3.00x
readmissing              1        3.000        1.500   2.00x        1.000   3.00x
multireadrandom          1        3.000        1.500   2.00x        1.000   3.00x
seekrandom               1        3.000        1.500   2.00x        1.000   3.00x
readwhilewriting         1        3.000        1.500   2.00x        1.000   3.00x
readrandom               2        1.500        0.750   2.00x        0.500   3.00x
readmissing              2        1.500        0.750   2.00x        0.500   3.00x
multireadrandom          2        1.500        0.750   2.00x        0.500   3.00x
seekrandom               2        1.500        0.750   2.00x        0.500   3.00x
readwhilewriting         2        1.500        0.750   2.00x        0.500   3.00x

milliseconds to open: RocksDB 1.0; resident 2.0, all files in memory after 20.0; populate 3.0, all files in memory after 20.0
writes a second beside the readers: asked for 10240, Flatrock kept 10230 (least of all runs)
Debian's db_bench has assertions on: about 1.5 times slower than a release build.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestSettings(t *testing.T) {
	s, err := parse(nil, io.Discard)
	if err != nil || s.num != 10_000_000 || s.duration != 10*time.Second || s.rounds != 3 || len(s.threads) != 2 || s.suite != "plain" || s.writes != 10240 || s.dir != "/dev/shm" {
		t.Fatalf("%+v %v", s, err)
	}
	if s, err := parse([]string{"-suite=block"}, io.Discard); err != nil || s.num != 5_000_000 {
		t.Fatalf("%+v %v", s, err)
	}
	for _, args := range []string{"-num=-1", "-suite=both", "-suite=block -heap", "-rounds=0", "-duration=10ms", "-threads=1,x", "-threads=0", "stray"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

package program

import (
	"slices"
	"strings"
	"testing"
)

// Lines as RocksDB's db_bench 7.8.3 and Flatrock's driver print them.
const bothPrograms = `DB path: [/dev/shm/x]
OpenDb:     0.5 milliseconds
readrandom   :       2.854 micros/op 350238 ops/sec 0.057 seconds 20000 operations;   40.1 MB/s (20000 of 20000 found)

readmissing  :       1.890 micros/op 529030 ops/sec 0.038 seconds 20000 operations; (0 of 20000 found)

filluniquerandom :       4.861 micros/op 205689 ops/sec 0.097 seconds 20000 operations;   23.5 MB/s
compact      :  379271.000 micros/op 2 ops/sec 0.379 seconds 1 operations;
OpenDb:     6.875 milliseconds
readrandom   :       1.000 micros/op 1000000 ops/sec 0.020 seconds 20000 operations;   40.1 MB/s (19999 of 20000 found)
readrandom [AVG 2 runs] : 545231 (± 127340) ops/sec;   52.2 (± 12.2) MB/sec
readrandom [AVG    10 runs] : 4321 (± 10) ops/sec;   38.5 (± 27.7) MB/sec
rocksdb.db.get.micros P50 : 0.668258 P95 : 1.889840 P99 : 2.672461 P100 : 68227.000000 COUNT : 1872992 SUM : 14618476
rocksdb.stall.micros COUNT : 2500000`

func TestLinesOfBothPrograms(t *testing.T) {
	lines := Lines(strings.Split(bothPrograms, "\n"))
	for name, want := range map[string]Result{
		"readrandom":       {Micros: 2.854, OpsPerSecond: 350238, Seconds: 0.057, MBPerSecond: 40.1, Operations: 20000, Found: 20000, Read: 20000},
		"readmissing":      {Micros: 1.890, OpsPerSecond: 529030, Seconds: 0.038, Operations: 20000, Read: 20000},
		"filluniquerandom": {Micros: 4.861, OpsPerSecond: 205689, Seconds: 0.097, MBPerSecond: 23.5, Operations: 20000},
		"compact":          {Micros: 379271, OpsPerSecond: 2, Seconds: 0.379, Operations: 1},
	} {
		if got, err := lines.First(name); err != nil || got != want {
			t.Errorf("%s: %+v %v, want %+v", name, got, err, want)
		}
	}
	if last, err := lines.Last("readrandom"); err != nil || last.Found != 19999 || len(lines.All("readrandom")) != 2 {
		t.Errorf("the last readrandom is %+v, %v", last, err)
	}
	for _, find := range []func(string) (Result, error){lines.First, lines.Last} {
		if _, err := find("seekrandom"); err == nil || !strings.Contains(err.Error(), "expected a line of seekrandom") {
			t.Errorf("a line that is not there: %v", err)
		}
	}
	if ops, runs, ok := lines.Average("readrandom"); !ok || ops != 4321 || runs != 10 {
		t.Error(ops, runs, ok)
	}
	if ms, ok := lines.Timing("OpenDb"); !ok || ms != 6.875 {
		t.Error(ms, ok)
	}
	if _, ok := lines.Timing("LoadDb"); ok {
		t.Error("found a time that is not there")
	}
	for _, s := range []struct {
		name, value string
		want        float64
	}{{"rocksdb.db.get.micros", "P99", 2.672461}, {"rocksdb.db.get.micros", "COUNT", 1872992}, {"rocksdb.stall.micros", "COUNT", 2500000}} {
		if v, err := lines.Statistic(s.name, s.value); err != nil || v != s.want {
			t.Errorf("%s %s: %v %v", s.name, s.value, v, err)
		}
	}
	if _, err := lines.Statistic("rocksdb.none", "COUNT"); err == nil {
		t.Error("found a statistic that is not there")
	}
}

// Percentiles belong to the benchmark in front of them, and the first of two are the reads'.
func TestPercentiles(t *testing.T) {
	lines := Lines(strings.Split(`readtocache  :       0.500 micros/op 2000000 ops/sec 0.5 seconds 1000 operations;
Microseconds per read:
Percentiles: P50: 9.00 P75: 9.0 P99: 9.00 P99.9: 9.00 P99.99: 9.00
readrandom   :       1.500 micros/op 1300000 ops/sec 1.0 seconds 4000 operations;   88.5 MB/s (2000 of 2000 found)

Microseconds per read:
Percentiles: P50: 0.77 P75: 1.2 P99: 2.50 P99.9: 8.10 P99.99: 9.00
Microseconds per write:
Percentiles: P50: 5.00 P75: 5.0 P99: 5.00 P99.9: 5.00 P99.99: 5.00
seekrandom   :       1.500 micros/op 1300000 ops/sec 1.0 seconds 4000 operations;   88.5 MB/s (2000 of 2000 found)`, "\n"))
	got, err := lines.First("readrandom")
	if want := (Result{Micros: 1.5, OpsPerSecond: 1300000, Seconds: 1, MBPerSecond: 88.5, Operations: 4000, Found: 2000, Read: 2000, P50: 0.77, P99: 2.5, P999: 8.1}); err != nil || got != want {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if r, err := lines.First("seekrandom"); err != nil || r.P50 != 0 {
		t.Errorf("seekrandom has the percentiles of others: %+v, %v", r, err)
	}
}

// A table as both programs print it, twice.
func TestLevels(t *testing.T) {
	const text = `

Level Files Size(MB)
--------------------
  0        3        1
  1        0        0
  2        0        0

DB path: [/dev/shm/x]
compact      :   98290.000 micros/op 10 ops/sec 0.098 seconds 1 operations;

Level Files Size(MB)
--------------------
  0        0        0
  1        0        0
  2        2        1

0 1 2
`
	got := Lines(strings.Split(text, "\n")).Levels()
	if len(got) != 2 || !slices.Equal(got[0], []int{3, 0, 0}) || !slices.Equal(got[1], []int{0, 0, 2}) {
		t.Fatal(got)
	}
}

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/bench/report"
)

// runFake runs an experiment over a program that only prints, for both engines, and returns the
// table and the command lines.
func runFake(t *testing.T, script string, args ...string) (table, calls string, err error) {
	t.Helper()
	dir := t.TempDir()
	driver := filepath.Join(dir, "driver")
	if err := os.WriteFile(driver, []byte("#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/calls\"\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	json := filepath.Join(dir, "report.json")
	args = append([]string{"-rounds=2", "-duration=3s", "-dir=" + dir, "-bench=" + driver, "-db_bench=" + driver, "-json=" + json}, args...)
	if err = run(context.Background(), args, &out, io.Discard); err == nil {
		r, err := report.Read(json)
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := r.HTML(&page); err != nil || !strings.Contains(page.String(), "Flatrock over each other store") {
			t.Errorf("%v\n%s", err, page.String())
		}
	}
	text, cerr := os.ReadFile(filepath.Join(dir, "calls"))
	if cerr != nil {
		t.Fatal(cerr)
	}
	if left, gerr := filepath.Glob(filepath.Join(dir, "flatrock-*")); gerr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, gerr)
	}
	return out.String(), string(text), err
}

func mustContain(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestE1PrintsItsTableBesideThePublishedOne(t *testing.T) {
	const fake = `ops=2000000
case "$*" in *undefok*) ops=1000000 ;; *) echo "bgwriter     :      97.677 micros/op 10237 ops/sec 1.407 seconds 14405 operations;    1.2 MB/s" ;; esac
case "$*" in *numa_aware=true*) echo "NUMA placement (some):"; echo "memtables here" ;; esac
echo "readwhilewriting :       2.539 micros/op $ops ops/sec 1.407 seconds 11385000 operations;  926.1 MB/s (11385 of FOUND found)"
`
	out, calls, err := runFake(t, strings.ReplaceAll(fake, "FOUND", "11385"), "--scale=0.001", "e1")
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, out, "E1: 157286 keys", "6896552", "0.145", "0.161", "0.500     10237      1.000      2.000", "memtables here")
	mustContain(t, calls, "--benchmarks=filluniquerandom", "--use_plain_table=1", "--num=157286 --threads=24 --duration=3 --writes_per_second=10240 --numa_aware=false",
		"--numa_aware=true", "--benchmark_write_rate_limit=1228800", "--undefok=")
	if _, _, err := runFake(t, strings.ReplaceAll(fake, "FOUND", "11386"), "--scale=0.001", "e1"); err == nil || !strings.Contains(err.Error(), "found 11385 of 11386 keys") {
		t.Errorf("a key that is not found: %v", err)
	}
}

func TestE3PrintsItsTableBesideThePublishedOne(t *testing.T) {
	// 63.21 % of the keys are expected to survive, and of the keys that survive all.
	const fake = `ops=30000 found=6330
case "$*" in *undefok*) ops=10000 ;; */clean*) ops=25000 found=10000 ;; *existing_keys*) ops=24000 found=10000 ;; esac
case "$*" in *undefok*readseq*|*readseq*undefok*) n=SECOND ;; *) n=316000 ;; esac
case "$*" in
*readseq*) echo "readseq      :       0.130 micros/op 7000000 ops/sec 0.100 seconds $n operations;  100.0 MB/s" ;;
*) echo "readrandom   :       4.000 micros/op $ops ops/sec 1.000 seconds 10000 operations;   10.0 MB/s ($found of 10000 found)" ;;
esac
`
	out, calls, err := runFake(t, strings.ReplaceAll(fake, "SECOND", "316000"), "e3", "--scale=0.1")
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, out, "E3: 500000 keys", "5000 range deletes", "220090", "89707", "Flatrock / RocksDB                            1.000      3.000", "cost                                           4.0%", "63.3%")
	mustContain(t, calls, "-writes_per_range_tombstone=100", "-max_num_range_tombstones=5000", "-num=505000 -max_num_range_tombstones=0", "-threads=32", "-reads=10000",
		"--readonly=1 --benchmarks=readseq", "-existing_keys_db=")
	if _, _, err := runFake(t, strings.ReplaceAll(fake, "SECOND", "316001"), "e3", "--scale=0.1"); err == nil || !strings.Contains(err.Error(), "RocksDB (Debian) counts 316001 keys in the database of Flatrock, Flatrock counts 316000") {
		t.Errorf("counts that differ: %v", err)
	}
	if _, _, err := runFake(t, strings.ReplaceAll(strings.ReplaceAll(fake, "SECOND", "316000"), "6330", "5000"), "e3", "--scale=0.1"); err == nil || !strings.Contains(err.Error(), "50.0 % of the keys survive, expected 63.5") {
		t.Errorf("keys that are lost: %v", err)
	}
}

func TestE4PrintsItsTableBesideThePublishedOne(t *testing.T) {
	const fake = `ops=3000
case "$*" in *undefok*) ops=1000 ;; esac
echo "readwhilewriting :       4.000 micros/op $ops ops/sec 3.000 seconds 10000 operations;   10.0 MB/s (FOUND of 10000 found)"
echo "rocksdb.number.keys.written COUNT : 30000"
echo "rocksdb.db.get.micros P50 : 0.668258 P95 : 1.889840 P99 : 2.672461 P100 : 68227.000000 COUNT : 1872992 SUM : 14618476"
echo "rocksdb.db.write.micros P50 : 2.757853 P95 : 5.474242 P99 : 8.403744 P100 : 66509.000000 COUNT : 18001 SUM : 353318"
echo "rocksdb.stall.micros COUNT : 2500000"
`
	out, calls, err := runFake(t, strings.ReplaceAll(fake, "FOUND", "6400"), "e4", "--scale=0.001")
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, out, "E4: 1000000 values", "437230", "533.74", "10.381", "56384", "3.000", "2.67", "8.40", "2.500", "writes/s         RocksDB (Debian)        10000")
	mustContain(t, calls, "--benchmarks=fillrandom", "--num=10000 --threads=32 --cache_size=17179869184", "--num=1000000 --threads=1 --cache_size=17179869 ", "--benchmark_write_rate_limit=8160000", "--writes_per_second=10000 --duration=3")
	if _, _, err := runFake(t, strings.ReplaceAll(fake, "FOUND", "5000"), "e4", "--scale=0.001"); err == nil || !strings.Contains(err.Error(), "found 5000 of 10000, expected 63.2 to 98") {
		t.Errorf("keys that are lost: %v", err)
	}
	if _, _, err := runFake(t, strings.ReplaceAll(strings.ReplaceAll(fake, "FOUND", "6400"), "rocksdb.stall", "none"), "e4", "--scale=0.001"); err == nil || !strings.Contains(err.Error(), "rocksdb.stall.micros") {
		t.Errorf("a statistic that is not there: %v", err)
	}
}

func TestSustainedLoadPrintsAmplification(t *testing.T) {
	const fake = `ops=30000 gb=0.47
case "$*" in *undefok*) ops=10000 gb=0.50 ;; esac
for a; do case "$a" in --db=*) mkdir -p "${a#*=}" && printf %01000d 0 > "${a#*=}/000007.sst" ;; esac; done
case "$*" in *readseq*) echo "readseq      :       0.130 micros/op 7000000 ops/sec 0.100 seconds KEYS operations;  100.0 MB/s"; exit ;; esac
echo "  L0      MOST/0    8.55 MB   0.6      0.0     0.0      0.0       0.2      0.2       0.0   1.0      0.0     60.2      2.50"
echo "  L0      3/0    8.55 MB   0.6      0.0     0.0      0.0       0.2      0.2       0.0   1.0      0.0     60.2      2.50"
echo "Flush(GB): cumulative 0.100, interval 0.014"
echo "Cumulative compaction: $gb GB write, 34.01 MB/s write, 0.39 GB read, 27.78 MB/s read, 10.5 seconds"
echo "Interval compaction: 9.08 GB write, 14.45 MB/s write, 0.09 GB read, 15.68 MB/s read, 1.8 seconds"
echo "Cumulative stall: 00:01:2.500 H:M:S, 4.0 percent"
echo "Interval stall: 00:00:0.005 H:M:S, 0.3 percent"
for b in fillrandom overwrite; do echo "$b   :      24.724 micros/op $ops ops/sec 4.951 seconds 10 operations;   16.0 MB/s"; done
`
	good := strings.NewReplacer("KEYS", "8", "MOST", "11")
	out, calls, err := runFake(t, good.Replace(fake), "sustained", "--num=10")
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, out, "of 10 entries", "RocksDB (Debian)          10000        10000       5.00      1.042       11     62.500",
		"Flatrock                  30000        30000       4.70      0.300       11     62.500", "Flatrock/RocksDB          3.000        3.000      0.940      1.000")
	mustContain(t, calls, "--use_plain_table=1", "--benchmarks=fillrandom,overwrite,flush,waitforcompaction,stats --num=10", "--key_size=16 --value_size=400", "--allow_concurrent_memtable_write=0")
	for _, bad := range []struct{ keys, most, want string }{{"11", "11", "11 keys are there"}, {"4", "11", "4 keys are there"}, {"8", "25", "level 0 had 25 files"}} {
		if _, _, err := runFake(t, strings.NewReplacer("KEYS", bad.keys, "MOST", bad.most).Replace(fake), "sustained", "--num=10"); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if _, _, err := runFake(t, strings.ReplaceAll(good.Replace(fake), "Cumulative stall", "none"), "sustained", "--num=10"); err == nil || !strings.Contains(err.Error(), "expected statistics") {
		t.Errorf("statistics without stalls: %v", err)
	}
	if _, _, err := runFake(t, good.Replace(fake), "sustained", "--num=12"); err == nil || !strings.Contains(err.Error(), "fillrandom wrote 10 entries, expected 12") {
		t.Errorf("entries that were not written: %v", err)
	}
}

// TestExperimentsRefuseWhatTheyCannotMeasure: too few keys, and no RocksDB where it is not left out.
func TestExperimentsRefuseWhatTheyCannotMeasure(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"e3 -num=999 -db_bench=none", "wants at least 1000"}, {"e4 -num=9999 -db_bench=none", "wants at least 10000"},
		{"e1 -num=10 -db_bench=/none/such", "-db_bench=none leaves RocksDB out"},
	} {
		args := append(strings.Fields(test.args), "-bench=true", "-dir="+t.TempDir())
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.args, err)
		}
	}
}

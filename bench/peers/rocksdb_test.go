package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDBBench prints what db_bench does, of 1000 keys.
const fakeDBBench = `#!/bin/sh
case "$*" in
*--version*) echo "db_bench version 7.8.3" ;;
*filluniquerandom*)
	for a; do case "$a" in --db=*) mkdir -p "${a#*=}"; head -c 8192 /dev/zero > "${a#*=}/000001.sst" ;; esac; done
	echo "filluniquerandom : 1.000 micros/op 1000000 ops/sec 0.001 seconds FILLED operations;  110.0 MB/s"
	echo "compact      :   98290.000 micros/op 10 ops/sec 0.098 seconds 1 operations;" ;;
*readtocache*)
	echo "OpenDb:     1.500 milliseconds"
	for b in readrandom:FOUND readmissing:MISSING seekrandom:1000 multireadrandom:1000 readwhilewriting:1000; do
		echo "${b%:*}   : 1.000 micros/op 1000000 ops/sec 1.000 seconds 1000 operations;    STEPS MB/s (${b#*:} of 1000 found)"
		echo "Percentiles: P50: 0.77 P75: 1.2 P99: 2.50 P99.9: 8.10 P99.99: 9.00"
	done ;;
esac
`

// runFake runs the harness over it.
func runFake(t *testing.T, replace ...string) (text string, err error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "db_bench")
	script := strings.NewReplacer(append(replace, "FILLED", "1000", "FOUND", "1000", "MISSING", "0", "STEPS", "1.2")...).Replace(fakeDBBench)
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := tiny(t, "rocksdb", "memory")
	s.dbBench = program
	var out strings.Builder
	_, err = compare(context.Background(), s, &out, io.Discard)
	return out.String(), err
}

func TestDBBenchIsAStore(t *testing.T) {
	out, err := runFake(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rocksdb 7.8.3: ", "readrandom, p99.9, 2 threads", "8.10", "1,000,000", "98.3"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Of db_bench the counts are checked, and its steps by their bytes; others keep their figures.
func TestDBBenchThatAnswersWronglyFails(t *testing.T) {
	for _, test := range []struct{ replace, with, want string }{
		{"FILLED", "999", "filled 999 keys, want 1000"},
		{"FOUND", "999", "readrandom found 999 of 1000 keys"},
		{"MISSING", "1", "readmissing found 1 of 1000 keys"},
		{"STEPS", "0.2", "steps, want 10"},
		{"P99.9", "P98", "no percentiles"},
	} {
		out, err := runFake(t, test.replace, test.with)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(out, "FAILED, and left out: rocksdb") || !strings.Contains(out, "memory : ") {
			t.Errorf("%s=%s: got %v, want an error with %q, and\n%s", test.replace, test.with, err, test.want, out)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDriver prints what the driver would.
const fakeDriver = `#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$*" in
*-benchmarks=readtocache) ;;
*readrandom*) echo "readrandom [AVG 2 runs] : 5 (± 1) ops/sec"; echo "readrandom [AVG    10 runs] : 4321 (± 10) ops/sec;   38.5 (± 27.7) MB/sec" ;;
esac
`

// TestE5PrintsItsTableBesideThePublishedOne runs the experiment over a program that only prints.
func TestE5PrintsItsTableBesideThePublishedOne(t *testing.T) {
	dir := t.TempDir()
	driver := filepath.Join(dir, "driver")
	if err := os.WriteFile(driver, []byte(fakeDriver), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	args := []string{"-num=50000", "-rounds=1", "-dir=" + dir, "-bench=" + driver, "-db_bench=none", "e5"}
	if err := run(context.Background(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"238691", "108211", "4321", "0.8x", "published cost", "23.3%"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the table:\n%s", want, out.String())
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-benchmarks=fillseq,compact0,waitforcompaction,compact,waitforcompaction",
		"-benchmarks=readtocache,readrandom[-X10]", "--reads=10000", "--block_protection_bytes_per_key=1", "--cache_size=83886",
	} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("the driver was not called with %q:\n%s", want, calls)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "flatrock-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestE2PrintsItsTableBesideThePublishedOne likewise.
func TestE2PrintsItsTableBesideThePublishedOne(t *testing.T) {
	dir := t.TempDir()
	driver := filepath.Join(dir, "driver")
	const fake = `#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
for a; do case "$a" in --block_cache_trace_file=*) : > "${a#*=}" ;; esac; done
ops=1000
case "$*" in
*frequency=1) ops=900; echo "block cache trace : 77 records, 5 dropped, 0.0 MB in trace" ;;
*frequency=100) ops=995 ;;
esac
echo "readtocache  :       1.000 micros/op 77 ops/sec 1.000 seconds 1 operations;"
echo "readrandom   :       1.000 micros/op $ops ops/sec 1.000 seconds 1 operations; (1 of 1 found)"
`
	if err := os.WriteFile(driver, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	args := []string{"-num=100000", "-rounds=2", "-duration=3s", "-dir=" + dir, "-bench=" + driver, "-db_bench=none", "e2"}
	if err := run(context.Background(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"426295", "0.161", "0.900", "0.995", "\n40 accesses were dropped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the table:\n%s", want, out.String())
		}
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--duration=3", "--threads=16", "--cache_size=107374182", "--benchmarks=readtocache,readrandom"} {
		if !strings.Contains(string(calls), want) {
			t.Errorf("the driver was not called with %q:\n%s", want, calls)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "flatrock-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestExperimentsAreListedAndNamesChecked covers the command line.
func TestExperimentsAreListedAndNamesChecked(t *testing.T) {
	var log bytes.Buffer
	if err := run(context.Background(), nil, io.Discard, &log); err != nil || !strings.Contains(log.String(), "e5") {
		t.Errorf("%v:\n%s", err, log.String())
	}
	for _, args := range [][]string{{"e99"}, {"e5", "more"}, {"-rounds=-1", "e5"}, {"e5", "-num=1", "-scale=1"}, {"e5", "-db_bench=/none/such"}, {"-nonsense"}} {
		if err := run(context.Background(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}

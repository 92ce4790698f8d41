//go:build oracle

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// brokenTTL is what RocksDB's ldb says in the end whenever it has --ttl, and fails, after all is done.
const brokenTTL = "Failed: ldb doesn't support TTL DB with multiple column families\n"

// TestTTLLikeRocksDB: what either tool writes with --ttl the other reads, and both say the same of it.
func TestTTLLikeRocksDB(t *testing.T) {
	compare := func(dir, command string) {
		t.Helper()
		args := append(strings.Fields(command), "--db="+dir)
		got, want := exec(t, "", append([]string{"ldb"}, args...)...), oracle(t, "", "ldb", args...)
		if got.out != want.out || got.status != 0 && want.err == brokenTTL {
			t.Errorf("%s: status %d, RocksDB %d\n%s\n%s%s", command, got.status, want.status, firstDifference(got.out, want.out), got.err, want.err)
		}
	}
	reads := []string{"get k3 --ttl", "get k3 --ttl --hex", "get none --ttl", "scan --ttl", "scan --ttl --hex", "scan --ttl --no_value", "scan --ttl --timestamp", "scan --ttl --timestamp --no_value", "scan --ttl --max_keys=2",
		"scan --ttl --start_time=1600300000 --end_time=1600500000", "scan --ttl --timestamp --start_time=1600300000", "scan --ttl --from=k2 --to=k5 --timestamp",
		"dump --ttl", "dump --ttl --hex --timestamp", "dump --ttl --count_only", "dump --ttl --count_delim=3", "dump --ttl --timestamp --count_delim=3", "dump --ttl --timestamp --count_only", "dump --ttl --max_keys=3 --start_time=1600300000",
		"dump --ttl --bucket=432000 --start_time=1600000000 --end_time=1600900000", "dump --ttl --timestamp --bucket=100000 --start_time=1600000000 --end_time=1600900000",
		"dump --ttl --count_only --bucket=50000 --start_time=1600000000 --end_time=1600900000", "dump --ttl --bucket=90000000", "scan --hex --from=0x6B30 --max_keys=3"}
	dir := timedDirectory(t)
	for _, c := range reads {
		compare(dir, c)
	}
	theirs := func(stdin string, args ...string) {
		t.Helper()
		if r := oracle(t, stdin, "ldb", args...); r.status != 0 && r.err != brokenTTL {
			t.Fatalf("%q: %s", args, r.err)
		}
	}
	ours := func(stdin string, args ...string) {
		t.Helper()
		if r := exec(t, stdin, append([]string{"ldb"}, args...)...); r.status != 0 {
			t.Fatalf("%q: %s", args, r.err)
		}
	}
	for _, order := range [][]func(string, ...string){{theirs, ours}, {ours, theirs}} {
		dir := filepath.Join(t.TempDir(), "db")
		for i, run := range append(order, order...) {
			db := "--db=" + dir
			put := []string{"put", fmt.Sprintf("k%d", i), fmt.Sprintf("value %d", i), "--ttl", db}
			if i == 0 {
				put = append(put, "--create_if_missing")
			}
			run("", put...)
			run("", "batchput", fmt.Sprintf("b%d", i), "1", fmt.Sprintf("c%d", i), "2", "--ttl", db)
			run(fmt.Sprintf("put q%d 1\nput r%d 2\ndelete r%d\nget q%d\n", i, i, i, i), "query", "--ttl", db)
			run("", "compact", "--ttl", db)
		}
		for _, c := range reads {
			compare(dir, c)
		}
		if got := mustExec(t, "ldb", "scan", "--ttl", "--no_value", "--db="+dir); strings.Fields(got)[0] != "b0" || len(strings.Fields(got)) != 16 {
			t.Errorf("keys: %q", got)
		}
	}
}

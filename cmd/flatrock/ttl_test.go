package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
)

// timedDirectory is a database with values of known times: k0 to k9, a day apart from 2020-09-13 on.
func timedDirectory(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "db")
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := db.Put(nil, fmt.Appendf(nil, "k%d", i), appendTTL(nil, fmt.Appendf(nil, "v%d", i), 1600000000+int64(i)*86400)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTTL: values with their times, and without; ranges of times; values that have none.
func TestTTL(t *testing.T) {
	dir := timedDirectory(t)
	ldb := func(want, wantErr string, status int, args ...string) {
		t.Helper()
		check(t, want, wantErr, status, append([]string{"ldb", "--db=" + dir}, args...)...)
	}
	ldb("v3\n", "", 0, "get", "k3", "--ttl")
	ldb("0x76338004625F\n", "", 0, "get", "k3", "--value_hex")
	ldb("k3 ==> v3\nKey not found: x\n", "", 0, "multi_get", "k3", "x", "--ttl")
	ldb("k4 : v4\nk5 : v5\n", "", 0, "scan", "--ttl", "--from=k3", "--start_time=1600300000", "--end_time=1600500000")
	ldb("k4 : v4\n", "", 0, "scan", "--ttl", "--start_time=1600300000", "--max_keys=1")
	ldb(`{"cf":"default","k":"6b39","v":"7639","written":1600777600}`+"\n", "", 0, "scan", "--ttl", "--timestamp", "--from=k9", "--json")
	ldb("k9 ==> v9\nKeys in range: 1\n", "", 0, "dump", "--ttl", "--from=k9")
	ldb("Scanning key-values from "+humanTime(ttlLeast)+" to "+humanTime(ttlMost)+"\n"+humanTime(1600777600)+" k9 : v9\n", "", 0, "scan", "--ttl", "--timestamp", "--from=k9")
	out := mustExec(t, "ldb", "--db="+dir, "dump", "--ttl", "--timestamp", "--bucket=432000", "--start_time=1600000000", "--end_time=1600900000")
	want := "Dumping key-values from " + humanTime(1600000000) + " to " + humanTime(1600900000) + "\n" + humanTime(1600000000) + " k0 ==> v0\n"
	end := "Keys in range " + humanTime(1600000000) + " to " + humanTime(1600432000) + " : 5\nKeys in range " + humanTime(1600432000) + " to " + humanTime(1600864000) +
		" : 5\nKeys in range " + humanTime(1600864000) + " to " + humanTime(1600900000) + " : 0\n"
	if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, end) || strings.Count(out, "\n") != 14 {
		t.Errorf("dump in buckets:\n%s", out)
	}
	ldb("", "Failed: Error: End time can't be less than start time\n", 1, "scan", "--ttl", "--start_time=9", "--end_time=8")
	ldb("", "Failed: bucket has an invalid value.\n", 1, "dump", "--ttl", "--bucket=x")
	ldb("", "Failed: end_time has a value out-of-range.\n", 1, "dump", "--ttl", "--end_time=99999999999")
	ldb("OK\n", "", 0, "put", "new", "value", "--ttl")
	ldb("value\n", "", 0, "get", "new", "--ttl")
	if r := exec(t, "put q 1\nget q\n", "ldb", "--db="+dir, "query", "--ttl"); r.status != 0 || r.out != "Successfully put q 1\nq ==> 1\n" {
		t.Errorf("query: %+v", r)
	}
	ldb("OK\n", "", 0, "put", "short", "abc")
	ldb("OK\n", "", 0, "put", "--value_hex", "old", "0x6101000000")
	ldb("", "Failed: Get failed: Corruption: Error: value's length less than timestamp's\n", 1, "get", "short", "--ttl")
	ldb("", "Failed: Get failed: Corruption: Error: Timestamp < ttl feature release time!\n", 1, "get", "old", "--ttl")
	if r := exec(t, "", "ldb", "--db="+dir, "scan", "--ttl"); r.status != 1 || !strings.Contains(r.err, "key short: Corruption: ") || strings.Contains(r.out, "old : ") {
		t.Errorf("scan of a value without a time: %+v", r)
	}
}

// TestTTLMerges: operands are joined without their times, by the operator that the options name, and a compaction
// keeps one time.
func TestTTLMerges(t *testing.T) {
	for text, delimiter := range map[string]string{"{id=StringAppendOperator;delimiter=+;}": "+", "nullptr": ":"} {
		within := strings.Replace(text, "nullptr", `{id=StringAppendOperator;delimiter=\:;}`, 1) // what RocksDB's ldb takes if there is none
		op, err := flatrock.ParseMergeOperator(within)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "db")
		db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{MergeOperator: ttlOperator{op, within}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"a", "b", "c"} {
			if err := db.Merge(nil, []byte("k"), appendTTL(nil, []byte(v), 1600000000)); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if text == "nullptr" {
			spoil(t, latestOptions(t, dir), func(b []byte) []byte {
				return bytes.Replace(b, []byte("merge_operator={id=TtlMergeOperator;user_operator="+within+";}"), []byte("merge_operator=nullptr"), 1)
			})
		}
		args := []string{"--db=" + dir, "--ttl"}
		want := strings.Join([]string{"a", "b", "c"}, delimiter) + "\n"
		for range 2 {
			check(t, want, "", 0, append([]string{"ldb", "get", "k"}, args...)...)
			mustExec(t, append([]string{"ldb", "compact"}, args...)...)
		}
		if text := readText(t, latestOptions(t, dir)); !strings.Contains(text, "merge_operator={id=TtlMergeOperator;user_operator={id=StringAppendOperator;delimiter=") {
			t.Errorf("the OPTIONS file does not say what RocksDB says there:\n%s", text)
		}
		check(t, want, "", 0, "ldb", "get", "k", "--db="+dir, "--ttl") // the operator within is found again
	}
}

// FuzzTTL: any stored value has a time, or is refused.
func FuzzTTL(f *testing.F) {
	f.Add([]byte("value\x00\x3d\x62\x5f"))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, stored []byte) {
		value, written, err := splitTTL(stored)
		if (err == nil) != (len(stored) >= ttlLength) {
			t.Fatalf("%q: %v", stored, err)
		}
		if err == nil && string(appendTTL(nil, value, int64(written))) != string(stored) {
			t.Fatalf("%q is %q written %d", stored, value, written)
		}
		if _, err := readTTL(stored); err == nil && written < ttlLeast {
			t.Fatalf("%q: taken for written at %d", stored, written)
		}
	})
}

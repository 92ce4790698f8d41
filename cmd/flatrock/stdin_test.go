package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDashIsStandardInput: a file by name and by "-" is the same to a command.
func TestDashIsStandardInput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	db := filepath.Join(goldenDir, "db", "d03_levels_block", "db")
	one := func(pattern string) string {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(db, pattern))
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		return names[0]
	}
	for _, c := range []struct {
		file string
		args string
	}{
		{one("*.sst"), "sst_dump --json FILE"}, {one("*.sst"), "sst_dump --command=verify FILE"}, {one("*.sst"), "sst_dump --command=none --show_properties --file=FILE"},
		{filepath.Join(goldenDir, "plain", "p01_plain_var_bloom.sst"), "sst_dump --command=scan FILE"},
		{one("*.log"), "ldb dump_wal --header --print_value --walfile=FILE"}, {one("MANIFEST-*"), "ldb manifest_dump --path=FILE"},
		{one("MANIFEST-*"), "ldb manifest_dump --json --path=FILE"}, {one("MANIFEST-*"), "ldb file_checksum_dump --path=FILE"},
		{goldenTraces + "block_cache_trace.bin", "trace block-cache human --output=- FILE"}, {goldenTraces + "block_cache_trace.bin", "trace block-cache analyze --format=csv FILE"},
		{goldenTraces + "query_trace.bin", "trace query analyze FILE"},
	} {
		by := func(name string) []string { return strings.Fields(strings.ReplaceAll(c.args, "FILE", name)) }
		want := strings.ReplaceAll(mustExec(t, by(c.file)...), c.file, "-")
		r := exec(t, readText(t, c.file), by("-")...)
		if r.status != 0 || r.err != "" || r.out != want || want == "" {
			t.Errorf("%q of standard input: status %d, %s%s", c.args, r.status, r.err, firstDifferenceOf(r.out, want))
		}
	}
	r := exec(t, readText(t, one("*.sst")), "sst_dump", "--command=raw", "-")
	if r.status != 0 || !strings.Contains(r.out, "Footer Details:") || !strings.Contains(r.out, "Data Block # 1") {
		t.Errorf("raw: %+v", r)
	}
	dictionary := filepath.Join(goldenDir, "block", "dict_zstd_trained.sst")
	if r := exec(t, readText(t, dictionary), "sst_dump", "--command=raw", "-"); r.status != 0 || !strings.Contains(r.out, "Compression Dictionary:") {
		t.Errorf("raw with a dictionary: status %d, %s", r.status, r.err)
	}
	if r := exec(t, "no table", "sst_dump", "-"); r.status != 1 || !strings.Contains(r.err, "- is not a valid SST file") {
		t.Errorf("no table: %+v", r)
	}
	if r := exec(t, "", "ldb", "dump", "--path=-"); r.status != 1 || !strings.Contains(r.err, "sst_dump") {
		t.Errorf("dump --path=-: %+v", r)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// firstDifferenceOf shows where two texts part.
func firstDifferenceOf(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[max(i-20, 0):min(i+40, len(a))] + "\ninstead of\n" + b[max(i-20, 0):min(i+40, len(b))]
		}
	}
	return "\none text ends before the other"
}

// TestLoadTakesAFile, and "-", and so does write_extern_sst.
func TestLoadTakesAFile(t *testing.T) {
	dir := t.TempDir()
	db, text := "--db="+filepath.Join(dir, "db"), filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("a ==> 1\nb ==> 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustExec(t, "ldb", db, "load", "--create_if_missing", text)
	if r := exec(t, "c ==> 3\n", "ldb", db, "load", "-"); r.status != 0 {
		t.Errorf("load -: %+v", r)
	}
	if r := exec(t, "d ==> 4\n", "ldb", db, "load"); r.status != 0 {
		t.Errorf("load: %+v", r)
	}
	check(t, "a : 1\nb : 2\nc : 3\nd : 4\n", "", 0, "ldb", db, "scan")
	check(t, "", "Failed: open ", 1, "ldb", db, "load", filepath.Join(dir, "none"))
	check(t, "", "Failed: load takes one file", 1, "ldb", db, "load", text, text)
	for i, from := range []string{text, "-"} {
		sst := filepath.Join(dir, []string{"x.sst", "y.sst"}[i])
		if r := exec(t, "a ==> 1\nb ==> 2\n", "ldb", db, "write_extern_sst", sst, from); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		if got := mustExec(t, "sst_dump", "--json", sst); got != "{\"k\":\"61\",\"seq\":0,\"type\":1,\"v\":\"31\"}\n{\"k\":\"62\",\"seq\":0,\"type\":1,\"v\":\"32\"}\n" {
			t.Errorf("from %s: %s", from, got)
		}
	}
}

// TestCtrlCEndsAWaitForInput: of a pipe that nobody writes to.
func TestCtrlCEndsAWaitForInput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	in := interruptible(ctx, r)
	if _, err := w.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 3)
	if _, err := io.ReadFull(in, b); err != nil || string(b) != "abc" {
		t.Fatalf("read %q, %v", b, err)
	}
	ended := make(chan error)
	go func() {
		_, err := in.Read(b)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a read ended with %v", err)
	}
	var out, errs bytes.Buffer
	if status := run(ctx, []string{"flatrock", "ldb", "--db=" + filepath.Join(t.TempDir(), "db"), "load", "--create_if_missing"}, r, &out, &errs); status != 130 || errs.String() != "interrupted\n" {
		t.Errorf("load: status %d, %q", status, errs.String())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r2.Close()
	if _, err := w2.WriteString(strings.Repeat("x", 1000)); err != nil {
		t.Fatal(err)
	}
	if err := w2.Close(); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(interruptible(context.Background(), r2)); err != nil || len(all) != 1000 {
		t.Errorf("read %d bytes, %v", len(all), err)
	}
}

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
)

// countdown is a context that ends when it has been asked a number of times.
type countdown struct {
	context.Context
	cancel context.CancelFunc
	asked  atomic.Int64
	last   int64
}

func newCountdown(last int64) *countdown {
	ctx, cancel := context.WithCancel(context.Background())
	return &countdown{Context: ctx, cancel: cancel, last: last}
}

func (c *countdown) Err() error {
	if c.asked.Add(1) > c.last {
		c.cancel()
	}
	return c.Context.Err()
}

// longDirectory is a database of two families, one in plain tables, with one table of many blocks or rows each,
// and a log with as many operations.
func longDirectory(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db")
	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true, CreateMissingColumnFamilies: true,
		ColumnFamily: &flatrock.ColumnFamilyOptions{Table: flatrock.BlockBasedTableOptions{BlockSize: 256}, Compression: flatrock.NoCompression},
		ColumnFamilies: []flatrock.ColumnFamilyDescriptor{
			{Name: "plain", Options: &flatrock.ColumnFamilyOptions{PrefixExtractor: flatrock.FixedPrefix(4), Table: flatrock.PlainTableOptions{}}},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for _, cf := range db.ColumnFamilies() {
			for i := range 5000 {
				key := []byte{'k', byte('0' + i/1000), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)}
				if err := cf.Put(nil, key, bytes.Repeat(key, 5+round)); err != nil {
					t.Fatal(err)
				}
			}
			if round == 0 {
				if err := cf.Flush(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	copied := filepath.Join(t.TempDir(), "db") // as after kill -9: with its logs
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestCtrlCInTheMiddleOfATable: every command that reads for long asks many times whether it is still wanted, ends
// with the exit status of an interrupt wherever it is, and leaves the directory as it was.
func TestCtrlCInTheMiddleOfATable(t *testing.T) {
	dir := longDirectory(t)
	table := func(family string) string {
		for _, line := range strings.Split(mustExec(t, "ldb", "list_live_files_metadata", "--sort_by_filename", "--db="+dir), "\n") {
			if path, rest, ok := strings.Cut(line, " : "); ok && strings.HasSuffix(rest, "'"+family+"'") {
				return path
			}
		}
		t.Fatal("no table of " + family)
		return ""
	}
	log, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(log) == 0 {
		t.Fatal(log, err)
	}
	paths := strings.NewReplacer("DIR", dir, "BLOCKS", table("default"), "ROWS", table("plain"), "LOG", log[len(log)-1])
	for _, c := range []struct {
		command string
		asked   int64 // times at least
	}{
		{"sst_dump BLOCKS", 5000}, {"sst_dump ROWS", 5000}, {"sst_dump --json BLOCKS", 5000}, {"sst_dump --command=scan ROWS", 5000},
		{"sst_dump --command=verify BLOCKS", 500}, {"sst_dump --command=verify ROWS", 10}, {"sst_dump --verify_checksum BLOCKS", 5500},
		{"sst_dump --command=raw BLOCKS", 500}, {"sst_dump --command=raw --json BLOCKS", 500},
		{"sst_dump --command=recompress --compression_types=kNoCompression,kSnappyCompression BLOCKS", 10000},
		{"ldb --db=DIR scan", 5000}, {"ldb --db=DIR dump", 5000}, {"ldb --db=DIR dump_all", 10000}, {"ldb --db=DIR idump", 10000}, {"ldb --db=DIR idump --column_family=plain", 10000},
		{"ldb --db=DIR dump_live_files", 10000}, {"ldb dump --path=BLOCKS", 5000}, {"ldb dump_wal --walfile=LOG", 5000},
		{"ldb --db=DIR approxsize --from=k2 --to=k4", 200}, {"doctor DIR", 5000}, {"repair --dry-run DIR", 500}, {"repair DIR", 500},
	} {
		before := snapshotDir(t, dir)
		args := append([]string{"flatrock"}, strings.Fields(paths.Replace(c.command))...)
		var out, errs bytes.Buffer
		all := int64(c.asked)
		if c.command != "repair DIR" { // which is done once it is not interrupted
			ctx := newCountdown(1 << 40)
			if status := run(ctx, args, strings.NewReader(""), &out, &errs); status > 1 { // doctor warns of an open database's log
				t.Fatalf("%s: status %d, %s", c.command, status, errs.String())
			}
			if all = ctx.asked.Load(); all < c.asked {
				t.Errorf("%s asks %d times, want %d", c.command, all, c.asked)
			}
		}
		if strings.Contains(c.command, "raw BLOCKS") {
			remove(t, dir, "*_dump.txt")
		}
		points := []int64{0, 1, 2, 5, 10, all / 3, all / 2, all * 9 / 10}
		if testing.Short() {
			points = []int64{0, all / 2}
		}
		for _, n := range points {
			var out, errs bytes.Buffer
			if status := run(newCountdown(n), args, strings.NewReader(""), &out, &errs); status != exitInterrupted || errs.String() != "interrupted\n" {
				t.Errorf("%s, interrupted at %d of %d: status %d, %q", c.command, n, all, status, errs.String())
			}
			if after := snapshotDir(t, dir); after != before {
				t.Fatalf("%s, interrupted at %d of %d: the directory has changed:\n%s\nwas\n%s", c.command, n, all, after, before)
			}
		}
	}
}

// TestCtrlCLeavesNoHalfFile: what was there under the name of the file that a command makes is there still, and
// nothing else is.
func TestCtrlCLeavesNoHalfFile(t *testing.T) {
	dir := longDirectory(t)
	sst := filepath.Join(t.TempDir(), "x.sst")
	lines := mustExec(t, "ldb", "dump", "--db="+dir)
	if err := os.WriteFile(sst, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"flatrock", "ldb", "--db=" + dir, "write_extern_sst", sst}
	for _, n := range []int64{0, 1, 100, 4000} {
		var out, errs bytes.Buffer
		if status := run(newCountdown(n), args, strings.NewReader(lines), &out, &errs); status != exitInterrupted {
			t.Errorf("interrupted at %d: status %d, %s", n, status, errs.String())
		}
		if got := readText(t, sst); got != "before" {
			t.Errorf("interrupted at %d: the file has %d bytes", n, len(got))
		}
		if left := paths(t, filepath.Join(filepath.Dir(sst), "*")); len(left) != 1 {
			t.Errorf("interrupted at %d: left behind: %q", n, left)
		}
	}
	if r := exec(t, lines, args[1:]...); r.status != 0 {
		t.Fatal(r.err)
	}
	if got := strings.Count(mustExec(t, "sst_dump", "--json", sst), "\n"); got != 5000 {
		t.Errorf("%d entries", got)
	}
	// A file that is no regular one is written to as it is.
	if r := exec(t, lines, "sst_dump", "--command=raw", sst); r.status != 0 {
		t.Fatal(r.err)
	}
	if temp, done := whole(os.DevNull); temp != os.DevNull || done(nil) != nil {
		t.Errorf("%s is written to as %s", os.DevNull, temp)
	}
}

// TestInternalDumpReadsALogWhosePredecessorIsGone: the first log that a database needs says that it follows one that
// is gone, as it should be.
func TestInternalDumpReadsALogWhosePredecessorIsGone(t *testing.T) {
	dir := longDirectory(t)
	for _, family := range []string{"default", "plain"} {
		if out := mustExec(t, "ldb", "idump", "--db="+dir, "--column_family="+family); !strings.HasSuffix(out, "\nInternal keys in range: 10000\n") {
			t.Errorf("%s: %q", family, out[max(0, len(out)-40):])
		}
	}
}

//go:build oracle

package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
)

// TestOracleExperimentsRun runs E1 and E3 at tiny scale with both programs as they are: the
// command lines are accepted, the counts agree, and no cell of a table is empty.
func TestOracleExperimentsRun(t *testing.T) {
	for _, args := range []string{"e1 -num=20000 -duration=1s", "e3 -num=20000"} {
		t.Run(args[:2], func(t *testing.T) {
			var out, log bytes.Buffer
			if err := run(context.Background(), append(strings.Fields(args), "-rounds=1", "-dir="+t.TempDir()), &out, &log); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			mustContain(t, out.String(), "published", "RocksDB (Debian)", "Flatrock")
			for _, bad := range []string{"NaN", "Inf"} {
				if strings.Contains(out.String(), bad) {
					t.Errorf("%s in:\n%s", bad, out.String())
				}
			}
		})
	}
}

// TestOracleE4Measures: one cell of E4's table, of both programs.
func TestOracleE4Measures(t *testing.T) {
	dir := t.TempDir()
	driver, err := program.BuildDriver(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	dbBench, err := program.FindDBBench("db_bench", "E4", "nothing")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{settings: settings{num: 20000, rounds: 1, duration: time.Second, dir: dir, bench: driver, dbBench: dbBench}, ctx: t.Context(), out: io.Discard, log: io.Discard}
	for _, e := range l.engines() {
		if err := l.fillE4(e); err != nil {
			t.Fatal(err)
		}
		s, _, err := l.e4Measure(e, 0, 4, new(e4Written))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range s {
			if v <= 0 && e4Metrics[i].name != "stalls s" {
				t.Errorf("%s: %s = %g", e.name, e4Metrics[i].name, v)
			}
		}
	}
}

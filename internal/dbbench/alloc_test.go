//go:build !race

package dbbench

import (
	"context"
	"io"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
)

// Pools drop what they hold under the race detector, so these numbers hold without it.

// The loop of a reading thread must not give the collector anything to do.
func TestReadLoopsDoNotAllocate(t *testing.T) {
	c := newConfig()
	args := plainArgs(filepath.Join(t.TempDir(), "db"), "--benchmarks=fillseq", "--reads=20000", "--batch_size=16")
	if err := parseFlags(c, args, io.Discard); err != nil {
		t.Fatal(err)
	}
	b := newBench(context.Background(), c, io.Discard, io.Discard, false)
	b.dir = c.directory()
	if err := b.open(false); err != nil {
		t.Fatal(err)
	}
	defer b.db.Close()
	for _, bm := range benchmarks() {
		if slices.Contains([]string{"fillseq", "readrandom", "readmissing", "multireadrandom", "readseq", "readreverse", "seekrandom"}, bm.name) {
			p := c.params(&bm)
			var halt atomic.Bool
			th := b.newThread(p, 0, &halt)
			th.stats.begin(c, io.Discard, nil)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := bm.body(th); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			// seekrandom makes an Iterator each time, as db_bench does. Flushes run beside
			// the fill.
			allowed := uint64(300)
			switch bm.name {
			case "seekrandom":
				allowed += 2 * uint64(th.stats.done)
			case "fillseq":
				allowed += uint64(th.stats.done)
			}
			if n := after.Mallocs - before.Mallocs; n > allowed {
				t.Errorf("%s: %d allocations in %d operations", bm.name, n, th.stats.done)
			}
		}
	}
}

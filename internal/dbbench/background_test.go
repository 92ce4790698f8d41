package dbbench

import (
	"strings"
	"testing"

	flatrock "github.com/flatrock-db/flatrock"
)

// TestBackgroundFlags: what E1's and E3's command lines say about background work.
func TestBackgroundFlags(t *testing.T) {
	for _, test := range []struct {
		args                       string
		jobs, compactions, flushes int
	}{
		{"", 2, 0, 0},
		{"--max_background_compactions=4 --max_background_flushes=0", 2, 4, 1},
		{"--max_background_compactions=8", 2, 8, 1},
		{"-max_background_jobs=12", 12, 0, 0},
	} {
		c, _, err := parseArgs(strings.Fields(test.args)...)
		if err != nil {
			t.Fatal(err)
		}
		var o flatrock.Options
		var cf flatrock.ColumnFamilyOptions
		c.background.apply(&o, &cf)
		if o.MaxBackgroundJobs != test.jobs || o.MaxBackgroundCompactions != test.compactions || o.MaxBackgroundFlushes != test.flushes {
			t.Errorf("%q: jobs %d, compactions %d, flushes %d", test.args, o.MaxBackgroundJobs, o.MaxBackgroundCompactions, o.MaxBackgroundFlushes)
		}
		if o.RateLimiter != nil || o.WriteBufferManager != nil || cf.HardPendingCompactionBytesLimit != 128<<30 {
			t.Errorf("%q: %+v", test.args, o)
		}
	}
	c, _, err := parseArgs("--rate_limiter_bytes_per_sec=1000000", "--rate_limiter_auto_tuned", "--rate_limit_bg_reads", "--soft_pending_compaction_bytes_limit=0",
		"--db_write_buffer_size=1000", "--cost_write_buffer_to_cache", "--subcompactions=3", "--bytes_per_sync=10", "--wal_bytes_per_sync=20")
	if err != nil {
		t.Fatal(err)
	}
	var o flatrock.Options
	var cf flatrock.ColumnFamilyOptions
	c.background.apply(&o, &cf)
	if l := o.RateLimiter; l == nil || l.BytesPerSec() != 500_000 || l.Mode() != flatrock.LimitAll {
		t.Errorf("limiter %+v", l)
	}
	if cf.SoftPendingCompactionBytesLimit != flatrock.NoLimit || o.MaxSubcompactions != 3 || o.BytesPerSync != 10 || o.WALBytesPerSync != 20 ||
		o.WriteBufferManager == nil || o.WriteBufferManager.BufferSize() != 1000 {
		t.Errorf("%+v, %+v", o, cf)
	}
	// And a run with all of them.
	out := mustRun(t, "--benchmarks=fillrandom,overwrite,readrandom", "--num=2000", "--db="+t.TempDir(), "--rate_limiter_bytes_per_sec=100000000",
		"--subcompactions=2", "--bytes_per_sync=65536", "--wal_bytes_per_sync=65536", "--db_write_buffer_size=100000", "--cost_write_buffer_to_cache", "--max_background_jobs=4")
	if !strings.Contains(out, "readrandom") {
		t.Errorf("output:\n%s", out)
	}
}

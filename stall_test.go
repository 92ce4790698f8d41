package flatrock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestStallConditions draws RocksDB's rules.
func TestStallConditions(t *testing.T) {
	o := (&ColumnFamilyOptions{MaxWriteBufferNumber: 2}).withDefaults()
	many := (&ColumnFamilyOptions{MaxWriteBufferNumber: 5, MinWriteBufferNumberToMerge: 2}).withDefaults()
	merging := (&ColumnFamilyOptions{MaxWriteBufferNumber: 5, MinWriteBufferNumberToMerge: 4}).withDefaults()
	manual := (&ColumnFamilyOptions{DisableAutoCompactions: true}).withDefaults()
	unlimited := (&ColumnFamilyOptions{SoftPendingCompactionBytesLimit: NoLimit, HardPendingCompactionBytesLimit: NoLimit}).withDefaults()
	for _, c := range []struct {
		o                  *ColumnFamilyOptions
		immutables, level0 int
		pending            uint64
		want               stallCause
	}{
		{o, 0, 0, 0, stallNone},
		{o, 1, 19, 64<<30 - 1, stallNone},
		{o, 2, 0, 0, stallMemtables},
		{o, 0, 20, 0, stallLevel0Slowdown},
		{o, 0, 35, 0, stallLevel0Slowdown},
		{o, 0, 36, 0, stallLevel0},
		{o, 2, 36, 1 << 60, stallMemtables},
		{o, 0, 0, 64 << 30, stallPendingSlowdown},
		{o, 0, 0, 256 << 30, stallPending},
		{o, 0, 20, 256 << 30, stallPending},
		{many, 3, 0, 0, stallNone},
		{many, 4, 0, 0, stallMemtablesSlowdown},
		{many, 5, 0, 0, stallMemtables},
		{merging, 4, 0, 0, stallNone}, // a flush has only just become due
		{manual, 1, 100, 1 << 60, stallNone},
		{manual, 2, 100, 1 << 60, stallMemtables},
		{unlimited, 0, 0, 1 << 60, stallNone},
	} {
		if got := stallOf(c.o, c.immutables, c.level0, c.pending); got != c.want {
			t.Errorf("%d immutable memtables, %d files, %d bytes: %v, want %v", c.immutables, c.level0, c.pending, got, c.want)
		}
	}
	if n := speedupFiles(o); n != 8 {
		t.Errorf("compactions side by side from %d files on, want 8", n)
	}
	if n := speedupFiles((&ColumnFamilyOptions{Level0FileNumCompactionTrigger: 8, Level0SlowdownWritesTrigger: 16}).withDefaults()); n != 10 {
		t.Errorf("compactions side by side from %d files on, want 10", n)
	}
}

// TestDelayedWriteRate walks the rate through what compactions may do to it.
func TestDelayedWriteRate(t *testing.T) {
	var d delayedWrites
	d.setMax(16 << 20)
	want := func(what string, rate float64) {
		t.Helper()
		if float64(d.rate) < rate*0.999 || float64(d.rate) > rate*1.001 {
			t.Fatalf("%s: %d bytes a second, want %.0f", what, d.rate, rate)
		}
	}
	d.begin()
	want("begin", 16<<20)
	d.adapt(false, 100, 200)
	want("behind more", 16<<20*0.8)
	d.adapt(false, 200, 200)
	want("behind as before", 16<<20*0.8*0.8)
	d.adapt(false, 200, 100)
	want("behind less", 16<<20*0.8)
	d.adapt(false, 0, 100)
	want("behind for the first time", 16<<20*0.8)
	d.adapt(true, 200, 100)
	want("nearly stopped", 16<<20*0.8*0.6)
	d.reward()
	want("recovered", 16<<20*0.8*0.6*1.4)
	d.begin()
	want("the next time", 16<<20*0.8*0.6*1.4)
	d.reward()
	d.reward()
	want("never above what was asked for", 16<<20)
	for range 100 {
		d.adapt(true, 0, 1)
	}
	want("never below the least", 16<<10)
	d.restart()
	want("without automatic compactions", 16<<20)
	d.setMax(1 << 10)
	d.adapt(true, 0, 1)
	want("slow by will", 1<<10)
}

// TestDelayedWritesKeepTheRate: the waits of many small writes add up to the rate.
func TestDelayedWritesKeepTheRate(t *testing.T) {
	var d delayedWrites
	d.setMax(1 << 20)
	d.begin()
	start := time.Unix(1000, 0)
	now, written := start, int64(0)
	for now.Sub(start) < 2*time.Second {
		wait := d.take(now, 1000)
		if wait > 0 && wait < delayRefillTime {
			t.Fatalf("a wait of %v is not worth it", wait)
		}
		written += 1000
		now = now.Add(wait + 3*time.Microsecond)
	}
	rate := float64(written) / now.Sub(start).Seconds()
	if rate < 0.95*(1<<20) || rate > 1.05*(1<<20) {
		t.Errorf("%.0f bytes a second, want about %d", rate, 1<<20)
	}
	// A write larger than what a second allows waits as long as it takes.
	if wait := d.take(now, 5<<20); wait < 4900*time.Millisecond || wait > 5100*time.Millisecond {
		t.Errorf("5 MiB wait %v, want about 5 s", wait)
	}
}

// TestStopsAreNamedAndEnd: a family whose compactions hang stops all writes, is named in the metrics, and lets
// them go once a compaction is through.
func TestStopsAreNamedAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		behind := &ColumnFamilyOptions{Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 3, Level0StopWritesTrigger: 4}
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, ColumnFamily: &ColumnFamilyOptions{},
			ColumnFamilies: []ColumnFamilyDescriptor{{"behind", behind}}})
		release := make(chan struct{})
		made := 0
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				if made++; made == 3 { // after two flushes comes the compaction
					<-release
				}
			}
			return nil
		})
		cf := db.ColumnFamily("behind")
		for range 4 {
			if err := cf.Put(nil, []byte("key"), []byte("value")); err != nil {
				t.Fatal(err)
			}
			if err := cf.Flush(context.Background(), &FlushOptions{AllowWriteStall: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		done := make(chan error)
		start := time.Now()
		go func() { done <- db.Put(nil, []byte("key"), nil) }() // another family
		time.Sleep(time.Minute)
		synctest.Wait()
		if f := db.Metrics().Families["behind"]; f.Stall != "level0" || f.CompactionsRunning != 1 || f.StallCounts["level0"] == 0 {
			t.Errorf("the family is not named: %+v", f)
		}
		select {
		case err := <-done:
			t.Fatalf("the write went on: %v", err)
		default:
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		m := db.Metrics()
		if d := time.Since(start); m.StallTime["level0"] != d || m.Families["behind"].StallTime["level0"] != d || d < time.Minute {
			t.Errorf("waited %v, counted %v, %v for the family", d, m.StallTime, m.Families["behind"].StallTime)
		}
		synctest.Wait()
		if f := db.Metrics().Families["behind"]; f.Stall != "none" {
			t.Errorf("still stalled: %+v", f)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDelayedWritesEndEarly: a long delay is over once its cause is.
func TestDelayedWritesEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, DelayedWriteRate: 1000, ColumnFamily: &ColumnFamilyOptions{
			Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 2}})
		release := make(chan struct{})
		made := 0
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				if made++; made == 3 {
					<-release
				}
			}
			return nil
		})
		for range 2 {
			if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
				t.Fatal(err)
			}
			if err := db.Flush(context.Background(), &FlushOptions{AllowWriteStall: true}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if r := db.Metrics().DelayedWriteRate; r != 1000 {
			t.Errorf("the rate is %d", r)
		}
		start := time.Now()
		go func() { time.Sleep(10 * time.Second); close(release) }()
		if err := db.Put(nil, []byte("key"), make([]byte, 100_000)); err != nil { // 100 s worth
			t.Fatal(err)
		}
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("delayed for %v, want 10 s", d)
		}
		if m := db.Metrics(); m.DelayedWriteRate != 0 || m.StallTime["level0-slowdown"] != 10*time.Second {
			t.Errorf("rate %d, counted %v", m.DelayedWriteRate, m.StallTime)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFlushWaitsForRoom: a flush that would stop writes waits until it would not, and writes go
// on meanwhile; with AllowWriteStall it does not wait.
func TestFlushWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := mmapfs.NewFault(mmapfs.NewMem())
		db := mustOpen(t, fsys, &Options{CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
			Level0FileNumCompactionTrigger: 2, Level0SlowdownWritesTrigger: 3, Level0StopWritesTrigger: 3, MinWriteBufferNumberToMerge: 2, MaxWriteBufferNumber: 3}})
		release := make(chan struct{})
		made := 0
		fsys.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				if made++; made == 3 { // after two flushes comes the compaction
					<-release
				}
			}
			return nil
		})
		put := func() {
			t.Helper()
			if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			put()
			if err := db.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		put()
		done := make(chan error, 2)
		go func() { done <- db.Flush(context.Background(), nil) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the flush stopped all writes: %v", err)
		default:
		}
		put() // and they go on
		gone, cancel := context.WithCancel(context.Background())
		go func() { done <- db.Flush(gone, &FlushOptions{NoWait: true}) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("a flush whose context has ended: %v", err)
		}
		if f := db.Metrics().Families["default"]; f.Stall != "none" {
			t.Errorf("stalled by a flush that waits: %s", f.Stall)
		}
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

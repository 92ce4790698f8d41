package flatrock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func TestWriteBufferManagerRules(t *testing.T) {
	m := NewWriteBufferManager(WriteBufferManagerOptions{BufferSize: 800})
	for _, c := range []struct {
		used, active int64
		flush, full  bool
	}{
		{700, 700, false, false}, {701, 701, true, false}, {799, 400, false, false}, {800, 399, false, true}, {800, 400, true, true},
	} {
		m.used.Store(c.used)
		m.active.Store(c.active)
		m.SetAllowStall(false)
		if m.ShouldFlush() != c.flush || m.ShouldStall() {
			t.Errorf("%+v: flush %v, stall %v", c, m.ShouldFlush(), m.ShouldStall())
		}
		m.SetAllowStall(true)
		if m.ShouldStall() != c.full {
			t.Errorf("%+v: stall %v", c, m.ShouldStall())
		}
	}
	m.SetBufferSize(0)
	if m.ShouldFlush() || m.ShouldStall() {
		t.Error("without a bound it only counts")
	}
}

// TestWriteBufferManagerBoundsAllMemtables: many families of two databases stay within the bound,
// though each is far below its own; the block cache gives way, and all is given back.
func TestWriteBufferManagerBoundsAllMemtables(t *testing.T) {
	for _, stall := range []bool{false, true} {
		m := NewWriteBufferManager(WriteBufferManagerOptions{BufferSize: 1 << 20, AllowStall: stall, CostToCache: true})
		var dbs []*DB
		for range 2 {
			o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, WriteBufferManager: m,
				ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true}}
			for i := range 4 {
				o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{fmt.Sprint(i), &ColumnFamilyOptions{DisableAutoCompactions: true}})
			}
			dbs = append(dbs, mustOpen(t, mmapfs.NewMem(), o))
		}
		most := int64(0)
		for i := range 4000 {
			db := dbs[i/37%2]
			families := db.ColumnFamilies()
			// A family whose flush is under way is not asked for another: on a slow machine all could be.
			if err := db.waitUntil(context.Background(), func() (bool, error) { return !db.flushableLocked(), db.background }); err != nil {
				t.Fatal(err)
			}
			if err := families[i%len(families)].Put(nil, fmt.Appendf(nil, "key%06d", i), make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			most = max(most, m.MutableMemtableMemoryUsage())
		}
		if most > 1<<20 || most < 1<<19 {
			t.Errorf("active memtables held up to %d bytes, the bound is %d", most, 1<<20)
		}
		for _, db := range dbs {
			if db.Metrics().Flushes == 0 {
				t.Error("a database never flushed")
			}
			if n := db.Metrics().BlockCache.Charged; n == 0 {
				t.Error("the block cache does not give way")
			}
			for _, cf := range db.ColumnFamilies() {
				if err := cf.Flush(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
			if n := db.Metrics().BlockCache.Charged; n > 5*chargeUnit {
				t.Errorf("%d bytes stay charged after all is flushed", n)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if m.MemoryUsage() != 0 || m.MutableMemtableMemoryUsage() != 0 {
			t.Errorf("%d bytes, %d active, after all is closed", m.MemoryUsage(), m.MutableMemtableMemoryUsage())
		}
	}
}

// TestWriteBufferManagerStalls: a full manager holds the writers of one database until another, which nobody
// writes to, has flushed; a DB that closes goes free.
func TestWriteBufferManagerStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewWriteBufferManager(WriteBufferManagerOptions{BufferSize: 1 << 20, AllowStall: true})
		slow := mmapfs.NewFault(mmapfs.NewMem())
		open := func(fsys mmapfs.FS) *DB {
			return mustOpen(t, fsys, &Options{CreateIfMissing: true, WriteBufferManager: m, ColumnFamily: &ColumnFamilyOptions{}})
		}
		idle, busy := open(slow), open(mmapfs.NewMem())
		put := func(db *DB, key string, n int) error { return db.Put(nil, []byte(key), make([]byte, n)) }
		if err := put(idle, "key", 850_000); err != nil {
			t.Fatal(err)
		}
		slow.SetHook(func(op mmapfs.Op, name string) error {
			if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
				time.Sleep(time.Minute)
			}
			return nil
		})
		if err := put(idle, "key", 300_000); err != nil { // now it is full
			t.Fatal(err)
		}
		start := time.Now()
		if err := put(busy, "key", 10); err != nil {
			t.Fatal(err)
		}
		waited := time.Since(start)
		if waited != time.Minute {
			t.Errorf("a write to a full manager waited %v", waited)
		}
		if n := busy.Metrics().StallTime["write-buffer-manager"]; n != waited {
			t.Errorf("counted %v of %v", n, waited)
		}
		if idle.Metrics().Flushes != 1 {
			t.Error("the idle database did not flush")
		}
		for _, db := range []*DB{idle, busy} {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestDBWriteBufferSize also counts what recovery kept in memory.
func TestDBWriteBufferSize(t *testing.T) {
	fsys := mmapfs.NewMem()
	o := &Options{CreateIfMissing: true, DBWriteBufferSize: 1 << 20, AvoidFlushDuringRecovery: true, ColumnFamily: &ColumnFamilyOptions{}}
	db := mustOpen(t, fsys, o)
	fill := func(n int) {
		t.Helper()
		for i := range n {
			if err := db.Put(nil, fmt.Appendf(nil, "key%06d", i), make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(700)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, fsys, o)
	if n := db.Metrics().Flushes; n != 0 {
		t.Fatalf("%d flushes before it is full", n)
	}
	fill(300)
	if err := db.waitUntil(context.Background(), func() (bool, error) { return db.metrics.flushes.Load() > 0, db.background }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

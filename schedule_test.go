package flatrock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func TestJobLimits(t *testing.T) {
	for _, c := range []struct{ jobs, compactions, flushes, wantFlushes, wantCompactions int }{
		{2, 0, 0, 1, 1},
		{1, 0, 0, 1, 1},
		{8, 0, 0, 2, 6},
		{12, 0, 0, 3, 9},
		{2, 4, 0, 1, 4}, // E1's flags
		{2, 8, 0, 1, 8},
		{16, 0, 3, 3, 1},
	} {
		o := Options{MaxBackgroundJobs: c.jobs, MaxBackgroundCompactions: c.compactions, MaxBackgroundFlushes: c.flushes}
		if f, n := o.jobLimits(); f != c.wantFlushes || n != c.wantCompactions {
			t.Errorf("%+v: %d flushes and %d compactions", c, f, n)
		}
	}
}

// meeting is a hook that lets nobody create a table file before n are at it.
type meeting struct {
	mu     sync.Mutex
	n      int
	opened chan struct{}
}

func newMeeting(n int) *meeting { return &meeting{n: n, opened: make(chan struct{})} }

func (m *meeting) hook(op mmapfs.Op, name string) error {
	if op != mmapfs.OpCreate || !strings.HasSuffix(name, ".sst") {
		return nil
	}
	m.mu.Lock()
	if m.n--; m.n == 0 {
		close(m.opened)
	}
	m.mu.Unlock()
	<-m.opened
	return nil
}

// TestFamiliesFlushAtOnce: each flush waits at its file until the others are there.
func TestFamiliesFlushAtOnce(t *testing.T) {
	fsys := mmapfs.NewFault(mmapfs.NewMem())
	o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, MaxBackgroundFlushes: 3}
	for i := range 2 {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{fmt.Sprint("family", i), nil})
	}
	db := mustOpen(t, fsys, o)
	fsys.SetHook(newMeeting(3).hook)
	for _, cf := range db.ColumnFamilies() {
		if err := cf.Put(nil, []byte("key"), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if err := cf.Flush(context.Background(), &FlushOptions{NoWait: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, cf := range db.ColumnFamilies() {
		if err := cf.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.Metrics().Flushes; n != 3 {
		t.Errorf("%d flushes, want 3", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCompactionsRunAtOnce: three families that are far behind compact side by side, and a
// flush goes on beside them.
func TestCompactionsRunAtOnce(t *testing.T) {
	fsys := mmapfs.NewFault(mmapfs.NewMem())
	cf := &ColumnFamilyOptions{DisableAutoCompactions: true, Level0FileNumCompactionTrigger: 2}
	o := &Options{CreateIfMissing: true, CreateMissingColumnFamilies: true, MaxBackgroundCompactions: 3, ColumnFamily: cf}
	for i := range 2 {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{fmt.Sprint("family", i), cf})
	}
	db := mustOpen(t, fsys, o)
	for i := range 4 {
		for _, cf := range db.ColumnFamilies() {
			if err := cf.Put(nil, []byte("key"), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
			if err := cf.Flush(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cf.DisableAutoCompactions = false
	fsys.SetHook(newMeeting(4).hook)
	db = mustOpen(t, fsys, o)
	if err := db.Put(nil, []byte("other"), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	err := db.waitUntil(context.Background(), func() (bool, error) { return db.metrics.compactions.Load() >= 3, db.background })
	if err != nil {
		t.Fatal(err)
	}
	for _, cf := range db.ColumnFamilies() {
		if v, err := cf.Get(nil, []byte("key"), nil); err != nil || string(v) != "3" {
			t.Errorf("family %s: %q, %v", cf.Name(), v, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSubcompactionsRunAtOnce: one CompactRange writes three files side by side, and loses nothing;
// nor does one of which a part fails.
func TestSubcompactionsRunAtOnce(t *testing.T) {
	fsys := mmapfs.NewFault(mmapfs.NewMem())
	o := &Options{CreateIfMissing: true, MaxSubcompactions: 3,
		ColumnFamily: &ColumnFamilyOptions{DisableAutoCompactions: true, TargetFileSizeBase: 4 << 10, Compression: NoCompression,
			Table: BlockBasedTableOptions{BlockSize: 512}}}
	db := mustOpen(t, fsys, o)
	value := make([]byte, 100)
	for round := range 2 {
		for i := range 500 {
			if err := db.Put(nil, fmt.Appendf(nil, "key%03d", i), append(value, byte(round))); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			// One that covers keys of all parts, and one that covers none of them whole.
			if err := db.DeleteRange(nil, []byte("key100"), []byte("key400")); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func() {
		t.Helper()
		it, err := db.NewIterator(nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for k, v := range it.All() {
			if string(k) != fmt.Sprintf("key%03d", n) || v[len(v)-1] != 1 {
				t.Fatalf("key %q, value %v at %d", k, v[len(v)-1], n)
			}
			n++
		}
		if err := it.Close(); err != nil || n != 500 {
			t.Fatalf("%d keys, %v", n, err)
		}
	}
	fsys.SetHook(newMeeting(3).hook)
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	check()
	// The second output fails: the others end too, and what they wrote goes.
	created := 0
	var mu sync.Mutex
	fsys.SetHook(func(op mmapfs.Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if op == mmapfs.OpCreate && strings.HasSuffix(name, ".sst") {
			if created++; created == 4 {
				return mmapfs.ErrInjected
			}
		}
		return nil
	})
	before := tableFiles(t, fsys)
	err := db.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil)
	if !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("CompactRange: %v, want the injected error", err)
	}
	if after := tableFiles(t, fsys); !slices.Equal(before, after) {
		t.Errorf("files before %v, after the failure %v", before, after)
	}
	check()
	if err := db.Close(); !errors.Is(err, mmapfs.ErrInjected) {
		t.Fatalf("Close: %v", err)
	}
	fsys.SetHook(nil)
	db = mustOpen(t, fsys, o)
	check()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// tableFiles lists the table files of the database in /db.
func tableFiles(t *testing.T, fsys mmapfs.FS) []string {
	t.Helper()
	names, err := fsys.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".sst") })
}

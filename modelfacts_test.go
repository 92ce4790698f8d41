package flatrock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// The model test's questions about the database and about files of their own; see TestModel.

// figures asks for what the database tells of itself in numbers.
func (r *modelRun) figures() {
	r.must(r.db.WaitLoaded(context.Background()))
	name, cf := r.family()
	entries, ok := cf.GetIntProperty("rocksdb.num-entries-active-mem-table")
	if !ok {
		r.t.Fatal("no number of entries")
	}
	immutable, _ := cf.GetIntProperty("rocksdb.num-entries-imm-mem-tables")
	count, size, err := cf.GetApproximateMemTableStats(KeyRange{})
	r.must(err)
	// A flush may end between the two, and takes entries away.
	if count > entries+immutable || (count == 0) != (size == 0) {
		r.t.Fatalf("%s: the memtables hold %d entries in %d bytes; the properties say %d and %d", name, count, size, entries, immutable)
	}
	r.must(cf.Flush(context.Background(), nil))
	if count, size, err = cf.GetApproximateMemTableStats(KeyRange{}); err != nil || count != 0 || size != 0 {
		r.t.Fatalf("%s: %d entries in %d bytes after a flush, %v", name, count, size, err)
	}
	if m, ok := cf.GetMapProperty("rocksdb.cfstats"); !ok || len(m) == 0 {
		r.t.Fatalf("%s: cfstats are %v", name, m)
	}
	sum, ok := r.db.GetAggregatedIntProperty("rocksdb.num-snapshots")
	if one, _ := r.db.DefaultColumnFamily().GetIntProperty("rocksdb.num-snapshots"); !ok || one != uint64(len(r.snaps)) || sum != one*uint64(len(r.names)) {
		r.t.Fatalf("%d snapshots, %d in all families; want %d", one, sum, len(r.snaps))
	}
	if o := cf.OptionValues(); o["comparator"] != r.options[name].withDefaults().Comparator.Name() {
		r.t.Fatalf("%s: the comparator is %q", name, o["comparator"])
	}
	if o := r.db.DBOptionValues(); o["allow_ingest_behind"] != fmt.Sprint(r.allowBehind) {
		r.t.Fatalf("allow_ingest_behind is %q", o["allow_ingest_behind"])
	}
	if f, err := r.db.GetCurrentWalFile(); err != nil || f.StartSequence > r.db.visibleSeq.Load()+1 { // an empty one says what comes next
		r.t.Fatalf("the log: %+v, %v", f, err)
	}
	r.db.ResetStats()
}

// sequences walks with Range, Backward and BackwardFrom.
func (r *modelRun) sequences() {
	name, cf := r.family()
	snap, m := r.moment()
	ks := m.sortedKeys(name, r.options[name])
	it, err := cf.NewIterator(&ReadOptions{Snapshot: snap, TotalOrderSeek: true})
	r.must(err)
	start := r.key()
	at, exact := slices.BinarySearchFunc(ks, start, func(k string, start []byte) int { return cf.order.Compare([]byte(k), start) })
	behind := at
	if exact {
		behind++
	}
	back := slices.Clone(ks)
	slices.Reverse(back)
	for what, walk := range map[string]struct {
		seq  func(func(k, v []byte) bool)
		want []string
	}{
		"Range": {it.Range(start), ks[at:]}, "Backward": {it.Backward(), back}, "BackwardFrom": {it.BackwardFrom(start), back[len(ks)-behind:]},
	} {
		n, most := 0, 1+r.rng.IntN(len(ks)+1) // some walks are left early
		for k, v := range walk.seq {
			if n >= len(walk.want) || string(k) != walk.want[n] || string(v) != plainOf(m[name][walk.want[n]]) {
				r.t.Fatalf("%s: %s from %q: key %d of %d is %q = %.40q", name, what, start, n, len(walk.want), k, v)
			}
			if n++; n == most {
				break
			}
		}
		r.must(it.Err())
		if n != min(most, len(walk.want)) {
			r.t.Fatalf("%s: %s from %q: %d keys, want %d", name, what, start, n, len(walk.want))
		}
	}
	r.must(it.Close())
}

// bounded fills a batch that may hold so many bytes, and checks what it holds with 8 bytes of each
// key; what did not fit was not done.
func (r *modelRun) bounded() {
	type limited interface {
		writer
		SetMaxBytes(n int)
	}
	var plain Batch
	indexed := r.db.NewIndexedBatch()
	b, batch := limited(&plain), &plain
	if r.rng.IntN(2) == 0 {
		b, batch = indexed, indexed.Batch()
	}
	r.must(batch.Protect(8 * r.rng.IntN(2)))
	b.SetMaxBytes(100 + r.rng.IntN(400))
	for range 20 {
		now, single, noted := r.now.clone(), maps.Clone(r.single), len(r.noted)
		b.SetSavePoint()
		r.apply(b)
		if batch.err == nil {
			r.must(b.PopSavePoint())
			continue
		}
		if !errors.Is(batch.err, ErrBatchFull) {
			r.t.Fatal(batch.err)
		}
		r.done["full batch"]++
		r.must(b.RollbackToSavePoint())
		r.now, r.single, r.noted = now, single, r.noted[:noted]
	}
	r.write(nil, batch)
}

// fileOf compares what a table file holds, read without the database, with the entries it was made of.
func (r *modelRun) fileOf(cf *ColumnFamily, path string, entries map[string]string) {
	f, err := OpenSstFile(path, &SstFileReaderOptions{FS: r.fs, ColumnFamily: r.options[cf.Name()]})
	r.must(err)
	n := 0
	for e, err := range f.Entries() {
		r.must(err)
		want, ok := entries[string(e.Key)]
		if n++; !ok || want == "-" && e.Kind != EntryDelete || want != "-" && (e.Kind != EntryPut || string(e.Value) != want) {
			r.t.Fatalf("%s: %q is kind %d, %.40q; want %.40q", path, e.Key, e.Kind, e.Value, want)
		}
	}
	if n != len(entries) || f.Properties().NumEntries != uint64(n) {
		r.t.Fatalf("%s: %d entries, %d by its properties; want %d", path, n, f.Properties().NumEntries, len(entries))
	}
	r.must(f.Close())
}

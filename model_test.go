package flatrock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// modelFamilies are the kinds of families that the model test runs side by side.
func modelFamilies() map[string]*ColumnFamilyOptions {
	small := func(o ColumnFamilyOptions) *ColumnFamilyOptions {
		o.WriteBufferSize = 64 << 10
		o.TargetFileSizeBase = 8 << 10
		o.MaxBytesForLevelBase = 24 << 10
		o.MaxBytesForLevelMultiplier = 4
		return &o
	}
	families := map[string]*ColumnFamilyOptions{
		"default": small(ColumnFamilyOptions{
			PrefixExtractor: FixedPrefix(4),
			MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 64},
			Table:           PlainTableOptions{RangeDeletes: On},
		}),
		"resident": small(ColumnFamilyOptions{
			PrefixExtractor: FixedPrefix(2),
			MemTable:        MemTableOptions{Kind: HashLinkList, BucketCount: 16, Threshold: 4},
			Table:           PlainTableOptions{EncodingType: PrefixEncoding, Memory: MemoryResident, IndexSparseness: 3, LoadInBackground: Off, RangeDeletes: On},
			BloomLocality:   1,
		}),
		"total": small(ColumnFamilyOptions{
			Table:    PlainTableOptions{HashTableRatio: TotalOrder, IndexSparseness: 5, StoreIndexInFile: Off, Verify: VerifyAtOpen},
			MemTable: MemTableOptions{Kind: SkipList},
		}),
		"reverse": small(ColumnFamilyOptions{
			Comparator:      ReverseBytewise,
			PrefixExtractor: FixedPrefix(4),
			Table:           PlainTableOptions{RangeDeletes: On, BloomBitsPerKey: NoBloom, Verify: VerifyInBackground, IndexSparseness: IndexEveryRow, ChunkChecksums: Off},
			MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 8},
		}),
		"block": small(ColumnFamilyOptions{
			Table: BlockBasedTableOptions{BlockSize: 256, FilterPolicy: BloomFilter(8), BlockRestartInterval: 3},
		}),
		"blockprefix": small(ColumnFamilyOptions{
			PrefixExtractor: FixedPrefix(3),
			MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 32},
			Compression:     ZSTDCompression,
			Table: BlockBasedTableOptions{BlockSize: 400, IndexType: TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 256,
				FilterPolicy: RibbonFilter(10), DataBlockIndexType: DataBlockBinaryAndHash, CacheIndexAndFilterBlocks: true},
		}),
		"noop": small(ColumnFamilyOptions{
			PrefixExtractor: NoopPrefix(),
			Table:           PlainTableOptions{HashTableRatio: 2, StoreIndexInFile: Off},
			MemTable:        MemTableOptions{Kind: Vector},
		}),
		"blockvector": small(ColumnFamilyOptions{
			Comparator: shortFirst{},
			Table:      BlockBasedTableOptions{BlockSize: 300},
			MemTable:   MemTableOptions{Kind: Vector},
		}),
		"blocklink": small(ColumnFamilyOptions{
			Comparator:      ReverseBytewise,
			PrefixExtractor: CappedPrefix(3),
			Table:           BlockBasedTableOptions{BlockSize: 256, FilterPolicy: BloomFilter(10)},
			MemTable:        MemTableOptions{Kind: HashLinkList, BucketCount: 4, Threshold: 2},
		}),
	}
	for name, o := range families {
		o.MergeOperator = modelMerges[name].operator
	}
	return families
}

// model is what the database should hold: for each family, values by key.
type model map[string]map[string]string

func (m model) clone() model {
	c := model{}
	for name, kv := range m {
		c[name] = maps.Clone(kv)
	}
	return c
}

// sortedKeys are the keys of a family in the order of its comparator.
func (m model) sortedKeys(name string, o *ColumnFamilyOptions) []string {
	compare := o.withDefaults().Comparator.Compare
	return slices.SortedFunc(maps.Keys(m[name]), func(a, b string) int { return compare([]byte(a), []byte(b)) })
}

type modelRun struct {
	t        *testing.T
	rng      *rand.Rand
	fs       *mmapfs.MemFS
	db       *DB
	options  map[string]*ColumnFamilyOptions
	names    []string
	now      model
	single   map[string]bool // family/key pairs that were put exactly once, for SingleDelete
	snaps    []*Snapshot
	then     []model // state at each snapshot
	steps    int
	walModes []WALWriteMode

	deleted     map[string][]KeyRange // all that DeleteRange ever named, by family
	done        map[string]int        // how often something happened that need not
	allowBehind bool

	noted  []string // operations of the batch that is being filled, as update texts
	logged loggedUpdates
}

// TestModel runs random operations against plain maps: writes, batches over
// families, merges, snapshots held across flushes, compactions and reopening, reads of all kinds.
func TestModel(t *testing.T) {
	seeds, steps := 12, 3000
	if testing.Short() {
		seeds, steps = 3, 1200
	}
	runs := make([]modelRun, seeds)
	t.Cleanup(func() { // after the parallel ones
		for _, what := range []string{"dropped", "incomplete", "behind", "updates", "full batch"} {
			happened := slices.ContainsFunc(runs, func(r modelRun) bool { return r.done[what] > 0 })
			all := !slices.ContainsFunc(runs, func(r modelRun) bool { return r.db == nil })
			if all && !happened && !t.Failed() {
				t.Errorf("it never happened: %s", what)
			}
		}
	})
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			r := &runs[seed]
			*r = modelRun{
				t: t, rng: rand.New(rand.NewPCG(uint64(seed), 7)), fs: mmapfs.NewMem(),
				options: modelFamilies(), now: model{}, single: map[string]bool{}, steps: steps,
				deleted: map[string][]KeyRange{}, done: map[string]int{}, allowBehind: seed%3 == 1,
				walModes: []WALWriteMode{WALAuto, WALMapped, WALWrite},
				logged:   loggedUpdates{texts: map[uint64]string{}},
			}
			r.names = slices.Sorted(maps.Keys(r.options))
			for i, n := range r.names {
				r.options[n] = styled(*r.options[n], seed+i)
				if r.allowBehind && r.options[n].NumLevels == 1 {
					r.options[n].NumLevels = 3
				}
			}
			for _, n := range r.names {
				r.now[n] = map[string]string{}
			}
			r.run()
		})
	}
}

func (r *modelRun) open() {
	r.t.Helper()
	o := &Options{
		FS: r.fs, CreateIfMissing: true, CreateMissingColumnFamilies: true,
		WALWriteMode:             r.walModes[r.rng.IntN(len(r.walModes))],
		AvoidFlushDuringRecovery: r.rng.IntN(3) == 0,
		MaxBackgroundJobs:        1 + r.rng.IntN(6),
		MaxSubcompactions:        1 + r.rng.IntN(4),
		AllowIngestBehind:        r.allowBehind,
		AtomicFlush:              Toggle(r.rng.IntN(3)),
		ManualWALFlush:           r.rng.IntN(4) == 0,
		FileChecksumGenFactory:   FileChecksumGenCrc32c,
	}
	went := !r.logged.kept
	if r.logged.kept = r.rng.IntN(2) == 0; r.logged.kept {
		o.WALTTLSeconds = 1 << 30
	}
	for _, n := range r.names {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{n, r.options[n]})
	}
	o.EnablePipelinedWrite = o.AtomicFlush == Off && r.rng.IntN(3) > 0
	if o.ManualWALFlush {
		o.WALWriteMode = WALWrite
	}
	db, err := Open("/db", o)
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	r.db = db
	if went { // logs of before that are gone
		r.logged.from = db.visibleSeq.Load() + 1
	}
}

func (r *modelRun) key() []byte {
	k := []byte(fmt.Sprintf("%c%c%02d", 'a'+r.rng.IntN(3), 'a'+r.rng.IntN(3), r.rng.IntN(6)))
	for range r.rng.IntN(4) {
		k = append(k, byte(r.rng.IntN(256)))
	}
	return k
}

func (r *modelRun) value() []byte {
	n := r.rng.IntN(40)
	if r.rng.IntN(50) == 0 {
		n = r.rng.IntN(9000)
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte('a' + r.rng.IntN(26))
	}
	return v
}

func (r *modelRun) family() (string, *ColumnFamily) {
	n := r.names[r.rng.IntN(len(r.names))]
	return n, r.db.ColumnFamily(n)
}

func (r *modelRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// writer is a Batch or an IndexedBatch.
type writer interface {
	Put(cf *ColumnFamily, key, value []byte)
	PutEntity(cf *ColumnFamily, key []byte, columns []Column)
	Delete(cf *ColumnFamily, key []byte)
	SingleDelete(cf *ColumnFamily, key []byte)
	Merge(cf *ColumnFamily, key, operand []byte)
	DeleteRange(cf *ColumnFamily, start, end []byte)
	PutLogData(blob []byte)
	SetSavePoint()
	RollbackToSavePoint() error
	PopSavePoint() error
}

// columnMark: in the model an entity is its default column, this, and its column "x".
const columnMark = "\x00|column x|\x00"

// plainOf is the value that a reader without columns sees.
func plainOf(v string) string {
	d, _, _ := strings.Cut(v, columnMark)
	return d
}

// columnsOf is the columns that a reader of columns sees.
func columnsOf(v string) string {
	d, x, entity := strings.Cut(v, columnMark)
	if !entity {
		return "=" + d + ";"
	}
	return "=" + d + ";x=" + x + ";"
}

// fill adds n random operations to b and to the model, some of which a save point
// takes back.
func (r *modelRun) fill(b writer, n int) {
	for range n {
		if r.rng.IntN(12) != 0 {
			r.apply(b)
			continue
		}
		now, single, noted := r.now.clone(), maps.Clone(r.single), len(r.noted)
		b.SetSavePoint()
		for range 1 + r.rng.IntN(4) {
			r.apply(b)
		}
		if r.rng.IntN(3) == 0 {
			r.must(b.PopSavePoint())
			continue
		}
		r.must(b.RollbackToSavePoint())
		r.now, r.single, r.noted = now, single, r.noted[:noted]
	}
}

// apply makes one random operation in b and in the model.
func (r *modelRun) apply(b writer) {
	name, cf := r.family()
	k := r.key()
	id := name + "/" + string(k)
	old, exists := r.now[name][string(k)]
	switch op := r.rng.IntN(20); {
	case op == 0:
		v, x := r.value(), r.value()
		b.PutEntity(cf, k, []Column{{Name: []byte("x"), Value: x}, {Value: v}})
		r.now[name][string(k)] = string(v) + columnMark + string(x)
		r.note(cf, EntryWideColumns, k, v, x)
		_, seen := r.single[id]
		r.single[id] = !seen
	case op < 12:
		v := r.value()
		b.Put(cf, k, v)
		r.note(cf, EntryPut, k, v)
		r.now[name][string(k)] = string(v)
		// Only a key that nothing was ever written to may be single-deleted later.
		_, seen := r.single[id]
		r.single[id] = !seen
	case op < 15:
		if r.single[id] && exists {
			b.SingleDelete(cf, k)
			r.note(cf, EntrySingleDelete, k)
			if delete(r.single, id); r.allowBehind {
				r.single[id] = false // what comes from behind is hidden as long as both are there
			}
		} else {
			b.Delete(cf, k)
			r.note(cf, EntryDelete, k)
			r.single[id] = false
		}
		delete(r.now[name], string(k))
	case op < 19:
		v, merge := r.value(), modelMerges[name]
		if merge.counts {
			v = binary.LittleEndian.AppendUint64(nil, r.rng.Uint64())
		}
		b.Merge(cf, k, v)
		r.note(cf, EntryMerge, k, v)
		if d, x, entity := strings.Cut(old, columnMark); entity {
			r.now[name][string(k)] = merge.model(d, true, string(v)) + columnMark + x
		} else {
			r.now[name][string(k)] = merge.model(old, exists, string(v))
		}
		r.single[id] = false
	case cf.takesRangeDeletes():
		end := r.key()
		if r.rng.IntN(4) == 0 {
			end = end[:r.rng.IntN(3)] // need not be a key of the family
		}
		if cf.order.Compare(k, end) > 0 {
			k, end = end, k
		}
		b.DeleteRange(cf, k, end)
		r.note(cf, EntryRangeDelete, k, end)
		r.deleted[name] = append(r.deleted[name], KeyRange{k, end})
		for old := range r.now[name] {
			if cf.order.Compare(k, []byte(old)) <= 0 && cf.order.Compare([]byte(old), end) < 0 {
				delete(r.now[name], old)
				r.single[name+"/"+old] = false
			}
		}
	default:
		b.PutLogData([]byte("a note"))
	}
}

func (r *modelRun) run() {
	r.open()
	for step := range r.steps {
		switch op := r.rng.IntN(100); {
		case op < 10:
			r.indexed()
		case op < 18:
			r.more(step)
		case op < 22:
			r.files(step)
		case op < 55:
			var b Batch
			r.fill(&b, 1+r.rng.IntN(3))
			r.write(&WriteOptions{Sync: r.rng.IntN(20) == 0}, &b)
		case op < 60:
			var b Batch
			r.fill(&b, 100)
			r.write(&WriteOptions{DisableWAL: r.rng.IntN(8) == 0}, &b)
		case op < 75:
			r.checkGets()
		case op < 90:
			r.checkWalk()
		case op < 93:
			s, err := r.db.NewSnapshot()
			r.must(err)
			r.snaps = append(r.snaps, s)
			r.then = append(r.then, r.now.clone())
		case op < 96:
			if n := len(r.snaps); n > 0 {
				i := r.rng.IntN(n)
				r.snaps[i].Release()
				r.snaps = slices.Delete(r.snaps, i, i+1)
				r.then = slices.Delete(r.then, i, i+1)
			}
		case op < 98:
			_, cf := r.family()
			r.must(cf.Flush(context.Background(), nil))
		case op < 99:
			_, cf := r.family()
			r.must(cf.CompactRange(context.Background(), &CompactRangeOptions{BottommostLevelCompaction: BottommostLevelCompaction(r.rng.IntN(4)), ExclusiveManualCompaction: Toggle(r.rng.IntN(3))}, nil, nil))
		default:
			for _, s := range r.snaps {
				s.Release()
			}
			r.snaps, r.then = nil, nil
			if r.rng.IntN(3) == 0 {
				r.must(r.db.CancelAllBackgroundWork(r.rng.IntN(2) == 0))
			}
			r.must(r.db.Close())
			r.open()
			for range 5 {
				r.checkWalk()
			}
		}
		if r.t.Failed() {
			r.t.Fatalf("after step %d", step)
		}
	}
	for _, n := range r.names {
		r.compareAll(n, nil, r.now)
	}
	for i, s := range r.snaps {
		for _, n := range r.names {
			r.compareAll(n, s, r.then[i])
		}
		s.Release()
	}
	r.must(r.db.Close())
	if u := r.db.Metrics(); len(u.Families) == 0 {
		r.t.Error("no metrics after Close")
	}
}

// moment picks the present or a snapshot.
func (r *modelRun) moment() (*Snapshot, model) {
	if n := len(r.snaps); n > 0 && r.rng.IntN(2) == 0 {
		i := r.rng.IntN(n)
		return r.snaps[i], r.then[i]
	}
	return nil, r.now
}

// indexed fills an indexed batch, reads through it before it is committed, and then
// commits it or lets it go. One over a snapshot is let go.
func (r *modelRun) indexed() {
	before, single, noted := r.now, maps.Clone(r.single), len(r.noted)
	snap, under := r.moment()
	r.now = under.clone()
	at := &ReadOptions{Snapshot: snap}
	b := r.db.NewIndexedBatch()
	for range 1 + r.rng.IntN(3) {
		r.fill(b, 1+r.rng.IntN(12))
		name, cf := r.family()
		var e Entity
		var ks [][]byte
		for range 10 {
			ks = append(ks, r.key())
		}
		results, err := b.MultiGet(cf, at, ks, nil)
		r.must(err)
		for i, k := range ks {
			v, ok := r.now[name][string(k)]
			got := &results[i]
			if ok && (got.Err != nil || string(got.Value) != plainOf(v)) || !ok && !errors.Is(got.Err, ErrNotFound) {
				r.t.Fatalf("%s: Get(%q) through a batch = %.40q, %v; want %.40q, %v", name, k, got.Value, got.Err, v, ok)
			}
			err := b.GetEntity(cf, at, k, &e)
			if ok && (err != nil || columnText(e.Columns) != columnsOf(v)) || !ok && !errors.Is(err, ErrNotFound) {
				r.t.Fatalf("%s: GetEntity(%q) through a batch = %.40q, %v; want %.40q, %v", name, k, columnText(e.Columns), err, columnsOf(v), ok)
			}
		}
		r.walk(name, snap, r.now, func(ro *ReadOptions) (*Iterator, error) {
			if r.rng.IntN(2) == 0 {
				return b.NewIterator(cf, ro)
			}
			base, err := cf.NewIterator(ro)
			if err != nil {
				return nil, err
			}
			return b.NewIteratorWithBase(base)
		})
		if r.rng.IntN(3) == 0 {
			r.walk(name, snap, under, cf.NewIterator) // nothing shows without the batch
		}
	}
	if snap != nil || r.rng.IntN(4) == 0 {
		r.now, r.single, r.noted = before, single, r.noted[:noted]
		return
	}
	r.write(nil, b.Batch())
}

func (r *modelRun) checkGets() {
	name, cf := r.family()
	snap, want := r.moment()
	ro := &ReadOptions{Snapshot: snap}
	var keys [][]byte
	for range 1 + r.rng.IntN(70) {
		keys = append(keys, r.key())
	}
	results, err := cf.MultiGet(ro, keys, nil)
	r.must(err)
	var pinned PinnedValue
	var e Entity
	for i, k := range keys {
		v, ok := want[name][string(k)]
		eerr := cf.GetEntity(ro, k, &e)
		if ok && (eerr != nil || columnText(e.Columns) != columnsOf(v)) || !ok && !errors.Is(eerr, ErrNotFound) {
			r.t.Errorf("%s: GetEntity(%q) = %.40q, %v; want %.40q, %v", name, k, columnText(e.Columns), eerr, columnsOf(v), ok)
		}
		v = plainOf(v)
		got, err := cf.Get(ro, k, nil)
		perr := cf.GetPinned(ro, k, &pinned)
		switch {
		case ok && (err != nil || string(got) != v):
			r.t.Errorf("%s: Get(%q) = %.40q, %v; want %.40q\n%s", name, k, got, err, v, entriesOf(cf, k))
		case !ok && !errors.Is(err, ErrNotFound):
			r.t.Errorf("%s: Get(%q) = %.40q, %v; want not found", name, k, got, err)
		case ok && (results[i].Err != nil || string(results[i].Value) != v):
			r.t.Errorf("%s: MultiGet(%q) = %.40q, %v; want %.40q", name, k, results[i].Value, results[i].Err, v)
		case !ok && !errors.Is(results[i].Err, ErrNotFound):
			r.t.Errorf("%s: MultiGet(%q) = %.40q, %v; want not found", name, k, results[i].Value, results[i].Err)
		case ok && (perr != nil || string(pinned.Value()) != v):
			r.t.Errorf("%s: GetPinned(%q) = %.40q, %v; want %.40q", name, k, pinned.Value(), perr, v)
		case !ok && !errors.Is(perr, ErrNotFound):
			r.t.Errorf("%s: GetPinned(%q): %v, want not found", name, k, perr)
		}
		pinned.Release()
	}
}

// checkWalk compares random moves of an iterator with the sorted keys of the model.
func (r *modelRun) checkWalk() {
	name, cf := r.family()
	snap, m := r.moment()
	r.walk(name, snap, m, cf.NewIterator)
}

// walk makes an iterator and compares random moves of it with the keys of m.
func (r *modelRun) walk(name string, snap *Snapshot, m model, open func(*ReadOptions) (*Iterator, error)) {
	o := r.options[name]
	ks := m.sortedKeys(name, o)
	cmp := o.withDefaults().Comparator.Compare
	ro := &ReadOptions{Snapshot: snap, TotalOrderSeek: r.rng.IntN(3) == 0, AutoPrefixMode: r.rng.IntN(3) == 0, PinData: r.rng.IntN(5) == 0, Tailing: r.rng.IntN(5) == 0}
	lo, hi := 0, len(ks)
	if r.rng.IntN(3) == 0 {
		ro.LowerBound = r.key()
		lo = sort.Search(len(ks), func(i int) bool { return cmp([]byte(ks[i]), ro.LowerBound) >= 0 })
	}
	if r.rng.IntN(3) == 0 {
		ro.UpperBound = r.key()
		hi = max(lo, sort.Search(len(ks), func(i int) bool { return cmp([]byte(ks[i]), ro.UpperBound) >= 0 }))
	}
	it, err := open(ro)
	r.must(err)
	defer func() { r.must(it.Close()) }()
	at := -1
	for range 30 {
		var what string
		switch op := r.rng.IntN(8); {
		case op == 0 && r.rng.IntN(5) == 0:
			r.must(it.Refresh(snap))
			continue
		case op == 0:
			what = "First"
			it.First()
			at = lo
		case op == 1:
			what = "Last"
			it.Last()
			at = hi - 1
		case op < 4:
			k := r.key()
			i := sort.Search(len(ks), func(i int) bool { return cmp([]byte(ks[i]), k) >= 0 })
			switch r.rng.IntN(3) {
			case 0:
				what = fmt.Sprintf("SeekGE(%q)", k)
				it.SeekGE(k)
				at = max(i, lo)
			case 1:
				what = fmt.Sprintf("SeekLT(%q)", k)
				it.SeekLT(k)
				at = min(i, hi) - 1
			case 2:
				what = fmt.Sprintf("SeekLE(%q)", k)
				it.SeekLE(k)
				if i < len(ks) && ks[i] == string(k) {
					i++
				}
				at = min(i, hi) - 1
			}
		case op < 7:
			if !it.Valid() {
				continue
			}
			what = "Next"
			it.Next()
			at++
		default:
			if !it.Valid() {
				continue
			}
			what = "Prev"
			it.Prev()
			at--
		}
		if err := it.Err(); err != nil {
			r.t.Fatalf("%s: %s: %v", name, what, err)
		}
		in := at >= lo && at < hi
		if it.Valid() != in {
			r.t.Fatalf("%s: %s: valid %v, want %v (bounds %q %q)", name, what, it.Valid(), in, ro.LowerBound, ro.UpperBound)
		}
		if !in {
			continue
		}
		if string(it.Key()) != ks[at] || string(it.Value()) != plainOf(m[name][ks[at]]) {
			r.t.Fatalf("%s: %s: at %q = %.40q, want %q = %.40q (total order %v, auto prefix %v, tailing %v, pinned %v, bounds %q %q, snapshot %v)\n%s", name, what, it.Key(), it.Value(), ks[at], m[name][ks[at]],
				ro.TotalOrderSeek, ro.AutoPrefixMode, ro.Tailing, ro.PinData, ro.LowerBound, ro.UpperBound, snap != nil, entriesOf(r.db.ColumnFamily(name), []byte(ks[at])))
		}
		if columns, err := it.Columns(nil); err != nil || columnText(columns) != columnsOf(m[name][ks[at]]) {
			r.t.Fatalf("%s: %s: at %q: columns %.40q, %v; want %.40q", name, what, it.Key(), columnText(columns), err, columnsOf(m[name][ks[at]]))
		}
	}
}

func (r *modelRun) compareAll(name string, snap *Snapshot, m model) {
	r.t.Helper()
	it, err := r.db.ColumnFamily(name).NewIterator(&ReadOptions{Snapshot: snap})
	r.must(err)
	ks := m.sortedKeys(name, r.options[name])
	i := 0
	for k, v := range it.All() {
		if i >= len(ks) || !bytes.Equal(k, []byte(ks[i])) || string(v) != plainOf(m[name][ks[i]]) {
			r.t.Fatalf("%s: key %d is %q = %.40q, want %q", name, i, k, v, ks[i:min(i+1, len(ks))])
		}
		i++
	}
	r.must(it.Close())
	if i != len(ks) {
		r.t.Fatalf("%s: %d keys, want %d", name, i, len(ks))
	}
}

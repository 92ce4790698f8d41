package flatrock

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// The model test's operations on files, moments and prefixes; see TestModel.

// more makes one of them.
func (r *modelRun) more(step int) {
	switch op := r.rng.IntN(100); {
	case op < 15:
		r.ingest(step)
	case op < 25:
		if n := len(r.snaps); n > 0 {
			i := r.rng.IntN(n)
			s, err := r.db.SnapshotAt(r.snaps[i].Sequence())
			r.must(err)
			r.snaps, r.then = append(r.snaps, s), append(r.then, r.then[i])
		}
	case op < 28:
		r.copies(step)
	case op < 31:
		r.exports(step)
	case op < 34:
		r.must(r.db.FlushFamilies(context.Background(), &FlushOptions{AllowWriteStall: op == 31}, r.db.ColumnFamilies()...))
	case op < 40:
		r.sequences()
	case op < 45:
		r.bounded()
	case op < 60:
		r.getsOverFamilies()
	case op < 75:
		r.iteratorsAtOneMoment()
	default:
		r.prefixes()
	}
}

// ingest adds a file to each of two families as one, on top of all that they hold.
func (r *modelRun) ingest(step int) {
	var args []IngestExternalFileArg
	added := map[string]map[string]string{}
	for i := range 2 {
		name, cf := r.family()
		if added[name] != nil {
			continue
		}
		entries := map[string]string{}
		for range 1 + r.rng.IntN(30) {
			if k := string(r.key()); r.rng.IntN(6) == 0 {
				entries[k] = "-" // a delete
			} else {
				entries[k] = "file " + string(r.value())
			}
		}
		path := fmt.Sprintf("/external-%d-%d.sst", step, i)
		externalOf(r.t, cf, path, entries)
		r.fileOf(cf, path, entries)
		added[name] = entries
		args = append(args, IngestExternalFileArg{cf, []string{path}, &IngestExternalFileOptions{MoveFiles: r.rng.IntN(2) == 0, WriteGlobalSeqno: r.rng.IntN(3) == 0}})
	}
	r.must(r.db.IngestExternalFiles(context.Background(), args))
	for name, entries := range added {
		for k, v := range entries {
			r.single[name+"/"+k] = false
			if v == "-" {
				delete(r.now[name], k)
			} else {
				r.now[name][k] = v
			}
		}
	}
}

// copies compares a checkpoint with the model.
func (r *modelRun) copies(step int) {
	dir := fmt.Sprintf("/checkpoint-%d", step)
	co := &CheckpointOptions{LogSizeForFlush: uint64(r.rng.IntN(2)) * NeverFlush}
	if r.unlogged() {
		co.LogSizeForFlush = 0 // no log has what DisableWAL wrote
	}
	_, err := r.db.CreateCheckpoint(context.Background(), dir, co)
	r.must(err)
	o := &Options{FS: r.fs, ReadOnly: true}
	for _, n := range r.names {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{n, r.options[n]})
	}
	db, err := Open(dir, o)
	r.must(err)
	r.compareIn(db, r.names[r.rng.IntN(len(r.names))], r.now)
	r.compareIn(db, "default", r.now)
	r.must(db.Close())
}

// exports brings a family to another database and compares it there.
func (r *modelRun) exports(step int) {
	name, cf := r.family()
	dir := fmt.Sprintf("/export-%d", step)
	m, err := r.db.ExportColumnFamily(context.Background(), cf, dir)
	r.must(err)
	other, err := Open(dir+"-db", &Options{FS: r.fs, CreateIfMissing: true})
	r.must(err)
	_, err = other.CreateColumnFamilyWithImport(context.Background(), name+" imported", r.options[name], &ImportColumnFamilyOptions{MoveFiles: r.rng.IntN(2) == 0}, m)
	r.must(err)
	r.compareIn(other, name+" imported", model{name + " imported": r.now[name]})
	r.must(other.Close())
}

// compareIn compares a family of another database with m.
func (r *modelRun) compareIn(db *DB, name string, m model) {
	r.t.Helper()
	it, err := db.ColumnFamily(name).NewIterator(nil)
	r.must(err)
	n := 0
	for k, v := range it.All() {
		if want, ok := m[name][string(k)]; !ok || string(v) != plainOf(want) {
			r.t.Fatalf("%s: the copy has %q = %.40q, want %.40q, %v", name, k, v, want, ok)
		}
		n++
	}
	r.must(errors.Join(it.Err(), it.Close()))
	if n != len(m[name]) {
		r.t.Fatalf("%s: the copy has %d keys, want %d", name, n, len(m[name]))
	}
}

func (r *modelRun) getsOverFamilies() {
	snap, want := r.moment()
	var families []*ColumnFamily
	var names []string
	var ks [][]byte
	for range 1 + r.rng.IntN(60) {
		name, cf := r.family()
		families, names, ks = append(families, cf), append(names, name), append(ks, r.key())
	}
	ro := &ReadOptions{Snapshot: snap}
	results, err := r.db.MultiGetFamilies(ro, families, ks, nil)
	r.must(err)
	for i, k := range ks {
		v, ok := want[names[i]][string(k)]
		if got := results[i]; ok && (got.Err != nil || string(got.Value) != plainOf(v)) || !ok && !errors.Is(got.Err, ErrNotFound) {
			r.t.Fatalf("%s: MultiGet over families of %q = %.40q, %v; want %.40q, %v", names[i], k, got.Value, got.Err, v, ok)
		}
		if value, found, may, err := families[i].KeyMayExist(ro, k, nil); err != nil || ok && !may || found && (!ok || string(value) != plainOf(v)) {
			r.t.Fatalf("%s: KeyMayExist(%q) = %.40q, %v, %v, %v; want %.40q, %v", names[i], k, value, found, may, err, v, ok)
		}
	}
	name, cf := names[0], families[0]
	entities, err := cf.MultiGetEntity(ro, ks, nil)
	r.must(err)
	for i, k := range ks {
		v, ok := want[name][string(k)]
		if got := &entities[i]; ok && (got.Err != nil || columnText(got.Columns) != columnsOf(v)) || !ok && !errors.Is(got.Err, ErrNotFound) {
			r.t.Fatalf("%s: MultiGetEntity of %q = %.40q, %v; want %.40q, %v", name, k, columnText(got.Columns), got.Err, v, ok)
		}
	}
}

// iteratorsAtOneMoment walks iterators that were made together.
func (r *modelRun) iteratorsAtOneMoment() {
	snap, m := r.moment()
	a, one := r.family()
	b, two := r.family()
	open := func(at int) func(*ReadOptions) (*Iterator, error) {
		return func(ro *ReadOptions) (*Iterator, error) {
			its, err := r.db.NewIterators(ro, []*ColumnFamily{one, two})
			if err != nil {
				return nil, err
			}
			return its[at], its[1-at].Close()
		}
	}
	r.walk(a, snap, m, open(0))
	r.walk(b, snap, m, open(1))
}

// prefixes walks over the keys with a prefix of any length, shorter than the extractor's too,
// and seeks with PrefixSameAsStart.
func (r *modelRun) prefixes() {
	name, cf := r.family()
	snap, m := r.moment()
	o := r.options[name]
	if o.Comparator == (shortFirst{}) {
		return // prefixes are no ranges
	}
	ks := m.sortedKeys(name, o)
	it, err := cf.NewIterator(&ReadOptions{Snapshot: snap, AutoPrefixMode: r.rng.IntN(2) == 0, TotalOrderSeek: r.rng.IntN(3) == 0})
	r.must(err)
	for range 4 {
		prefix := string(r.key())
		prefix = prefix[:r.rng.IntN(min(len(prefix), 6)+1)]
		var want []string
		for _, k := range ks {
			if strings.HasPrefix(k, prefix) {
				want = append(want, k)
			}
		}
		n := 0
		for k, v := range it.Prefix([]byte(prefix)) {
			if n >= len(want) || string(k) != want[n] || string(v) != plainOf(m[name][want[n]]) {
				r.t.Fatalf("%s: Prefix(%q): %d keys, then %q = %.40q; want %d keys", name, prefix, n, k, v, len(want))
			}
			n++
		}
		r.must(it.Err())
		if n != len(want) {
			r.t.Fatalf("%s: Prefix(%q): %d keys, want %d", name, prefix, n, len(want))
		}
	}
	r.must(it.Close())

	e := cf.opts.PrefixExtractor
	if e == nil {
		return
	}
	it, err = cf.NewIterator(&ReadOptions{Snapshot: snap, PrefixSameAsStart: true})
	r.must(err)
	cmp := cf.order.Compare
	prefixOf := func(k []byte) string {
		p, ok := e.Prefix(k)
		return fmt.Sprint(string(p), ok)
	}
	for range 6 {
		target := r.key()
		at := sort.Search(len(ks), func(i int) bool { return cmp([]byte(ks[i]), target) >= 0 })
		ok := it.SeekGE(target)
		for range 8 {
			in := at < len(ks) && prefixOf([]byte(ks[at])) == prefixOf(target)
			if ok != in || ok && (string(it.Key()) != ks[at] || string(it.Value()) != plainOf(m[name][ks[at]])) {
				r.t.Fatalf("%s: within the prefix of %q: valid %v, want %v at %d of %d", name, target, ok, in, at, len(ks))
			}
			if !ok {
				break
			}
			ok = it.Next()
			at++
		}
		r.must(it.Err())
	}
	r.must(it.Close())
}

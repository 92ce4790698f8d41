package flatrock

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// The model test's operations on whole files, bounded work and what a database tells of itself;
// see TestModel.

// files makes one of them.
func (r *modelRun) files(step int) {
	switch op := r.rng.IntN(100); {
	case op < 15:
		r.behind(step)
	case op < 30:
		r.dropFiles()
	case op < 60:
		r.skippable()
	case op < 75:
		r.facts()
	case op < 83:
		r.secondary()
	case op < 90:
		r.updates()
	case op < 95:
		r.figures()
	default:
		if r.rng.IntN(2) == 0 {
			r.must(r.db.SyncWAL())
		} else {
			r.must(r.db.FlushWAL(r.rng.IntN(2) == 0))
		}
	}
}

// seen reports whether anything was ever written to a key, by itself or as part of a range.
func (r *modelRun) seen(cf *ColumnFamily, key string) bool {
	if _, ok := r.single[cf.Name()+"/"+key]; ok {
		return true
	}
	for _, x := range r.deleted[cf.Name()] {
		if cf.order.Compare(x.Start, []byte(key)) <= 0 && cf.order.Compare([]byte(key), x.End) < 0 {
			return true
		}
	}
	return false
}

// behind ingests a file below all that a family holds: keys that nothing was written to have a
// value then, at every moment, and the others keep what they have.
func (r *modelRun) behind(step int) {
	name, cf := r.family()
	entries := map[string]string{}
	for range 1 + r.rng.IntN(20) {
		k := string(r.key())
		if _, ok := r.now[name][k]; ok && len(r.snaps) == 0 && r.single[name+"/"+k] || !r.seen(cf, k) {
			entries[k] = "behind " + string(r.value())
		}
	}
	if len(entries) == 0 {
		return
	}
	path := fmt.Sprintf("/behind-%d.sst", step)
	externalOf(r.t, cf, path, entries)
	r.fileOf(cf, path, entries)
	err := cf.IngestExternalFile(context.Background(), []string{path}, &IngestExternalFileOptions{IngestBehind: true})
	if errors.Is(err, ErrInvalidArgument) && (!r.allowBehind || r.fileInLastLevel(cf)) {
		return
	}
	r.must(err)
	if !r.allowBehind {
		r.t.Fatalf("%s: a file was ingested behind without AllowIngestBehind", name)
	}
	r.done["behind"]++
	r.done["behind "+name]++
	for k, v := range entries {
		if r.seen(cf, k) {
			r.single[name+"/"+k] = false
			continue
		}
		for _, m := range append(r.then[:len(r.then):len(r.then)], r.now) {
			m[name][k] = v
		}
		r.single[name+"/"+k] = false
	}
	r.compareAll(name, nil, r.now)
}

// fileInLastLevel reports whether something lies where files are ingested behind.
func (r *modelRun) fileInLastLevel(cf *ColumnFamily) bool {
	m, err := cf.GetColumnFamilyMetaData()
	r.must(err)
	return len(m.Levels) < 2 || len(m.Levels[len(m.Levels)-1].Files) > 0
}

// dropFiles removes whole files. A key keeps all that it has, at every moment, or loses all of it;
// outside the ranges nothing changes.
func (r *modelRun) dropFiles() {
	name, cf := r.family()
	if r.done["behind "+name] > 0 {
		return // a delete may go, and what came behind it stays
	}
	ctx := context.Background()
	r.must(cf.Flush(ctx, nil))
	// Then all of a key is in one file, or in files that go together.
	r.must(cf.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil))
	var ranges []KeyRange
	for range 1 + r.rng.IntN(2) {
		a, b := r.key(), r.key()
		if cf.order.Compare(a, b) > 0 {
			a, b = b, a
		}
		switch r.rng.IntN(6) {
		case 0:
			a = nil
		case 1:
			b = nil
		}
		ranges = append(ranges, KeyRange{a, b})
	}
	includeEnd := r.rng.IntN(2) == 0
	r.must(cf.DeleteFilesInRanges(ranges, includeEnd))
	within := func(k string) bool {
		for _, x := range ranges {
			c := -1
			if x.End != nil {
				c = cf.order.Compare([]byte(k), x.End)
			}
			if (x.Start == nil || cf.order.Compare(x.Start, []byte(k)) <= 0) && (c < 0 || c == 0 && includeEnd) {
				return true
			}
		}
		return false
	}
	moments := append(r.then[:len(r.then):len(r.then)], r.now)
	snaps := append(r.snaps[:len(r.snaps):len(r.snaps)], nil)
	all := map[string]bool{}
	for _, m := range moments {
		for k := range m[name] {
			all[k] = true
		}
	}
	for k := range all {
		if !within(k) {
			continue
		}
		kept, gone := 0, 0
		for i, m := range moments {
			if _, ok := m[name][k]; !ok {
				continue
			}
			if _, err := cf.Get(&ReadOptions{Snapshot: snaps[i]}, []byte(k), nil); err == nil {
				kept++
			} else if gone++; !errors.Is(err, ErrNotFound) {
				r.t.Fatalf("%s: after DeleteFilesInRanges: Get(%q): %v", name, k, err)
			}
		}
		if kept > 0 && gone > 0 {
			r.t.Fatalf("%s: DeleteFilesInRanges: %q is gone at %d moments, and there at %d", name, k, gone, kept)
		}
		if gone > 0 {
			r.done["dropped"]++
			r.single[name+"/"+k] = false
			for _, m := range moments {
				delete(m[name], k)
			}
		}
	}
	for i, m := range moments {
		r.compareAll(name, snaps[i], m)
	}
}

// skippable walks with a limit of hidden entries: a move is right or says that it is incomplete,
// and from any other place the walk goes on.
func (r *modelRun) skippable() {
	name, cf := r.family()
	snap, m := r.moment()
	ks := m.sortedKeys(name, r.options[name])
	it, err := cf.NewIterator(&ReadOptions{Snapshot: snap, TotalOrderSeek: true, MaxSkippableInternalKeys: uint64(1 + r.rng.IntN(6))})
	r.must(err)
	at := -1
	for range 40 {
		var what string
		switch op := r.rng.IntN(8); {
		case op == 0:
			what, at = "First", 0
			it.First()
		case op == 1:
			what, at = "Last", len(ks)-1
			it.Last()
		case op < 4 || !it.Valid():
			k := r.key()
			what = fmt.Sprintf("SeekGE(%q)", k)
			at = sort.Search(len(ks), func(i int) bool { return cf.order.Compare([]byte(ks[i]), k) >= 0 })
			it.SeekGE(k)
		case op < 7:
			what = "Next"
			at++
			it.Next()
		default:
			what = "Prev"
			at--
			it.Prev()
		}
		if err := it.Err(); err != nil {
			if !errors.Is(err, ErrIncomplete) || it.Valid() {
				r.t.Fatalf("%s: %s with a limit: valid %v, %v", name, what, it.Valid(), err)
			}
			r.done["incomplete"]++
			continue
		}
		in := at >= 0 && at < len(ks)
		if it.Valid() != in || in && (string(it.Key()) != ks[at] || string(it.Value()) != plainOf(m[name][ks[at]])) {
			r.t.Fatalf("%s: %s with a limit: valid %v at %q, want %v at %d of %d", name, what, it.Valid(), it.Key(), in, at, len(ks))
		}
	}
	if err := it.Close(); err != nil && !errors.Is(err, ErrIncomplete) {
		r.t.Fatalf("%s: Close: %v", name, err)
	}
}

// facts compares what the database tells of its files with the files, and checks them.
func (r *modelRun) facts() {
	ctx := context.Background()
	r.must(r.db.VerifyChecksum(ctx))
	r.must(r.db.VerifyFileChecksums(ctx))
	r.must(r.db.DisableFileDeletions())
	defer func() { r.must(r.db.EnableFileDeletions()) }()
	names, size, err := r.db.GetLiveFiles()
	r.must(err)
	for _, f := range names {
		info, err := r.fs.Stat(filepath.Join("/db", f))
		r.must(err)
		if strings.Contains(f, "MANIFEST") && info.Size() < size {
			r.t.Fatalf("%s has %d bytes, want at least %d", f, info.Size(), size)
		}
	}
	name, cf := r.family()
	m, err := cf.GetColumnFamilyMetaData()
	r.must(err)
	n := 0
	for _, level := range m.Levels {
		for _, f := range level.Files {
			n++
			if cf.order.Compare(f.SmallestKey, f.LargestKey) > 0 {
				r.t.Fatalf("%s: %s from %q to %q", name, f.Name, f.SmallestKey, f.LargestKey)
			}
		}
	}
	if n != m.FileCount {
		r.t.Fatalf("%s: %d files, and %d in the levels", name, m.FileCount, n)
	}
	sizes, err := cf.GetApproximateSizes(&SizeApproximationOptions{IncludeMemtables: true}, []KeyRange{{nil, nil}})
	r.must(err)
	if len(r.now[name]) > 0 && sizes[0] == 0 {
		r.t.Fatalf("%s: %d keys of about 0 bytes", name, len(r.now[name]))
	}
}

// secondary compares what an instance that follows sees with the model.
func (r *modelRun) secondary() {
	if r.unlogged() {
		return // no log has what DisableWAL wrote
	}
	r.must(r.db.FlushWAL(false))
	o := &Options{FS: r.fs}
	for _, n := range r.names {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{n, r.options[n]})
	}
	db, err := OpenAsSecondary("/db", o)
	r.must(err)
	defer func() { r.must(db.Close()) }()
	r.compareIn(db, "default", r.now)
	for range 2 {
		var b Batch
		r.fill(&b, 20)
		r.write(nil, &b)
		_, cf := r.family()
		if r.rng.IntN(2) == 0 {
			r.must(cf.Flush(context.Background(), nil))
		}
		r.must(r.db.FlushWAL(false))
		r.must(db.TryCatchUpWithPrimary())
		for range 3 {
			r.compareIn(db, r.names[r.rng.IntN(len(r.names))], r.now)
		}
	}
}

// unlogged reports whether a memtable has writes that no log has.
func (r *modelRun) unlogged() bool {
	r.db.mu.Lock()
	defer r.db.mu.Unlock()
	for _, cf := range r.db.families {
		if slices.ContainsFunc(append(cf.immutables[:len(cf.immutables):len(cf.immutables)], cf.active), func(m *memState) bool { return m.unlogged.Load() }) {
			return true
		}
	}
	return false
}

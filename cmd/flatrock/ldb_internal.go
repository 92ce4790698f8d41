package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// internalView is a family as files and logs have it: every version of every key.
// Nothing of the database is opened but these, and nothing is written.
type internalView struct {
	order   keys.Order
	mem     *memtable.MemTable
	tables  []*tableFile
	deletes []table.Tombstone
}

// openInternal reads the MANIFEST, replays the logs and opens the family's files.
func (l *ldb) openInternal() (*internalView, error) {
	s, err := l.state(manifest.RecoverOptions{})
	if err != nil {
		return nil, failedf("%w", err)
	}
	family := s.FamilyNamed(l.family)
	if family == nil {
		return nil, l.noFamily()
	}
	v := &internalView{order: family.Version.Order()}
	if err := v.open(l, s, family); err != nil {
		return nil, failedf("%w", errors.Join(err, v.close()))
	}
	return v, nil
}

func (v *internalView) open(l *ldb, s *manifest.State, family *manifest.ColumnFamily) error {
	if v.order.Custom() {
		return fmt.Errorf("comparator %q is not in this program", family.Comparator)
	}
	if err := v.replay(l, s, family); err != nil {
		return err
	}
	for _, f := range liveFiles(s) {
		if f.family != family {
			continue
		}
		t, err := l.openLive(f.meta)
		if err != nil {
			return err
		}
		v.tables = append(v.tables, t)
		v.deletes = append(v.deletes, t.Tombstones()...)
	}
	return nil
}

func (v *internalView) close() (err error) {
	for _, t := range v.tables {
		err = errors.Join(err, t.Close())
	}
	if v.mem != nil {
		v.mem.Free()
	}
	return err
}

// entries is about how many there are.
func (v *internalView) entries() (n int64) {
	for _, t := range v.tables {
		n += int64(min(t.Properties().NumEntries, 1<<40))
	}
	return n
}

// replay reads what the logs have for the family into a memtable.
func (v *internalView) replay(l *ldb, s *manifest.State, family *manifest.ColumnFamily) error {
	name, err := l.recoveryModeName()
	if err != nil {
		return err
	}
	mode, err := wal.ParseRecoveryMode(name)
	if err != nil {
		return err
	}
	dir := l.text("wal_dir")
	if dir == "" {
		dir = l.dir
	}
	names, err := mmapfs.OS.List(dir)
	if err != nil {
		return err
	}
	var logs []wal.LogFile
	bytes := int64(0)
	for _, name := range names {
		kind, number, ok := manifest.ParseName(name)
		if !ok || kind != manifest.KindLog || number < s.MinLogNumber() {
			continue
		}
		path := filepath.Join(dir, name)
		st, err := mmapfs.OS.Stat(path)
		if err != nil {
			return err
		}
		bytes += st.Size()
		logs = append(logs, wal.LogFile{Number: number, Path: path})
	}
	slices.SortFunc(logs, func(a, b wal.LogFile) int { return int(int64(a.Number - b.Number)) })
	// A compressed log may hold far more than its size: the reserve is address space.
	v.mem, err = memtable.New(memtable.Options{Order: v.order, Kind: memtable.SkipList, Reserve: max(1<<30, 16*bytes)})
	if err != nil {
		return err
	}
	r := wal.NewReplayer(wal.ReplayOptions{FS: mmapfs.OS, Mode: mode, Oldest: s.MinLogNumber(), MaxRecord: l.maxDecompressed, Apply: func(log, seq uint64, op *wal.Op) error {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if op.CF != family.ID || log < family.LogNumber {
			return nil
		}
		if op.Kind == keys.KindRangeDelete {
			v.deletes = append(v.deletes, table.Tombstone{Start: slices.Clone(op.Key), End: slices.Clone(op.Value), Seq: seq})
			return nil
		}
		return v.mem.Add(op.Key, keys.Pack(seq, op.Kind), op.Value, -1, 0)
	}})
	return r.Replay(logs...)
}

// each calls f with the entries of r in internal key order, but for those that a
// range delete covers, which RocksDB leaves out too.
func (v *internalView) each(from []byte, f func(e entry) error) (err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	sources := []table.Iterator{v.mem.NewIterator()}
	for _, t := range v.tables {
		sources = append(sources, t.NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true}))
	}
	it := iterator.NewMerging(v.order, sources...)
	defer func() { err = errors.Join(err, it.Close()) }()
	var covers *rangedel.List
	if len(v.deletes) > 0 {
		covers = rangedel.New(v.order, v.deletes)
	}
	for ok := it.First(); ok; ok = it.Next() {
		key, trailer := it.UserKey(), it.Trailer()
		if from != nil && v.order.Compare(key, from) < 0 || covers != nil && covers.Cover(key, keys.MaxSeq) > keys.Seq(trailer) {
			continue
		}
		if err := f(entry{key, trailer, it.Value()}); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return it.Err()
}

// internalDump prints every version of every key.
func (l *ldb) internalDump() error {
	shownHex := l.keyHex // as in RocksDB, not of --from and --to
	l.keyHex = l.flag("input_key_hex")
	r, err := l.keyRange()
	l.keyHex = shownHex
	if err != nil {
		return err
	}
	if l.flag("stats") { // of the database as it opens, which the rest here does without
		if err := l.withFamily(true, l.statsOf); err != nil {
			return err
		}
	}
	v, err := l.openInternal()
	if err != nil {
		return err
	}
	count, countOnly := l.newPrefixCount(), l.flag("count_only")
	n := int64(0)
	seen, end := l.count(!countOnly, "entries", v.entries())
	err = v.each(r.from, func(e entry) (err error) {
		if r.to != nil && v.order.Compare(e.key, r.to) >= 0 {
			return errStop
		}
		if err := l.ctx.Err(); err != nil {
			return err
		}
		n++
		seen.done.Store(n)
		switch {
		case l.json && !countOnly:
			err = l.jsonFamilyEntry(l.family, e)
		case count != nil:
			err = count.add(e.key, len(e.key)+len(e.value))
		case !countOnly:
			err = l.printInternal(e)
		}
		if err == nil && r.full(n) {
			return errStop
		}
		return err
	})
	end()
	if err = errors.Join(err, v.close()); err != nil {
		return failedf("%w", err)
	}
	switch {
	case l.json && !countOnly:
		return nil
	case l.json:
		return l.jsonValue(map[string]any{"cf": l.family, "entries": n})
	case count != nil:
		return count.flush()
	}
	_, err = fmt.Fprintf(l.out, "Internal keys in range: %d\n", n)
	return err
}

func (l *ldb) printInternal(e entry) error {
	key := cText([]byte(internalKeyText(e, l.keyHex)))
	value, decoded, err := blobText(e, l.flag("decode_blob_index"), l.valueHex)
	switch {
	case err != nil:
		return err
	case decoded:
	case l.valueHex:
		value = upperHex(e.value)
	default:
		value = cText(e.value)
	}
	_, err = fmt.Fprintf(l.out, "%s => %s\n", key, value)
	return err
}

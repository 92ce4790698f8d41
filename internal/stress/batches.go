package stress

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock"
)

// batchWriter is a Batch or an IndexedBatch.
type batchWriter interface {
	Put(cf *flatrock.ColumnFamily, key, value []byte)
	PutEntity(cf *flatrock.ColumnFamily, key []byte, columns []flatrock.Column)
	Delete(cf *flatrock.ColumnFamily, key []byte)
	SingleDelete(cf *flatrock.ColumnFamily, key []byte)
	Merge(cf *flatrock.ColumnFamily, key, operand []byte)
	DeleteRange(cf *flatrock.ColumnFamily, start, end []byte)
	PutLogData(blob []byte)
	SetSavePoint()
	RollbackToSavePoint() error
}

// build makes the batch of a record, which the worker holds the locks of, now and then
// by way of an IndexedBatch that is read before.
func (w *worker) build(r *batchRecord) (*flatrock.Batch, error) {
	if w.rng.IntN(8) > 0 {
		w.batch.Reset()
		err := w.fill(&w.batch, r)
		return &w.batch, err
	}
	b := w.db.NewIndexedBatch()
	if err := w.fill(b, r); err != nil {
		return nil, err
	}
	return b.Batch(), w.checkIndexed(b, r)
}

// fill adds a record's entries and, in between, the worker's counter for each family.
func (w *worker) fill(b batchWriter, r *batchRecord) error {
	rollback := -1
	if w.rng.IntN(10) == 0 { // something that is taken back before it is written
		rollback = w.rng.IntN(len(r.entries))
	}
	counter := binary.LittleEndian.AppendUint64(nil, r.number)
	counted := make([]bool, len(w.specs))
	for i, e := range r.entries {
		cf, s := w.families[e.family], &w.specs[e.family]
		name := s.keys.key(e.key)
		if i == rollback {
			b.SetSavePoint()
			b.Put(cf, name, []byte("taken back"))
			b.Delete(cf, s.keys.key(0))
			if err := b.RollbackToSavePoint(); err != nil {
				return err
			}
		}
		switch e.kind {
		case putEntry:
			b.Put(cf, name, appendValue(nil, e.id))
		case entityEntry:
			b.PutEntity(cf, name, appendColumns(nil, e.id))
		case deleteEntry:
			b.Delete(cf, name)
		case singleDeleteEntry:
			b.SingleDelete(cf, name)
		case mergeEntry:
			b.Merge(cf, name, binary.LittleEndian.AppendUint64(nil, e.id))
		case rangeEntry:
			start, end := rangeOf(s.keys, s.reverse, e.key, e.end)
			b.DeleteRange(cf, start, end)
		}
		if !counted[e.family] {
			counted[e.family] = true
			b.Put(cf, counterKey(w.id), counter)
		}
	}
	if w.rng.IntN(20) == 0 {
		b.PutLogData(counter)
	}
	return nil
}

// checkIndexed reads the keys of a batch through it: each has what the batch makes of
// what it has now, which nobody else changes meanwhile.
func (w *worker) checkIndexed(b *flatrock.IndexedBatch, r *batchRecord) error {
	type place struct{ family, key int }
	want := map[place]uint64{}
	for _, e := range r.entries {
		end := e.key + 1
		if e.kind == rangeEntry {
			end = e.end
		}
		for k := e.key; k < end; k++ {
			id, known := want[place{e.family, k}]
			if !known {
				id = w.h.keys[e.family][k].current()
			}
			want[place{e.family, k}] = change{kind: e.kind, id: e.id}.apply(id)
		}
	}
	for p, id := range want {
		w.stats.Checks.Add(1)
		cf, name := w.families[p.family], w.specs[p.family].keys.key(p.key)
		var err error
		if p.key%2 == 0 {
			var v []byte
			if v, err = b.Get(cf, nil, name, nil); err == nil || errors.Is(err, flatrock.ErrNotFound) {
				err = sameValue(id, v, err == nil)
			}
		} else {
			err = checkIndexedIterator(b, cf, name, id)
		}
		if err != nil {
			return fmt.Errorf("indexed batch %d, family %d, key %d %q: %w", r.number, p.family, p.key, name, err)
		}
	}
	return nil
}

// checkIndexedIterator looks for a key by an iterator over the batch and the database.
func checkIndexedIterator(b *flatrock.IndexedBatch, cf *flatrock.ColumnFamily, name []byte, id uint64) error {
	it, err := b.NewIterator(cf, nil)
	if err != nil {
		return err
	}
	found := it.SeekGE(name) && string(it.Key()) == string(name)
	err = it.Err()
	if err == nil {
		var v []byte
		if found {
			v = it.Value()
		}
		err = sameValue(id, v, found)
	}
	if err == nil && found {
		var columns []flatrock.Column
		if columns, err = it.Columns(nil); err == nil {
			err = sameColumns(id, columns)
		}
	}
	return errors.Join(err, it.Close())
}

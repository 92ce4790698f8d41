package stress

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/entity"
)

// updates walks some batches of the log from now on: without a gap, and each is what a
// worker wrote.
func (w *worker) updates() error {
	if w.opts.noWAL {
		return nil
	}
	s, err := w.take()
	if err != nil {
		return err
	}
	seq := s.snap.Sequence()
	s.snap.Release()
	if err := w.write(); err != nil || seq == 0 {
		return err
	}
	it, err := w.db.GetUpdatesSince(seq + 1)
	if err != nil {
		return noGap(err)
	}
	next := seq + 1
	for n := 0; n < 50 && it.Valid() && err == nil; n++ {
		b := it.Batch()
		if b.Sequence != next && (n > 0 || b.Sequence > next) {
			err = fmt.Errorf("batch %d begins at %d, want %d", n, b.Sequence, next)
			break
		}
		if next = b.Sequence + uint64(b.Count); b.Sequence > seq { // else it began before the moment, and may before the generation
			err = w.checkUpdate(b)
		}
		it.Next()
	}
	if err == nil {
		err = it.Err()
	}
	if err = noGap(errors.Join(err, it.Close())); err != nil {
		return fmt.Errorf("updates since %d: %w", seq+1, err)
	}
	return nil
}

// checkUpdate compares the batches that one of the log is made of with those that workers wrote.
func (w *worker) checkUpdate(b *flatrock.UpdateBatch) error {
	byID := map[uint32]int{}
	for f, cf := range w.families {
		byID[cf.ID()] = f
	}
	var all []flatrock.Update // of the families that stay
	count := 0
	for u, err := range b.Updates() {
		if err != nil {
			return err
		}
		count++
		if _, ok := byID[u.ColumnFamilyID]; ok {
			all = append(all, u)
		}
	}
	if count != b.Count {
		return fmt.Errorf("batch %d has %d operations, and says %d", b.Sequence, count, b.Count)
	}
	for len(all) > 0 {
		// The second operation of a batch is the counter of its worker in the family of the first.
		var worker int
		if len(all) < 2 || len(all[1].Value) != 8 {
			return fmt.Errorf("batch %d: no counter follows key %q", b.Sequence, all[0].Key)
		}
		if _, err := fmt.Sscanf(string(all[1].Key), "~~%06d", &worker); err != nil || worker >= w.h.Workers {
			return fmt.Errorf("batch %d: %q is no counter", b.Sequence, all[1].Key)
		}
		r := w.h.numbered(worker, binary.LittleEndian.Uint64(all[1].Value))
		if r == nil {
			return fmt.Errorf("batch %d is number %d of worker %d, which is none", b.Sequence, binary.LittleEndian.Uint64(all[1].Value), worker)
		}
		n, err := w.sameUpdates(r, all, byID)
		if err != nil {
			return fmt.Errorf("batch %d, of worker %d: %w", r.number, worker, err)
		}
		all = all[n:]
		w.stats.Checks.Add(1)
	}
	return nil
}

// numbered is a batch of this generation, nil if there is none.
func (h *history) numbered(worker int, number uint64) *batchRecord {
	l := &h.logs[worker]
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < l.first || number-l.first >= uint64(len(l.batches)) {
		return nil
	}
	return l.batches[number-l.first]
}

// sameUpdates compares a batch with the operations that it must have become, the first of
// all, and returns how many those are.
func (w *worker) sameUpdates(r *batchRecord, all []flatrock.Update, byID map[uint32]int) (int, error) {
	n := 0
	next := func(family int, kind flatrock.EntryKind, key, value []byte) error {
		if n == len(all) {
			return fmt.Errorf("it ends after %d operations", n)
		}
		u := &all[n]
		n++
		if byID[u.ColumnFamilyID] != family || u.Kind != kind || string(u.Key) != string(key) || string(u.Value) != string(value) {
			return fmt.Errorf("operation %d is kind %d of family %d, key %q and %d bytes; want kind %d of family %d, key %q and %d bytes",
				n-1, u.Kind, byID[u.ColumnFamilyID], u.Key, len(u.Value), kind, family, key, len(value))
		}
		return nil
	}
	counted := make([]bool, len(w.specs))
	for _, e := range r.entries {
		kind, value, s := flatrock.EntryPut, []byte(nil), &w.specs[e.family]
		name := s.keys.key(e.key)
		switch e.kind {
		case putEntry:
			value = appendValue(nil, e.id)
		case entityEntry:
			kind = flatrock.EntryWideColumns
			var err error
			if value, err = entity.Append(nil, appendColumns(nil, e.id)); err != nil {
				return n, err
			}
		case deleteEntry:
			kind = flatrock.EntryDelete
		case singleDeleteEntry:
			kind = flatrock.EntrySingleDelete
		case mergeEntry:
			kind, value = flatrock.EntryMerge, binary.LittleEndian.AppendUint64(nil, e.id)
		case rangeEntry:
			kind = flatrock.EntryRangeDelete
			name, value = rangeOf(s.keys, s.reverse, e.key, e.end)
		}
		if err := next(e.family, kind, name, value); err != nil {
			return n, err
		}
		if !counted[e.family] {
			counted[e.family] = true
			if err := next(e.family, flatrock.EntryPut, counterKey(r.worker), binary.LittleEndian.AppendUint64(nil, r.number)); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// noGap lets pass that a log was deleted once its writes were flushed, and that what
// was ingested is in none.
func noGap(err error) error {
	if gap := (*flatrock.UpdatesGapError)(nil); errors.As(err, &gap) {
		return nil
	}
	return err
}

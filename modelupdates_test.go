package flatrock

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/entity"
)

// The model test's walks over the logs; see TestModel.

// loggedUpdates is what the logs hold, and what GetUpdatesSince must give.
type loggedUpdates struct {
	texts map[uint64]string // by sequence number
	from  uint64            // the first number of which all that follow are in logs
	kept  bool              // in this opening: obsolete logs stay
}

// updateText is an update as the model remembers it.
func updateText(family uint32, kind EntryKind, key, value []byte) string {
	return fmt.Sprintf("%d %d %q %q", family, kind, key, value)
}

// note remembers an operation that was put into a batch. An entity has two values, its default column and
// its column x.
func (r *modelRun) note(cf *ColumnFamily, kind EntryKind, key []byte, values ...[]byte) {
	value := bytes.Join(values, nil)
	if kind == EntryWideColumns {
		var err error
		value, err = entity.Append(nil, []entity.Column{{Value: values[0]}, {Name: []byte("x"), Value: values[1]}})
		r.must(err)
	}
	r.noted = append(r.noted, updateText(cf.ID(), kind, key, value))
}

// write commits a batch of the operations that were noted.
func (r *modelRun) write(wo *WriteOptions, b *Batch) {
	first := r.db.visibleSeq.Load() + 1
	r.must(r.db.Write(wo, b))
	last := r.db.visibleSeq.Load()
	if last+1-first != uint64(len(r.noted)) {
		r.t.Fatalf("%d operations took the sequence numbers %d to %d", len(r.noted), first, last)
	}
	for i, text := range r.noted {
		r.logged.texts[first+uint64(i)] = text
	}
	r.noted = r.noted[:0]
	if wo != nil && wo.DisableWAL {
		r.logged.from = last + 1
	}
}

// updates walks over the logs from a number on that they should have, and compares each operation. What was
// ingested is in no log, and logs that are not kept go when all in them is in files.
func (r *modelRun) updates() {
	r.must(r.db.FlushWAL(false))
	newest := r.db.visibleSeq.Load()
	for seq := newest; seq >= r.logged.from && seq > 0; seq-- {
		if r.logged.texts[seq] == "" { // a number that an ingestion took
			r.logged.from = seq + 1
		}
	}
	if r.logged.from > newest {
		return
	}
	next := r.logged.from + r.rng.Uint64N(newest+1-r.logged.from)
	it, err := r.db.GetUpdatesSince(next)
	if gap := new(UpdatesGapError); errors.As(err, &gap) && !r.logged.kept {
		return
	}
	r.must(err)
	for first := true; it.Valid(); first = false {
		b := it.Batch()
		if b.Sequence != next && !(first && b.Sequence < next && b.Sequence+uint64(b.Count) > next) {
			r.t.Fatalf("the batch with number %d has those from %d on, %d of them", next, b.Sequence, b.Count)
		}
		next = b.Sequence
		if again, err := r.db.LoadBatch(b.Data); err != nil || again.Count() != b.Count {
			r.t.Fatalf("batch %d loaded again: %v, want %d operations", b.Sequence, err, b.Count)
		}
		for u, err := range b.Updates() {
			r.must(err)
			if got := updateText(u.ColumnFamilyID, u.Kind, u.Key, u.Value); u.Sequence != next || got != r.logged.texts[next] {
				r.t.Fatalf("update %d is number %d: %.100s, want %.100s", u.Sequence, next, got, r.logged.texts[next])
			}
			next++
		}
		if next != b.Sequence+uint64(b.Count) {
			r.t.Fatalf("batch %d says that it has %d operations, and has %d", b.Sequence, b.Count, next-b.Sequence)
		}
		it.Next()
	}
	r.must(errors.Join(it.Err(), it.Close()))
	if next != newest+1 {
		r.t.Fatalf("the walk over the logs ends before number %d, want %d", next, newest+1)
	}
	r.done["updates"]++
}

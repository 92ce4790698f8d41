package flatrock

import (
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/entity"
)

// NewIterators returns an iterator over each of the families, all of them at the same
// moment, so that a batch over several families shows in all or in none. After an
// error none is open. RocksDB: NewIterators.
func (db *DB) NewIterators(ro *ReadOptions, families []*ColumnFamily) ([]*Iterator, error) {
	o, end, err := db.atOneMoment(ro)
	if err != nil {
		return nil, err
	}
	defer end()
	var its []*Iterator
	for _, cf := range families {
		var it *Iterator
		cf, err := db.own(cf)
		if err == nil {
			it, err = cf.NewIterator(o)
		}
		if err != nil {
			for _, it := range its {
				err = errors.Join(err, it.Close())
			}
			return nil, err
		}
		it.in.ro.Snapshot = nil // nothing of it is needed any more
		if ro != nil {
			it.in.ro.Snapshot, it.in.tail = ro.Snapshot, ro.Tailing && ro.Snapshot == nil
		}
		its = append(its, it)
	}
	return its, nil
}

// Refresh moves the iterator to the newest state of its family, or to a snapshot if s
// is not nil, as if it was made anew with the same options. It is not positioned
// afterwards. Iterators over a file without a database refuse it with
// ErrNotSupported. RocksDB: Refresh.
func (it *Iterator) Refresh(s *Snapshot) error {
	in := it.in
	if in == nil {
		return ErrClosed
	}
	if in.cf == nil {
		return fmt.Errorf("%w: Refresh of an iterator over a file", ErrNotSupported)
	}
	in.ro.Snapshot = s
	in.tail = in.ro.Tailing && s == nil
	in.seq = 0 // whatever it was, begin anew: the position goes
	in.err = in.renew(&in.ro)
	return in.err
}

// renew begins anew with the newest read state, unless nothing was written since.
func (it *iteratorState) renew(ro *ReadOptions) error {
	cf := it.cf
	if ro.Snapshot == nil && it.seq == cf.db.visibleSeq.Load() && it.state == cf.state.Load() {
		return nil
	}
	s, reader, seq, err := cf.enterAt(ro)
	if err != nil {
		return err
	}
	err = it.user.Close()
	clear(it.levels)
	it.state.release(it.reader)
	it.state, it.reader, it.seq, it.guarded = s, reader, seq, s.files.faultable
	if err != nil {
		return err
	}
	return it.open(cf, ro)
}

// Columns appends the columns of the current entry to dst: those of a wide-column
// entity in the order of their names, or of a plain value one without a name. They
// are valid as long as Key. The iterator must be valid.
func (it *Iterator) Columns(dst []Column) ([]Column, error) {
	in := it.in
	switch {
	case !in.guarded && !in.pinned:
		return in.user.Columns(dst)
	case in.entity != nil:
		return entity.Decode(dst, in.entity)
	}
	return append(dst, Column{Value: in.value}), nil
}

// pin copies the current key and value to where they stay until Close.
func (it *iteratorState) pin() bool {
	it.key, it.value, it.entity = it.pins.add(it.user.Key()), it.pins.add(it.user.Value()), nil
	if stored, ok := it.user.Entity(); ok {
		it.entity = it.pins.add(stored)
	}
	return true
}

// pinnedBytes is memory that grows without moving what is in it.
type pinnedBytes struct{ chunk []byte }

const pinChunk = 16 << 10

func (p *pinnedBytes) add(b []byte) []byte {
	if cap(p.chunk)-len(p.chunk) < len(b) {
		p.chunk = make([]byte, 0, max(pinChunk, len(b)))
	}
	n := len(p.chunk)
	p.chunk = append(p.chunk, b...)
	return p.chunk[n:len(p.chunk):len(p.chunk)]
}

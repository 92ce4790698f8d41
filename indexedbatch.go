package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// IndexedBatch is a Batch that can be read before it is committed: reads see its
// operations over what the database holds, merges and range deletes included.
// Make one with DB.NewIndexedBatch, and commit it with DB.Write of its Batch. A
// column family of nil means the default one. Not safe for concurrent use.
// RocksDB: WriteBatchWithIndex.
type IndexedBatch struct {
	db    *DB
	batch Batch
	index map[uint32]*batchIndex
	ops   uint64 // counting operations so far
}

// NewIndexedBatch returns an empty batch that reads through to db.
func (db *DB) NewIndexedBatch() *IndexedBatch {
	return &IndexedBatch{db: db, index: map[uint32]*batchIndex{}}
}

// Batch is what to write. It must not be added to but through b, and not be used
// after Reset.
func (b *IndexedBatch) Batch() *Batch { return &b.batch }

// Reset empties b and keeps some of its memory. Iterators over b must be closed
// before.
func (b *IndexedBatch) Reset() {
	b.batch.Reset()
	clear(b.index)
	b.ops = 0
}

// Count is the number of operations, Err why Write would refuse the batch.
func (b *IndexedBatch) Count() int { return b.batch.Count() }

// Err is why Write would refuse the batch; see Batch.Err.
func (b *IndexedBatch) Err() error { return b.batch.err }

// SetMaxBytes is Batch.SetMaxBytes.
func (b *IndexedBatch) SetMaxBytes(n int) { b.batch.SetMaxBytes(n) }

// Put sets key to value.
func (b *IndexedBatch) Put(cf *ColumnFamily, key, value []byte) {
	cf = b.family(cf)
	b.batch.Put(cf, key, value)
	b.note(cf)
}

// PutEntity sets key to a wide-column entity; see DB.PutEntity.
func (b *IndexedBatch) PutEntity(cf *ColumnFamily, key []byte, columns []Column) {
	cf = b.family(cf)
	b.batch.PutEntity(cf, key, columns)
	b.note(cf)
}

// Delete removes key.
func (b *IndexedBatch) Delete(cf *ColumnFamily, key []byte) {
	cf = b.family(cf)
	b.batch.Delete(cf, key)
	b.note(cf)
}

// SingleDelete removes a key that was written exactly once; see DB.SingleDelete.
func (b *IndexedBatch) SingleDelete(cf *ColumnFamily, key []byte) {
	cf = b.family(cf)
	b.batch.SingleDelete(cf, key)
	b.note(cf)
}

// Merge adds an operand for key.
func (b *IndexedBatch) Merge(cf *ColumnFamily, key, operand []byte) {
	cf = b.family(cf)
	b.batch.Merge(cf, key, operand)
	b.note(cf)
}

// DeleteRange removes the keys from start up to but not including end, those that b
// itself has put before included.
func (b *IndexedBatch) DeleteRange(cf *ColumnFamily, start, end []byte) {
	cf = b.family(cf)
	b.batch.DeleteRange(cf, start, end)
	b.note(cf)
}

// PutLogData is Batch.PutLogData.
func (b *IndexedBatch) PutLogData(blob []byte) { b.batch.PutLogData(blob) }

// SetSavePoint is Batch.SetSavePoint.
func (b *IndexedBatch) SetSavePoint() { b.batch.SetSavePoint() }

// PopSavePoint is Batch.PopSavePoint.
func (b *IndexedBatch) PopSavePoint() error { return b.batch.PopSavePoint() }

// RollbackToSavePoint is Batch.RollbackToSavePoint. Iterators over b must be closed
// before. It costs as much as adding again what is left.
func (b *IndexedBatch) RollbackToSavePoint() error {
	if err := b.batch.RollbackToSavePoint(); err != nil {
		return err
	}
	clear(b.index)
	b.ops = 0
	var op wal.Op
	for d := wal.Decode(b.batch.rep.Bytes()); d.Next(&op); {
		if op.Counts() {
			cf := b.db.byID.Load().byID[op.CF]
			if cf == nil { // dropped meanwhile: Write will say so
				b.ops++
				continue
			}
			b.add(cf, &op)
		}
	}
	return nil
}

func (b *IndexedBatch) family(cf *ColumnFamily) *ColumnFamily {
	if cf == nil {
		return b.db.defaultCF
	}
	return cf
}

// note indexes the operation that was added last, if it was.
func (b *IndexedBatch) note(cf *ColumnFamily) {
	if b.batch.err != nil {
		return
	}
	var op wal.Op
	if b.batch.rep.Last(&op) {
		b.add(cf, &op)
	}
}

func (b *IndexedBatch) add(cf *ColumnFamily, op *wal.Op) {
	x := b.indexOf(cf)
	seq := overlaySeq + b.ops
	b.ops++
	if op.Kind == keys.KindRangeDelete {
		x.tombs.Add(op.Key, op.Value, seq)
		return
	}
	x.add(op.Key, keys.Pack(seq, op.Kind), op.Value)
}

func (b *IndexedBatch) indexOf(cf *ColumnFamily) *batchIndex {
	x := b.index[cf.id]
	if x == nil {
		x = newBatchIndex(cf.order, cf.opts.PrefixExtractor)
		b.index[cf.id] = x
	}
	return x
}

// overlaid is a read state under an indexed batch.
type overlaid struct {
	x   *batchIndex
	s   *readState
	seq uint64 // what may be seen of s
}

// find is readState.find, with the batch's entries above all others.
func (o *overlaid) find(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	if look.Seq >= overlaySeq {
		if value, trailer, ok = o.x.get(look); ok {
			if isDelete(keys.KindOf(trailer)) {
				return nil, 0, false, nil
			}
			return value, trailer, true, nil
		}
	}
	look.Seq = min(look.Seq, o.seq)
	return o.s.find(look, pin)
}

// read runs f on what a read of the family sees.
func (b *IndexedBatch) read(cf *ColumnFamily, ro *ReadOptions, f func(*overlaid) error) (err error) {
	if cf.db != b.db {
		return fmt.Errorf("%w: column family %q belongs to another database", ErrInvalidArgument, cf.name)
	}
	s, reader, seq, err := cf.enterAt(ro)
	if err != nil {
		return err
	}
	defer s.release(reader)
	if s.files.faultable {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	return f(&overlaid{b.indexOf(cf), s, seq})
}

// Get appends the value of key, as it would be if b was committed, to dst.
// ErrNotFound says that it would have none. RocksDB: GetFromBatchAndDB.
func (b *IndexedBatch) Get(cf *ColumnFamily, ro *ReadOptions, key, dst []byte) ([]byte, error) {
	cf = b.family(cf)
	err := b.read(cf, ro, func(o *overlaid) (err error) {
		look := keys.Lookup{UserKey: key, Seq: keys.MaxSeq}
		ro.apply(&look)
		cf.opts.PrefixExtractor.Prepare(&look)
		var pin table.Pin
		value, trailer, ok, err := o.find(&look, &pin)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFound
		}
		defer pin.Release()
		if keys.KindOf(trailer) != keys.KindMerge {
			dst, err = o.s.appendValue(dst, &look, value, trailer)
			return err
		}
		in, err := o.s.mergeInput(o.find, look, value, trailer)
		if err != nil {
			return err
		}
		dst, err = in.appendTo(dst, cf, key)
		return err
	})
	return dst, err
}

// GetEntity reads the columns of key, as they would be if b was committed.
func (b *IndexedBatch) GetEntity(cf *ColumnFamily, ro *ReadOptions, key []byte, e *Entity) error {
	e.Columns = e.Columns[:0]
	return b.read(b.family(cf), ro, func(o *overlaid) error {
		return o.s.getEntity(o.find, ro, keys.MaxSeq, key, e)
	})
}

// MultiGet is Get of many keys at one moment; see DB.MultiGet for results.
func (b *IndexedBatch) MultiGet(cf *ColumnFamily, ro *ReadOptions, userKeys [][]byte, results []GetResult) ([]GetResult, error) {
	if n := len(userKeys); n <= cap(results) {
		results = results[:n]
	} else {
		results = append(results[:cap(results)], make([]GetResult, n-cap(results))...)
	}
	var o ReadOptions
	if ro != nil {
		o = *ro
	}
	if o.Snapshot == nil {
		s, err := b.db.NewSnapshot()
		if err != nil {
			return results[:0], err
		}
		defer s.Release()
		o.Snapshot = s
	}
	for i, k := range userKeys {
		results[i].Value, results[i].Err = b.Get(cf, &o, k, results[i].Value[:0])
	}
	return results, nil
}

// NewIterator returns an iterator over what the family would hold if b was committed.
// What is added to b meanwhile may show or not. Close it before b is reset or
// rolled back, and before the database.
func (b *IndexedBatch) NewIterator(cf *ColumnFamily, ro *ReadOptions) (*Iterator, error) {
	base, err := b.family(cf).NewIterator(ro)
	if err != nil {
		return nil, err
	}
	return b.NewIteratorWithBase(base)
}

// NewIteratorWithBase lays b over base, an iterator of b's database, which it takes
// over: base shows what both hold together, at the moment and within the bounds that
// it was made with, and is returned. After an error base is closed. RocksDB:
// NewIteratorWithBase.
func (b *IndexedBatch) NewIteratorWithBase(base *Iterator) (*Iterator, error) {
	in := base.in
	if in == nil {
		return nil, ErrClosed
	}
	if in.cf == nil || in.cf.db != b.db {
		base.Close()
		return nil, fmt.Errorf("%w: the base iterator is not of the batch's database", ErrInvalidArgument)
	}
	if err := in.lay(b.indexOf(in.cf)); err != nil {
		base.Close()
		return nil, err
	}
	return base, nil
}

// lay opens the iterator again, at the same moment, with x on top.
func (it *iteratorState) lay(x *batchIndex) error {
	if err := it.user.Close(); err != nil {
		return err
	}
	clear(it.levels)
	it.overlay = x
	return it.open(it.cf, &it.ro)
}

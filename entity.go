package flatrock

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Column is one named value of a wide-column entity. The column without a name is the
// default one: what Get shows of an entity, and all that a plain value has. Its fields are Name and Value, both []byte.
type Column = entity.Column

// Entity is what GetEntity reads: the columns of a key in the order of their names. It
// keeps its memory for the next read. The zero value is ready to use.
type Entity struct {
	// Columns are valid until the next read into the Entity.
	Columns []Column
	own     []byte
}

// Column returns the value of the column of that name; ok is false if there is none.
func (e *Entity) Column(name string) (value []byte, ok bool) {
	for i := range e.Columns {
		if string(e.Columns[i].Name) == name {
			return e.Columns[i].Value, true
		}
	}
	return nil, false
}

// PutEntity sets key to a wide-column entity, replacing all columns that it had.
// Columns may come in any order; two of one name are refused. RocksDB: PutEntity.
func (db *DB) PutEntity(wo *WriteOptions, key []byte, columns []Column) error {
	return db.defaultCF.PutEntity(wo, key, columns)
}

// PutEntity is DB.PutEntity for this column family.
func (cf *ColumnFamily) PutEntity(wo *WriteOptions, key []byte, columns []Column) error {
	return cf.writeOne(wo, func(b *Batch) { b.PutEntity(cf, key, columns) })
}

// PutEntity sets key to a wide-column entity; see DB.PutEntity.
func (b *Batch) PutEntity(cf *ColumnFamily, key []byte, columns []Column) {
	if b.err != nil {
		return
	}
	stored, err := encodeEntity(columns)
	if err != nil {
		b.err = fmt.Errorf("%w: PutEntity of key %q: %w", ErrInvalidArgument, key, err)
		return
	}
	b.kind = keys.KindEntity
	if u := b.account(cf, key, stored); u != nil {
		b.done(u, b.rep.PutEntity(familyID(cf), key, stored))
	}
}

func encodeEntity(columns []Column) ([]byte, error) {
	byName := func(a, b Column) int { return bytes.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(columns, byName) {
		columns = slices.Clone(columns)
		slices.SortFunc(columns, byName)
	}
	return entity.Append(nil, columns)
}

// GetEntity reads the columns of key into e: those of a wide-column entity, or of a
// plain value one without a name. ErrNotFound says that the key has no value.
// Merge operands change the default column. RocksDB: GetEntity.
func (db *DB) GetEntity(ro *ReadOptions, key []byte, e *Entity) error {
	return db.defaultCF.GetEntity(ro, key, e)
}

// GetEntity is DB.GetEntity for this column family.
func (cf *ColumnFamily) GetEntity(ro *ReadOptions, key []byte, e *Entity) error {
	e.Columns = e.Columns[:0]
	s, reader, err := cf.enter()
	if err != nil {
		return err
	}
	defer s.release(reader)
	return s.getEntity(s.find, ro, cf.readSeq(ro), key, e)
}

// EntityResult is the outcome of one key of a MultiGetEntity.
type EntityResult struct {
	Entity
	// Err is nil, ErrNotFound, or what went wrong with this key.
	Err error
}

// MultiGetEntity reads the columns of many keys at one moment. The result for keys[i]
// is results[i]; results and the memory in it are used again. The error is about
// the call as a whole. RocksDB: MultiGetEntity.
func (db *DB) MultiGetEntity(ro *ReadOptions, keys [][]byte, results []EntityResult) ([]EntityResult, error) {
	return db.defaultCF.MultiGetEntity(ro, keys, results)
}

// MultiGetEntity is DB.MultiGetEntity for this column family.
func (cf *ColumnFamily) MultiGetEntity(ro *ReadOptions, keys [][]byte, results []EntityResult) ([]EntityResult, error) {
	if n := len(keys); n <= cap(results) {
		results = results[:n]
	} else {
		results = append(results[:cap(results)], make([]EntityResult, n-cap(results))...)
	}
	s, reader, seq, err := cf.enterAt(ro)
	if err != nil {
		return results[:0], err
	}
	defer s.release(reader)
	for i, k := range keys {
		results[i].Columns = results[i].Columns[:0]
		results[i].Err = s.getEntity(s.find, ro, seq, k, &results[i].Entity)
	}
	return results, nil
}

func (s *readState) getEntity(find findFunc, ro *ReadOptions, seq uint64, key []byte, e *Entity) (err error) {
	if s.files.faultable {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	var look keys.Lookup
	look.UserKey, look.Seq = key, seq
	ro.apply(&look)
	s.cf.opts.PrefixExtractor.Prepare(&look)
	var pin table.Pin
	value, trailer, ok, err := find(&look, &pin)
	if err != nil {
		return err
	}
	if !ok {
		return ErrNotFound
	}
	defer pin.Release()
	stored := false // own is an encoded entity
	switch keys.KindOf(trailer) {
	case keys.KindEntity:
		e.own, stored = append(e.own[:0], value...), true
	case keys.KindMerge:
		e.own, stored, err = s.appendMergedEntity(find, e.own[:0], look, value, trailer)
	default:
		e.own, err = s.appendValue(e.own[:0], &look, value, trailer)
	}
	if err != nil {
		return err
	}
	if !stored {
		e.Columns = append(e.Columns[:0], Column{Value: e.own})
		return nil
	}
	if e.Columns, err = entity.Decode(e.Columns[:0], e.own); err != nil {
		return fmt.Errorf("key %q of column family %q: %w", key, s.cf.name, err)
	}
	return nil
}

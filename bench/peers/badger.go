package main

import (
	"errors"
	"expvar"
	"runtime"
	"strconv"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

type badgerStore struct {
	dir  string
	db   *badger.DB
	user int64 // bytes of keys and values: what the log took, at least
}

func openBadger(dir string) (store, error) {
	db, err := openBadgerDB(dir)
	if err != nil {
		return nil, err
	}
	return &badgerStore{dir: dir, db: db}, nil
}

func openBadgerDB(dir string) (*badger.DB, error) {
	return badger.Open(badger.DefaultOptions(dir).
		WithLogger(nil).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithMetricsEnabled(true).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithMemTableSize(writeBufferBytes))
}

func (s *badgerStore) write(keys, values [][]byte) error {
	b := s.db.NewWriteBatch()
	defer b.Cancel()
	for i, k := range keys {
		// Badger keeps what it is given until the batch is through.
		if err := b.Set(append([]byte(nil), k...), append([]byte(nil), values[i]...)); err != nil {
			return err
		}
		s.user += int64(len(k) + len(values[i]))
	}
	return b.Flush()
}

func (s *badgerStore) put(key, value []byte) error {
	return s.db.Update(func(t *badger.Txn) error {
		return t.Set(append([]byte(nil), key...), append([]byte(nil), value...))
	})
}

// settle closes the database, since Badger flushes its memtables at no other time, and compacts it.
func (s *badgerStore) settle() (err error) {
	if err := s.db.Close(); err != nil {
		return err
	}
	if s.db, err = openBadgerDB(s.dir); err != nil {
		return err
	}
	return s.db.Flatten(runtime.GOMAXPROCS(0))
}

// written sums Badger's own counters, since it writes through mappings: its logs (what the
// user wrote), level 0, and compactions by level.
func (s *badgerStore) written() int64 {
	total := s.user
	for _, name := range []string{"badger_write_bytes_vlog", "badger_write_bytes_l0"} {
		if v, ok := expvar.Get(name).(*expvar.Int); ok {
			total += v.Value()
		}
	}
	if m, ok := expvar.Get("badger_write_bytes_compaction").(*expvar.Map); ok {
		m.Do(func(kv expvar.KeyValue) {
			if n, err := strconv.ParseInt(kv.Value.String(), 10, 64); err == nil {
				total += n
			}
		})
	}
	return total
}

func (s *badgerStore) close() error {
	if s.db == nil { // settling failed
		return nil
	}
	return s.db.Close()
}

func (s *badgerStore) reader() (reader, error) { return &badgerReader{db: s.db}, nil }

// badgerReader makes a transaction for each read, as a program does that wants what is new,
// and one iterator for all seeks.
type badgerReader struct {
	db  *badger.DB
	txn *badger.Txn
	it  *badger.Iterator
	buf []byte
}

func (r *badgerReader) get(key []byte) (value []byte, found bool, err error) {
	t := r.db.NewTransaction(false)
	defer t.Discard()
	found, err = r.getIn(t, key)
	return r.buf, found, err
}

func (r *badgerReader) getIn(t *badger.Txn, key []byte) (found bool, err error) {
	item, err := t.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.buf, err = item.ValueCopy(r.buf)
	return err == nil, err
}

func (r *badgerReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	t := r.db.NewTransaction(false)
	defer t.Discard()
	for i, k := range keys {
		found, err := r.getIn(t, k)
		if err != nil {
			return err
		}
		if err := each(i, r.buf, found); err != nil {
			return err
		}
	}
	return nil
}

func (r *badgerReader) seek(key []byte, steps int, each func(key, value []byte) error) error {
	if r.it == nil {
		r.txn = r.db.NewTransaction(false)
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false // values lie beside their keys
		r.it = r.txn.NewIterator(o)
	}
	r.it.Seek(key)
	for i := 0; r.it.Valid(); i++ {
		item := r.it.Item()
		err := item.Value(func(v []byte) error { return each(item.Key(), v) })
		if err != nil || i == steps {
			return err
		}
		r.it.Next()
	}
	return nil
}

func (r *badgerReader) close() error {
	if r.it != nil {
		r.it.Close()
		r.txn.Discard()
	}
	return nil
}

package main

import (
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

type boltStore struct{ db *bbolt.DB }

var boltBucket = []byte("data")

func openBolt(dir string) (store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(filepath.Join(dir, "bolt.db"), 0o644, &bbolt.Options{
		NoSync:         true,
		NoGrowSync:     true,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(t *bbolt.Tx) error {
		_, err := t.CreateBucketIfNotExists(boltBucket)
		return err
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return &boltStore{db}, nil
}

func (s *boltStore) write(keys, values [][]byte) error {
	return s.db.Update(func(t *bbolt.Tx) error {
		b := t.Bucket(boltBucket)
		for i, k := range keys {
			// The tree holds the slices until the transaction ends, which is before they change.
			if err := b.Put(k, values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *boltStore) put(key, value []byte) error { return s.write([][]byte{key}, [][]byte{value}) }

// settle has nothing to do: there is one tree.
func (s *boltStore) settle() error  { return nil }
func (s *boltStore) written() int64 { return -1 }
func (s *boltStore) close() error   { return s.db.Close() }

func (s *boltStore) reader() (reader, error) { return &boltReader{db: s.db}, nil }

// boltReader makes a transaction for each call: one that stays open keeps pages from being used again.
type boltReader struct {
	db  *bbolt.DB
	buf []byte
}

func (r *boltReader) view(f func(b *bbolt.Bucket) error) error {
	return r.db.View(func(t *bbolt.Tx) error { return f(t.Bucket(boltBucket)) })
}

func (r *boltReader) get(key []byte) (value []byte, found bool, err error) {
	err = r.view(func(b *bbolt.Bucket) error {
		v := b.Get(key)
		found = v != nil
		r.buf = append(r.buf[:0], v...)
		return nil
	})
	return r.buf, found, err
}

func (r *boltReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	return r.view(func(b *bbolt.Bucket) error {
		for i, k := range keys {
			v := b.Get(k)
			if err := each(i, v, v != nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *boltReader) seek(key []byte, steps int, each func(key, value []byte) error) error {
	return r.view(func(b *bbolt.Bucket) error {
		c := b.Cursor()
		k, v := c.Seek(key)
		for i := 0; k != nil; i++ {
			if err := each(k, v); err != nil {
				return err
			}
			if i == steps {
				break
			}
			k, v = c.Next()
		}
		return nil
	})
}

func (r *boltReader) close() error { return nil }

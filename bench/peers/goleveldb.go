package main

import (
	"errors"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

type goLevelDBStore struct{ db *leveldb.DB }

func openGoLevelDB(dir string) (store, error) {
	db, err := leveldb.OpenFile(dir, &opt.Options{
		BlockCacheCapacity:     cacheBytes,
		OpenFilesCacheCapacity: 4096,
		WriteBuffer:            writeBufferBytes,
		Filter:                 filter.NewBloomFilter(10),
		Compression:            opt.NoCompression,
		DisableSeeksCompaction: true,
	})
	if err != nil {
		return nil, err
	}
	return &goLevelDBStore{db}, nil
}

func (s *goLevelDBStore) write(keys, values [][]byte) error {
	var b leveldb.Batch
	for i, k := range keys {
		b.Put(k, values[i])
	}
	return s.db.Write(&b, nil)
}

func (s *goLevelDBStore) put(key, value []byte) error { return s.db.Put(key, value, nil) }
func (s *goLevelDBStore) settle() error               { return s.db.CompactRange(util.Range{}) }
func (s *goLevelDBStore) written() int64              { return -1 }
func (s *goLevelDBStore) close() error                { return s.db.Close() }
func (s *goLevelDBStore) reader() (reader, error)     { return &goLevelDBReader{db: s.db}, nil }

type goLevelDBReader struct {
	db *leveldb.DB
	it iterator.Iterator
}

func (r *goLevelDBReader) get(key []byte) ([]byte, bool, error) {
	v, err := r.db.Get(key, nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (r *goLevelDBReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	return eachGet(r, keys, each)
}

func (r *goLevelDBReader) seek(key []byte, steps int, each func(key, value []byte) error) error {
	if r.it == nil {
		r.it = r.db.NewIterator(nil, nil)
	}
	return errors.Join(walk(r.it, r.it.Seek(key), steps, valueOf, each), r.it.Error())
}

func (r *goLevelDBReader) close() error {
	if r.it != nil {
		r.it.Release()
	}
	return nil
}

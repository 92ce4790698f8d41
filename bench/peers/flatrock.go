package main

import (
	"context"
	"errors"

	"github.com/flatrock-db/flatrock"
)

type flatrockStore struct{ db *flatrock.DB }

func openFlatrockPlain(dir string) (store, error) {
	return openFlatrock(dir, &flatrock.Options{ColumnFamily: &flatrock.ColumnFamilyOptions{
		PrefixExtractor: flatrock.FixedPrefix(keySize),
		MemTable:        flatrock.MemTableOptions{Kind: flatrock.HashSkipList},
		Table:           flatrock.PlainTableOptions{UserKeyLen: keySize, BloomBitsPerKey: 10, Memory: flatrock.MemoryResident},
		BloomLocality:   1,
		WriteBufferSize: writeBufferBytes,
	}})
}

func openFlatrockBlock(dir string) (store, error) {
	return openFlatrock(dir, &flatrock.Options{
		BlockCacheSize: cacheBytes,
		ColumnFamily: &flatrock.ColumnFamilyOptions{
			Table:           flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10)},
			Compression:     flatrock.NoCompression,
			WriteBufferSize: writeBufferBytes,
		},
	})
}

func openFlatrock(dir string, o *flatrock.Options) (store, error) {
	o.CreateIfMissing = true
	db, err := flatrock.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &flatrockStore{db}, nil
}

func (s *flatrockStore) write(keys, values [][]byte) error {
	var b flatrock.Batch
	for i, k := range keys {
		b.Put(nil, k, values[i])
	}
	return s.db.Write(nil, &b)
}

func (s *flatrockStore) put(key, value []byte) error { return s.db.Put(nil, key, value) }

func (s *flatrockStore) settle() error {
	if err := s.db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		return err
	}
	return s.db.WaitForCompact(context.Background(), nil)
}

func (s *flatrockStore) written() int64 {
	m := s.db.Metrics()
	return m.WALBytes + m.FlushedBytes + m.CompactedOut
}

func (s *flatrockStore) close() error { return s.db.Close() }

func (s *flatrockStore) reader() (reader, error) {
	return &flatrockReader{db: s.db}, nil
}

type flatrockReader struct {
	db      *flatrock.DB
	it      *flatrock.Iterator
	buf     []byte
	results []flatrock.GetResult
}

func (r *flatrockReader) get(key []byte) ([]byte, bool, error) {
	v, err := r.db.Get(nil, key, r.buf[:0])
	if errors.Is(err, flatrock.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r.buf = v
	return v, true, nil
}

func (r *flatrockReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) (err error) {
	if r.results, err = r.db.MultiGet(nil, keys, r.results); err != nil {
		return err
	}
	for i := range r.results {
		g := &r.results[i]
		if g.Err != nil && !errors.Is(g.Err, flatrock.ErrNotFound) {
			return g.Err
		}
		if err := each(i, g.Value, g.Err == nil); err != nil {
			return err
		}
	}
	return nil
}

func (r *flatrockReader) seek(key []byte, steps int, each func(key, value []byte) error) (err error) {
	if r.it == nil {
		if r.it, err = r.db.NewIterator(nil); err != nil {
			return err
		}
	}
	return errors.Join(walk(r.it, r.it.SeekGE(key), steps, valueOf, each), r.it.Err())
}

func (r *flatrockReader) close() error {
	if r.it == nil {
		return nil
	}
	return r.it.Close()
}

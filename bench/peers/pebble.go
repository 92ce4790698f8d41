package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

type pebbleStore struct{ db *pebble.DB }

func openPebble(dir string) (store, error) {
	o := &pebble.Options{
		CacheSize:                   cacheBytes,
		MemTableSize:                writeBufferBytes,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      quietPebble{},
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 32 << 10
		l.IndexBlockSize = 256 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.FilterType = pebble.TableFilter
		l.Compression = func() *sstable.CompressionProfile { return block.NoCompression }
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return &pebbleStore{db}, nil
}

// quietPebble drops what Pebble tells; a fatal error still ends the process.
type quietPebble struct{}

func (quietPebble) Infof(string, ...any)  {}
func (quietPebble) Errorf(string, ...any) {}
func (quietPebble) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pebble: "+format+"\n", args...)
	os.Exit(1)
}

func (s *pebbleStore) write(keys, values [][]byte) (err error) {
	b := s.db.NewBatch()
	defer func() { err = errors.Join(err, b.Close()) }()
	for i, k := range keys {
		if err := b.Set(k, values[i], nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.NoSync)
}

func (s *pebbleStore) put(key, value []byte) error { return s.db.Set(key, value, pebble.NoSync) }

func (s *pebbleStore) settle() error {
	if err := s.db.Flush(); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, true)
}

func (s *pebbleStore) written() int64 { return -1 }

func (s *pebbleStore) close() error { return s.db.Close() }

func (s *pebbleStore) reader() (reader, error) { return &pebbleReader{db: s.db}, nil }

// pebbleReader makes an iterator when it seeks first: one for all seeks, as Pebble advises.
type pebbleReader struct {
	db  *pebble.DB
	it  *pebble.Iterator
	buf []byte
}

func (r *pebbleReader) get(key []byte) ([]byte, bool, error) {
	v, closer, err := r.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	r.buf = append(r.buf[:0], v...)
	return r.buf, true, closer.Close()
}

func (r *pebbleReader) multiGet(keys [][]byte, each func(i int, value []byte, found bool) error) error {
	return eachGet(r, keys, each)
}

func (r *pebbleReader) seek(key []byte, steps int, each func(key, value []byte) error) (err error) {
	if r.it == nil {
		if r.it, err = r.db.NewIter(nil); err != nil {
			return err
		}
	}
	return errors.Join(walk(r.it, r.it.SeekGE(key), steps, (*pebble.Iterator).ValueAndErr, each), r.it.Error())
}

func (r *pebbleReader) close() error {
	if r.it == nil {
		return nil
	}
	return r.it.Close()
}

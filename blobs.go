package flatrock

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Blob files of databases that RocksDB wrote are read, and compactions keep the
// references to them with an account of what becomes garbage. None are written.
//
// An obsolete blob file is deleted when the database is opened next: a reader of an
// older version may still need it until then.

// appendBlob appends the value that a blob index stands for.
func (cf *ColumnFamily) appendBlob(dst, userKey, index []byte) ([]byte, error) {
	i, err := blob.DecodeIndex(index)
	if err != nil {
		return dst, fmt.Errorf("column family %q, key %q: %w", cf.name, userKey, err)
	}
	if i.Kind != blob.Plain {
		return dst, fmt.Errorf("%w: column family %q: key %q has a value with an expiration time, as RocksDB's stacked BlobDB writes: %v", ErrNotSupported, cf.name, userKey, &i)
	}
	r, err := cf.db.blobFile(i.File)
	if err != nil {
		return dst, fmt.Errorf("column family %q, key %q: %w", cf.name, userKey, err)
	}
	if dst, err = r.Get(&i, userKey, dst); err != nil {
		return dst, fmt.Errorf("column family %q: %w", cf.name, err)
	}
	return dst, nil
}

// resolve gives iterators the values of entries that need knowledge from elsewhere.
func (cf *ColumnFamily) resolve(userKey []byte, kind keys.Kind, stored []byte) (value []byte, live bool, err error) {
	if kind == keys.KindBlobIndex {
		value, err = cf.appendBlob(nil, userKey, stored)
	} else {
		value, err = resolveValue(userKey, stored, kind)
	}
	return value, err == nil, err
}

// blobFile is the open blob file of that number.
func (db *DB) blobFile(number uint64) (*blob.Reader, error) {
	if r, ok := db.blobs.Load(number); ok {
		return r.(*blob.Reader), nil
	}
	f, err := db.fs.Open(manifest.BlobName(db.dir, number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CorruptionError{File: manifest.BlobName("", number), Offset: -1, Reason: "a table file refers to this blob file, and it does not exist"}
	}
	if err != nil {
		return nil, err
	}
	if size, err := f.Size(); err == nil && db.opts.MapMemoryFiles.or(true) {
		f = mmapfs.MapMemory(f, size)
	}
	r, err := blob.Open(f)
	if err != nil {
		return nil, err
	}
	r.Limit(db.opts.MaxDecompressedSize)
	if other, found := db.blobs.LoadOrStore(number, r); found {
		return other.(*blob.Reader), r.Close()
	}
	return r, nil
}

// closeBlobs closes the blob files. Nothing reads any more.
func (db *DB) closeBlobs() error {
	var errs []error
	db.blobs.Range(func(_, r any) bool {
		errs = append(errs, r.(*blob.Reader).Close())
		return true
	})
	return errors.Join(errs...)
}

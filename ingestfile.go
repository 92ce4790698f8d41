package flatrock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// externalFile is a file on its way into a family.
type externalFile struct {
	family *familyIngestion
	path   string
	meta   *manifest.FileMetadata // of the file in the directory; nil before bring

	size int64
	// first and last are the bounds of the point entries, tombs the range deletes.
	hasPoints           bool
	first, last         []byte
	firstKind, lastKind keys.Kind
	tombs               []table.Tombstone
	// low and high are the bounds of both; exclusive: high is the end of a range delete.
	low, high []byte
	exclusive bool

	uniqueID  []byte
	plain     bool
	storedSeq uint64 // what an earlier ingestion wrote into the file
	seqOffset int64  // where it did, or would; 0 if nowhere

	// What place decides.
	level int
	seq   uint64
}

func (f *externalFile) internalPath() string {
	return manifest.TableName(f.family.cf.db.dir, f.meta.Number)
}

// refuse says why the file cannot be ingested.
func (f *externalFile) refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s cannot be ingested into column family %q: %s", ErrInvalidArgument, f.path, f.family.cf.name, fmt.Sprintf(format, args...))
}

// openExternal opens a file outside of the database, for the family.
func (cf *ColumnFamily) openExternal(path string) (*SstFileReader, error) {
	return openExternal(cf.db.fs, *cf.opts, path)
}

func openExternal(fsys mmapfs.FS, o ColumnFamilyOptions, path string) (*SstFileReader, error) {
	if p, ok := o.Table.(PlainTableOptions); ok {
		p.Memory, p.Verify = MemoryNone, VerifyOnDemand
		o.Table = p
	}
	return OpenSstFile(path, &SstFileReaderOptions{ColumnFamily: &o, FS: fsys})
}

// inspect opens the file where it lies and learns what the ingestion must know.
func (f *externalFile) inspect() (err error) {
	cf := f.family.cf
	r, err := cf.openExternal(f.path)
	if err != nil {
		return fmt.Errorf("%s, for column family %q: %w", f.path, cf.name, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f.size, f.plain = r.size, r.handle.plain != nil
	if _, plain := cf.opts.Table.(PlainTableOptions); plain != f.plain {
		format := map[bool]string{true: "plain", false: "block-based"}
		return f.refuse("it is a %s table, and the family has %s ones", format[f.plain], format[plain])
	}
	if err := f.readProperties(r); err != nil {
		return err
	}
	if f.family.o.VerifyChecksumsBeforeIngest {
		if err := guarded(r.VerifyChecksums); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return guarded(func() error { return f.readBounds(r) })
}

func (f *externalFile) readProperties(r *SstFileReader) error {
	cf, p := f.family.cf, r.Properties()
	version := p.User[block.PropExternalVersion]
	switch {
	case len(version) != 4:
		return f.refuse("it was not made by an SstFileWriter: expected the property %s", block.PropExternalVersion)
	case p.ColumnFamilyName != "" && p.ColumnFamilyID != math.MaxInt32 && p.ColumnFamilyID != uint64(cf.id):
		return f.refuse("it was made for column family %d (%q)", p.ColumnFamilyID, p.ColumnFamilyName)
	}
	if id, ok := manifest.UniqueID(p.DBID, p.DBSessionID, p.OriginalFileNumber); ok {
		f.uniqueID = id[:]
	}
	if f.plain {
		return nil
	}
	f.storedSeq = r.handle.block.GlobalSeq()
	if binary.LittleEndian.Uint32(version) < 2 {
		return nil // of a time before numbers: there is no place for one
	}
	off, ok, err := r.handle.block.GlobalSeqOffset()
	if ok {
		f.seqOffset = off
	}
	return err
}

func (f *externalFile) readBounds(r *SstFileReader) error {
	it := r.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true})
	defer it.Close()
	for at, move := range []func() bool{it.First, it.Last} {
		if !move() {
			break
		}
		key, kind := append([]byte{}, it.UserKey()...), keys.KindOf(it.Trailer())
		if seq := keys.Seq(it.Trailer()); seq != f.storedSeq {
			return f.refuse("expected entries with sequence number %d, found key %q with %d", f.storedSeq, key, seq)
		}
		if at == 0 {
			f.first, f.firstKind, f.hasPoints = key, kind, true
		} else {
			f.last, f.lastKind = key, kind
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	order := f.family.cf.order
	f.low, f.high = f.first, f.last
	for _, t := range r.reader().Tombstones() {
		t.Start, t.End = append([]byte{}, t.Start...), append([]byte{}, t.End...)
		f.tombs = append(f.tombs, t)
		if !f.hasPoints && len(f.tombs) == 1 {
			f.low, f.high, f.exclusive = t.Start, t.End, true
			continue
		}
		if order.Compare(t.Start, f.low) < 0 {
			f.low = t.Start
		}
		if order.Compare(t.End, f.high) > 0 {
			f.high, f.exclusive = t.End, true
		}
	}
	switch {
	case !f.hasPoints && len(f.tombs) == 0:
		return f.refuse("it has no entries")
	case len(f.tombs) > 0 && !f.family.cf.takesRangeDeletes():
		return f.refuse("it has range deletes, and the family takes none")
	}
	return nil
}

// bring links or copies the file into the directory under a number of its own, synced.
func (f *externalFile) bring() error {
	db, o := f.family.cf.db, &f.family.o
	now := uint64(time.Now().Unix())
	f.meta = &manifest.FileMetadata{
		Number: db.manifest.NewFileNumber(), Size: uint64(f.size), UniqueID: f.uniqueID,
		OldestAncestorTime: now, FileCreationTime: now,
	}
	// Bytes of a link are the original's: what will be written to is copied.
	if o.MoveFiles && !o.WriteGlobalSeqno && f.storedSeq == 0 {
		err := db.fs.Link(f.path, f.internalPath())
		if err == nil {
			return syncFile(db.fs, f.internalPath())
		}
		if !o.FailedMoveFallBackToCopy.or(true) {
			return err
		}
		db.log.Info("an external file cannot be linked, and is copied", "file", f.path, "err", err)
	}
	if err := copyFile(db.fs, f.path, f.internalPath(), f.size); err != nil || !o.VerifyChecksumsBeforeIngest {
		return err
	}
	return verifyCopy(db.fs, *f.family.cf.opts, f.path, f.internalPath())
}

// verifyCopy verifies what the copy of a table file holds: the original was verified, if it
// was, by other reads than those that copied it, and reads of plain tables check nothing.
func verifyCopy(fsys mmapfs.FS, o ColumnFamilyOptions, from, to string) error {
	r, err := openExternal(fsys, o, to)
	if err != nil {
		return fmt.Errorf("%s, copied from %s: %w", to, from, err)
	}
	if err = guarded(r.VerifyChecksums); err != nil {
		err = fmt.Errorf("%s, copied from %s: %w", to, from, err)
	}
	return errors.Join(err, r.Close())
}

// number gives the file in the directory the sequence number that place chose, and
// completes its metadata.
func (f *externalFile) number() error {
	if f.plain && f.seq != 0 {
		return f.rewrite()
	}
	f.setBounds()
	if f.seqOffset == 0 || f.seq == f.storedSeq || !f.family.o.WriteGlobalSeqno && f.storedSeq == 0 {
		return nil
	}
	file, err := f.family.cf.db.fs.OpenReadWrite(f.internalPath())
	if err != nil {
		return err
	}
	_, err = file.WriteAt(binary.LittleEndian.AppendUint64(nil, f.seq), f.seqOffset)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// setBounds makes the bounds of the metadata with the file's sequence number.
func (f *externalFile) setBounds() {
	order, m := f.family.cf.order, f.meta
	m.SmallestSeq, m.LargestSeq = f.seq, f.seq
	some := false
	add := func(small []byte, smallTrailer uint64, large []byte, largeTrailer uint64) {
		if !some || order.CompareInternal(small, smallTrailer, m.SmallestKey, m.SmallestTrailer) < 0 {
			m.SmallestKey, m.SmallestTrailer = small, smallTrailer
		}
		if !some || order.CompareInternal(large, largeTrailer, m.LargestKey, m.LargestTrailer) > 0 {
			m.LargestKey, m.LargestTrailer = large, largeTrailer
		}
		some = true
	}
	if f.hasPoints {
		add(f.first, keys.Pack(f.seq, f.firstKind), f.last, keys.Pack(f.seq, f.lastKind))
	}
	for _, t := range f.tombs {
		add(t.Start, keys.Pack(f.seq, keys.KindRangeDelete), t.End, keys.Pack(keys.MaxSeq, keys.KindRangeDelete))
	}
}

// rewrite writes a plain table anew with its number in every row, since the format
// has no place for one that holds for all.
func (f *externalFile) rewrite() (err error) {
	cf := f.family.cf
	r, err := cf.openExternal(f.internalPath())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	number := cf.db.manifest.NewFileNumber()
	w, err := cf.newTableWriter(number, &compaction.Job{}, cf.db.identity(cf, number, time.Now()), &pace{db: cf.db, ctx: cf.db.lifetime, priority: ratelimit.Mid})
	if err != nil {
		return err
	}
	err = guarded(func() error { return f.copyRows(r, w) })
	if err != nil {
		w.Abandon()
		return errors.Join(fmt.Errorf("%s: %w", f.path, tableRefusal(err)), cf.db.fs.Remove(manifest.TableName(cf.db.dir, number)))
	}
	sum, err := w.Finish()
	if err != nil {
		return errors.Join(err, cf.db.fs.Remove(manifest.TableName(cf.db.dir, number)))
	}
	old := f.internalPath()
	f.meta.Number, f.meta.Size, f.meta.UniqueID = number, uint64(sum.Size), nil
	if id, ok := manifest.UniqueID(cf.db.dbID, cf.db.sessionID, number); ok {
		f.meta.UniqueID = id[:]
	}
	f.setBounds()
	return cf.db.fs.Remove(old)
}

func (f *externalFile) copyRows(r *SstFileReader, w table.Writer) error {
	it := r.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true})
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if err := w.Add(it.UserKey(), keys.Pack(f.seq, keys.KindOf(it.Trailer())), it.Value()); err != nil {
			return err
		}
	}
	for _, t := range f.tombs {
		t.Seq = f.seq
		if err := w.AddTombstone(t); err != nil {
			return err
		}
	}
	return it.Err()
}

// syncFile makes a file's content durable.
func syncFile(fsys mmapfs.FS, path string) error {
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// copyFile copies the first size bytes of a file to a new one, synced. A source that
// has fewer is an error that names it.
func copyFile(fsys mmapfs.FS, from, to string, size int64) (err error) {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	n, err := io.Copy(dst, io.LimitReader(src, size))
	if err == nil && n < size {
		err = keys.Corruptf(filepath.Base(from), n, "expected %d bytes to copy, found %d", size, n)
	}
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(err, fsys.Remove(to))
	}
	return nil
}

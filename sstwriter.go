package flatrock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// SstFileWriterOptions says how an SstFileWriter writes. Nil means all zero.
type SstFileWriterOptions struct {
	// ColumnFamily holds the options that shape the file: comparator, merge operator,
	// prefix extractor, table format, compression (that of the deepest level). Nil means
	// those of Family, or else the defaults.
	ColumnFamily *ColumnFamilyOptions
	// Family, if set, is recorded in the file as the family that it is for; RocksDB
	// then refuses to ingest it into another one.
	Family *ColumnFamily
	// FS is where the file lies. Nil means the operating system (mmapfs.OS).
	FS mmapfs.FS
	// DBHostID is recorded in the file. Empty means the host's name. RocksDB: db_host_id.
	DBHostID string
}

// SstFileWriter writes one table file outside of any database, to be ingested or
// to be read with an SstFileReader. Every entry has sequence number 0; RocksDB gives
// the file one when it ingests it (block-based files only: its 7.8 cannot ingest
// plain tables). Not safe for concurrent use. RocksDB: SstFileWriter.
type SstFileWriter struct {
	path string
	fs   mmapfs.FS
	w    table.Writer // nil once finished or closed

	order   keys.Order
	info    ExternalFileInfo
	hasKey  bool // LargestKey is the last key that was added
	mergeOK bool
}

// ExternalFileInfo describes a finished file. Its slices are the caller's.
// RocksDB: ExternalSstFileInfo.
type ExternalFileInfo struct {
	Path string
	// SmallestKey and LargestKey are the bounds of the point entries; nil if there are none.
	SmallestKey, LargestKey []byte
	// SmallestRangeDelKey and LargestRangeDelKey are the bounds of the range deletes,
	// the upper one exclusive; nil if there are none.
	SmallestRangeDelKey, LargestRangeDelKey []byte
	FileSize                                int64  // bytes
	NumEntries                              uint64 // point entries
	NumRangeDeletes                         uint64
	Version                                 int // of external files: 2
}

// externalIdentity is what RocksDB's SstFileWriter records as the database.
const externalIdentity = "SST Writer"

// NewSstFileWriter creates the file at path, in the place of one that is there: that may be the file of a
// database as well, which an ingestion has moved by a link, and stays what it is. Errors match
// ErrInvalidArgument or come from the file system. Finish or Close must follow.
func NewSstFileWriter(path string, o *SstFileWriterOptions) (*SstFileWriter, error) {
	if o == nil {
		o = &SstFileWriterOptions{}
	}
	given := o.ColumnFamily
	if given == nil && o.Family != nil {
		given = o.Family.opts
	}
	if given == nil {
		given = &ColumnFamilyOptions{}
	}
	cf := given.withDefaults()
	if err := cf.validate(filepath.Base(path)); err != nil {
		return nil, err
	}
	id := table.Identity{
		DBID: externalIdentity, DBSessionID: manifest.NewSessionID(), DBHostID: o.DBHostID,
		FileNumber: 1, ComparatorName: cf.Comparator.Name(), ExternalFile: true,
	}
	if o.Family != nil {
		id.ColumnFamilyID, id.ColumnFamilyName = o.Family.id, o.Family.name
	}
	if id.DBHostID == "" {
		id.DBHostID, _ = os.Hostname() // informational: an empty name is left out
	}
	if cf.MergeOperator != nil {
		id.MergeOperator = cf.MergeOperator.Name()
	}
	if cf.PrefixExtractor != nil {
		id.PrefixExtractor = cf.PrefixExtractor.Name()
	}
	s := &SstFileWriter{path: path, fs: o.FS, order: keys.NewOrder(cf.Comparator), mergeOK: cf.MergeOperator != nil}
	s.info.Path, s.info.Version = path, 2
	if s.fs == nil {
		s.fs = mmapfs.OS
	}
	if err := s.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := s.fs.Create(path)
	if err != nil {
		return nil, err
	}
	if s.w, err = beginTable(f, cf, s.order, cf.NumLevels-1, true, id); err != nil {
		return nil, errors.Join(tableRefusal(err), f.Close(), s.fs.Remove(path))
	}
	return s, nil
}

// Put adds a value. Keys of Put, Delete and Merge come in strictly ascending
// order; one that does not is refused with ErrInvalidArgument, and the writer goes
// on. Key and value are not kept.
func (s *SstFileWriter) Put(key, value []byte) error { return s.add(key, keys.KindValue, value) }

// Delete adds a delete of key, in order as Put.
func (s *SstFileWriter) Delete(key []byte) error { return s.add(key, keys.KindDelete, nil) }

// Merge adds a merge operand of key, in order as Put. The options must have a MergeOperator.
func (s *SstFileWriter) Merge(key, operand []byte) error {
	if !s.mergeOK {
		return fmt.Errorf("%w: %s: Merge needs a MergeOperator in the options", ErrInvalidArgument, s.path)
	}
	return s.add(key, keys.KindMerge, operand)
}

func (s *SstFileWriter) add(key []byte, kind keys.Kind, value []byte) error {
	if s.w == nil {
		return ErrClosed
	}
	if s.hasKey && s.order.Compare(s.info.LargestKey, key) >= 0 {
		return fmt.Errorf("%w: %s: keys must be strictly ascending, and %q comes after %q", ErrInvalidArgument, s.path, key, s.info.LargestKey)
	}
	if err := s.w.Add(key, keys.Pack(0, kind), value); err != nil {
		return tableRefusal(err)
	}
	if !s.hasKey {
		s.info.SmallestKey, s.hasKey = append([]byte{}, key...), true
	}
	s.info.LargestKey = append(s.info.LargestKey[:0], key...)
	s.info.NumEntries++
	return nil
}

// DeleteRange adds a delete of the keys from start up to, and without, end. It hides keys
// of the database that the file is ingested into; those of the file itself stay.
// Range deletes come in any order, and may overlap. Plain tables refuse them with
// ErrNotSupported.
func (s *SstFileWriter) DeleteRange(start, end []byte) error {
	if s.w == nil {
		return ErrClosed
	}
	switch c := s.order.Compare(start, end); {
	case c > 0:
		return fmt.Errorf("%w: %s: a range delete from %q to %q is backward", ErrInvalidArgument, s.path, start, end)
	case c == 0:
		return nil // covers nothing
	}
	if err := s.w.AddTombstone(table.Tombstone{Start: start, End: end}); err != nil {
		return tableRefusal(err)
	}
	i := &s.info
	if i.NumRangeDeletes == 0 || s.order.Compare(start, i.SmallestRangeDelKey) < 0 {
		i.SmallestRangeDelKey = append([]byte{}, start...)
	}
	if i.NumRangeDeletes == 0 || s.order.Compare(end, i.LargestRangeDelKey) > 0 {
		i.LargestRangeDelKey = append([]byte{}, end...)
	}
	i.NumRangeDeletes++
	return nil
}

// FileSize is how many bytes the file would have if it were finished now, about.
func (s *SstFileWriter) FileSize() int64 {
	if s.w == nil {
		return s.info.FileSize
	}
	return s.w.EstimatedSize()
}

// Finish completes, syncs and closes the file. A file without entries is refused
// with ErrInvalidArgument. After an error the file is gone.
func (s *SstFileWriter) Finish() (ExternalFileInfo, error) {
	if s.w == nil {
		return ExternalFileInfo{}, ErrClosed
	}
	if s.info.NumEntries+s.info.NumRangeDeletes == 0 {
		return ExternalFileInfo{}, errors.Join(fmt.Errorf("%w: %s: a table file needs an entry", ErrInvalidArgument, s.path), s.Close())
	}
	sum, err := s.w.Finish()
	s.w = nil
	if err == nil {
		err = s.fs.SyncDir(filepath.Dir(s.path))
	}
	if err != nil {
		return ExternalFileInfo{}, errors.Join(tableRefusal(err), s.fs.Remove(s.path))
	}
	s.info.FileSize = sum.Size
	return s.info, nil
}

// Close abandons a file that was not finished, and removes it. After Finish it
// does nothing, so that it may be deferred.
func (s *SstFileWriter) Close() error {
	if s.w == nil {
		return nil
	}
	s.w.Abandon()
	s.w = nil
	return s.fs.Remove(s.path)
}

package manifest

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/coding"
)

// VersionEdit is one record of a MANIFEST: a difference between two versions of
// one column family, and changes of what all families share. Slices are owned.
type VersionEdit struct {
	ColumnFamily uint32 // the family that the edit is about; 0 is the default one

	DBID               Optional[string]
	Comparator         Optional[string] // name
	LogNumber          Optional[uint64] // oldest WAL that the family still needs
	PrevLogNumber      Optional[uint64] // always 0 today
	NextFileNumber     Optional[uint64]
	MaxColumnFamily    Optional[uint32] // highest id ever used
	MinLogNumberToKeep Optional[uint64] // oldest WAL that any family still needs
	LastSeq            Optional[uint64]

	CompactCursors []CompactCursor
	DeletedFiles   []DeletedFile
	NewFiles       []NewFile
	BlobAdditions  []BlobAddition
	BlobGarbages   []BlobGarbage
	WALAdditions   []WALAddition
	WALDeletion    Optional[uint64] // tracked WALs with smaller numbers are gone

	AddColumnFamily  Optional[string] // name of the family that comes to be
	DropColumnFamily bool

	// AtomicGroup counts the edits of the same group that follow this one. A
	// group takes effect as a whole when its last edit, with 0, is there.
	AtomicGroup Optional[uint32]

	FullHistoryTsLow          []byte // nil: not set
	PersistTimestamps         Optional[bool]
	SubcompactionProgress     Optional[[]byte] // of RocksDB's secondary instances, opaque
	LastCompactedManifestSize Optional[uint64]

	// Features replaces the family's set of features that RocksDB lacks.
	Features Optional[Features]

	Unknown []Field // fields of newer writers, safe to ignore
}

// Features are what a family has that RocksDB would misread. They are written under
// a tag of our own that is not safe to ignore, so that RocksDB refuses to open.
type Features uint64

const (
	// FeatureRangeDeletes: the family's plain tables may hold range deletes.
	FeatureRangeDeletes Features = 1 << iota

	knownFeatures = FeatureRangeDeletes
)

// CompactCursor is where the next round-robin compaction of a level starts.
type CompactCursor struct {
	Level int
	Key   []byte // internal key
}

// DeletedFile names a table file that leaves a level.
type DeletedFile struct {
	Level  int
	Number uint64
}

// NewFile is a table file that joins a level.
type NewFile struct {
	Level int
	Meta  *FileMetadata
}

// WALAddition tracks a WAL: that it exists, and once SyncedSize is set, how many
// bytes of it are durable.
type WALAddition struct {
	Number     uint64
	SyncedSize Optional[uint64]
}

// Tags of an edit.
const (
	tagComparator         = 1
	tagLogNumber          = 2
	tagNextFileNumber     = 3
	tagLastSeq            = 4
	tagCompactCursor      = 5
	tagDeletedFile        = 6
	tagNewFile            = 7
	tagPrevLogNumber      = 9
	tagMinLogNumberToKeep = 10
	tagNewFile2           = 100
	tagNewFile3           = 102
	tagNewFile4           = 103
	tagColumnFamily       = 200
	tagColumnFamilyAdd    = 201
	tagColumnFamilyDrop   = 202
	tagMaxColumnFamily    = 203
	tagAtomicGroup        = 300
	tagBlobAddition       = 400
	tagBlobGarbage        = 401
	tagFeatures           = 4242 // ours

	tagSafeIgnore         = 8192 // bit of tags that may be skipped
	tagDBID               = 8193
	tagOldBlobAddition    = 8194
	tagOldBlobGarbage     = 8195
	tagOldWALAddition     = 8196
	tagOldWALDeletion     = 8197
	tagFullHistoryTsLow   = 8198
	tagWALAddition        = 8199
	tagWALDeletion        = 8200
	tagPersistTimestamps  = 8201
	tagSubcompaction      = 8202
	tagLastCompactedMSize = 8203
)

const (
	walTerminate  = 1
	walSyncedSize = 2
)

// Append appends the encoding of e to dst, field by field in the order in which
// RocksDB writes them, so that equal edits give equal bytes.
func (e *VersionEdit) Append(dst []byte) []byte {
	if e.DBID.Set {
		dst = coding.AppendString(coding.AppendUvarint(dst, tagDBID), e.DBID.Value)
	}
	if e.Comparator.Set {
		dst = coding.AppendString(append(dst, tagComparator), e.Comparator.Value)
	}
	dst = appendOptional(dst, tagLogNumber, e.LogNumber)
	dst = appendOptional(dst, tagPrevLogNumber, e.PrevLogNumber)
	dst = appendOptional(dst, tagNextFileNumber, e.NextFileNumber)
	dst = appendOptional(dst, tagMaxColumnFamily, e.MaxColumnFamily)
	dst = appendOptional(dst, tagMinLogNumberToKeep, e.MinLogNumberToKeep)
	dst = appendOptional(dst, tagLastSeq, e.LastSeq)
	for i := range e.CompactCursors {
		dst = coding.AppendUvarint(append(dst, tagCompactCursor), uint64(e.CompactCursors[i].Level))
		dst = coding.AppendSlice(dst, e.CompactCursors[i].Key)
	}
	for _, f := range sortedDeletions(e.DeletedFiles) {
		dst = coding.AppendUvarint(append(dst, tagDeletedFile), uint64(f.Level))
		dst = coding.AppendUvarint(dst, f.Number)
	}
	minLog := e.MinLogNumberToKeep
	for i := range e.NewFiles {
		dst = e.NewFiles[i].Meta.appendNewFile(append(dst, tagNewFile4), e.NewFiles[i].Level, minLog)
		minLog = Optional[uint64]{} // in the first file alone
	}
	for i := range e.BlobAdditions {
		dst = e.BlobAdditions[i].append(coding.AppendUvarint(dst, tagBlobAddition))
	}
	for i := range e.BlobGarbages {
		dst = e.BlobGarbages[i].append(coding.AppendUvarint(dst, tagBlobGarbage))
	}
	dst = e.appendWALs(dst)
	if e.ColumnFamily != 0 {
		dst = coding.AppendUvarint(coding.AppendUvarint(dst, tagColumnFamily), uint64(e.ColumnFamily))
	}
	if e.AddColumnFamily.Set {
		dst = coding.AppendString(coding.AppendUvarint(dst, tagColumnFamilyAdd), e.AddColumnFamily.Value)
	}
	if e.DropColumnFamily {
		dst = coding.AppendUvarint(dst, tagColumnFamilyDrop)
	}
	dst = appendOptional(dst, tagAtomicGroup, e.AtomicGroup)
	if e.Features.Set {
		dst = coding.AppendUvarint(coding.AppendUvarint(dst, tagFeatures), uint64(e.Features.Value))
	}
	if e.FullHistoryTsLow != nil {
		dst = appendField(dst, tagFullHistoryTsLow, e.FullHistoryTsLow)
	}
	if e.PersistTimestamps.Set {
		v := byte(0)
		if e.PersistTimestamps.Value {
			v = 1
		}
		dst = appendField(dst, tagPersistTimestamps, []byte{v})
	}
	if e.SubcompactionProgress.Set {
		dst = appendField(dst, tagSubcompaction, e.SubcompactionProgress.Value)
	}
	if e.LastCompactedManifestSize.Set {
		dst = appendUvarintField(dst, tagLastCompactedMSize, e.LastCompactedManifestSize.Value)
	}
	for _, u := range e.Unknown {
		dst = appendField(dst, u.Tag, u.Value)
	}
	return dst
}

func (e *VersionEdit) appendWALs(dst []byte) []byte {
	var b []byte
	for _, w := range e.WALAdditions {
		b = coding.AppendUvarint(b[:0], w.Number)
		if w.SyncedSize.Set {
			b = coding.AppendUvarint(append(b, walSyncedSize), w.SyncedSize.Value)
		}
		dst = appendField(dst, tagWALAddition, append(b, walTerminate))
	}
	if e.WALDeletion.Set {
		dst = appendUvarintField(dst, tagWALDeletion, e.WALDeletion.Value)
	}
	return dst
}

// sortedDeletions orders by level and number, as RocksDB's set does.
func sortedDeletions(files []DeletedFile) []DeletedFile {
	if slices.IsSortedFunc(files, compareDeleted) {
		return files
	}
	files = slices.Clone(files)
	slices.SortFunc(files, compareDeleted)
	return files
}

func compareDeleted(a, b DeletedFile) int {
	if a.Level != b.Level {
		return a.Level - b.Level
	}
	switch {
	case a.Number < b.Number:
		return -1
	case a.Number > b.Number:
		return 1
	}
	return 0
}

// DecodeEdit decodes the payload b of one record, found at offset off of file
// (for errors). The edit owns copies of what it needs. Every length is checked;
// damage and unknown fields that are not safe to ignore give an error that
// matches keys.ErrCorruption.
func DecodeEdit(file string, off int64, b []byte) (*VersionEdit, error) {
	d := &decoder{file: file, off: off, whole: len(b), b: b}
	e := new(VersionEdit)
	for d.err == nil && len(d.b) > 0 {
		d.field(e)
	}
	if d.err != nil {
		return nil, d.err
	}
	return e, nil
}

// field reads one field into e.
func (d *decoder) field(e *VersionEdit) {
	tag := d.uvarint32("tag")
	if d.err != nil {
		return
	}
	switch tag {
	case tagComparator:
		e.Comparator = Some(string(d.str("comparator name")))
	case tagLogNumber:
		e.LogNumber = Some(d.fileNumber("log number"))
	case tagNextFileNumber:
		e.NextFileNumber = Some(d.fileNumber("next file number"))
	case tagLastSeq:
		e.LastSeq = Some(d.seq("last sequence"))
	case tagCompactCursor:
		level, key := d.level(), d.str("compact cursor")
		if len(key) < 8 {
			d.fail("expected an internal key of 8 bytes or more as compact cursor, found %d bytes", len(key))
		}
		e.CompactCursors = append(e.CompactCursors, CompactCursor{level, clone(key)})
	case tagDeletedFile:
		e.DeletedFiles = append(e.DeletedFiles, DeletedFile{d.level(), d.fileNumber("deleted file number")})
	case tagNewFile:
		d.addFile(e, newFile1)
	case tagNewFile2:
		d.addFile(e, newFile2)
	case tagNewFile3:
		d.addFile(e, newFile3)
	case tagNewFile4:
		d.addFile(e, newFile4)
	case tagPrevLogNumber:
		e.PrevLogNumber = Some(d.fileNumber("previous log number"))
	case tagMinLogNumberToKeep:
		e.MinLogNumberToKeep = Some(d.fileNumber("min log number to keep"))
	case tagColumnFamily:
		e.ColumnFamily = d.uvarint32("column family id")
	case tagColumnFamilyAdd:
		e.AddColumnFamily = Some(string(d.str("column family name")))
	case tagColumnFamilyDrop:
		e.DropColumnFamily = true
	case tagMaxColumnFamily:
		e.MaxColumnFamily = Some(d.uvarint32("max column family"))
	case tagAtomicGroup:
		e.AtomicGroup = Some(d.uvarint32("remaining entries of an atomic group"))
	case tagFeatures:
		f := Features(d.uvarint64("features"))
		if f&^knownFeatures != 0 {
			d.fail("expected features of Flatrock that this version knows (%#x), found %#x", uint64(knownFeatures), uint64(f))
		}
		e.Features = Some(f)
	case tagBlobAddition, tagOldBlobAddition:
		e.BlobAdditions = append(e.BlobAdditions, d.blobAddition())
	case tagBlobGarbage, tagOldBlobGarbage:
		e.BlobGarbages = append(e.BlobGarbages, d.blobGarbage())
	case tagOldWALAddition:
		e.WALAdditions = append(e.WALAdditions, d.walAddition())
	case tagOldWALDeletion:
		e.WALDeletion = Some(d.fileNumber("deleted WAL number"))
	default:
		if tag&tagSafeIgnore == 0 {
			d.fail("expected a version edit tag that is known or safe to ignore, found %d", tag)
			return
		}
		if v := d.str("version edit field"); d.err == nil {
			d.prefixedField(e, tag, v)
		}
	}
}

// prefixedField takes the value v of a tag whose value has a length in front.
func (d *decoder) prefixedField(e *VersionEdit, tag uint32, v []byte) {
	switch tag {
	case tagDBID:
		e.DBID = Some(string(v))
	case tagFullHistoryTsLow:
		if len(v) == 0 {
			d.fail("expected a full_history_ts_low, found no byte")
		}
		e.FullHistoryTsLow = clone(v)
	case tagWALAddition:
		in := d.inner(v)
		w := in.walAddition()
		d.leave(in, "WAL addition")
		e.WALAdditions = append(e.WALAdditions, w)
	case tagWALDeletion:
		in := d.inner(v)
		e.WALDeletion = Some(in.fileNumber("deleted WAL number"))
		d.leave(in, "WAL deletion")
	case tagPersistTimestamps:
		e.PersistTimestamps = Some(d.oneByte(v, "persist user-defined timestamps") == 1)
	case tagSubcompaction:
		e.SubcompactionProgress = Some(clone(v))
	case tagLastCompactedMSize:
		e.LastCompactedManifestSize = Some(d.wholeUvarint(v, "last compacted manifest size"))
	default:
		e.Unknown = append(e.Unknown, Field{tag, clone(v)})
	}
}

func (d *decoder) addFile(e *VersionEdit, form newFileForm) {
	nf, minLog := d.newFile(form)
	e.NewFiles = append(e.NewFiles, nf)
	if minLog.Set {
		e.MinLogNumberToKeep = minLog
	}
}

func (d *decoder) walAddition() (w WALAddition) {
	w.Number = d.fileNumber("WAL number")
	for d.err == nil {
		switch tag := d.uvarint32("WAL addition tag"); {
		case d.err != nil || tag == walTerminate:
			return w
		case tag == walSyncedSize:
			w.SyncedSize = Some(d.uvarint64("WAL synced size"))
		default:
			d.fail("expected WAL addition tag 1 or 2, found %d", tag)
		}
	}
	return w
}

package flatrock

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
)

// LiveFileMetaData describes a table file of the current version. Its slices are
// the caller's. RocksDB: LiveFileMetaData.
type LiveFileMetaData struct {
	ColumnFamilyName string
	Level            int
	Name             string // base name: 000012.sst
	Directory        string
	FileNumber       uint64
	Size             uint64 // bytes
	// SmallestKey and LargestKey are user keys; the largest may be the end of a range delete,
	// and then not be in the file.
	SmallestKey, LargestKey []byte
	// SmallestInternalKey and LargestInternalKey are those with their trailers.
	SmallestInternalKey, LargestInternalKey []byte
	SmallestSeqno, LargestSeqno             uint64
	EpochNumber                             uint64 // orders level 0 by age; 0 unknown
	NumEntries, NumDeletions                uint64 // of the file's properties
	BeingCompacted                          bool
	OldestBlobFileNumber                    uint64 // 0: refers to no blob file
	OldestAncesterTime, FileCreationTime    uint64 // unix seconds, 0 unknown
	FileChecksum                            []byte // nil: none
	FileChecksumFuncName                    string
	UniqueID                                []byte // nil: none
}

func (h *tableHandle) liveMetaData(level int) LiveFileMetaData {
	m := h.meta
	p := h.reader().Properties()
	return LiveFileMetaData{
		ColumnFamilyName: h.cf.name, Level: level, Name: manifest.TableName("", m.Number), Directory: h.cf.db.dir,
		FileNumber: m.Number, Size: m.Size,
		SmallestKey: slices.Clone(m.SmallestKey), LargestKey: slices.Clone(m.LargestKey),
		SmallestInternalKey: keys.AppendInternal(nil, m.SmallestKey, m.SmallestTrailer),
		LargestInternalKey:  keys.AppendInternal(nil, m.LargestKey, m.LargestTrailer),
		SmallestSeqno:       m.SmallestSeq, LargestSeqno: m.LargestSeq, EpochNumber: m.EpochNumber,
		NumEntries: p.NumEntries, NumDeletions: p.NumDeletions, OldestBlobFileNumber: m.OldestBlobNumber,
		OldestAncesterTime: m.OldestAncestorTime, FileCreationTime: m.FileCreationTime,
		FileChecksum: slices.Clone(m.Checksum), FileChecksumFuncName: m.ChecksumFunc, UniqueID: slices.Clone(m.UniqueID),
	}
}

// BlobMetaData describes a blob file, which RocksDB wrote. RocksDB: BlobMetaData.
type BlobMetaData struct {
	BlobFileNumber                     uint64
	BlobFileName                       string // base name
	TotalBlobCount, TotalBlobBytes     uint64
	GarbageBlobCount, GarbageBlobBytes uint64
}

// LevelMetaData describes a level. RocksDB: LevelMetaData.
type LevelMetaData struct {
	Level int
	Size  uint64             // bytes
	Files []LiveFileMetaData // level 0 newest first, others in key order
}

// ColumnFamilyMetaData describes the files of a family. RocksDB: ColumnFamilyMetaData.
type ColumnFamilyMetaData struct {
	Name         string
	Size         uint64 // bytes of table files
	FileCount    int
	Levels       []LevelMetaData
	BlobFileSize uint64
	BlobFiles    []BlobMetaData
}

// GetColumnFamilyMetaData describes the files of the default family. RocksDB:
// GetColumnFamilyMetaData.
func (db *DB) GetColumnFamilyMetaData() (ColumnFamilyMetaData, error) {
	return db.defaultCF.GetColumnFamilyMetaData()
}

// GetColumnFamilyMetaData is DB.GetColumnFamilyMetaData for this column family.
func (cf *ColumnFamily) GetColumnFamilyMetaData() (ColumnFamilyMetaData, error) {
	s, reader, err := cf.enter()
	if err != nil {
		return ColumnFamilyMetaData{}, err
	}
	defer s.release(reader)
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	out := ColumnFamilyMetaData{Name: cf.name, Levels: make([]LevelMetaData, s.files.version.NumLevels())}
	for l := range out.Levels {
		out.Levels[l].Level = l
		if l >= len(s.files.levels) {
			continue
		}
		for _, r := range s.files.levels[l] {
			m := r.handle.liveMetaData(l)
			m.BeingCompacted = cf.running.Busy(r.handle.meta)
			out.Levels[l].Files = append(out.Levels[l].Files, m)
			out.Levels[l].Size += m.Size
			out.FileCount++
		}
		out.Size += out.Levels[l].Size
	}
	for _, b := range s.files.version.Blobs {
		out.BlobFiles = append(out.BlobFiles, BlobMetaData{b.Number, manifest.BlobName("", b.Number), b.Count, b.Bytes, b.GarbageCount, b.GarbageBytes})
		out.BlobFileSize += b.Bytes
	}
	return out, nil
}

// GetLiveFilesMetaData describes the table files of all families. RocksDB: GetLiveFilesMetaData.
func (db *DB) GetLiveFilesMetaData() ([]LiveFileMetaData, error) {
	return liveFilesOf(db.ColumnFamilies())
}

// liveFilesOf describes the table files of families; those that are dropped meanwhile have none.
func liveFilesOf(families []*ColumnFamily) ([]LiveFileMetaData, error) {
	var out []LiveFileMetaData
	for _, cf := range families {
		m, err := cf.GetColumnFamilyMetaData()
		if errors.Is(err, ErrColumnFamilyDropped) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, l := range m.Levels {
			out = append(out, l.Files...)
		}
	}
	return out, nil
}

// GetLiveFiles lists the names of the files, relative to the database's directory and with a
// leading slash as in RocksDB, that make the current state without its logs: tables, blobs,
// CURRENT, the MANIFEST, of which the first manifestSize bytes count, and the OPTIONS
// file. Flush memtables first, or copy the logs of GetSortedWalFiles too; between
// DisableFileDeletions and EnableFileDeletions the files stay. RocksDB: GetLiveFiles.
func (db *DB) GetLiveFiles() (names []string, manifestSize int64, err error) {
	l, err := db.captureFiles(nil)
	if err != nil {
		return nil, 0, err
	}
	for _, n := range l.tables {
		names = append(names, manifest.TableName("/", n))
	}
	for _, n := range l.blobs {
		names = append(names, manifest.BlobName("/", n))
	}
	names = append(names, "/"+manifest.CurrentBase, manifest.ManifestName("/", l.manifestNumber))
	if l.optionsNumber > 0 {
		names = append(names, manifest.OptionsName("/", l.optionsNumber))
	}
	return names, l.manifestSize, nil
}

// FileKind says what a file of a database is. RocksDB: FileType.
type FileKind = manifest.FileKind

// The kinds of files that GetLiveFilesStorageInfo lists.
const (
	TableFile    = manifest.KindTable
	BlobFile     = manifest.KindBlob
	ManifestFile = manifest.KindManifest
	CurrentFile  = manifest.KindCurrent
	OptionsFile  = manifest.KindOptions
	WALFile      = manifest.KindLog
)

// LiveFileStorageInfo is a file that a copy of the database needs. RocksDB:
// LiveFileStorageInfo.
type LiveFileStorageInfo struct {
	RelativeFilename string // base name
	Directory        string
	FileNumber       uint64 // 0 for CURRENT
	FileType         FileKind
	Size             uint64 // bytes that belong to the state
	// ReplacementContents is what the copy must hold instead of the file: of CURRENT.
	ReplacementContents []byte
	// TrimToSize says that the file may be longer, or grow.
	TrimToSize           bool
	FileChecksum         []byte
	FileChecksumFuncName string
}

// GetLiveFilesStorageInfo lists all that a copy of the database needs, logs included, after a flush
// if o says so. Use it between DisableFileDeletions and EnableFileDeletions. RocksDB:
// GetLiveFilesStorageInfo.
func (db *DB) GetLiveFilesStorageInfo(o *CheckpointOptions) ([]LiveFileStorageInfo, error) {
	l, err := db.captureState(db.lifetime, o)
	if err != nil {
		return nil, err
	}
	var out []LiveFileStorageInfo
	add := func(path string, number uint64, kind FileKind, dir string, size uint64) *LiveFileStorageInfo {
		out = append(out, LiveFileStorageInfo{RelativeFilename: path, Directory: dir, FileNumber: number, FileType: kind, Size: size})
		return &out[len(out)-1]
	}
	for _, m := range l.metas {
		i := add(manifest.TableName("", m.Number), m.Number, TableFile, db.dir, m.Size)
		i.FileChecksum, i.FileChecksumFuncName = m.Checksum, m.ChecksumFunc
	}
	for _, n := range l.blobs {
		info, err := db.fs.Stat(manifest.BlobName(db.dir, n))
		if err != nil {
			return nil, err
		}
		add(manifest.BlobName("", n), n, BlobFile, db.dir, uint64(info.Size()))
	}
	add(manifest.ManifestName("", l.manifestNumber), l.manifestNumber, ManifestFile, db.dir, uint64(l.manifestSize)).TrimToSize = true
	current := []byte(manifest.ManifestBase(l.manifestNumber) + "\n")
	add(manifest.CurrentBase, 0, CurrentFile, db.dir, uint64(len(current))).ReplacementContents = current
	if l.optionsNumber > 0 {
		info, err := db.fs.Stat(manifest.OptionsName(db.dir, l.optionsNumber))
		if err != nil {
			return nil, err
		}
		add(manifest.OptionsName("", l.optionsNumber), l.optionsNumber, OptionsFile, db.dir, uint64(info.Size()))
	}
	for _, w := range l.logs {
		add(manifest.LogName("", w.number), w.number, WALFile, db.walDir(), uint64(w.size)).TrimToSize = w.open
	}
	return out, nil
}

// liveState is the files of one moment.
type liveState struct {
	metas          []*manifest.FileMetadata
	tables, blobs  []uint64
	manifestNumber uint64
	manifestSize   int64
	optionsNumber  uint64
	sessions       map[uint64]string // of the tables, by number: the session that wrote them
	logs           []liveLog         // that the MANIFEST needs, oldest first
	seq            uint64
}

type liveLog struct {
	number uint64
	path   string
	size   int64
	open   bool // it takes writes
}

// captureFiles takes the files of all families, or of one.
func (db *DB) captureFiles(only *ColumnFamily) (*liveState, error) {
	if db.manifest == nil {
		return nil, ErrReadOnly
	}
	// The OPTIONS file that describes every family of the MANIFEST: none is dropped
	// from it, or added, before both are taken.
	db.optionsMu.Lock()
	defer db.optionsMu.Unlock()
	number, err := optionsfile.Latest(db.fs, db.dir)
	if errors.Is(err, fs.ErrNotExist) {
		number = 0 // a database without one opens too
	} else if err != nil {
		return nil, err
	}
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	if db.closed.Load() {
		return nil, ErrClosed
	}
	l := db.filesOf(only)
	l.optionsNumber = number
	return l, nil
}

// filesOf lists what the MANIFEST names. The caller holds manifestMu, so that
// the logs that it needs are in db.logs.
func (db *DB) filesOf(only *ColumnFamily) *liveState {
	st := db.manifest.State()
	l := &liveState{manifestNumber: st.ManifestNumber, manifestSize: st.ManifestSize, seq: db.visibleSeq.Load()}
	for _, f := range st.Families {
		if only != nil && f.ID != only.id {
			continue
		}
		for _, level := range f.Version.Levels {
			for _, m := range level {
				l.metas, l.tables = append(l.metas, m), append(l.tables, m.Number)
			}
		}
		for _, b := range f.Version.Blobs {
			l.blobs = append(l.blobs, b.Number)
		}
	}
	oldest := st.MinLogNumber()
	l.sessions = map[uint64]string{}
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, cf := range db.families {
		for number, h := range cf.tables {
			l.sessions[number] = h.reader().Properties().DBSessionID
		}
	}
	for _, log := range db.logs {
		if log.number >= oldest {
			l.logs = append(l.logs, liveLog{number: log.number, path: log.path, size: log.end, open: log == db.wal})
		}
	}
	return l
}

package flatrock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// ExportImportFilesMetaData describes the files of an exported column family. It
// holds plain values: encoding/json writes and reads it. RocksDB:
// ExportImportFilesMetaData.
type ExportImportFilesMetaData struct {
	ComparatorName string
	Files          []LiveFileMetaData
}

// ExportColumnFamily flushes a family and makes links to its table files, or copies on
// another file system, in dir, which must not exist. What it returns goes to
// CreateColumnFamilyWithImport of another database, or of this one. The files are of one moment
// between the call and its return, for which writes wait. A crash leaves no dir
// or a whole one. RocksDB: Checkpoint::ExportColumnFamily.
func (db *DB) ExportColumnFamily(ctx context.Context, cf *ColumnFamily, dir string) (*ExportImportFilesMetaData, error) {
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	out := &ExportImportFilesMetaData{ComparatorName: cf.opts.Comparator.Name()}
	dir = filepath.Clean(dir)
	err := db.stage(dir, func(staging string) error {
		if err := cf.Flush(ctx, nil); err != nil {
			return err
		}
		m, err := db.captureFlushed(ctx, cf)
		if err != nil {
			return err
		}
		if len(m.BlobFiles) > 0 {
			return fmt.Errorf("%w: column family %q has blob files, which cannot be exported", ErrNotSupported, cf.name)
		}
		c := copier{db: db, dir: staging}
		for _, l := range m.Levels {
			for _, f := range l.Files {
				if err := c.table(ctx, &manifest.FileMetadata{Number: f.FileNumber, Size: f.Size}, f.FileNumber); err != nil {
					return err
				}
				f.Directory = dir
				out.Files = append(out.Files, f)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// captureFlushed takes the files of a family at a moment when they hold all that it has: writes wait while what
// came since the last flush is written. Without that an ingestion, whose file is there at once, would be exported without
// writes that came before it.
func (db *DB) captureFlushed(ctx context.Context, cf *ColumnFamily) (m ColumnFamilyMetaData, err error) {
	db.exclusive(func() {
		if err = db.usable(cf); err != nil {
			return
		}
		var full []*ColumnFamily
		if !cf.active.empty() {
			full = []*ColumnFamily{cf}
		}
		if err = db.flushHeld(ctx, full, []*ColumnFamily{cf}); err == nil {
			m, err = cf.GetColumnFamilyMetaData()
		}
	})
	return m, err
}

// ImportColumnFamilyOptions tunes CreateColumnFamilyWithImport. Nil means the zero
// value. RocksDB: ImportColumnFamilyOptions.
type ImportColumnFamilyOptions struct {
	// MoveFiles links the files and removes the originals once the import is done.
	// RocksDB: move_files.
	MoveFiles bool
}

// CreateColumnFamilyWithImport adds a family that holds the files of an export, at
// their levels and with their sequence numbers. The family and its files come to be
// together, or neither does. RocksDB: CreateColumnFamilyWithImport.
func (db *DB) CreateColumnFamilyWithImport(ctx context.Context, name string, o *ColumnFamilyOptions, io *ImportColumnFamilyOptions, m *ExportImportFilesMetaData) (cf *ColumnFamily, err error) {
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	if io == nil {
		io = &ImportColumnFamilyOptions{}
	}
	opts := ColumnFamilyOptions{}
	if o != nil {
		opts = *o
	}
	if order := opts.withDefaults().Comparator.Name(); order != m.ComparatorName {
		return nil, fmt.Errorf("%w: column family %q has comparator %s, and the export has %s", ErrInvalidArgument, name, order, m.ComparatorName)
	}
	im := importing{db: db, opts: *opts.withDefaults()}
	defer func() {
		if err != nil && cf == nil && !errors.Is(err, ErrBackground) { // else the MANIFEST may name them
			err = errors.Join(err, im.discard())
		}
	}()
	for i := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := im.bring(&m.Files[i], io.MoveFiles); err != nil {
			return nil, err
		}
	}
	if err := db.fs.SyncDir(db.dir); err != nil {
		return nil, err
	}
	if cf, err = db.createColumnFamily(name, o, im.files); err != nil {
		return cf, err
	}
	if io.MoveFiles {
		for _, f := range m.Files {
			path := filepath.Join(f.Directory, f.Name)
			if err := db.fs.Remove(path); err != nil {
				db.log.Warn("removing the original of an imported file", "file", path, "err", err)
			}
		}
	}
	return cf, nil
}

// importing is files on their way into a new family.
type importing struct {
	db    *DB
	opts  ColumnFamilyOptions // of the new family
	files []manifest.NewFile
}

func (im *importing) bring(f *LiveFileMetaData, move bool) error {
	path := filepath.Join(f.Directory, f.Name)
	smallest, smallestTrailer, ok := keys.Split(f.SmallestInternalKey)
	largest, largestTrailer, ok2 := keys.Split(f.LargestInternalKey)
	if !ok || !ok2 || f.Level < 0 || f.Level >= manifest.MaxLevels || f.SmallestSeqno > f.LargestSeqno || f.LargestSeqno > keys.MaxSeq {
		return fmt.Errorf("%w: %s: the metadata of the export is not that of a table file: level %d, bounds of %d and %d bytes, sequence numbers %d to %d",
			ErrInvalidArgument, path, f.Level, len(f.SmallestInternalKey), len(f.LargestInternalKey), f.SmallestSeqno, f.LargestSeqno)
	}
	if f.OldestBlobFileNumber != 0 {
		return fmt.Errorf("%w: %s refers to blob file %d, and blob files cannot be imported", ErrNotSupported, path, f.OldestBlobFileNumber)
	}
	meta := &manifest.FileMetadata{
		Number: im.db.manifest.NewFileNumber(), Size: f.Size,
		SmallestKey: smallest, SmallestTrailer: smallestTrailer, LargestKey: largest, LargestTrailer: largestTrailer,
		SmallestSeq: f.SmallestSeqno, LargestSeq: f.LargestSeqno, EpochNumber: f.EpochNumber, UniqueID: f.UniqueID,
		OldestAncestorTime: f.OldestAncesterTime, FileCreationTime: f.FileCreationTime,
		Checksum: f.FileChecksum, ChecksumFunc: f.FileChecksumFuncName,
	}
	im.files = append(im.files, manifest.NewFile{Level: f.Level, Meta: meta})
	to := manifest.TableName(im.db.dir, meta.Number)
	if move {
		err := im.db.fs.Link(path, to)
		if err == nil {
			return syncFile(im.db.fs, to)
		}
		im.db.log.Info("an exported file cannot be linked, and is copied", "file", path, "err", err)
	}
	if err := copyFile(im.db.fs, path, to, int64(f.Size)); err != nil {
		return err
	}
	return verifyCopy(im.db.fs, im.opts, path, to)
}

// discard removes the files of an import that failed.
func (im *importing) discard() error {
	var errs []error
	for _, f := range im.files {
		if err := im.db.fs.Remove(manifest.TableName(im.db.dir, f.Meta.Number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

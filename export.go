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
// CreateColumnFamilyWithImport of another database, or of this one. A crash leaves no dir
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
		m, err := cf.GetColumnFamilyMetaData()
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
	im := importing{db: db}
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
	return copyFile(im.db.fs, path, to, int64(f.Size))
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

package flatrock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// BackupEngine keeps backups of databases in a directory, in RocksDB's layout: its
// tools restore ours, and ours its own.
//
//	meta/<id>            one text file a backup; it lists the others, and its rename commits
//	shared_checksum/…    table and blob files, shared by backups
//	private/<id>/…       MANIFEST, CURRENT, OPTIONS and logs
//
// Not safe for concurrent use, nor for two engines on one directory. RocksDB: BackupEngine.
type BackupEngine struct {
	dir string
	fs  mmapfs.FS
	// infos are the backups by id, ascending.
	infos []BackupInfo
}

// BackupInfo describes a backup. RocksDB: BackupInfo.
type BackupInfo struct {
	BackupID    uint32
	Timestamp   int64 // unix seconds
	Sequence    uint64
	AppMetadata string
	Files       []BackupFileInfo
}

// BackupFileInfo is a file of a backup.
type BackupFileInfo struct {
	RelativeFilename string // below the backup directory, with slashes
	CRC32C           uint32 // of the whole file
	HasCRC32C        bool
}

// CreateBackupOptions tunes CreateNewBackup. Nil means the zero value.
type CreateBackupOptions struct {
	// FlushBeforeBackup flushes memtables first; without it the logs are part of the
	// backup. RocksDB: flush_before_backup.
	FlushBeforeBackup bool
	// AppMetadata is kept with the backup. RocksDB: CreateNewBackupWithMetadata.
	AppMetadata string
}

// OpenBackupEngine opens the backup directory, or makes it. A nil file system means
// the operating system's. What a crash left unfinished counts for nothing; GarbageCollect removes it.
func OpenBackupEngine(dir string, fsys mmapfs.FS) (*BackupEngine, error) {
	e := &BackupEngine{dir: dir, fs: fsys}
	if e.fs == nil {
		e.fs = mmapfs.OS
	}
	for _, sub := range []string{"meta", "private", "shared_checksum"} {
		if err := e.fs.MkdirAll(filepath.Join(dir, sub)); err != nil {
			return nil, err
		}
	}
	names, err := e.fs.List(filepath.Join(dir, "meta"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil || id == 0 {
			continue // of a backup that was not finished, or not ours
		}
		info, err := e.readMeta(uint32(id))
		if err != nil {
			return nil, err
		}
		e.infos = append(e.infos, info)
	}
	slices.SortFunc(e.infos, func(a, b BackupInfo) int { return int(a.BackupID) - int(b.BackupID) })
	return e, nil
}

// GetBackupInfo lists the backups, oldest first.
func (e *BackupEngine) GetBackupInfo() []BackupInfo { return slices.Clone(e.infos) }

func (e *BackupEngine) path(rel string) string { return filepath.Join(e.dir, filepath.FromSlash(rel)) }

func (e *BackupEngine) find(id uint32) (*BackupInfo, error) {
	for i := range e.infos {
		if e.infos[i].BackupID == id {
			return &e.infos[i], nil
		}
	}
	return nil, fmt.Errorf("%w: backup %d of %s", ErrNotFound, id, e.dir)
}

// CreateNewBackup copies the state of db, between two writes, and returns the new
// backup's id. Table files that an earlier backup has are not copied again. A crash leaves no new
// backup or a whole one.
func (e *BackupEngine) CreateNewBackup(ctx context.Context, db *DB, o *CreateBackupOptions) (id uint32, err error) {
	if o == nil {
		o = &CreateBackupOptions{}
	}
	id = 1
	if n := len(e.infos); n > 0 {
		id = e.infos[n-1].BackupID + 1
	}
	private := path.Join("private", strconv.Itoa(int(id)))
	if err := e.fs.RemoveAll(e.path(private)); err != nil { // of one that a crash cut short
		return 0, err
	}
	if err := db.DisableFileDeletions(); err != nil {
		return 0, err
	}
	defer db.EnableFileDeletions()
	co := &CheckpointOptions{LogSizeForFlush: NeverFlush}
	if o.FlushBeforeBackup {
		co = nil
	}
	l, err := db.captureState(ctx, co)
	if err != nil {
		return 0, err
	}
	if err := e.fs.MkdirAll(e.path(private)); err != nil {
		return 0, err
	}
	info := BackupInfo{BackupID: id, Timestamp: time.Now().Unix(), Sequence: l.seq, AppMetadata: o.AppMetadata}
	b := backupCopy{e: e, db: db, ctx: ctx, info: &info, private: private}
	if err := b.all(l); err != nil {
		return 0, errors.Join(err, e.fs.RemoveAll(e.path(private)))
	}
	if err := e.writeMeta(&info); err != nil {
		return 0, err
	}
	e.infos = append(e.infos, info)
	return id, nil
}

// backupCopy is a backup in the making.
type backupCopy struct {
	e       *BackupEngine
	db      *DB
	ctx     context.Context
	info    *BackupInfo
	private string
}

func (b *backupCopy) all(l *liveState) error {
	for _, m := range l.metas {
		from := manifest.TableName(b.db.dir, m.Number)
		if _, err := b.db.fs.Stat(from); errors.Is(err, fs.ErrNotExist) {
			from = manifest.OldTableName(b.db.dir, m.Number)
		}
		if err := b.shared(from, m.Number, ".sst", l.sessions[m.Number], int64(m.Size)); err != nil {
			return err
		}
	}
	for _, n := range l.blobs {
		from := manifest.BlobName(b.db.dir, n)
		info, err := b.db.fs.Stat(from)
		if err != nil {
			return err
		}
		if err := b.shared(from, n, ".blob", "", info.Size()); err != nil {
			return err
		}
	}
	if err := b.own(manifest.ManifestName(b.db.dir, l.manifestNumber), l.manifestSize); err != nil {
		return err
	}
	if err := b.write("CURRENT", strings.NewReader(manifest.ManifestBase(l.manifestNumber)+"\n"), -1); err != nil {
		return err
	}
	if l.optionsNumber > 0 {
		from := manifest.OptionsName(b.db.dir, l.optionsNumber)
		info, err := b.db.fs.Stat(from)
		if err == nil {
			err = b.own(from, info.Size())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a newer one has taken its place
			return err
		}
	}
	for _, w := range l.logs {
		if err := b.own(w.path, w.size); err != nil {
			return err
		}
	}
	for _, dir := range []string{b.private, "private", "shared_checksum"} {
		if err := b.e.fs.SyncDir(b.e.path(dir)); err != nil {
			return err
		}
	}
	return nil
}

// shared brings a file that never changes, unless an earlier backup has brought it.
func (b *backupCopy) shared(from string, number uint64, ext, session string, size int64) error {
	sum, err := checksumOf(b.db.fs, from, size)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%06d_%d_%d%s", number, sum, size, ext)
	if session != "" {
		name = fmt.Sprintf("%06d_s%s_%d%s", number, session, size, ext)
	}
	rel := path.Join("shared_checksum", name)
	for _, i := range b.e.infos {
		for _, f := range i.Files {
			if f.RelativeFilename != rel || !f.HasCRC32C {
				continue
			}
			if f.CRC32C != sum {
				return keys.Corruptf(name, -1, "expected the checksum %d of an earlier backup, found %d in %s", f.CRC32C, sum, from)
			}
			if info, err := b.e.fs.Stat(b.e.path(rel)); err == nil && info.Size() == size {
				b.info.Files = append(b.info.Files, BackupFileInfo{rel, sum, true})
				return nil
			}
		}
	}
	// Left by a backup that failed, or whose meta file is gone: nobody vouches for it.
	if info, err := b.e.fs.Stat(b.e.path(rel)); err == nil && info.Size() == size {
		if there, err := checksumOf(b.e.fs, b.e.path(rel), size); err == nil && there == sum {
			b.info.Files = append(b.info.Files, BackupFileInfo{rel, sum, true})
			return nil
		}
	}
	src, err := b.db.fs.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := b.bring(rel, src, size); err != nil {
		return err
	}
	if copied := b.info.Files[len(b.info.Files)-1].CRC32C; copied != sum {
		return keys.Corruptf(name, -1, "expected the checksum %d that %s had a moment before, copied %d", sum, from, copied)
	}
	return nil
}

// own brings a file that is the backup's alone.
func (b *backupCopy) own(from string, size int64) error {
	src, err := b.db.fs.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	return b.write(filepath.Base(from), src, size)
}

func (b *backupCopy) write(base string, src io.Reader, size int64) error {
	return b.bring(path.Join(b.private, base), src, size)
}

// bring writes a file under a temporary name, synced, and renames it. A negative size is all of src.
func (b *backupCopy) bring(rel string, src io.Reader, size int64) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	temp := path.Join(path.Dir(rel), "."+path.Base(rel)+".tmp")
	sum, err := copySummed(b.e.fs, src, b.e.path(temp), size, filepath.Base(rel))
	if err != nil {
		return err
	}
	if err := b.e.fs.Rename(b.e.path(temp), b.e.path(rel)); err != nil {
		return err
	}
	b.info.Files = append(b.info.Files, BackupFileInfo{rel, sum, true})
	return nil
}

// copySummed copies size bytes, all if negative, to a new synced file.
func copySummed(fsys mmapfs.FS, src io.Reader, to string, size int64, name string) (sum uint32, err error) {
	dst, err := fsys.Create(to)
	if err != nil {
		return 0, err
	}
	if size >= 0 {
		src = io.LimitReader(src, size)
	}
	h := new(crc32cHash)
	n, err := io.Copy(io.MultiWriter(dst, h), src)
	if err == nil && size >= 0 && n != size {
		err = keys.Corruptf(name, n, "expected %d bytes, found %d", size, n)
	}
	if err == nil {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return 0, errors.Join(err, fsys.Remove(to))
	}
	return h.sum, nil
}

// checksumOf is the CRC32C of the first size bytes of a file.
func checksumOf(fsys mmapfs.FS, name string, size int64) (uint32, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := new(crc32cHash)
	n, err := io.Copy(h, io.LimitReader(f, size))
	if err == nil && n != size {
		err = keys.Corruptf(filepath.Base(name), n, "expected %d bytes, found %d", size, n)
	}
	return h.sum, err
}

// writeMeta commits a backup.
func (e *BackupEngine) writeMeta(i *BackupInfo) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%d\n%d\n", i.Timestamp, i.Sequence)
	if i.AppMetadata != "" {
		fmt.Fprintf(&b, "metadata %s\n", strings.ToUpper(hex.EncodeToString([]byte(i.AppMetadata))))
	}
	fmt.Fprintf(&b, "%d\n", len(i.Files))
	for _, f := range i.Files {
		fmt.Fprintf(&b, "%s crc32 %d\n", f.RelativeFilename, f.CRC32C)
	}
	temp := filepath.Join(e.dir, "meta", fmt.Sprintf(".%d.tmp", i.BackupID))
	if _, err := copySummed(e.fs, &b, temp, -1, ""); err != nil {
		return err
	}
	if err := e.fs.Rename(temp, filepath.Join(e.dir, "meta", strconv.Itoa(int(i.BackupID)))); err != nil {
		return err
	}
	return e.fs.SyncDir(filepath.Join(e.dir, "meta"))
}

// maxMetaSize bounds a meta file: a line for each file of a database.
const maxMetaSize = 1 << 28

// readMeta reads a meta file, of RocksDB's schema 1 or 2.
func (e *BackupEngine) readMeta(id uint32) (i BackupInfo, err error) {
	name := filepath.Join(e.dir, "meta", strconv.Itoa(int(id)))
	f, err := e.fs.Open(name)
	if err != nil {
		return i, err
	}
	defer f.Close()
	i, err = parseBackupMeta(fmt.Sprintf("meta/%d", id), io.LimitReader(f, maxMetaSize))
	i.BackupID = id
	return i, err
}

// parseBackupMeta reads the text of a meta file.
func parseBackupMeta(name string, r io.Reader) (i BackupInfo, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	at := 0
	fail := func(format string, args ...any) error {
		if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
			return err
		}
		return keys.Corruptf(name, -1, "line %d: expected %s", at, fmt.Sprintf(format, args...))
	}
	line := func() (string, bool) {
		at++
		ok := lines.Scan()
		return lines.Text(), ok
	}
	text, ok := line()
	schema := 1
	if v, found := strings.CutPrefix(text, "schema_version "); ok && found {
		if v != "2" && !strings.HasPrefix(v, "2.") {
			return i, fmt.Errorf("%w: %s: schema version %q of a backup", ErrNotSupported, name, v)
		}
		schema = 2
		text, ok = line()
	}
	if i.Timestamp, err = strconv.ParseInt(text, 10, 64); !ok || err != nil {
		return i, fail("a time in seconds, found %q", text)
	}
	text, ok = line()
	if i.Sequence, err = strconv.ParseUint(text, 10, 64); !ok || err != nil {
		return i, fail("a sequence number, found %q", text)
	}
	for text, ok = line(); ok && (text == "" || text[0] < '0' || text[0] > '9'); text, ok = line() {
		field, value, _ := strings.Cut(text, " ")
		switch {
		case field == "metadata":
			b, err := hex.DecodeString(value)
			if err != nil {
				return i, fail("metadata in hex, found %q", value)
			}
			i.AppMetadata = string(b)
		case schema == 1 || strings.HasPrefix(field, "ni::"):
			return i, fmt.Errorf("%w: %s: field %q of a backup", ErrNotSupported, name, field)
		}
	}
	count, err := strconv.ParseUint(text, 10, 32)
	if !ok || err != nil {
		return i, fail("a number of files, found %q", text)
	}
	for range count {
		if text, ok = line(); !ok {
			return i, fail("%d files, found %d", count, len(i.Files))
		}
		words := strings.Split(text, " ")
		if !safeRelative(words[0]) || len(words)%2 != 1 || schema == 1 && len(words) != 3 {
			return i, fail("a path below the backup directory and pairs of names and values, found %q", text)
		}
		f := BackupFileInfo{RelativeFilename: words[0]}
		for w := 1; w < len(words); w += 2 {
			switch {
			case words[w] == "crc32":
				n, err := strconv.ParseUint(words[w+1], 10, 32)
				if err != nil {
					return i, fail("a checksum, found %q", words[w+1])
				}
				f.CRC32C, f.HasCRC32C = uint32(n), true
			case schema == 1 || strings.HasPrefix(words[w], "ni::"):
				return i, fmt.Errorf("%w: %s: field %q of a file of a backup", ErrNotSupported, name, words[w])
			}
		}
		i.Files = append(i.Files, f)
	}
	return i, lines.Err()
}

// safeRelative reports whether a path stays below the backup directory.
func safeRelative(p string) bool {
	return p != "" && p != "." && filepath.IsLocal(filepath.FromSlash(p)) && path.Clean(p) == p && !strings.ContainsRune(p, '\\')
}

// VerifyBackup reads every file of a backup and compares its checksum. The first
// damage is returned; it names the file.
func (e *BackupEngine) VerifyBackup(ctx context.Context, id uint32) error {
	info, err := e.find(id)
	if err != nil {
		return err
	}
	for _, f := range info.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		stat, err := e.fs.Stat(e.path(f.RelativeFilename))
		if err != nil {
			return err
		}
		sum, err := checksumOf(e.fs, e.path(f.RelativeFilename), stat.Size())
		if err != nil {
			return err
		}
		if err := f.check(sum); err != nil {
			return err
		}
	}
	return nil
}

func (f *BackupFileInfo) check(sum uint32) error {
	if f.HasCRC32C && f.CRC32C != sum {
		return keys.Corruptf(f.RelativeFilename, -1, "expected the file's CRC32C to be %d as its backup says, found %d", f.CRC32C, sum)
	}
	return nil
}

// RestoreDBFromLatestBackup is RestoreDBFromBackup of the newest backup.
func (e *BackupEngine) RestoreDBFromLatestBackup(ctx context.Context, dbDir, walDir string) error {
	if len(e.infos) == 0 {
		return fmt.Errorf("%w: no backup in %s", ErrNotFound, e.dir)
	}
	return e.RestoreDBFromBackup(ctx, e.infos[len(e.infos)-1].BackupID, dbDir, walDir)
}

// RestoreDBFromBackup makes dbDir hold the database of a backup, its logs in walDir if
// that is not empty. Database files that are there are removed first; no process may have it open.
// CURRENT comes last, so that a crash leaves no database or a whole one.
func (e *BackupEngine) RestoreDBFromBackup(ctx context.Context, id uint32, dbDir, walDir string) error {
	info, err := e.find(id)
	if err != nil {
		return err
	}
	if walDir == "" {
		walDir = dbDir
	}
	for _, dir := range []string{dbDir, walDir, filepath.Join(walDir, archiveDir)} {
		if err := e.clear(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{dbDir, walDir} {
		if err := e.fs.MkdirAll(dir); err != nil {
			return err
		}
	}
	current := ""
	for _, f := range info.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		base := restoredName(f.RelativeFilename)
		kind, _, ok := manifest.ParseName(base)
		if !ok {
			return keys.Corruptf(f.RelativeFilename, -1, "expected a file of a database, found the name %q", base)
		}
		to := filepath.Join(dbDir, base)
		switch kind {
		case manifest.KindLog:
			to = filepath.Join(walDir, base)
		case manifest.KindCurrent:
			to += ".tmp"
			current = to
		}
		if err := e.restore(&f, to); err != nil {
			return err
		}
	}
	if current == "" {
		return keys.Corruptf(fmt.Sprintf("meta/%d", id), -1, "expected a CURRENT file among those of the backup, found none")
	}
	for _, dir := range []string{walDir, dbDir} {
		if err := e.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := e.fs.Rename(current, manifest.CurrentName(dbDir)); err != nil {
		return err
	}
	return e.fs.SyncDir(dbDir)
}

// clear removes the files of a database, CURRENT first: without it there is none.
func (e *BackupEngine) clear(dir string) error {
	names, err := e.fs.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if slices.Contains(names, manifest.CurrentBase) {
		if err := errors.Join(e.fs.Remove(manifest.CurrentName(dir)), e.fs.SyncDir(dir)); err != nil {
			return err
		}
	}
	for _, name := range names {
		if kind, _, ok := manifest.ParseName(name); ok && kind != manifest.KindCurrent && kind != manifest.KindLock {
			if err := e.fs.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *BackupEngine) restore(f *BackupFileInfo, to string) error {
	src, err := e.fs.Open(e.path(f.RelativeFilename))
	if err != nil {
		return err
	}
	defer src.Close()
	sum, err := copySummed(e.fs, src, to, -1, f.RelativeFilename)
	if err != nil {
		return err
	}
	return f.check(sum)
}

// restoredName is the name in the database of a file in a backup: in shared_checksum
// what stands before the first underscore, with the extension.
func restoredName(rel string) string {
	base := path.Base(rel)
	if strings.HasPrefix(rel, "shared_checksum/") {
		if number, _, ok := strings.Cut(base, "_"); ok {
			return number + path.Ext(base)
		}
	}
	return base
}

// DeleteBackup removes a backup and the files that no other one needs.
func (e *BackupEngine) DeleteBackup(id uint32) error {
	if _, err := e.find(id); err != nil {
		return err
	}
	if err := e.fs.Remove(filepath.Join(e.dir, "meta", strconv.Itoa(int(id)))); err != nil {
		return err
	}
	if err := e.fs.SyncDir(filepath.Join(e.dir, "meta")); err != nil {
		return err
	}
	e.infos = slices.DeleteFunc(e.infos, func(i BackupInfo) bool { return i.BackupID == id })
	return e.GarbageCollect()
}

// PurgeOldBackups keeps the newest backups, so many, and deletes the others.
func (e *BackupEngine) PurgeOldBackups(keep int) error {
	for len(e.infos) > max(keep, 0) {
		if err := e.DeleteBackup(e.infos[0].BackupID); err != nil {
			return err
		}
	}
	return nil
}

// GarbageCollect removes what no backup needs: remains of crashes and of deleted backups.
func (e *BackupEngine) GarbageCollect() error {
	needed := map[string]bool{}
	for _, i := range e.infos {
		needed[path.Join("private", strconv.Itoa(int(i.BackupID)))] = true
		for _, f := range i.Files {
			needed[f.RelativeFilename] = true
		}
	}
	var errs []error
	for _, sub := range []string{"private", "shared_checksum"} {
		names, err := e.fs.List(e.path(sub))
		if err != nil {
			return err
		}
		for _, name := range names {
			if rel := path.Join(sub, name); !needed[rel] {
				errs = append(errs, e.fs.RemoveAll(e.path(rel)))
			}
		}
	}
	metas, err := e.fs.List(filepath.Join(e.dir, "meta"))
	for _, name := range metas {
		if strings.HasPrefix(name, ".") && strings.HasSuffix(name, ".tmp") {
			errs = append(errs, e.fs.Remove(filepath.Join(e.dir, "meta", name)))
		}
	}
	return errors.Join(append(errs, err)...)
}

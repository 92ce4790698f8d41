package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// FileKind says what a file of a database directory is, by its name.
type FileKind uint8

// The kinds of files. KindUnknown stands for every name that does not parse;
// such files are left alone.
const (
	KindUnknown FileKind = iota
	KindTable
	KindLog
	KindBlob
	KindManifest
	KindCurrent
	KindLock
	KindIdentity
	KindOptions
	KindTemp        // NNNNNN.dbtmp
	KindOptionsTemp // OPTIONS-NNNNNN.dbtmp
	KindInfoLog     // LOG and LOG.old.<micros>; the number is the time, 0 for LOG
	KindMeta        // METADB-N
	KindProgress    // COMPACTION_PROGRESS-<timestamp>
)

var fileKindNames = [...]string{"unknown", "table", "log", "blob", "manifest", "current", "lock", "identity",
	"options", "temp", "options temp", "info log", "meta", "compaction progress"}

// String names the kind for messages.
func (k FileKind) String() string {
	if int(k) < len(fileKindNames) {
		return fileKindNames[k]
	}
	return "FileKind(" + strconv.Itoa(int(k)) + ")"
}

// Base names of the files without a number.
const (
	CurrentBase  = "CURRENT"
	LockBase     = "LOCK"
	IdentityBase = "IDENTITY"
	InfoLogBase  = "LOG"
)

func numbered(dir string, n uint64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%06d%s", n, suffix))
}

// TableName is the path of table file n: NNNNNN.sst.
func TableName(dir string, n uint64) string { return numbered(dir, n, ".sst") }

// OldTableName is the path that a table file may have instead, LevelDB's: NNNNNN.ldb.
func OldTableName(dir string, n uint64) string { return numbered(dir, n, ".ldb") }

// LogName is the path of WAL n: NNNNNN.log.
func LogName(dir string, n uint64) string { return numbered(dir, n, ".log") }

// ArchivedLogName is the path of WAL n once archived: archive/NNNNNN.log.
func ArchivedLogName(dir string, n uint64) string {
	return LogName(filepath.Join(dir, "archive"), n)
}

// BlobName is the path of blob file n: NNNNNN.blob.
func BlobName(dir string, n uint64) string { return numbered(dir, n, ".blob") }

// TempName is the path of temporary file n: NNNNNN.dbtmp.
func TempName(dir string, n uint64) string { return numbered(dir, n, ".dbtmp") }

// ManifestBase is the base name of MANIFEST n.
func ManifestBase(n uint64) string { return fmt.Sprintf("MANIFEST-%06d", n) }

// ManifestName is the path of MANIFEST n.
func ManifestName(dir string, n uint64) string { return filepath.Join(dir, ManifestBase(n)) }

// OptionsName is the path of OPTIONS file n.
func OptionsName(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("OPTIONS-%06d", n))
}

// OptionsTempName is the path under which OPTIONS file n is written first.
func OptionsTempName(dir string, n uint64) string { return OptionsName(dir, n) + ".dbtmp" }

// CurrentName, LockName, IdentityName and InfoLogName are the paths of the files without a number.
func CurrentName(dir string) string  { return filepath.Join(dir, CurrentBase) }
func LockName(dir string) string     { return filepath.Join(dir, LockBase) }
func IdentityName(dir string) string { return filepath.Join(dir, IdentityBase) }
func InfoLogName(dir string) string  { return filepath.Join(dir, InfoLogBase) }

// ParseName tells the kind and number of a base name. Numbers are decimal, of
// any width, and fit 64 bits. ok is false, and kind KindUnknown, for names that
// are no file of a database.
func ParseName(base string) (kind FileKind, number uint64, ok bool) {
	switch base {
	case CurrentBase:
		return KindCurrent, 0, true
	case LockBase:
		return KindLock, 0, true
	case IdentityBase:
		return KindIdentity, 0, true
	case InfoLogBase:
		return KindInfoLog, 0, true
	}
	for _, p := range [...]struct {
		prefix string
		kind   FileKind
	}{
		{"MANIFEST-", KindManifest}, {"OPTIONS-", KindOptions}, {"LOG.old.", KindInfoLog},
		{"METADB-", KindMeta}, {"COMPACTION_PROGRESS-", KindProgress},
	} {
		rest, found := strings.CutPrefix(base, p.prefix)
		if !found {
			continue
		}
		kind = p.kind
		if kind == KindOptions {
			if cut, temp := strings.CutSuffix(rest, ".dbtmp"); temp {
				rest, kind = cut, KindOptionsTemp
			}
		}
		if number, ok = parseNumber(rest); !ok {
			return KindUnknown, 0, false
		}
		return kind, number, true
	}
	stem, ext, found := strings.Cut(base, ".")
	if !found {
		return KindUnknown, 0, false
	}
	switch ext {
	case "sst", "ldb":
		kind = KindTable
	case "log":
		kind = KindLog
	case "blob":
		kind = KindBlob
	case "dbtmp":
		kind = KindTemp
	default:
		return KindUnknown, 0, false
	}
	if number, ok = parseNumber(stem); !ok {
		return KindUnknown, 0, false
	}
	return kind, number, true
}

// parseNumber takes digits alone: no sign, no space, no overflow.
func parseNumber(s string) (uint64, bool) {
	if s == "" || s[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// ReadCurrent returns the number of the MANIFEST that CURRENT names. The error
// matches fs.ErrNotExist when the directory holds no database.
func ReadCurrent(fsys mmapfs.FS, dir string) (uint64, error) {
	b, err := readSmallFile(fsys, CurrentName(dir))
	if err != nil {
		return 0, err
	}
	line, found := strings.CutSuffix(string(b), "\n")
	if !found {
		return 0, keys.Corruptf(CurrentBase, int64(len(b)), "expected the file to end with a newline, found %q", tail(b))
	}
	kind, n, ok := ParseName(line)
	if !ok || kind != KindManifest {
		return 0, keys.Corruptf(CurrentBase, 0, "expected MANIFEST-<number>, found %q", line)
	}
	return n, nil
}

// SetCurrent makes CURRENT name MANIFEST n: a synced temporary file, a rename,
// and a sync of the directory. After an error CURRENT names either the old
// MANIFEST or the new one.
func SetCurrent(fsys mmapfs.FS, dir string, n uint64) error {
	return replaceFile(fsys, dir, TempName(dir, n), CurrentName(dir), []byte(ManifestBase(n)+"\n"))
}

// ReadIdentity returns the database id in IDENTITY, trailing newlines removed.
// The error matches fs.ErrNotExist when there is no such file.
func ReadIdentity(fsys mmapfs.FS, dir string) (string, error) {
	b, err := readSmallFile(fsys, IdentityName(dir))
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// WriteIdentity replaces IDENTITY by id, durably. tempNumber names the
// temporary file and must not be in use for another one.
func WriteIdentity(fsys mmapfs.FS, dir, id string, tempNumber uint64) error {
	return replaceFile(fsys, dir, TempName(dir, tempNumber), IdentityName(dir), []byte(id))
}

// replaceFile puts content at path by way of temp, so that path holds the old
// content or the new one, whatever happens.
func replaceFile(fsys mmapfs.FS, dir, temp, path string, content []byte) error {
	if err := writeFile(fsys, temp, content); err != nil {
		return errors.Join(err, removeIfExists(fsys, temp))
	}
	killpoint.Here("temporary file written")
	if err := fsys.Rename(temp, path); err != nil {
		return errors.Join(err, removeIfExists(fsys, temp))
	}
	killpoint.Here("file renamed")
	return fsys.SyncDir(dir)
}

// writeFile creates path with content, synced.
func writeFile(fsys mmapfs.FS, path string, content []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func removeIfExists(fsys mmapfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// maxSmallFile bounds CURRENT and IDENTITY, which hold a line each.
const maxSmallFile = 4096

func readSmallFile(fsys mmapfs.FS, path string) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSmallFile {
		return nil, keys.Corruptf(filepath.Base(path), maxSmallFile, "expected at most %d bytes, found more", maxSmallFile)
	}
	return b, nil
}

// tail returns the last few bytes of b, for a message.
func tail(b []byte) []byte { return b[max(0, len(b)-16):] }

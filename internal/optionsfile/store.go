package optionsfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// Kept is how many OPTIONS files a directory keeps.
const Kept = 2

// maxFileSize bounds what Load reads: a family takes about 8 KiB.
const maxFileSize = 256 << 20

const (
	namePrefix = "OPTIONS-"
	tempSuffix = ".dbtmp"
)

// Name is the path of OPTIONS file number.
func Name(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%06d", namePrefix, number))
}

// Latest returns the number of the newest OPTIONS file in dir. The error matches
// fs.ErrNotExist if there is none.
func Latest(fsys mmapfs.FS, dir string) (uint64, error) {
	files, err := list(fsys, dir)
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("%s: no options files found in the DB directory: %w", dir, fs.ErrNotExist)
	}
	return files[0].number, nil
}

type found struct {
	number uint64
	base   string
}

// list returns the OPTIONS files of dir, newest first. Temporary ones do not count.
func list(fsys mmapfs.FS, dir string) ([]found, error) {
	bases, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var files []found
	for _, base := range bases {
		digits, ok := strings.CutPrefix(base, namePrefix)
		if !ok || digits == "" || digits[0] == '+' {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			continue
		}
		files = append(files, found{n, base})
	}
	slices.SortFunc(files, func(a, b found) int { return cmp.Compare(b.number, a.number) })
	return files, nil
}

// Load parses OPTIONS file number of dir.
func Load(fsys mmapfs.FS, dir string, number uint64) (*File, error) {
	return LoadFile(fsys, Name(dir, number))
}

// LoadFile parses a file of any name.
func LoadFile(fsys mmapfs.FS, path string) (*File, error) {
	text, err := read(fsys, path)
	if err != nil {
		return nil, err
	}
	return Parse(filepath.Base(path), text)
}

// LoadLatest parses the newest OPTIONS file of dir. The error matches
// fs.ErrNotExist if there is none.
func LoadLatest(fsys mmapfs.FS, dir string) (f *File, number uint64, err error) {
	for range 20 {
		if number, err = Latest(fsys, dir); err != nil {
			return nil, 0, err
		}
		if f, err = Load(fsys, dir, number); !errors.Is(err, fs.ErrNotExist) {
			break // else its writer has newer ones meanwhile
		}
	}
	return f, number, err
}

func read(fsys mmapfs.FS, path string) ([]byte, error) {
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileSize {
		return nil, &SyntaxError{File: filepath.Base(path), Reason: fmt.Sprintf("expected at most %d bytes, found more", maxFileSize)}
	}
	return text, nil
}

// Write makes f OPTIONS file number of dir, durably: a temporary file is
// written, synced, read back and compared, then renamed, and the directory
// synced. After that all but the Kept newest OPTIONS files are removed. On an
// error before the rename nothing has changed.
func Write(fsys mmapfs.FS, dir string, number uint64, f *File) error {
	text := f.Append(nil)
	path := Name(dir, number)
	temp := path + tempSuffix
	if err := writeVerified(fsys, temp, text, f); err != nil {
		if rm := fsys.Remove(temp); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, rm)
		}
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// writeVerified makes sure that what is on disk reads as f: a value that breaks
// a line must not pass.
func writeVerified(fsys mmapfs.FS, path string, text []byte, f *File) error {
	file, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	got, err := read(fsys, path)
	if err != nil {
		return err
	}
	base := filepath.Base(path)
	if !bytes.Equal(got, text) {
		return &SyntaxError{File: base, Reason: fmt.Sprintf("expected to read back the %d bytes written, found %d others", len(text), len(got))}
	}
	back, err := Parse(base, got)
	if err != nil {
		return err
	}
	return f.differs(base, back)
}

// differs returns nil if both files say the same.
func (f *File) differs(base string, back *File) error {
	same := slices.EqualFunc(f.Sections, back.Sections, func(a, b *Section) bool {
		return a.Title == b.Title && a.Argument == b.Argument &&
			slices.EqualFunc(a.Options, b.Options, func(x, y Option) bool { return x.Key == y.Key && x.Value == y.Value })
	})
	if !same {
		return &SyntaxError{File: base, Reason: "expected to read back the options written, found others: a key or value holds a line break, a comment sign, or space at an end"}
	}
	return nil
}

// Prune removes all but the newest files, of which there are at most Kept.
func Prune(fsys mmapfs.FS, dir string) error {
	files, err := list(fsys, dir)
	if err != nil {
		return err
	}
	for _, old := range files[min(Kept, len(files)):] {
		if err := fsys.Remove(filepath.Join(dir, old.base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

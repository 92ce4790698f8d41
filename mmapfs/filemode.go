package mmapfs

import (
	"fmt"
	"io/fs"
	"os"
)

// WithFileMode returns the file system with another mode for the files that it creates, less the
// umask: 0600 keeps them from everybody but the owner. Directories that it creates have the
// right to search wherever that has the right to read. Files that exist keep theirs. fsys
// is OS, or came from here; others have no modes, and are an error that matches ErrNotSupported. A
// mode without the owner's rights to read and write, or with anything but rights, is refused.
func WithFileMode(fsys FS, mode fs.FileMode) (FS, error) {
	if mode&^fs.ModePerm != 0 || mode&0o600 != 0o600 {
		return nil, fmt.Errorf("file mode %#o: expected rights that include 0600, and nothing else", uint32(mode))
	}
	if _, ok := fsys.(osFS); ok {
		return osFS{mode}, nil
	}
	return nil, fmt.Errorf("file mode %#o: %w: %T decides for itself", uint32(mode), ErrNotSupported, fsys)
}

// searchable is the mode of a directory whose files have mode.
func searchable(mode fs.FileMode) fs.FileMode { return mode | mode&0o444>>2 }

// checkKind refuses what is no regular file: a named pipe, which may keep a reader waiting for good, a
// device, which may have no end, a directory. What is created may be a device, such as /dev/null.
func checkKind(f *os.File, created bool) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	m := info.Mode()
	if m.IsRegular() || created && m&fs.ModeCharDevice != 0 {
		return nil
	}
	found := "a special file"
	switch {
	case m.IsDir():
		found = "a directory"
	case m&fs.ModeNamedPipe != 0:
		found = "a named pipe"
	case m&fs.ModeDevice != 0:
		found = "a device"
	}
	return &fs.PathError{Op: "open", Path: f.Name(), Err: fmt.Errorf("expected a regular file, found %s", found)}
}

package mmapfs

import (
	"errors"
	"io/fs"
	"os"
)

// errLink is why a file is not created or locked: somebody may have planted the link, so as
// to have another file overwritten.
var errLink = errors.New("a symbolic link stands in its place, and is not followed")

// linkError says so in place of the system's answer to noFollow.
func linkError(op, name string, err error) error {
	if err != nil && refusedLink(err) && IsLink(OS, name) {
		return &fs.PathError{Op: op, Path: name, Err: errLink}
	}
	return err
}

// IsLink reports whether name is a symbolic link: who deletes what lies in a directory
// asks first, so as not to follow a link out of it. File systems without links say no.
func IsLink(fsys FS, name string) bool {
	switch f := fsys.(type) {
	case osFS:
		info, err := os.Lstat(name)
		return err == nil && info.Mode()&fs.ModeSymlink != 0
	case *FaultFS:
		return IsLink(f.base, name)
	}
	return false
}

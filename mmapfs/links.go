package mmapfs

import (
	"io/fs"
	"os"
)

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

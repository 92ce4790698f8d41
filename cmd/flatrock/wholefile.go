package main

import (
	"errors"
	"io/fs"
	"os"
)

// A file that a command makes has its name once it is whole: what was there before stays until then, and
// nothing half-written stays at all.

// whole is the name under which a file is written that will be path, and what follows: done renames it
// if err is nil, and removes it otherwise. What is there and no regular file, as a device, is written to as it is.
func whole(path string) (temp string, done func(err error) error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return path, func(err error) error { return err }
	}
	temp = path + ".partial"
	return temp, func(err error) error {
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err == nil {
			return nil
		}
		if e := os.Remove(temp); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		return err
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// cpioWriter writes the archive that Linux unpacks as its first file system:
// cpio in the "newc" form (Documentation/driver-api/early-userspace/buffer-format.rst).
//
//	entry, all numbers as 8 hexadecimal digits:
//	  "070701" ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
//	  name, a zero byte, zeros to a multiple of 4; data, zeros to a multiple of 4
//	the last entry is named TRAILER!!!
type cpioWriter struct {
	w   io.Writer
	n   int64 // written
	ino uint32
	err error
}

const (
	modeDir     = 0o040755
	modeProgram = 0o100755
	modeFile    = 0o100644
	modeChar    = 0o020600
)

func newCPIO(w io.Writer) *cpioWriter { return &cpioWriter{w: w} }

// dir adds a directory; parents come first.
func (c *cpioWriter) dir(name string) { c.entry(name, modeDir, 0, 0, nil) }

// file adds a regular file.
func (c *cpioWriter) file(name string, mode uint32, data []byte) { c.entry(name, mode, 0, 0, data) }

// char adds a character device.
func (c *cpioWriter) char(name string, major, minor uint32) {
	c.entry(name, modeChar, major, minor, nil)
}

// close ends the archive and returns the first error of any step.
func (c *cpioWriter) close() error {
	c.ino = 0
	c.entry("TRAILER!!!", 0, 0, 0, nil)
	return c.err
}

func (c *cpioWriter) entry(name string, mode, major, minor uint32, data []byte) {
	if c.err == nil && len(data) > math.MaxUint32 {
		c.err = errors.New("cpio: " + name + ": a file of this form has at most 4 GiB")
	}
	c.ino++
	c.printf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		c.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0)
	c.printf("%s\x00", name)
	c.pad()
	c.write(data)
	c.pad()
}

func (c *cpioWriter) printf(format string, args ...any) { c.write(fmt.Appendf(nil, format, args...)) }

func (c *cpioWriter) pad() { c.write(make([]byte, -c.n&3)) }

func (c *cpioWriter) write(b []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(b)
	c.n += int64(n)
	c.err = err
}

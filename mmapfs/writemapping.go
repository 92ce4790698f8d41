package mmapfs

import (
	"fmt"
	"io/fs"

	"github.com/edsrzf/mmap-go"
)

// WriteMapping is part of a file, mapped for writing into blocks that are reserved. What WriteAt returned from is in
// the page cache, as after write(2): it survives the death of the process, and the death of the machine after the
// file's Sync or SyncData. One writer at a time.
type WriteMapping struct {
	data   []byte // of length n; nil when closed, or when hook serves
	hook   mappedWriter
	n      int
	file   string
	offset int64     // of data in the file
	mapped mmap.MMap // begins on a page, at or before data
}

// mappedWriter stands in for real memory, in MemFS and FaultFS.
type mappedWriter interface {
	writeMapped(p []byte, off int) error
	populateMapped(off, n int) error
	closeMapped() error
}

// Len returns the size of the mapping in bytes.
func (w *WriteMapping) Len() int { return w.n }

// Offset returns where in the file the mapping begins.
func (w *WriteMapping) Offset() int64 { return w.offset }

// WriteAt copies p to off bytes from the start of the mapping. A fault is a *FaultError, after which any part of p may
// have been written. Costs the copy and a few nanoseconds, and allocates nothing.
func (w *WriteMapping) WriteAt(p []byte, off int) error {
	if w.hook != nil {
		return w.hook.writeMapped(p, off)
	}
	if uint(off) > uint(len(w.data)) || len(p) > len(w.data)-off {
		return w.refuse(len(p), off)
	}
	return guardedCopy(w.data[off:], p)
}

func guardedCopy(dst, src []byte) (err error) {
	old := Guard()
	defer Unguard(old, &err)
	copy(dst, src)
	return nil
}

func (w *WriteMapping) refuse(n, off int) error {
	if w.data == nil && w.hook == nil {
		return &fs.PathError{Op: "write", Path: w.file, Err: fs.ErrClosed}
	}
	return fmt.Errorf("mmapfs: write %d bytes at %d of a mapping of %d bytes of %s", n, off, w.n, w.file)
}

// Populate makes the pages of [off, off+n) writable now, in a system call, instead of at the first write into each.
// It may run beside WriteAt. It is an optimisation: where the system cannot, it does nothing.
func (w *WriteMapping) Populate(off, n int) error {
	if off < 0 || n < 0 || off > w.n || n > w.n-off {
		return w.refuse(n, off)
	}
	if w.hook != nil {
		return w.hook.populateMapped(off, n)
	}
	if w.data == nil {
		return w.refuse(n, off)
	}
	skip := len(w.mapped) - w.n
	err := populateWrite(pagesAround(w.mapped, int64(skip+off), int64(n)))
	if isAddressFault(err) {
		return &FaultError{File: w.file, Offset: w.offset + int64(off)}
	}
	if err != nil {
		return &fs.PathError{Op: "populate", Path: w.file, Err: err}
	}
	return nil
}

// Close unmaps. What was written stays in the file; the caller truncates what it does not need. A second Close does
// nothing.
func (w *WriteMapping) Close() error {
	if w.hook != nil {
		return w.hook.closeMapped()
	}
	if w.data == nil {
		return nil
	}
	w.data = nil
	mappings.remove(w.mapped)
	usage.add(-int64(w.n), 0, 0)
	if err := w.mapped.Unmap(); err != nil {
		return fmt.Errorf("unmap %s: %w", w.file, err)
	}
	return nil
}

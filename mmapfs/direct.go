package mmapfs

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// directFS is a file system that may read around the page cache.
type directFS interface {
	openDirect(name string) (File, error)
}

// OpenDirect is fsys.Open, but for reads that bypass the page cache (O_DIRECT). ReadAt takes any offset and length: what is
// not aligned goes through an aligned buffer. The error matches ErrNotSupported where the system (anything but Linux), fsys (MemFS) or
// the file system beneath cannot: tmpfs refuses O_DIRECT before Linux 6.6, some network and FUSE file systems always do.
// Reads of a file that is being written through another File are coherent on Linux's own file systems.
func OpenDirect(fsys FS, name string) (File, error) {
	if d, ok := fsys.(directFS); ok {
		return d.openDirect(name)
	}
	return nil, fmt.Errorf("open %s for direct reads: %T: %w", name, fsys, ErrNotSupported)
}

func (f *FaultFS) openDirect(name string) (File, error) {
	if err := f.step(OpOpen, name); err != nil {
		return nil, err
	}
	return f.wrap(OpenDirect(f.base, name))
}

// minDirectAlign is the alignment where the kernel tells none: the largest sector in use.
const minDirectAlign = 4096

// directFile reads around the page cache. Only ReadAt does: what else it has comes from the plain file.
type directFile struct {
	File
	align int64 // of offsets, lengths and memory; a power of two
}

// directBuffers are aligned pieces of Go memory, whose objects do not move. Kept by pointer, so that putting one back allocates nothing.
var directBuffers = sync.Pool{New: func() any { return new([]byte) }}

// alignedBuffer makes b a slice of n bytes that begins at a multiple of align, from its own memory if that suffices.
func alignedBuffer(b []byte, n, align int) []byte {
	if cap(b) < n || int64(addressOf(b[:1]))&int64(align-1) != 0 {
		b = make([]byte, n+align)
		skip := -int(addressOf(b)) & (align - 1)
		b = b[skip : skip+n : skip+n]
	}
	return b[:n]
}

// ReadAt implements io.ReaderAt. No allocation once the buffers are warm.
func (d *directFile) ReadAt(p []byte, off int64) (int, error) {
	mask := d.align - 1
	if len(p) == 0 || off < 0 || (off|int64(len(p))|int64(addressOf(p)))&mask == 0 {
		return d.File.ReadAt(p, off)
	}
	start := off &^ mask
	n := int((off + int64(len(p)) - start + mask) &^ mask)
	pooled := directBuffers.Get().(*[]byte)
	defer directBuffers.Put(pooled)
	*pooled = alignedBuffer(*pooled, n, int(d.align))
	got, err := d.File.ReadAt(*pooled, start)
	got -= int(off - start)
	if got >= len(p) { // the end of the file may lie in what was read beside p
		return copy(p, (*pooled)[off-start:]), nil
	}
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	if got <= 0 {
		return 0, err
	}
	return copy(p, (*pooled)[off-start:][:got]), err
}

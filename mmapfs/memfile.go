package mmapfs

import (
	"io"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// write stores p at off, and grows the file. Under the file system's mu.
func (n *memNode) write(p []byte, off int) {
	end := off + len(p)
	if end > len(n.data) {
		n.resize(end)
	}
	n.unshare(off)
	copy(n.data[off:], p)
	n.touch(off, end)
}

// resize sets the size; new bytes are zero. Under mu.
func (n *memNode) resize(size int) {
	old := len(n.data)
	switch {
	case size < old:
		n.touch(size, old)
		n.data = n.data[:size]
	case size > old:
		// What lies beyond the end may be left from before a truncation, and a mapping may still show it.
		n.unshare(old)
		n.data = slices.Grow(n.data, size-old)[:size]
		clear(n.data[old:])
		n.touch(old, size)
	}
}

// unshare copies data when a mapping shows bytes at or after off, since they are about to change.
func (n *memNode) unshare(off int) {
	if off < n.borrowed {
		n.data = slices.Clone(n.data)
		n.borrowed = 0
	}
}

// touch marks [lo, hi) as not synced.
func (n *memNode) touch(lo, hi int) {
	n.mod = time.Now()
	if lo >= hi {
		return
	}
	if last := len(n.dirty) - 1; last >= 0 && lo >= n.dirty[last].lo {
		if lo <= n.dirty[last].hi { // the usual case: an append
			n.dirty[last].hi = max(n.dirty[last].hi, hi)
			return
		}
		n.dirty = append(n.dirty, span{lo, hi})
		return
	}
	// Insert in order, and swallow what it touches.
	i, _ := slices.BinarySearchFunc(n.dirty, lo, func(s span, lo int) int {
		if s.hi < lo {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(n.dirty) && n.dirty[j].lo <= hi; j++ {
		lo, hi = min(lo, n.dirty[j].lo), max(hi, n.dirty[j].hi)
	}
	n.dirty = slices.Replace(n.dirty, i, j, span{lo, hi})
}

// sync makes the content durable; it costs what was written since the last time. Under mu.
func (n *memNode) sync() {
	size := len(n.data)
	if old := len(n.synced); size < old {
		n.synced = n.synced[:size]
	} else {
		n.synced = slices.Grow(n.synced, size-old)[:size]
	}
	for _, s := range n.dirty {
		if s.lo < size {
			copy(n.synced[s.lo:], n.data[s.lo:min(s.hi, size)])
		}
	}
	n.dirty = n.dirty[:0]
}

// memFile is an open file of a MemFS.
type memFile struct {
	fs       *MemFS
	node     *memNode
	name     string
	writable bool
	pos      int64 // of Read
	closed   atomic.Bool
}

func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	case write && !f.writable:
		return pathError(op, f.name, fs.ErrPermission)
	}
	return nil
}

func (f *memFile) checkRange(op string, off, n int64) error {
	if off < 0 || n < 0 || off > math.MaxInt-n {
		return pathError(op, f.name, fs.ErrInvalid)
	}
	return nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	return int64(len(f.node.data)), nil
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if err := f.checkRange("read", off, int64(len(p))); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Write(p []byte) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.write(p, len(f.node.data))
	return len(p), nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if err := f.checkRange("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.write(p, int(off))
	return len(p), nil
}

func (f *memFile) Sync() error {
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.sync()
	return nil
}

func (f *memFile) SyncData() error { return f.Sync() }

func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if err := f.checkRange("truncate", size, 0); err != nil {
		return err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.resize(int(size))
	return nil
}

func (f *memFile) Preallocate(off, n int64) error {
	if err := f.check("fallocate", true); err != nil {
		return err
	}
	return f.checkRange("fallocate", off, n)
}

// Map shows the file's own bytes, without a copy. Later writes to them do not show.
func (f *memFile) Map(size int64, o MapOptions) (*Mapping, error) {
	if err := f.check("mmap", false); err != nil {
		return nil, err
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := checkMapSize(f.name, size, int64(len(f.node.data))); err != nil {
		return nil, err
	}
	f.node.borrowed = max(f.node.borrowed, int(size))
	return &Mapping{file: f.name, data: f.node.data[:size:size]}, nil
}

func (f *memFile) MapWrite(off, n int64) (*WriteMapping, error) {
	if err := f.check("mapwrite", true); err != nil {
		return nil, err
	}
	if err := f.checkRange("mapwrite", off, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, pathError("mapwrite", f.name, fs.ErrInvalid)
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if end := int(off + n); end > len(f.node.data) {
		f.node.resize(end)
	}
	w := &WriteMapping{n: int(n), file: f.name, offset: off}
	w.hook = &memWriter{fs: f.fs, node: f.node, w: w}
	return w, nil
}

// memWriter is the memory of a WriteMapping of a MemFS.
type memWriter struct {
	fs     *MemFS
	node   *memNode
	w      *WriteMapping
	closed bool
}

func (m *memWriter) check(n, off int) error {
	if m.closed {
		return pathError("write", m.w.file, fs.ErrClosed)
	}
	if off < 0 || off > m.w.n || n < 0 || n > m.w.n-off {
		return m.w.refuse(n, off)
	}
	return nil
}

func (m *memWriter) writeMapped(p []byte, off int) error {
	if err := m.check(len(p), off); err != nil {
		return err
	}
	m.fs.mu.Lock()
	defer m.fs.mu.Unlock()
	at := int(m.w.offset) + off
	if end := at + len(p); end > len(m.node.data) { // truncated meanwhile: SIGBUS on a real mapping
		return &FaultError{File: m.w.file, Offset: int64(max(at, len(m.node.data)))}
	}
	m.node.write(p, at)
	return nil
}

func (m *memWriter) populateMapped(off, n int) error { return m.check(n, off) }

func (m *memWriter) closeMapped() error {
	m.closed = true
	return nil
}

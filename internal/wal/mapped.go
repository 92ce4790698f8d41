package wal

import (
	"errors"
	"math"

	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	// chunkAlign divides every chunk's offset and size: a multiple of the block
	// size, so that no fragment crosses chunks, and of every page size.
	chunkAlign = 64 << 10
	firstChunk = 256 << 10
	// chunkGrowth leads from the first chunk to the full size, so that a log that
	// stays small does not reserve much.
	chunkGrowth = 4
)

// mapped is a log file mapped chunk by chunk. One goroutine writes. The next chunk
// is reserved, mapped and populated by a goroutine of its own once the current one
// is half full, so that the writer neither waits nor faults; it also unmaps the one
// before.
type mapped struct {
	file    mmapfs.File
	chunk   chunk
	size    int64 // of the next chunk
	most    int64
	aheadAt int64      // start mapping ahead when a write ends behind this
	next    chan ahead // one chunk, while a goroutine prepares it; else nil
	done    chunk      // the chunk before the current one, until it is unmapped
}

// ahead is what a goroutine that prepares a chunk gives back.
type ahead struct {
	chunk    chunk
	closeErr error // of the chunk that it unmapped
}

type chunk struct {
	m        *mmapfs.WriteMapping
	off, end int64
	err      error
}

func (c chunk) close() error {
	if c.m == nil {
		return nil
	}
	return c.m.Close()
}

func newMapped(f mmapfs.File, size int64) (*mapped, error) {
	most := max(size, chunkAlign)
	most = min((most+chunkAlign-1)/chunkAlign*chunkAlign, 1<<30)
	m := &mapped{file: f, size: min(firstChunk, most), most: most}
	c := m.open(0, m.size)
	if c.err != nil {
		return nil, c.err
	}
	m.use(c)
	return m, nil
}

// open maps a chunk. Where the disk has no room for size bytes, a small chunk may
// still do.
func (m *mapped) open(off, size int64) chunk {
	w, err := m.file.MapWrite(off, size)
	if size > chunkAlign && mmapfs.IsNoSpace(err) {
		size = chunkAlign
		w, err = m.file.MapWrite(off, size)
	}
	if err != nil {
		return chunk{err: err}
	}
	if err := w.Populate(0, int(size)); err != nil {
		w.Close() // its error adds nothing: nothing was written
		return chunk{err: err}
	}
	return chunk{m: w, off: off, end: off + size}
}

func (m *mapped) use(c chunk) {
	m.chunk = c
	m.size = min(m.size*chunkGrowth, m.most)
	m.aheadAt = c.off + (c.end-c.off)/2
}

// write copies p to offset off of the file. Offsets only grow, but for the first
// bytes of the last fragment, which is in one chunk.
func (m *mapped) write(p []byte, off int64) error {
	for off+int64(len(p)) > m.chunk.end {
		if n := m.chunk.end - off; n > 0 {
			if err := m.chunk.m.WriteAt(p[:n], int(off-m.chunk.off)); err != nil {
				return err
			}
			p, off = p[n:], off+n
		}
		if err := m.advance(); err != nil {
			return err
		}
	}
	if off > m.aheadAt {
		m.prepare()
	}
	return m.chunk.m.WriteAt(p, int(off-m.chunk.off))
}

// prepare starts a goroutine that maps the next chunk; advance or close waits for
// it.
func (m *mapped) prepare() {
	m.aheadAt = math.MaxInt64
	next := make(chan ahead, 1)
	m.next = next
	off, size, done := m.chunk.end, m.size, m.done
	m.done = chunk{}
	go func() { next <- ahead{m.open(off, size), done.close()} }()
}

// advance makes the next chunk the current one.
func (m *mapped) advance() error {
	old, size := m.chunk, m.size
	var a ahead
	if m.next != nil {
		a = <-m.next
		m.next = nil
	}
	c := a.chunk
	if c.m == nil { // not prepared, or it failed then
		c = m.open(old.end, size)
	}
	if c.err != nil {
		return errors.Join(c.err, a.closeErr)
	}
	done := m.done
	m.done = old
	m.use(c)
	return errors.Join(a.closeErr, done.close())
}

// close unmaps everything.
func (m *mapped) close() error {
	var a ahead
	if m.next != nil {
		a = <-m.next
		m.next = nil
	}
	return errors.Join(a.closeErr, a.chunk.close(), m.done.close(), m.chunk.close())
}

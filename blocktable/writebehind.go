package blocktable

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// writeBehind writes buffers to a file, in order, from a goroutine of its own: what the kernel does for a write (finding
// pages and copying, half the time of a compaction in /dev/shm) then happens beside the building of the next blocks.
// The goroutine begins with the first buffer, so that small files have none.
type writeBehind struct {
	f      mmapfs.File
	queue  chan *[]byte // nil until the goroutine runs
	done   chan struct{}
	failed atomic.Bool
	err    error // the first; the goroutine's until failed is set or done is closed
}

// writeBuffers are spare ones. A file has three: one that is filled, one that waits and one that is written.
var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, writeSize+writeSize/4)
	return &b
}}

// recycle keeps a buffer for the next file, unless one large block has made it large.
func recycle(b *[]byte) {
	if *b = (*b)[:0]; cap(*b) <= 2*writeSize {
		writeBuffers.Put(b)
	}
}

// write takes b over. The error may be that of an earlier buffer.
func (w *writeBehind) write(b *[]byte) error {
	if w.queue == nil {
		if runtime.GOMAXPROCS(0) == 1 {
			_, err := w.f.Write(*b)
			recycle(b)
			return err
		}
		w.queue, w.done = make(chan *[]byte, 3), make(chan struct{})
		go w.run()
	}
	if w.failed.Load() {
		recycle(b)
		return w.err
	}
	w.queue <- b
	return nil
}

func (w *writeBehind) run() {
	defer close(w.done)
	for b := range w.queue {
		if w.err == nil {
			if _, w.err = w.f.Write(*b); w.err != nil {
				w.failed.Store(true)
			}
		}
		recycle(b)
	}
}

// finish waits until all is written, and ends the goroutine.
func (w *writeBehind) finish() error {
	if w.queue != nil {
		close(w.queue)
		<-w.done
		w.queue = nil
	}
	return w.err
}

package tracefile

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/mmapfs"
)

const (
	// writeFrom is how much an Output writes at a time, unless it gets old, or the writer has not
	// come to it yet. It fits into the second cache of a processor.
	writeFrom = 256 << 10
	writeAge  = time.Second
	// writeMost is how much waits for the writer: some hundred milliseconds of two processors' block
	// accesses. A goroutine that returns from a system call may have to wait that long for its
	// turn, when all processors are busy.
	writeMost = 32 << 20
	// spare is what a record may have beyond writeMost before it gets memory of its own.
	spare = 64 << 10
	// DefaultMaxBytes is how large a trace may become if nothing else is said.
	DefaultMaxBytes = 64 << 30
)

// Output writes a trace: in large pieces, up to a size, and nothing after the first
// error of the writer. One goroutine adds records; another one, which it starts, calls the writer,
// so that records are added while it writes. All but Full and Bytes is for the one.
type Output struct {
	w       io.Writer
	max     uint64
	out     []byte
	flushed time.Time
	handed  uint64 // bytes to the writer's goroutine
	arena   *mmapfs.Arena
	full    chan []byte // to the writer
	empty   chan []byte // and back
	done    sync.WaitGroup
	err     error // the writer's, until done

	_     [128]byte // ended is read for each record by those who make them
	ended atomic.Bool
	bytes atomic.Uint64
	_     [112]byte
}

// NewOutput writes the header at once, so that a writer that cannot be written to is
// known. Zero for max means DefaultMaxBytes. End must follow.
func NewOutput(w io.Writer, max uint64, header []byte) (*Output, error) {
	if max == 0 {
		max = DefaultMaxBytes
	}
	o := &Output{w: w, max: max, flushed: time.Now(), full: make(chan []byte, 1), empty: make(chan []byte, 1)}
	if o.write(header); o.err != nil {
		return nil, fmt.Errorf("writing the header of a trace: %w", o.err)
	}
	o.handed = uint64(len(header))
	const room = writeMost + spare
	a, err := mmapfs.NewArena(2*room+64, mmapfs.ArenaOptions{Name: "trace buffers"}) // of which little is touched, if the writer is fast
	if err != nil {
		return nil, err
	}
	o.arena = a
	off, ok := a.Alloc(2*room, 64)
	if !ok {
		a.Free()
		return nil, fmt.Errorf("writing a trace: no room for two buffers of %d bytes", room)
	}
	mem := a.Bytes()[off : off+2*room : off+2*room]
	o.out = mem[:0:room]
	o.empty <- mem[room:room]
	o.done.Go(func() {
		for b := range o.full {
			o.write(b)
			o.empty <- b[:0]
		}
	})
	return o, nil
}

// Full reports whether the trace has ended: by its size, or by an error. Safe for concurrent use.
func (o *Output) Full() bool { return o.ended.Load() }

// Bytes is how much the writer has taken. Safe for concurrent use.
func (o *Output) Bytes() uint64 { return o.bytes.Load() }

// Pending is what waits to be written, for one record to be appended and given to Added.
func (o *Output) Pending() []byte { return o.out }

// Added takes Pending with a record more. It reports whether the record is part of the
// trace, which has to have room for reserve bytes after it; if not, the trace is full.
func (o *Output) Added(out []byte, reserve int) bool {
	if o.handed+uint64(len(out)+reserve) > o.max {
		o.ended.Store(true)
		return false
	}
	grown := len(out) - len(o.out)
	o.out = out
	// At each multiple of writeFrom the writer is asked, and with no more room it is waited for.
	if n := len(out); n >= writeFrom && (n/writeFrom != (n-grown)/writeFrom || n >= writeMost) {
		o.flush(n >= writeMost)
	}
	return true
}

// Age writes what has waited for a second.
func (o *Output) Age() {
	if len(o.out) > 0 && (len(o.out) >= writeFrom || time.Since(o.flushed) >= writeAge) {
		o.flush(false)
	}
}

// End writes what there is and then last, for which Added has kept room. The error is
// the first that the writer had.
func (o *Output) End(last []byte) error {
	o.out = append(o.out, last...)
	o.flush(true)
	close(o.full)
	o.done.Wait()
	o.arena.Free()
	return o.err
}

// flush hands what there is to the writer, unless it is busy and wait is false.
func (o *Output) flush(wait bool) {
	if len(o.out) == 0 {
		return
	}
	var next []byte
	if wait {
		next = <-o.empty
	} else {
		select {
		case next = <-o.empty:
		default:
			return
		}
	}
	o.flushed = time.Now()
	o.handed += uint64(len(o.out))
	o.full <- o.out
	o.out = next
}

// write calls the writer.
func (o *Output) write(b []byte) {
	if o.err != nil {
		return
	}
	n, err := o.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	o.bytes.Add(uint64(max(n, 0)))
	if err != nil {
		o.err = err
		o.ended.Store(true)
	}
}

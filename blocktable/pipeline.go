package blocktable

import (
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
)

// releaseHeld makes the dictionary, and writes the held blocks.
func (w *Writer) releaseHeld() {
	held := w.hold
	w.hold = nil
	if w.err = w.out.setDict(held.dictionary(&w.o)); w.err != nil {
		return
	}
	if w.err = w.startPipeline(true); w.err != nil {
		return
	}
	for i, raw := range held.blocks {
		held.blocks[i] = nil
		if w.err = w.pipe.submit(raw); w.err != nil {
			return
		}
	}
	// From here on blocks come one by one; a pipeline of one thread goes on as well.
}

// pipeline compresses data blocks in parallel and writes them in order. Filter and
// index see the keys of a block when it is its turn, so that the file comes out
// as if there were no pipeline. With one thread all of it happens in submit.
type pipeline struct {
	w    *Writer
	turn turn

	// Nil with one thread.
	work  chan *job
	order chan *job
	wg    sync.WaitGroup
	free  sync.Pool // of *job
	// flying is how many bytes of blocks are not written yet.
	flying atomic.Int64
	failed atomic.Pointer[error]
}

// job is a data block on its way.
type job struct {
	raw  []byte
	out  []byte
	ok   bool // out is worth storing
	done chan struct{}
}

// startPipeline begins a pipeline if one is needed: for several threads, or to go
// on after blocks were held back.
func (w *Writer) startPipeline(held bool) error {
	threads := w.o.CompressionOptions.ParallelThreads
	if w.o.Compression == compress.None {
		threads = 1
	}
	if threads <= 1 && !held {
		return nil
	}
	p := &pipeline{w: w}
	p.turn.init(w)
	if threads > 1 {
		p.work = make(chan *job, threads)
		p.order = make(chan *job, 4*threads)
		p.free.New = func() any { return &job{done: make(chan struct{}, 1)} }
		var encoders []*compress.Encoder
		for range threads {
			e, err := compress.NewEncoder(w.o.Compression, w.o.CompressionOptions.Level, w.out.dict)
			if err != nil {
				return err
			}
			encoders = append(encoders, e)
		}
		for _, e := range encoders {
			p.wg.Go(func() { p.compress(e) })
		}
		p.wg.Go(p.write)
	}
	w.pipe = p
	return nil
}

func (p *pipeline) compress(e *compress.Encoder) {
	defer e.Close()
	for j := range p.work {
		out, ok := e.Encode(j.out[:0], j.raw)
		j.out, j.ok = out, ok && worthwhile(len(out), len(j.raw))
		j.done <- struct{}{}
	}
}

func (p *pipeline) write() {
	for j := range p.order {
		<-j.done
		if p.failed.Load() == nil {
			if err := p.turn.take(j.raw, j.out, j.ok); err != nil {
				p.failed.Store(&err)
			}
		}
		p.flying.Add(-int64(len(j.raw)))
		p.free.Put(j)
	}
}

// submit takes a block; raw is copied.
func (p *pipeline) submit(raw []byte) error {
	if p.work == nil {
		out, ok := p.w.out.dataEnc.Encode(p.w.out.scratch[:0], raw)
		p.w.out.scratch = out[:0]
		return p.turn.take(raw, out, ok && worthwhile(len(out), len(raw)))
	}
	if err := p.failed.Load(); err != nil {
		return *err
	}
	j := p.free.Get().(*job)
	j.raw = append(j.raw[:0], raw...)
	p.flying.Add(int64(len(raw)))
	p.order <- j
	p.work <- j
	return nil
}

// drain waits until every block is written.
func (p *pipeline) drain() error {
	p.stop()
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return p.turn.end()
}

func (p *pipeline) stop() {
	if p.work != nil {
		close(p.work)
		close(p.order)
		p.wg.Wait()
		p.work = nil
	}
}

// stopPipeline ends the goroutines, whatever became of the blocks.
func (w *Writer) stopPipeline() {
	if w.pipe != nil {
		w.pipe.stop()
	}
}

// turn writes blocks in order, and shows their keys to filter and index.
type turn struct {
	w    *Writer
	iter dataIter
	last []byte
	h    block.Handle
	due  bool // the index entry of the block before
}

func (t *turn) init(w *Writer) { t.w, t.iter.order = w, w.o.Order }

// take writes a block: its compressed form if ok.
func (t *turn) take(raw, compressed []byte, ok bool) error {
	w := t.w
	if !t.iter.init(raw, 0) || !t.iter.first() {
		return t.iter.err
	}
	if t.due {
		w.index.blockDone(t.last, t.iter.key, t.h)
	}
	for more := true; more; more = t.iter.forward() {
		if w.filter != nil {
			user := t.iter.userKey()
			w.filter.add(user[:len(user)-w.timeLen])
		}
		w.index.keyAdded(t.iter.key)
	}
	if t.iter.err != nil {
		return t.iter.err
	}
	t.last = append(t.last[:0], t.iter.key...)
	t.due = true
	var err error
	if ok {
		w.out.packed++
		t.h, err = w.out.writeStored(compressed, w.o.Compression)
	} else {
		w.out.rejected++
		w.out.unpacked++
		t.h, err = w.out.writeStored(raw, compress.None)
	}
	w.blockWritten()
	return err
}

// end adds the last index entry.
func (t *turn) end() error {
	if t.due {
		t.w.index.blockDone(t.last, nil, t.h)
		t.due = false
	}
	return nil
}

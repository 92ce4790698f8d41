package record

import "io"

// keepBuffer is the largest buffer a Writer holds on to between records.
const keepBuffer = 1 << 20

// Writer appends records to a sink. Each record reaches the sink in one Write,
// so that what Append returned is in the page cache when the sink is a file.
// Not safe for concurrent use.
type Writer struct {
	sink io.Writer
	f    Framer
	buf  []byte
	size int64
	err  error
}

// NewWriter begins a log at the start of sink. logNumber matters only when
// recyclable; a MANIFEST passes 0 and false.
func NewWriter(sink io.Writer, logNumber uint64, recyclable bool) *Writer {
	return &Writer{sink: sink, f: NewFramer(logNumber, recyclable)}
}

// Append writes one record whose payload is the parts joined. The parts are not
// kept. The first error is returned by every later call: behind a write that
// may have happened in part, nothing can be appended that a reader would find.
func (w *Writer) Append(parts ...[]byte) error {
	if w.err != nil {
		return w.err
	}
	return w.write(w.f.AppendRecord(w.buf[:0], parts...))
}

// AppendMeta writes a fact about the log; see Framer.AppendMeta.
func (w *Writer) AppendMeta(t Type, payload []byte) error {
	if w.err != nil {
		return w.err
	}
	return w.write(w.f.AppendMeta(w.buf[:0], t, payload))
}

func (w *Writer) write(b []byte) error {
	if w.buf = b; cap(b) > keepBuffer {
		w.buf = nil
	}
	n, err := w.sink.Write(b)
	w.size += int64(n)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
	return err
}

// Size is how many bytes the sink has taken.
func (w *Writer) Size() int64 { return w.size }

package flatrock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/stripe"
	"github.com/flatrock-db/flatrock/internal/tracebuf"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// TraceFilter leaves operations out of a trace: a sum of the filters. RocksDB: TraceFilterType.
type TraceFilter uint64

// The filters.
const (
	TraceFilterGet TraceFilter = 1 << iota
	TraceFilterWrite
	TraceFilterIteratorSeek
	TraceFilterIteratorSeekForPrev
	TraceFilterMultiGet
)

// TraceOptions configures a query trace. Nil means the zero value.
type TraceOptions struct {
	// MaxTraceFileSize ends the trace before it becomes larger, in bytes; zero means
	// 64 GiB. Operations go on, and EndTrace says so. RocksDB: max_trace_file_size.
	MaxTraceFileSize uint64
	// SamplingFrequency keeps about one of so many operations; 0 and 1 keep all.
	// RocksDB: sampling_frequency.
	SamplingFrequency uint64
	// Filter leaves operations out. RocksDB: filter.
	Filter TraceFilter
	// BufferSize is the memory for operations that wait to be written, in bytes; zero means 64 MiB.
	// It lies outside of the Go heap, and so do up to 64 MiB that wait for w. Operations that find no room are dropped and counted.
	BufferSize int64
}

// StartTrace begins to write the operations on the database to w, in the format of RocksDB's
// query traces, which NewReplayer and `flatrock trace query` read, and RocksDB's own replayer: writes,
// Gets, MultiGets, and iterator seeks. Writes are there once they have been committed, in
// the order in which they were, so that a replay ends with the same data. SeekLT is
// written as RocksDB's SeekForPrev, which it has no other word for, and First and Last as
// a seek to the iterator's bound, if it has one. At most one trace is written at a time.
//
// Operations never wait for it: they add to buffers, which one goroutine writes, in
// the order of time. If w is slower, operations are dropped and counted. w is the caller's to
// close after EndTrace; an error of w ends the trace, and EndTrace returns it.
func (db *DB) StartTrace(o *TraceOptions, w io.Writer) error {
	if o == nil {
		o = &TraceOptions{}
	}
	if w == nil {
		return fmt.Errorf("%w: a trace needs a writer", ErrInvalidArgument)
	}
	if o.BufferSize < 0 {
		return fmt.Errorf("%w: BufferSize %d: want no negative number", ErrInvalidArgument, o.BufferSize)
	}
	db.tracing.Lock()
	defer db.tracing.Unlock()
	switch {
	case db.closed.Load():
		return ErrClosed
	case db.queries.Load() != nil:
		return fmt.Errorf("%w: a trace is being written already", ErrBusy)
	}
	t := &queryTracer{filter: o.Filter, every: o.SamplingFrequency, base: uint64(time.Now().UnixMicro())}
	t.room = o.BufferSize
	if t.room == 0 {
		t.room = tracebuf.DefaultBytes
	}
	var err error
	if t.out, err = tracefile.NewOutput(w, o.MaxTraceFileSize, tracefile.AppendQueryHeader(nil, t.base)); err != nil {
		return err
	}
	if t.buf, err = tracebuf.New(o.BufferSize, t); err != nil {
		return errors.Join(err, t.out.End(nil))
	}
	db.queries.Store(t)
	return nil
}

// EndTrace writes what has been collected, and ends the trace. The error is what kept
// it from being written. Without a trace it does nothing. Close ends a trace too.
func (db *DB) EndTrace() (TraceSummary, error) {
	db.tracing.Lock()
	defer db.tracing.Unlock()
	t := db.queries.Load()
	if t == nil {
		return TraceSummary{}, nil
	}
	db.queries.Store(nil)
	t.buf.Close()
	err := t.out.End(tracefile.AppendQueryEnd(nil, uint64(time.Now().UnixMicro())))
	s := TraceSummary{Records: t.records, Bytes: t.out.Bytes(), Dropped: t.buf.Dropped(), Full: t.out.Full()}
	if err != nil {
		return s, fmt.Errorf("trace: %w", err)
	}
	return s, nil
}

const (
	// queryOverhead is the most that a record takes beside its keys and values, each of
	// which has up to five bytes of length.
	queryOverhead = 13 + 8 + 4 + 3*coding.MaxVarint32Len
	queryEndLen   = 13
)

// queryTracer writes a query trace. Operations add to it without waiting.
type queryTracer struct {
	filter TraceFilter
	every  uint64
	buf    *tracebuf.Collector
	out    *tracefile.Output // but for Full and Bytes the collector's goroutine's
	counts [stripe.Count]struct {
		n atomic.Uint64
		_ [56]byte
	}

	// Records that no ring takes, by the token in their place.
	mu    sync.Mutex
	large map[uint64][]byte
	token uint64
	room  int64 // bytes that more of them may have

	// Owned by the collector's goroutine.
	base    uint64
	records uint64
}

// wants reports whether an operation is to be traced.
func (t *queryTracer) wants(f TraceFilter) bool {
	if t.filter&f != 0 || t.out.Full() {
		return false
	}
	return t.every <= 1 || (t.counts[stripe.Current()].n.Add(1)-1)%t.every == 0
}

// tokenMark begins a payload that holds the token of a large record. No record begins
// so: its time is not known yet, and zero.
const tokenMark = ^uint64(0)

// add adds an operation of at most n bytes.
func (t *queryTracer) add(q *tracefile.Query, n int) {
	if n > t.buf.Largest() {
		t.addLarge(q, n)
		return
	}
	s := t.buf.Reserve(n)
	if !s.OK() {
		return
	}
	tracefile.AppendQuery(s.Payload[:0], q)
	s.Publish()
}

// addLarge adds an operation that no ring takes, in memory of its own.
func (t *queryTracer) addLarge(q *tracefile.Query, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int64(n) > t.room {
		t.buf.Drop()
		return
	}
	s := t.buf.Reserve(16)
	if !s.OK() {
		return
	}
	t.room -= int64(n)
	if t.large == nil {
		t.large = map[uint64][]byte{}
	}
	t.token++
	t.large[t.token] = tracefile.AppendQuery(make([]byte, 0, n), q)
	binary.LittleEndian.PutUint64(s.Payload, tokenMark)
	binary.LittleEndian.PutUint64(s.Payload[8:], t.token)
	s.Publish()
}

// takeLarge is the record of a token.
func (t *queryTracer) takeLarge(token uint64) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.large[token]
	delete(t.large, token)
	t.room += int64(cap(rec))
	return rec
}

// Begin implements tracebuf.Consumer.
func (t *queryTracer) Begin(int64) {}

// Consume writes an operation. It implements tracebuf.Consumer.
func (t *queryTracer) Consume(nanos int64, rec []byte) {
	if binary.LittleEndian.Uint64(rec) == tokenMark {
		rec = t.takeLarge(binary.LittleEndian.Uint64(rec[8:]))
	} else {
		rec = rec[:13+binary.LittleEndian.Uint32(rec[9:])]
	}
	if t.out.Full() {
		return
	}
	out := t.out.Pending()
	at := len(out)
	out = append(out, rec...)
	binary.LittleEndian.PutUint64(out[at:], t.base+uint64(nanos)/1000)
	if t.out.Added(out, queryEndLen) {
		t.records++
	}
}

// Pause writes what is old. It implements tracebuf.Consumer.
func (t *queryTracer) Pause() { t.out.Age() }

func (t *queryTracer) get(family uint32, key []byte) {
	if t.wants(TraceFilterGet) {
		t.add(&tracefile.Query{Type: tracefile.Get, Family: family, Key: key}, queryOverhead+len(key))
	}
}

func (t *queryTracer) multiGet(family uint32, keys [][]byte) {
	if !t.wants(TraceFilterMultiGet) || len(keys) == 0 {
		return
	}
	n := queryOverhead
	families := make([]uint32, len(keys))
	for i, k := range keys {
		n += 4 + coding.MaxVarint32Len + len(k)
		families[i] = family
	}
	t.add(&tracefile.Query{Type: tracefile.MultiGet, Families: families, Keys: keys}, n)
}

func (t *queryTracer) seek(typ tracefile.Type, family uint32, key, lower, upper []byte) {
	f := TraceFilterIteratorSeek
	if typ == tracefile.SeekForPrev {
		f = TraceFilterIteratorSeekForPrev
	}
	if t.wants(f) {
		t.add(&tracefile.Query{Type: typ, Family: family, Key: key, Lower: lower, Upper: upper}, queryOverhead+len(key)+len(lower)+len(upper))
	}
}

// writes adds the batches of a group that was committed. Only the commit leader calls it.
func (t *queryTracer) writes(g *commitGroup) {
	for _, r := range g.requests {
		if b := r.batch.rep.Bytes(); t.wants(TraceFilterWrite) {
			t.add(&tracefile.Query{Type: tracefile.Write, Batch: b}, queryOverhead+len(b))
		}
	}
}

// traced adds a seek of the iterator to the trace that is being written, if any.
func (it *Iterator) traced(typ tracefile.Type, key []byte) {
	if in := it.in; in != nil && in.state != nil {
		if t := in.state.cf.db.queries.Load(); t != nil {
			t.seek(typ, in.state.cf.id, key, in.lower, in.upper)
		}
	}
}

// tracedEnd is traced for First and Last, which seek to a bound if there is one.
func (it *Iterator) tracedEnd(typ tracefile.Type) {
	if it.in == nil {
		return
	}
	bound := it.in.lower
	if typ == tracefile.SeekForPrev {
		bound = it.in.upper
	}
	if len(bound) > 0 {
		it.traced(typ, bound)
	}
}

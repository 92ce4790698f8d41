package flatrock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// TraceOp is the kind of an operation in a query trace.
type TraceOp string

// The operations.
const (
	TraceWrite       TraceOp = "write"
	TraceGet         TraceOp = "get"
	TraceMultiGet    TraceOp = "multiget"
	TraceSeek        TraceOp = "seek"
	TraceSeekForPrev TraceOp = "seek_for_prev"
)

var traceOps = map[tracefile.Type]TraceOp{tracefile.Write: TraceWrite, tracefile.Get: TraceGet, tracefile.MultiGet: TraceMultiGet,
	tracefile.Seek: TraceSeek, tracefile.SeekForPrev: TraceSeekForPrev}

// TraceRecord is one operation of a query trace. Its memory is its own.
type TraceRecord struct {
	Time  time.Time
	Op    TraceOp
	query tracefile.Query
}

// Key is what a Get or a seek asked for.
func (r *TraceRecord) Key() []byte { return r.query.Key }

// Keys is what a MultiGet asked for.
func (r *TraceRecord) Keys() [][]byte { return r.query.Keys }

// Families are the ids of the column families of a MultiGet's keys, of a Get or of a seek.
func (r *TraceRecord) Families() []uint32 {
	if r.Op == TraceMultiGet {
		return r.query.Families
	}
	return []uint32{r.query.Family}
}

// ReplayOptions tunes Replay. Nil means the zero value.
type ReplayOptions struct {
	// NumThreads is how many goroutines execute operations; zero means one. With more
	// than one, writes still come in the order of the trace, by one of them, and
	// reads may overtake them. RocksDB: num_threads.
	NumThreads int
	// FastForward is how many times faster than they were traced operations are replayed,
	// as far as the database keeps up; zero means 1. RocksDB: fast_forward.
	FastForward float64
	// OnResult gets each operation with its outcome, nil for success; ErrNotFound is
	// one of a Get or a seek. Several goroutines may call it at a time.
	OnResult func(*TraceRecord, error)
}

// ReplayStats is what a replay did.
type ReplayStats struct {
	Ops      map[TraceOp]int64
	Keys     int64         // read by Gets and MultiGets
	NotFound int64         // of these, and of the seeks
	Failed   int64         // operations with another error; the first is Replay's
	Took     time.Duration // from the first operation to the end of the last
	Behind   time.Duration // the most that an operation began after its time
}

// Replayer executes the operations of a query trace on a database. Not safe for
// concurrent use.
type Replayer struct {
	db       *DB
	r        *tracefile.QueryReader
	families map[uint32]*ColumnFamily
}

// NewReplayer reads the header of a trace that StartTrace, or RocksDB, wrote. Operations go to
// the column families of the same ids. RocksDB: NewDefaultReplayer.
func (db *DB) NewReplayer(trace io.Reader) (*Replayer, error) {
	r, err := tracefile.NewQueryReader(bufio.NewReaderSize(trace, 256<<10), "trace")
	if err != nil {
		return nil, err
	}
	p := &Replayer{db: db, r: r, families: map[uint32]*ColumnFamily{}}
	for _, cf := range db.ColumnFamilies() {
		p.families[cf.id] = cf
	}
	return p, nil
}

// Next reads the next operation, or returns io.EOF after the last one.
func (p *Replayer) Next() (*TraceRecord, error) {
	rec := new(TraceRecord)
	if err := p.r.Read(&rec.query); err != nil {
		return nil, err
	}
	q := &rec.query
	rec.Time, rec.Op = time.UnixMicro(int64(q.Micros)), traceOps[q.Type]
	size := len(q.Batch) + len(q.Key) + len(q.Lower) + len(q.Upper)
	for _, k := range q.Keys {
		size += len(k)
	}
	own := make([]byte, 0, size)
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		own = append(own, b...)
		return own[len(own)-len(b) : len(own) : len(own)]
	}
	q.Batch, q.Key, q.Lower, q.Upper = keep(q.Batch), keep(q.Key), keep(q.Lower), keep(q.Upper)
	for i := range q.Keys {
		q.Keys[i] = keep(q.Keys[i])
	}
	return rec, nil
}

// Execute executes one operation now. Values that are read are thrown away.
func (p *Replayer) Execute(rec *TraceRecord) error {
	_, err := p.execute(rec, new(replayState))
	return err
}

// replayState is the memory of one goroutine that executes.
type replayState struct {
	value   []byte
	results []GetResult
}

// outcome counts keys.
type outcome struct{ keys, missing int64 }

func (p *Replayer) execute(rec *TraceRecord, s *replayState) (o outcome, err error) {
	q := &rec.query
	switch rec.Op {
	case TraceWrite:
		return o, p.write(q.Batch)
	case TraceGet:
		cf, err := p.family(q.Family)
		if err != nil {
			return o, err
		}
		o.keys = 1
		s.value, err = cf.Get(nil, q.Key, s.value[:0])
		if errors.Is(err, ErrNotFound) {
			o.missing = 1
		}
		return o, err
	case TraceMultiGet:
		return p.multiGet(q, s)
	}
	cf, err := p.family(q.Family)
	if err != nil {
		return o, err
	}
	ro := &ReadOptions{TotalOrderSeek: true}
	if len(q.Lower) > 0 {
		ro.LowerBound = q.Lower
	}
	if len(q.Upper) > 0 {
		ro.UpperBound = q.Upper
	}
	it, err := cf.NewIterator(ro)
	if err != nil {
		return o, err
	}
	found := false
	if rec.Op == TraceSeek {
		found = it.SeekGE(q.Key)
	} else {
		found = it.SeekLE(q.Key)
	}
	if err = it.Close(); err == nil && !found {
		o.missing, err = 1, ErrNotFound
	}
	return o, err
}

// multiGet reads runs of keys of one family together.
func (p *Replayer) multiGet(q *tracefile.Query, s *replayState) (o outcome, err error) {
	for at := 0; at < len(q.Keys); {
		end := at + 1
		for end < len(q.Keys) && q.Families[end] == q.Families[at] {
			end++
		}
		cf, err := p.family(q.Families[at])
		if err != nil {
			return o, err
		}
		if s.results, err = cf.MultiGet(nil, q.Keys[at:end], s.results); err != nil {
			return o, err
		}
		for i := range s.results {
			o.keys++
			if errors.Is(s.results[i].Err, ErrNotFound) {
				o.missing++
			} else if s.results[i].Err != nil {
				return o, s.results[i].Err
			}
		}
		at = end
	}
	return o, nil
}

func (p *Replayer) family(id uint32) (*ColumnFamily, error) {
	cf := p.families[id]
	if cf == nil {
		return nil, fmt.Errorf("%w: the trace has an operation on column family %d, which the database does not have", ErrInvalidArgument, id)
	}
	return cf, nil
}

// write commits what a batch of the log's form says.
func (p *Replayer) write(rep []byte) error {
	b, err := loadBatch(rep, p.family)
	if err != nil {
		return err
	}
	return p.db.Write(nil, b)
}

// Replay executes the operations that have not been read yet, each at its time relative to the
// first. What an operation comes to, a failure included, does not end it; the first failure is
// the error at the end. Damage in the trace and the end of ctx do end it.
func (p *Replayer) Replay(ctx context.Context, o *ReplayOptions) (ReplayStats, error) {
	if o == nil {
		o = &ReplayOptions{}
	}
	speed, threads := o.FastForward, max(o.NumThreads, 1)
	if speed == 0 {
		speed = 1
	}
	if speed < 0 || o.NumThreads < 0 || o.NumThreads > 1<<12 {
		return ReplayStats{}, fmt.Errorf("%w: FastForward %g, NumThreads %d: want positive numbers, and at most %d", ErrInvalidArgument, o.FastForward, o.NumThreads, 1<<12)
	}
	run := &replayRun{p: p, o: o, stats: ReplayStats{Ops: map[TraceOp]int64{}}}
	const ahead = 256 // operations that wait for a goroutine
	reads, writes := make(chan *TraceRecord, ahead), make(chan *TraceRecord, ahead)
	var wg sync.WaitGroup
	if threads > 1 {
		wg.Go(func() { run.work(writes) })
		for range threads - 1 {
			wg.Go(func() { run.work(reads) })
		}
	}
	start := time.Now()
	var first time.Time
	var state replayState
	var err error
	for err == nil {
		var rec *TraceRecord
		if rec, err = p.Next(); err != nil {
			break
		}
		if first.IsZero() {
			first = rec.Time
		}
		due := start.Add(time.Duration(float64(rec.Time.Sub(first)) / speed))
		if wait := time.Until(due); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
		if err = ctx.Err(); err != nil {
			break
		}
		run.behind(time.Since(due))
		switch {
		case threads == 1:
			run.one(rec, &state)
		case rec.Op == TraceWrite:
			writes <- rec
		default:
			reads <- rec
		}
	}
	close(reads)
	close(writes)
	wg.Wait()
	run.stats.Took = time.Since(start)
	if err == io.EOF {
		err = run.first
	}
	return run.stats, err
}

// replayRun is one Replay.
type replayRun struct {
	p     *Replayer
	o     *ReplayOptions
	mu    sync.Mutex
	stats ReplayStats // guarded by mu
	first error
}

func (r *replayRun) work(in <-chan *TraceRecord) {
	var s replayState
	for rec := range in {
		r.one(rec, &s)
	}
}

func (r *replayRun) one(rec *TraceRecord, s *replayState) {
	out, err := r.p.execute(rec, s)
	if r.o.OnResult != nil {
		r.o.OnResult(rec, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Ops[rec.Op]++
	r.stats.Keys += out.keys
	r.stats.NotFound += out.missing
	if err != nil && !errors.Is(err, ErrNotFound) {
		r.stats.Failed++
		if r.first == nil {
			r.first = fmt.Errorf("replaying a %s of %v: %w", rec.Op, rec.Time, err)
		}
	}
}

func (r *replayRun) behind(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Behind = max(r.stats.Behind, d)
}

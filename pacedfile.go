package flatrock

import (
	"context"

	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
)

// RateLimiter bounds how many bytes a second flushes and compactions write, and read if asked to.
// Several databases may share one. RocksDB: RateLimiter.
type RateLimiter = ratelimit.Limiter

// RateLimiterOptions configures a RateLimiter.
type RateLimiterOptions = ratelimit.Options

// What a RateLimiter limits.
const (
	LimitWrites = ratelimit.WritesOnly // the default
	LimitReads  = ratelimit.ReadsOnly
	LimitAll    = ratelimit.AllIO
)

// NewRateLimiter makes a limiter for Options.RateLimiter. RocksDB: NewGenericRateLimiter.
func NewRateLimiter(o RateLimiterOptions) *RateLimiter { return ratelimit.New(o) }

// pace is how a background job goes about its files.
type pace struct {
	db  *DB
	ctx context.Context // ends waits for the limiter
	// priority is that of a job nobody waits for.
	priority ratelimit.Priority
	sums     *fileSums // of what it writes; nil for none
}

// urgency is what the limiter is asked with: once writers wait, a job is theirs.
func (p *pace) urgency() ratelimit.Priority {
	if p.db.slowed.Load() || p.db.stalled.Load() {
		return ratelimit.User
	}
	return p.priority
}

// reads returns what limits a job's reads, or nil.
func (p *pace) reads() func(n int) {
	l := p.db.opts.RateLimiter
	if l == nil || !l.Mode().Reads() {
		return nil
	}
	return func(n int) { p.ask(l, int64(n)) }
}

// ask waits until the limiter grants n bytes. Once the context has ended nothing is limited: what is
// left to do is to come to an end.
func (p *pace) ask(l *ratelimit.Limiter, n int64) { _ = l.Request(p.ctx, n, p.urgency()) }

// output makes a file that a job writes go at its pace, if anything bounds that.
func (p *pace) output(f mmapfs.File) mmapfs.File {
	o := p.db.mutable()
	l := p.db.opts.RateLimiter
	if l != nil && !l.Mode().Writes() {
		l = nil
	}
	if l == nil && o.BytesPerSync <= 0 {
		return f
	}
	return &pacedFile{File: f, pace: p, limiter: l, back: writeback{every: o.BytesPerSync, strict: o.StrictBytesPerSync}}
}

// pacedFile asks the limiter before each write, and starts to write back what it wrote as it goes.
type pacedFile struct {
	mmapfs.File
	pace    *pace
	limiter *ratelimit.Limiter // nil for no limit
	back    writeback
}

func (f *pacedFile) Write(b []byte) (n int, err error) {
	for n < len(b) {
		part := b[n:]
		if f.limiter != nil {
			part = part[:min(int64(len(part)), f.limiter.Burst())]
			f.pace.ask(f.limiter, int64(len(part)))
		}
		m, err := f.File.Write(part)
		n += m
		if err != nil {
			return n, err
		}
		if err := f.back.wrote(f.File, int64(m)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// writeback decides what of a growing file to write to the device already (RocksDB: bytes_per_sync): each
// time that so many bytes have come together, but for the last MiB, which may still change.
type writeback struct {
	every         int64 // bytes; zero for never
	strict        bool  // wait for the range before
	size, started int64
}

const writebackTail = 1 << 20

func (w *writeback) wrote(f mmapfs.File, n int64) error {
	w.size += n
	if w.every <= 0 {
		return nil
	}
	end := (w.size - writebackTail) &^ 4095
	if end-w.started < w.every {
		return nil
	}
	from := w.started
	w.started = end
	return mmapfs.Writeback(f, from, end-from, w.strict)
}

package flatrock

import (
	"errors"
	"fmt"
	"io"

	"github.com/flatrock-db/flatrock/blockcache"
)

// BlockCacheTraceOptions configures a block cache trace. Nil means the zero value.
type BlockCacheTraceOptions struct {
	// SamplingFrequency keeps one of so many blocks, chosen by a hash of the block, with
	// all of its accesses; 0 and 1 keep all. `flatrock trace block-cache analyze` tells from
	// one block in a hundred what the whole cache does.
	// RocksDB: TraceOptions::sampling_frequency.
	SamplingFrequency uint64
	// MaxTraceFileSize ends the trace before it becomes larger, in bytes; zero means
	// 64 GiB. Reads go on, and End says so. RocksDB: TraceOptions::max_trace_file_size.
	MaxTraceFileSize uint64
	// BufferSize is the memory for accesses that wait to be written, in bytes; zero means 64 MiB.
	// It lies outside of the Go heap, and so do up to 64 MiB that wait for w. Accesses that find no room are dropped and counted.
	BufferSize int64
}

// TraceSummary is what a trace has got.
type TraceSummary struct {
	// Records counts what is in the file, Bytes its size.
	Records, Bytes uint64
	// Dropped counts what is missing since it came faster than it could be written.
	Dropped uint64
	// Full says that the trace ended at its greatest size.
	Full bool
}

// StartBlockCacheTrace begins to write each access of a block in the block cache to w, in the
// format of RocksDB's block cache traces: which block, of which file, level and
// family, on whose behalf, whether it was there, and for point reads the key. At most one
// trace is written at a time.
//
// Reads never wait for it: they add to buffers of their own, which one goroutine
// writes, in the order of time. If w is slower than the reads, accesses are dropped
// and counted (TraceSummary.Dropped). w is the caller's to close after
// EndBlockCacheTrace; an error of w ends the trace, and EndBlockCacheTrace returns it.
//
// Accesses of families without a block cache are in no trace, and neither are index
// and filter blocks that table readers hold themselves, which is the default.
func (db *DB) StartBlockCacheTrace(o *BlockCacheTraceOptions, w io.Writer) error {
	if o == nil {
		o = &BlockCacheTraceOptions{}
	}
	if w == nil {
		return fmt.Errorf("%w: a block cache trace needs a writer", ErrInvalidArgument)
	}
	if o.BufferSize < 0 {
		return fmt.Errorf("%w: BufferSize %d: want no negative number", ErrInvalidArgument, o.BufferSize)
	}
	if db.closed.Load() {
		return ErrClosed
	}
	cache := db.blockCache()
	if cache == nil {
		return fmt.Errorf("%w: a block cache trace, without a family that has a block cache", ErrNotSupported)
	}
	err := cache.StartTrace(blockcache.TraceOptions{Every: o.SamplingFrequency, MaxBytes: o.MaxTraceFileSize, BufferBytes: o.BufferSize}, w)
	switch {
	case errors.Is(err, blockcache.ErrTracing):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.Is(err, blockcache.ErrClosed):
		return ErrClosed
	}
	return err
}

// blockCache is the cache, nil for none. What is done with it after Close does nothing.
func (db *DB) blockCache() *blockcache.Cache {
	db.cacheMu.Lock()
	defer db.cacheMu.Unlock()
	return db.cache
}

// EndBlockCacheTrace writes what has been collected, and ends the trace. The error is
// what kept the trace from being written. Without a trace it does nothing. Close ends a trace too.
func (db *DB) EndBlockCacheTrace() (TraceSummary, error) {
	cache := db.blockCache()
	if cache == nil {
		return TraceSummary{}, nil
	}
	s, err := cache.EndTrace()
	if err != nil {
		err = fmt.Errorf("block cache trace: %w", err)
	}
	return traceSummary(s), err
}

// BlockCacheTrace describes the trace that is being written; ok is false if there is none.
func (db *DB) BlockCacheTrace() (s TraceSummary, ok bool) {
	cache := db.blockCache()
	if cache == nil {
		return s, false
	}
	t, ok := cache.TraceSummary()
	return traceSummary(t), ok
}

func traceSummary(s blockcache.Summary) TraceSummary {
	return TraceSummary{Records: s.Records, Bytes: s.Bytes, Dropped: s.Dropped, Full: s.Full}
}

package dbbench

import (
	"errors"
	"fmt"
	"os"

	flatrock "github.com/flatrock-db/flatrock"
)

// traceFlags are the flags of traces.
type traceFlags struct {
	traceFile, blockCacheTraceFile           string
	blockCacheTraceEvery, blockCacheTraceMax int64
	traceReplayFastForward                   float64
	traceReplayThreads                       int64
}

var defaultTraceFlags = traceFlags{blockCacheTraceEvery: 1, blockCacheTraceMax: 64 << 30, traceReplayFastForward: 1, traceReplayThreads: 1}

func (c *traceFlags) check() error {
	switch {
	case c.blockCacheTraceEvery < 0 || c.blockCacheTraceMax < 0:
		return fmt.Errorf("--block_cache_trace_sampling_frequency=%d, --block_cache_trace_max_trace_file_size_in_bytes=%d: want no negative numbers", c.blockCacheTraceEvery, c.blockCacheTraceMax)
	case !(c.traceReplayFastForward > 0) || c.traceReplayThreads < 1:
		return fmt.Errorf("--trace_replay_fast_forward=%g, --trace_replay_threads=%d: want more than 0, and at least 1", c.traceReplayFastForward, c.traceReplayThreads)
	}
	return nil
}

// traceFiles are the traces that are being written.
type traceFiles struct{ block, query *os.File }

// beginTraces begins what --block_cache_trace_file and --trace_file ask for, once a
// database has been opened and a benchmark is to run. A replay reads --trace_file instead.
func (b *bench) beginTraces(benchmark string) error {
	c := b.c
	if c.blockCacheTraceFile != "" && b.traces.block == nil {
		f, err := os.Create(c.blockCacheTraceFile)
		if err != nil {
			return err
		}
		b.traces.block = f
		err = b.db.StartBlockCacheTrace(&flatrock.BlockCacheTraceOptions{
			SamplingFrequency: uint64(c.blockCacheTraceEvery), MaxTraceFileSize: uint64(c.blockCacheTraceMax),
		}, f)
		if err != nil {
			return fmt.Errorf("--block_cache_trace_file: %w", err)
		}
	}
	if c.traceFile != "" && b.traces.query == nil && benchmark != "replay" {
		f, err := os.Create(c.traceFile)
		if err != nil {
			return err
		}
		b.traces.query = f
		if err := b.db.StartTrace(nil, f); err != nil {
			return fmt.Errorf("--trace_file: %w", err)
		}
		fmt.Fprintf(b.out, "Tracing the workload to: [%s]\n", c.traceFile)
	}
	return nil
}

// endTraces ends them, before their database is closed.
func (b *bench) endTraces() error {
	var errs []error
	if f := b.traces.block; f != nil {
		s, err := b.db.EndBlockCacheTrace()
		errs = append(errs, err, f.Close())
		b.printTrace("block cache trace", f.Name(), s)
	}
	if f := b.traces.query; f != nil {
		s, err := b.db.EndTrace()
		errs = append(errs, err, f.Close())
		b.printTrace("query trace", f.Name(), s)
	}
	b.traces = traceFiles{}
	return errors.Join(errs...)
}

func (b *bench) printTrace(what, name string, s flatrock.TraceSummary) {
	full := ""
	if s.Full {
		full = "; it ended at its greatest size"
	}
	fmt.Fprintf(b.out, "%s : %d records, %d dropped, %.1f MB in %s%s\n", what, s.Records, s.Dropped, mb(int64(s.Bytes)), name, full)
}

// replay executes the operations of --trace_file on the database.
func (b *bench) replay() error {
	c := b.c
	if c.traceFile == "" {
		return fmt.Errorf("--trace_file says what to replay")
	}
	f, err := os.Open(c.traceFile)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := b.db.NewReplayer(f)
	if err != nil {
		return err
	}
	s, err := p.Replay(b.ctx, &flatrock.ReplayOptions{NumThreads: int(c.traceReplayThreads), FastForward: c.traceReplayFastForward})
	total := int64(0)
	for _, n := range s.Ops {
		total += n
	}
	fmt.Fprintf(b.out, "replay       : %d operations in %.3f seconds, %d ops/sec; %d writes, %d gets, %d multigets, %d seeks; "+
		"%d of %d keys found; at most %.3f seconds late\n",
		total, s.Took.Seconds(), int64(perSecond(float64(total), s.Took.Seconds())), s.Ops[flatrock.TraceWrite], s.Ops[flatrock.TraceGet],
		s.Ops[flatrock.TraceMultiGet], s.Ops[flatrock.TraceSeek]+s.Ops[flatrock.TraceSeekForPrev], s.Keys-s.NotFound, s.Keys, s.Behind.Seconds())
	return err
}

package blocktable

import (
	"time"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/perf"
	"github.com/flatrock-db/flatrock/statistics"
)

// How reads of blocks and filters count into ReaderOptions.Statistics and the perf
// context of a lookup or iterator.

// load reads the block at h from the file.
func (r *Reader) load(h block.Handle, o fetchOptions) (blockRef, error) {
	if o.perf == nil && r.opts.Statistics == nil {
		return r.loadBlock(h, o)
	}
	start := time.Now()
	ref, err := r.loadBlock(h, o)
	took := time.Since(start)
	if st := r.opts.Statistics; st != nil {
		stripe := statistics.Stripe()
		micros := uint64(took.Microseconds())
		st.Record(stripe, statistics.SSTReadMicros, micros)
		if o.kind == blockcache.Data && o.ahead == nil {
			st.Record(stripe, statistics.ReadBlockGetMicros, micros)
		}
		if r.compressed && err == nil {
			st.Add(stripe, statistics.NumberBlockDecompressed, 1)
			st.Record(stripe, statistics.BytesDecompressed, uint64(len(ref.data)))
		}
	}
	if p := o.perf; p != nil {
		countLoads(p, o.kind, 1, h.Size+block.TrailerLen)
		if p.Times() {
			p.BlockReadTime += uint64(took)
			p.IOStats.ReadNanos += uint64(took)
		}
	}
	return ref, err
}

// countLoads counts blocks that came from a file.
func countLoads(p *perf.Context, kind blockcache.BlockType, blocks int, size uint64) {
	p.BlockReadCount += uint64(blocks)
	p.BlockReadByte += size
	p.IOStats.BytesRead += size
	switch kind {
	case blockcache.Index:
		p.IndexBlockReadCount += uint64(blocks)
	case blockcache.Filter:
		p.FilterBlockReadCount += uint64(blocks)
	}
}

// tallyOf is where a lookup counts that its caller will pass on to the statistics as a
// whole, nil if there is none.
func tallyOf(look *keys.Lookup) *perf.Tally {
	if look == nil || !look.Tallying {
		return nil
	}
	return &look.Tally
}

// countHit counts a block that was in the cache.
func (r *Reader) countHit(ref *blockRef, kind blockcache.BlockType, p *perf.Context, tally *perf.Tally) {
	if tally != nil {
		tally.CachedBytes += uint64(len(ref.data))
	} else if st := r.opts.Statistics; st != nil {
		st.Add(statistics.Stripe(), statistics.BlockCacheBytesRead, uint64(len(ref.data)))
	}
	if p == nil {
		return
	}
	p.BlockCacheHitCount++
	switch kind {
	case blockcache.Index:
		p.BlockCacheIndexHitCount++
	case blockcache.Filter:
		p.BlockCacheFilterHitCount++
	}
}

// observed reports whether somebody counts what a lookup does.
func (r *Reader) observed(look *keys.Lookup) bool {
	return r.opts.Statistics != nil || look.Perf != nil
}

// countFilter counts the answer of the filter to a lookup.
func (r *Reader) countFilter(look *keys.Lookup, may bool) {
	f := &r.filter
	if f.kind == filterNone || !f.wholeKey && !f.prefix {
		return
	}
	if p := look.Perf; p != nil {
		if may {
			p.BloomSSTHitCount++
		} else {
			p.BloomSSTMissCount++
		}
	}
	st := r.opts.Statistics
	if st == nil {
		return
	}
	if t := tallyOf(look); t != nil && f.wholeKey {
		if may {
			t.FilterPositive++
		} else {
			t.FilterUseful++
		}
		return
	}
	stripe := statistics.Stripe()
	switch {
	case !f.wholeKey:
		st.Add(stripe, statistics.BloomFilterPrefixChecked, 1)
		if !may {
			st.Add(stripe, statistics.BloomFilterPrefixUseful, 1)
		}
	case may:
		st.Add(stripe, statistics.BloomFilterFullPositive, 1)
	default:
		st.Add(stripe, statistics.BloomFilterUseful, 1)
	}
}

// countTruePositive counts a key that was there as the filter had said.
func (r *Reader) countTruePositive(look *keys.Lookup) {
	if st := r.opts.Statistics; st != nil && r.filter.kind != filterNone && r.filter.wholeKey {
		if t := tallyOf(look); t != nil {
			t.FilterTrue++
			return
		}
		st.Add(statistics.Stripe(), statistics.BloomFilterFullTruePositive, 1)
	}
}

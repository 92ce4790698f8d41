package blocktable

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// What block cache traces get to see. With no trace all of it is one test of a pointer
// in the cache, beside what the lookup has loaded; nothing here is inlined into reads.

// traceTypes are the types of blocks in traces.
var traceTypes = [...]tracefile.Type{blockcache.Data: tracefile.DataBlock, blockcache.Index: tracefile.IndexBlock, blockcache.Filter: tracefile.FilterBlock}

// tracer is the trace to add to, nil for none.
func (r *Reader) tracer() *blockcache.Tracer {
	if r.cache == nil {
		return nil
	}
	return r.cache.Tracer()
}

// describe tells the cache what traces are to say about the file.
func (r *Reader) describe() {
	if f := r.opts.Trace; r.cache != nil && f.Number != 0 {
		r.cache.Describe(r.cacheID, f)
	}
}

// SetLevel says in which level the file is, for traces. Not safe for concurrent use with itself.
func (r *Reader) SetLevel(level int) {
	if uint32(level) != r.opts.Trace.Level {
		r.opts.Trace.Level = uint32(level)
		r.describe()
	}
}

// pointTrace is the point read that blocks are fetched for: a copy, as what refers to
// a Lookup would move it to the heap.
type pointTrace struct {
	key      []byte
	trailer  uint64
	snapshot bool
	caller   table.Caller
	id       uint64
}

// begin copies what traces say about a lookup.
func (p *pointTrace) begin(look *keys.Lookup) *pointTrace {
	p.key = append(p.key[:0], look.UserKey...)
	p.trailer, p.snapshot, p.id = look.Trailer(), look.FromSnapshot, look.TraceID
	p.caller = callerOf(look)
	return p
}

func callerOf(look *keys.Lookup) table.Caller {
	if look.Many {
		return table.CallerMultiGet
	}
	return table.CallerGet
}

// access fills in what all accesses have.
func (r *Reader) access(a *blockcache.Access, h block.Handle, ref *blockRef, hit bool, o *fetchOptions) {
	a.File, a.Offset, a.Type, a.Hit, a.Caller = r.cacheID, h.Offset, traceTypes[o.kind], hit, o.caller
	a.NoInsert = !o.fill || r.mapped != nil && !o.pread && !r.compressed
	a.Size = len(ref.data) + r.room(o.kind) + blockcache.BlockOverhead
}

// traced adds an access that fetch has made, for whom o says.
//
//go:noinline
func (r *Reader) traced(t *blockcache.Tracer, h block.Handle, ref *blockRef, hit bool, o *fetchOptions) {
	if !t.Samples(r.opts.Trace.Number, h.Offset) {
		return
	}
	var a blockcache.Access
	r.access(&a, h, ref, hit, o)
	p := o.point
	switch {
	case p != nil:
		a.Caller, a.FromSnapshot, a.GetID = p.caller, p.snapshot, p.id
		t.Add(&a, p.key, p.trailer)
		p.id = a.GetID
		return
	case a.Caller == table.CallerUnknown || a.Caller.PointRead():
		a.Caller = table.CallerUncategorized
	}
	t.Add(&a, nil, 0)
}

// tracedFilter adds a point read's access of a filter.
//
//go:noinline
func (r *Reader) tracedFilter(t *blockcache.Tracer, look *keys.Lookup, h block.Handle, ref *blockRef, hit bool, o *fetchOptions) {
	if !t.Samples(r.opts.Trace.Number, h.Offset) {
		return
	}
	a := blockcache.Access{FromSnapshot: look.FromSnapshot, GetID: look.TraceID}
	r.access(&a, h, ref, hit, o)
	a.Caller = callerOf(look)
	t.Add(&a, look.UserKey, look.Trailer())
	look.TraceID = a.GetID
}

// tracedData adds a point read's access of a data block, which was searched: if it
// has the key, trailer and value are those of the entry.
//
//go:noinline
func (r *Reader) tracedData(t *blockcache.Tracer, look *keys.Lookup, h block.Handle, ref *blockRef, hit bool, o *fetchOptions, found bool, trailer uint64, value []byte) {
	if !t.Samples(r.opts.Trace.Number, h.Offset) {
		return
	}
	a := blockcache.Access{FromSnapshot: look.FromSnapshot, GetID: look.TraceID, Exists: found}
	r.access(&a, h, ref, hit, o)
	a.Caller = callerOf(look)
	a.Keys = r.keysIn(ref)
	if found {
		a.DataSize = len(look.UserKey) + keys.TrailerLen + len(value)
	} else {
		trailer = look.Trailer()
	}
	t.Add(&a, look.UserKey, trailer)
	look.TraceID = a.GetID
}

// keysIn is how many entries a data block has: its hint knows, and else it is
// estimated by the restart points, as RocksDB does.
func (r *Reader) keysIn(ref *blockRef) int {
	if n := len(ref.hint) - hintTail; n > 0 {
		if keys := binary.LittleEndian.Uint16(ref.hint[n+2:]); keys > 0 {
			return int(keys)
		}
	}
	if len(ref.data) < 4 {
		return 0
	}
	restarts := int(binary.LittleEndian.Uint32(ref.data[len(ref.data)-4:]) & restartMask)
	return min(restarts*max(r.opts.RestartInterval, 1), len(ref.data))
}

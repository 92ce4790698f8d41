package blocktable

import (
	"bytes"
	"sync"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Iterator walks a table. It implements table.Iterator. At any time it holds one
// data block (and an index partition) in the cache.
type Iterator struct {
	r     *Reader
	o     fetchOptions
	ahead readahead
	index indexCursor
	data  dataIter
	ref   blockRef
	have  bool // ref is the block of the index cursor
	err   error

	lower, upper []byte
	blocks       int  // loaded since the last seek
	onward       bool // enter is called by forward

	carry     *table.Readahead // takes what readahead grew to
	unlimited bool             // readahead may pass the upper bound

	own *sumBuilder // with protection: for blocks whose sums are not in the cache
}

// iterators are closed ones: a seek makes and closes one for each file that it looks into.
var iterators = sync.Pool{New: func() any { return new(Iterator) }}

// NewIterator returns an iterator that must be closed, and not be used afterwards.
func (r *Reader) NewIterator(o table.IterOptions) table.Iterator { return r.Iterate(o) }

// Iterate is NewIterator with the concrete type.
func (r *Reader) Iterate(o table.IterOptions) *Iterator {
	it := iterators.Get().(*Iterator)
	it.r = r
	it.ahead = readahead{stable: true, fixed: o.ReadaheadSize, auto: r.auto, size: r.auto.start, next: ^uint64(0), pace: o.Pace}
	if it.carry = o.Carry; it.carry != nil && it.carry.Size > 0 && r.auto.start > 0 {
		// The scan goes on from the file before: the first block of this one is the next.
		it.ahead.size, it.ahead.runs, it.ahead.next = min(it.carry.Size, r.auto.most), r.auto.after, 0
	}
	it.unlimited = o.PastUpper
	it.o = fetchOptions{
		kind: blockcache.Data, fill: !o.NoFill, ahead: &it.ahead,
		verify: (o.VerifyChecksums || r.opts.VerifyChecksums) && !o.NoVerify,
		pread:  o.ReadaheadSize > 0,
		guard:  o.Guarded,
		caller: o.Caller,
		perf:   o.Perf,
	}
	it.lower, it.upper = o.Lower, o.Upper
	it.index.init(r, fetchOptions{fill: true, verify: true, pread: it.o.pread, caller: o.Caller, perf: o.Perf})
	it.data.order, it.data.gseq, it.data.file = r.opts.Order, r.gseq, r.name
	return it
}

// drop lets go of the data block.
func (it *Iterator) drop() {
	if it.have {
		it.r.release(&it.ref)
		it.have = false
	}
	it.data.valid = false
}

// enter loads the data block that the index cursor names.
func (it *Iterator) enter() bool {
	it.drop()
	h := it.index.handle()
	if it.blocks++; it.upper != nil && it.ahead.limit == 0 && !it.unlimited && (it.blocks > it.ahead.auto.after || it.ahead.fixed > 0) {
		it.limitReadahead()
	}
	var err error
	if it.ref, err = it.r.fetch(h, it.o); err != nil {
		it.err = err
		return false
	}
	it.have = true
	prefetch.At(it.ref.data, len(it.ref.data)-1) // begin reads it
	if it.onward {
		prefetch.Span(it.ref.data, 0, seekAhead)
		it.index.prefetchNext()
	}
	ok := true
	if it.r.sumLen != 0 && !it.r.secure(&it.ref, h, blockcache.Data, it.r.worthSums(&it.ref)) {
		it.data.err, ok = it.r.damaged(h, blockcache.Data), false
	}
	if ok && it.begin(h) || it.reload() {
		return true
	}
	it.err = it.data.err
	return false
}

// begin puts the cursor on the block that was fetched.
func (it *Iterator) begin(h block.Handle) bool {
	if !it.data.init(it.ref.data, h.Offset) {
		return false
	}
	if it.r.sumLen != 0 {
		if it.data.sums = it.ref.sums; it.data.sums.count == 0 {
			if it.own == nil {
				it.own = new(sumBuilder)
			}
			if it.own.ofData(it.ref.data, it.r.opts.Order, it.r.sumLen) {
				it.data.sums = it.own.found
			}
		}
	}
	return true
}

// reload fetches the block, in which the last move found damage, again from the file;
// false if that could not help.
func (it *Iterator) reload() bool {
	if it.data.err == nil || !it.have || it.r.sumLen == 0 {
		return false
	}
	h := it.index.handle()
	if it.ref.hold != 0 {
		it.r.discard(&it.ref, h, it.data.err)
	} else if it.r.opts.OnDamage != nil {
		it.r.opts.OnDamage(it.data.err)
	}
	if it.r.opts.NoReread {
		return false
	}
	it.drop()
	it.ahead.buf = it.ahead.buf[:0]
	var err error
	if it.ref, err = it.r.load(h, it.o); err != nil {
		it.data.err = err
		return false
	}
	it.have = true
	return it.begin(h)
}

// again does a step that failed in the block once more, by the number of the entry.
func (it *Iterator) again(by int) bool {
	to, err := it.data.from+by, it.data.err
	if !it.reload() {
		return false
	}
	if it.data.sums.count == 0 {
		it.data.err = err
		return false
	}
	return it.data.toEntry(to)
}

// start forgets where the iterator was.
func (it *Iterator) start() {
	it.err, it.index.err = nil, nil
	it.data.valid = false
	it.blocks = 0
}

// limitReadahead finds the end of the last block that may hold something below
// the upper bound.
func (it *Iterator) limitReadahead() {
	it.ahead.limit = uint64(it.r.footerStart)
	var c indexCursor
	c.init(it.r, it.index.o)
	if c.seekGE(it.upper, keys.Pack(keys.MaxSeq, keys.KindSeek)) {
		it.ahead.limit, _ = c.handle().End(block.TrailerLen)
	}
	c.close() // an error there is one that the walk will meet
}

// pastUpper says that the blocks after the current one lie beyond the upper bound:
// its separator, which is below all of their keys, does.
func (it *Iterator) pastUpper() bool {
	return it.upper != nil && it.r.opts.Order.Compare(it.index.userKey(), it.upper) >= 0
}

// beforeLower says that all of the index cursor's block lies below the lower
// bound: its separator, which is at or after its last key, does.
func (it *Iterator) beforeLower() bool {
	return it.lower != nil && it.r.opts.Order.Compare(it.index.userKey(), it.lower) < 0
}

// forward goes on to the first entry of the next block that has one. ok says
// whether the current block gave an entry.
func (it *Iterator) forward(ok bool) bool {
	for !ok {
		if it.err = it.data.err; it.err != nil {
			return false
		}
		if it.pastUpper() {
			it.data.valid = false
			return false
		}
		if !it.index.next() {
			it.err = it.index.err
			it.data.valid = false
			return false
		}
		it.onward = true
		if !it.enter() {
			return false
		}
		it.onward = false
		ok = it.firstOf()
	}
	return true
}

// backward is forward's mirror.
func (it *Iterator) backward(ok bool) bool {
	for !ok {
		if it.err = it.data.err; it.err != nil {
			return false
		}
		if !it.index.prev() || it.beforeLower() {
			it.err = it.index.err
			it.data.valid = false
			return false
		}
		if !it.enter() {
			return false
		}
		ok = it.lastOf()
	}
	return true
}

// firstOf and lastOf move to the ends of the block.
func (it *Iterator) firstOf() bool { return it.data.first() || it.reload() && it.data.first() }
func (it *Iterator) lastOf() bool  { return it.data.last() || it.reload() && it.data.last() }

// missing is the end of a seek for which the index has no block.
func (it *Iterator) missing() bool {
	it.drop()
	it.err = it.index.err
	return false
}

// SeekGE moves to the first entry at or after (userKey, trailer).
func (it *Iterator) SeekGE(userKey []byte, trailer uint64) bool {
	it.start()
	if !it.index.seekGE(userKey, trailer) {
		return it.missing()
	}
	if !it.enter() {
		return false
	}
	ok := it.data.seekGE(userKey, trailer)
	if !ok && it.reload() {
		ok = it.data.seekGE(userKey, trailer)
	}
	return it.forward(ok)
}

// SeekPrefixGE moves to the first entry at or after the target that has look's
// prefix, and asks the filter first.
func (it *Iterator) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	may, err := it.r.mayContainPrefix(look.UserKey, look.PrefixLen)
	if !may {
		it.start()
		it.err = err
		return false
	}
	prefix := look.UserKey[:look.PrefixLen]
	if !it.SeekGE(look.UserKey, trailer) {
		return false
	}
	// A key that goes on after these bytes may have another, longer prefix (capped).
	key, e := it.data.userKey(), it.r.opts.Extractor
	if !bytes.HasPrefix(key, prefix) || e != nil && e.PrefixLen(key) != look.PrefixLen {
		it.data.valid = false
		return false
	}
	return true
}

// SeekLT moves to the last entry before (userKey, trailer).
func (it *Iterator) SeekLT(userKey []byte, trailer uint64) bool {
	it.start()
	if !it.index.seekGE(userKey, trailer) {
		if it.index.err != nil {
			return it.missing()
		}
		return it.Last()
	}
	if !it.enter() {
		return false
	}
	ok := it.data.seekLT(userKey, trailer)
	if !ok && it.reload() {
		ok = it.data.seekLT(userKey, trailer)
	}
	return it.backward(ok)
}

// First moves to the first entry.
func (it *Iterator) First() bool {
	it.start()
	if !it.index.first() {
		return it.missing()
	}
	return it.enter() && it.forward(it.firstOf())
}

// Last moves to the last entry.
func (it *Iterator) Last() bool {
	it.start()
	if !it.index.last() {
		return it.missing()
	}
	return it.enter() && it.backward(it.lastOf())
}

// Next moves to the next entry; the iterator must be valid.
func (it *Iterator) Next() bool {
	return it.data.forward() || it.forward(it.data.err != nil && it.again(1))
}

// Prev moves to the entry before; the iterator must be valid.
func (it *Iterator) Prev() bool {
	return it.data.backward() || it.backward(it.data.err != nil && it.again(-1))
}

// Valid reports whether the iterator is on an entry.
func (it *Iterator) Valid() bool { return it.data.valid }

// UserKey is the user key of the entry, borrowed until the next move.
func (it *Iterator) UserKey() []byte { return it.data.userKey() }

// Trailer is the trailer of the entry.
func (it *Iterator) Trailer() uint64 { return it.data.trailer }

// Value is the value of the entry, borrowed until the next move.
func (it *Iterator) Value() []byte { return it.data.val }

// Err is why the last move failed; nil at an end.
func (it *Iterator) Err() error { return it.err }

// Close lets go of what the iterator holds, and gives it back.
func (it *Iterator) Close() error {
	if it.r == nil {
		return nil // closed already
	}
	if it.carry != nil {
		if it.carry.Size = 0; it.ahead.fixed == 0 && it.ahead.runs >= it.ahead.auto.after {
			it.carry.Size = it.ahead.size
		}
	}
	it.drop()
	it.index.close()
	err := it.err
	*it = Iterator{data: dataIter{key: it.data.key[:0], prev: it.data.prev[:0], prevBuf: it.data.prevBuf[:0]}}
	iterators.Put(it)
	return err
}

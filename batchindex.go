package flatrock

import (
	"bytes"
	"math/rand/v2"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
)

// overlaySeq is the sequence number of an indexed batch's first operation: above all
// that a database gives out, so that the batch lies over everything.
const overlaySeq = uint64(1) << 55

// batchIndex is what an IndexedBatch has for one family: a skip list of its entries
// in internal key order, and its range deletes. Keys and values are borrowed from
// the batch.
type batchIndex struct {
	order     keys.Order
	extractor *PrefixExtractor // nil without one
	tombs     *rangedel.Mutable
	head      batchNode
	level     int // of the highest node
	count     int
}

const batchIndexHeight = 12

type batchNode struct {
	key     []byte
	trailer uint64
	value   []byte
	next    []*batchNode
}

func newBatchIndex(order keys.Order, e *PrefixExtractor) *batchIndex {
	return &batchIndex{order: order, extractor: e, tombs: rangedel.NewMutable(order), head: batchNode{next: make([]*batchNode, batchIndexHeight)}}
}

// before finds, on each level, the last node before (key, trailer).
func (x *batchIndex) before(key []byte, trailer uint64, path *[batchIndexHeight]*batchNode) *batchNode {
	n := &x.head
	for l := x.level - 1; l >= 0; l-- {
		for next := n.next[l]; next != nil && x.order.CompareInternal(next.key, next.trailer, key, trailer) < 0; next = n.next[l] {
			n = next
		}
		if path != nil {
			path[l] = n
		}
	}
	return n
}

// first is the first node at or after (key, trailer), nil if there is none.
func (x *batchIndex) first(key []byte, trailer uint64) *batchNode {
	return x.before(key, trailer, nil).next[0]
}

func (x *batchIndex) add(key []byte, trailer uint64, value []byte) {
	height := 1
	for height < batchIndexHeight && rand.Uint32()&3 == 0 {
		height++
	}
	var path [batchIndexHeight]*batchNode
	for l := x.level; l < height; l++ {
		path[l] = &x.head
	}
	x.before(key, trailer, &path)
	x.level = max(x.level, height)
	n := &batchNode{key: key, trailer: trailer, value: value, next: make([]*batchNode, height)}
	for l := range n.next {
		n.next[l] = path[l].next[l]
		path[l].next[l] = n
	}
	x.count++
}

// get finds the newest entry that look may see, as memState.get does.
func (x *batchIndex) get(look *keys.Lookup) (value []byte, trailer uint64, ok bool) {
	if n := x.first(look.UserKey, look.Trailer()); n != nil && bytes.Equal(n.key, look.UserKey) {
		value, trailer, ok = n.value, n.trailer, true
	}
	if x.tombs.Near(look.UserKey) {
		cover := x.tombs.Cover(look.UserKey, look.Seq)
		if cover > 0 && (!ok || keys.Seq(trailer) < cover) {
			return nil, keys.Pack(cover, keys.KindRangeDelete), true
		}
	}
	return value, trailer, ok
}

// batchCursor walks a batchIndex. It implements table.Iterator.
type batchCursor struct {
	x  *batchIndex
	at *batchNode
}

func (c *batchCursor) land(n *batchNode) bool {
	if n == &c.x.head {
		n = nil
	}
	c.at = n
	return n != nil
}

func (c *batchCursor) SeekGE(key []byte, trailer uint64) bool {
	return c.land(c.x.first(key, trailer))
}

func (c *batchCursor) SeekPrefixGE(look *keys.Lookup, trailer uint64) bool {
	if !c.SeekGE(look.UserKey, trailer) {
		return false
	}
	// A key that begins with the prefix may have a longer one, of NoopPrefix or CappedPrefix.
	if e, n := c.x.extractor, look.PrefixLen; !bytes.HasPrefix(c.at.key, look.UserKey[:n]) || e != nil && e.PrefixLen(c.at.key) != n {
		c.at = nil
	}
	return c.at != nil
}

func (c *batchCursor) SeekLT(key []byte, trailer uint64) bool {
	return c.land(c.x.before(key, trailer, nil))
}

func (c *batchCursor) First() bool { return c.land(c.x.head.next[0]) }

func (c *batchCursor) Last() bool {
	n := &c.x.head
	for l := c.x.level - 1; l >= 0; l-- {
		for n.next[l] != nil {
			n = n.next[l]
		}
	}
	return c.land(n)
}

func (c *batchCursor) Next() bool      { return c.land(c.at.next[0]) }
func (c *batchCursor) Prev() bool      { return c.SeekLT(c.at.key, c.at.trailer) }
func (c *batchCursor) Valid() bool     { return c.at != nil }
func (c *batchCursor) UserKey() []byte { return c.at.key }
func (c *batchCursor) Trailer() uint64 { return c.at.trailer }
func (c *batchCursor) Value() []byte   { return c.at.value }
func (c *batchCursor) Err() error      { return nil }
func (c *batchCursor) Close() error    { return nil }

var _ table.Iterator = (*batchCursor)(nil)

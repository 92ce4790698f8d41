package memtable

import (
	"sync/atomic"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// points finds the newest entry of a user key in a skip list without a search: a hash table
// beside the list, in memory of its own, off the Go heap. A search meets a cache miss
// on most levels of the list, and most reads ask a memtable in vain.
//
//	slot := tag<<32 | link        0 while it is free
//
// The tag is the upper half of the key's hash, whose lower half says where to begin; from
// there on the first slot with the key's node, or a free one, is the key's.
//
// Invariants:
//
//	P1 Unless full is set, each user key that has an entry visible to a reader has one
//	   slot, which leads to an entry at least as new as all that the reader may see:
//	   add comes before the entry becomes visible, and puts newer entries over older ones.
//	P2 A slot that was taken keeps its key.
//	P3 full is set, before the entry becomes visible, by the first add that is not done.
//	   The table then says nothing, not even of keys that it has: two writers may
//	   have seen its last free slot differently.
//
// It is for orders in which keys are equal only if their bytes are.
type points struct {
	slots []uint64 // nil if there is no table
	limit int64    // of slots that are taken
	arena *mmapfs.Arena

	_     [64]byte
	taken atomic.Int64
	full  atomic.Bool
	_     [64]byte
}

const (
	slotLen = 8
	// bytesPerPoint is how much of an arena there is for each slot. Entries are rarely
	// smaller by themselves, and versions of one key have one slot.
	bytesPerPoint = 128
	minPoints     = 64
)

// init makes a table for a memtable of so many bytes, on the Go heap if o is nil. Without
// memory there is none.
func (p *points) init(reserve int64, o *mmapfs.ArenaOptions) {
	n := max(reserve/bytesPerPoint, minPoints)
	p.limit = n - n/8
	if o == nil {
		p.slots = make([]uint64, n)
		return
	}
	of := *o
	of.Name = "memtable points"
	arena, err := mmapfs.NewArena(n*slotLen, of)
	if err != nil {
		return
	}
	// The arena is zeroed memory that begins on a page, and stays until release.
	p.arena, p.slots = arena, unsafe.Slice((*uint64)(arena.Base()), n)
}

func (p *points) release() {
	p.slots = nil
	if p.arena != nil {
		p.arena.Free()
		p.arena = nil
	}
}

// home is where a hash begins.
func (p *points) home(h uint64) int { return int(uint64(uint32(h)) * uint64(len(p.slots)) >> 32) }

func (p *points) prefetch(h uint64) {
	prefetch.Address((*byte)(unsafe.Pointer(&p.slots[p.home(h)])))
}

// serves reports whether the table can answer.
func (p *points) serves() bool { return p.slots != nil && !p.full.Load() }

// addPoint makes n the entry of its key if it is the newest. Several writers may call it.
func (m *MemTable) addPoint(n node, h uint64) {
	p := &m.points
	tag, slot := h>>32, h>>32<<32|uint64(m.link(n))
	key, trailer := n.key(), n.trailer()
	for i := p.home(h); !p.full.Load(); {
		at := &p.slots[i]
		s := atomic.LoadUint64(at)
		if s == 0 {
			if p.taken.Add(1) > p.limit { // so that a search always ends
				p.full.Store(true)
				return
			}
			if atomic.CompareAndSwapUint64(at, 0, slot) {
				return
			}
			p.taken.Add(-1)
			continue // another writer took it, perhaps for this key
		}
		if s>>32 == tag {
			if there := m.at(uint32(s)); string(there.key()) == string(key) {
				if there.trailer() >= trailer || atomic.CompareAndSwapUint64(at, s, slot) {
					return
				}
				continue
			}
		}
		if i++; i == len(p.slots) {
			i = 0
		}
	}
}

// point is the newest entry of a user key, none if it has none. The table must have served
// after the reader knew what it may see.
func (m *MemTable) point(key []byte, h uint64) node {
	p := &m.points
	tag := h >> 32
	for i := p.home(h); ; {
		s := atomic.LoadUint64(&p.slots[i])
		if s == 0 {
			return node{}
		}
		if s>>32 == tag {
			if n := m.at(uint32(s)); string(n.key()) == string(key) {
				return n
			}
		}
		if i++; i == len(p.slots) {
			i = 0
		}
	}
}

// prefetchPoint asks for the node that a slot leads to, whose line prefetch has asked for
// some time before.
func (m *MemTable) prefetchPoint(h uint64) {
	p := &m.points
	if s := atomic.LoadUint64(&p.slots[p.home(h)]); s>>32 == h>>32 && s != 0 {
		prefetch.Address((*byte)(m.at(uint32(s)).p))
	}
}

func pointHash(key []byte) uint64 { return xxh3.Hash(key) }

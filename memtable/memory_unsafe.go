package memtable

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/flatrock-db/flatrock/internal/invariant"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// linkUnit is what a link counts: nodes and towers start at multiples of it, so
// that a link of four bytes reaches 32 GiB.
const linkUnit = 8

// Node layout, by offset from the node's address in bytes. What lies before it
// is the upper part of its tower.
//
//	-4*l  link of level l, for the levels above the lowest
//	 0    link of level 0
//	 4    link to the node inserted before this one (older); set before the node is published
//	 8    length of the user key, and the height of the node in the top 4 bits
//	12    length of the value
//	16    user key, then the trailer, then the value, then the sum (protect.go), if there is one
const (
	nodeOlder    = 4
	nodeKeyLen   = 8
	nodeValueLen = 12
	nodeKey      = 16
	trailerLen   = 8

	keyLenBits = 28
	maxKeyLen  = 1<<keyLenBits - 1
)

// memory is the arena of one memtable: zeroed, never moved, never on the Go heap
// (except where a test wants the race detector to see it).
//
// Every unsafe.Pointer in this package is base plus the offset of something that
// alloc returned, so it stays valid until release, which the memtable's owner
// calls when no reader is left. None of that memory holds Go pointers.
type memory struct {
	base  unsafe.Pointer
	size  int64
	arena *mmapfs.Arena

	sumLen int // of the sum behind each value; 0 without protection

	// With heap, a bump of used stands for the arena.
	heap []uint64
	used atomic.Int64
}

func newMappedMemory(size int64, o mmapfs.ArenaOptions) (*memory, error) {
	arena, err := mmapfs.NewArena(size, o)
	if err != nil {
		return nil, err
	}
	return &memory{base: arena.Base(), size: arena.Reserved(), arena: arena}, nil
}

// newHeapMemory stands in for mapped memory, which the race detector ignores. slack is
// memory behind it that is not used: a slice that a damaged length makes must stay within
// one object in race builds, even if nobody reads its end.
func newHeapMemory(size, slack int64) *memory {
	heap := make([]uint64, (size+slack)/linkUnit)
	return &memory{base: unsafe.Pointer(unsafe.SliceData(heap)), size: size / linkUnit * linkUnit, heap: heap}
}

// alloc takes n bytes, n a multiple of linkUnit, and returns their offset, never
// zero. Safe for concurrent use.
func (m *memory) alloc(n uint32) (off uint64, ok bool) {
	if m.arena != nil {
		return m.arena.Alloc(n, linkUnit)
	}
	for {
		used := m.used.Load()
		start := max(used, linkUnit)
		if start+int64(n) > m.size {
			return 0, false
		}
		if m.used.CompareAndSwap(used, start+int64(n)) {
			return uint64(start), true
		}
	}
}

func (m *memory) usedBytes() int64 {
	if m.arena != nil {
		return m.arena.Used()
	}
	return m.used.Load()
}

func (m *memory) release() {
	if m.arena != nil {
		m.arena.Free()
	}
	m.arena, m.heap, m.base = nil, nil, nil
}

// node is the address of a node's, or of a head tower's, lowest link. The zero
// node is none.
type node struct{ p unsafe.Pointer }

// at is the node behind a link, which must not be zero.
func (m *memory) at(link uint32) node {
	if invariant.Enabled {
		m.checkBounds(uint64(link)*linkUnit, linkUnit)
	}
	return node{unsafe.Add(m.base, uintptr(link)*linkUnit)}
}

// atOffset is the tower whose lowest link has the byte offset off.
func (m *memory) atOffset(off uint64) node {
	if invariant.Enabled {
		m.checkBounds(off, 4)
	}
	return node{unsafe.Add(m.base, uintptr(off))}
}

func (m *memory) word(off uint64) *uint32 {
	if invariant.Enabled {
		m.checkBounds(off, 4)
	}
	return (*uint32)(unsafe.Add(m.base, uintptr(off)))
}

// checkBounds holds an offset to what alloc has returned so far, and finds who comes after release.
func (m *memory) checkBounds(off, n uint64) {
	invariant.Check(m.base != nil, "offset %d of a memtable that was freed", off)
	used := uint64(m.usedBytes())
	invariant.Check(off >= linkUnit && off+n <= used, "offset %d, and %d bytes from there, in a memtable of %d bytes", off, n, used)
}

func (m *memory) loadWord(off uint64) uint32 { return atomic.LoadUint32(m.word(off)) }

// orWord sets bits; most often they are set already, and then it only reads.
func (m *memory) orWord(off uint64, bits uint32) {
	if w := m.word(off); atomic.LoadUint32(w)&bits != bits {
		atomic.OrUint32(w, bits)
	}
}

// link is the inverse of at.
func (m *memory) link(n node) uint32 {
	return uint32((uintptr(n.p) - uintptr(m.base)) / linkUnit)
}

func (n node) none() bool { return n.p == nil }

func (n node) tower(level int) *uint32 { return (*uint32)(unsafe.Add(n.p, -4*level)) }

// next is the link of a level; what it leads to is written in full, since links
// are only set to finished nodes and set atomically.
func (n node) next(level int) uint32 { return atomic.LoadUint32(n.tower(level)) }

// setNext publishes link to readers, or prepares a node that none can see yet.
func (n node) setNext(level int, link uint32) { atomic.StoreUint32(n.tower(level), link) }

func (n node) casNext(level int, old, link uint32) bool {
	return atomic.CompareAndSwapUint32(n.tower(level), old, link)
}

// initNext sets a link of a node that no reader can see yet.
func (n node) initNext(level int, link uint32) { *n.tower(level) = link }

// touch loads the node and does not wait for it. The compiler keeps an atomic
// load though nothing uses it.
func (n node) touch() { n.next(0) }

func (n node) field(off uintptr) *uint32 { return (*uint32)(unsafe.Add(n.p, off)) }

func (n node) older() uint32 { return *n.field(nodeOlder) }

func (n node) keyLen() int { return int(*n.field(nodeKeyLen) & maxKeyLen) }

func (n node) height() int { return int(*n.field(nodeKeyLen) >> keyLenBits) }

// key is the user key, borrowed from the arena.
func (n node) key() []byte {
	k := n.keyLen()
	return unsafe.Slice((*byte)(unsafe.Add(n.p, nodeKey)), k)[:k:k]
}

func (n node) trailer() uint64 {
	p := unsafe.Add(n.p, nodeKey+uintptr(n.keyLen()))
	return binary.LittleEndian.Uint64((*[trailerLen]byte)(p)[:])
}

// value is borrowed from the arena.
func (n node) value() []byte {
	p := unsafe.Add(n.p, nodeKey+uintptr(n.keyLen())+trailerLen)
	v := int(*n.field(nodeValueLen))
	return unsafe.Slice((*byte)(p), v)[:v:v]
}

// towerBytes is what a tower takes before the node's address.
func towerBytes(height int) int { return (4*(height-1) + linkUnit - 1) &^ (linkUnit - 1) }

// nodeFits reports whether a node of such a key and value has a size that the
// arena can express.
func nodeFits(key, value []byte) bool {
	return len(key) <= maxKeyLen && uint64(len(key))+uint64(len(value)) <= math.MaxUint32-EntryOverhead
}

// newNode allocates a node of the given height that no reader can see yet, for
// write to fill. ok is false when the arena is full.
func (m *memory) newNode(height int, key, value []byte) (n node, ok bool) {
	tower := towerBytes(height)
	size := tower + nodeKey + len(key) + trailerLen + len(value) + m.sumLen
	off, ok := m.alloc(uint32((size + linkUnit - 1) &^ (linkUnit - 1)))
	if !ok {
		return node{}, false
	}
	return node{unsafe.Add(m.base, uintptr(off)+uintptr(tower))}, true
}

// write fills all of a new node but its links.
func (n node) write(height int, key []byte, trailer uint64, value []byte, older uint32) {
	*n.field(nodeOlder) = older
	*n.field(nodeKeyLen) = uint32(len(key)) | uint32(height)<<keyLenBits
	*n.field(nodeValueLen) = uint32(len(value))
	copy(unsafe.Slice((*byte)(unsafe.Add(n.p, nodeKey)), len(key)), key)
	p := unsafe.Add(n.p, nodeKey+uintptr(len(key)))
	binary.LittleEndian.PutUint64((*[trailerLen]byte)(p)[:], trailer)
	copy(unsafe.Slice((*byte)(unsafe.Add(p, trailerLen)), len(value)), value)
}

// newTower allocates a head tower and returns the address of its lowest link.
func (m *memory) newTower(height int) (head node, ok bool) {
	tower := towerBytes(height)
	off, ok := m.alloc(uint32(tower + linkUnit))
	if !ok {
		return node{}, false
	}
	return node{unsafe.Add(m.base, uintptr(off)+uintptr(tower))}, true
}

// mappedLinks is an array of n links outside of the Go heap, or nil if the
// system has no memory to map. Whoever frees the arena has no slice of it left.
func mappedLinks(n int) ([]uint32, *mmapfs.Arena) {
	const slack = 64 // the arena does not hand out its first bytes
	arena, err := mmapfs.NewArena(4*int64(n)+slack, mmapfs.ArenaOptions{HugePages: n >= 1<<20, Name: "memtable-runs"})
	if err != nil {
		return nil, nil
	}
	off, ok := arena.Alloc(uint32(4*n), linkUnit)
	if !ok {
		arena.Free()
		return nil, nil
	}
	return unsafe.Slice((*uint32)(unsafe.Add(arena.Base(), uintptr(off))), n), arena
}

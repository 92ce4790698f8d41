package blockcache

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// pointer is the base of an arena: mapped memory that does not move, and that the
// collector does not look at.
type pointer = unsafe.Pointer

// slot is an entry of the table, in mapped memory. All fields are atomic, since
// readers look without a lock at slots that change under them.
//
//	meta     0–23  how many hold it, passing readers included
//	        24–25  clock: 0 cold … 3 hot
//	        26–27  state
//	        28–30  block type
//	           31  large: loc holds an index into shard.large
//	           32  somebody annotates or has annotated it
//	           33  annotated
//	           34  found since it was published
//	           35  dropped: nobody finds it any more
//	        40–63  displaced: how many blocks were placed beyond this slot
//	               because it was taken
//	loc      0–27  size in bytes
//	        28–63  offset in the page arena in units of 8 bytes, or the index
type slot struct {
	meta   atomic.Uint64
	file   atomic.Uint64
	offset atomic.Uint64
	loc    atomic.Uint64
}

const slotSize = int(unsafe.Sizeof(slot{}))

// table is the slots of a shard in an arena of their own.
type slotTable struct {
	arena *mmapfs.Arena
	base  unsafe.Pointer
	n     int
}

func newSlotTable(n int, o mmapfs.ArenaOptions) (slotTable, error) {
	size := n * slotSize
	a, err := mmapfs.NewArena(int64(size)+64, o)
	if err != nil {
		return slotTable{}, err
	}
	off := uint64(0)
	for done := 0; done < size; { // Alloc takes at most 4 GiB at once
		step := min(size-done, 1<<30)
		at, ok := a.Alloc(uint32(step), uint32(slotSize))
		if !ok {
			a.Free()
			return slotTable{}, fmt.Errorf("blockcache: no room for %d slots", n)
		}
		if done == 0 {
			off = at
		}
		done += step
	}
	return slotTable{arena: a, base: unsafe.Add(a.Base(), off), n: n}, nil
}

// slot returns slot i. The pointer is into mapped memory that stays where it is
// until the shard is freed, which the caller of Close guarantees to be after the
// last use. i is below n: it comes from home, which reduces a hash to that
// range, or from a handle that this shard made.
// prefetchSlot asks for the cache line of slot i.
func (s *shard) prefetchSlot(i int) { prefetch.Address((*byte)(unsafe.Add(s.slots.base, i*slotSize))) }

func (s *shard) slot(i int) *slot { return (*slot)(unsafe.Add(s.slots.base, i*slotSize)) }

// pageBytes returns n bytes of the page arena. The memory is mapped, stays where
// it is until the shard is freed, and is inside the arena: off comes from a page
// that was allocated there, and n is at most the block's size class.
func (s *shard) pageBytes(off uint64, n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(s.pageBase, off)), n)
}

// header returns the header of the block at off in the page arena, which is
// aligned to 8 bytes. It is read and written under the shard's mutex only.
func (s *shard) header(off uint64) *blockHeader {
	return (*blockHeader)(unsafe.Add(s.pageBase, off))
}

package mmapfs

import (
	"fmt"
	"math"
	"sync/atomic"
)

// ArenaOptions chooses how an arena's memory is made.
type ArenaOptions struct {
	HugePages bool // ask for huge pages: fewer TLB misses, and memory in steps of 2 MiB
	Placement Placement
	Name      string // under which OffHeap counts it
}

// Arena is contiguous zeroed memory outside the Go heap that only grows and never moves. The whole reserve is address
// space; a page costs memory when it is first touched.
type Arena struct {
	used   atomic.Int64 // the next offset to hand out
	data   []byte       // the whole reserve
	region region
	name   string
	freed  atomic.Bool
}

// arenaStart keeps offset 0 free, which callers use as nil, and the first allocation on a cache line.
const arenaStart = 64

// NewArena reserves at least reserve bytes. Free gives them back.
func NewArena(reserve int64, o ArenaOptions) (*Arena, error) {
	if reserve < 0 || reserve > math.MaxInt-2*hugePageSize {
		return nil, fmt.Errorf("mmapfs: an arena of %d bytes cannot be reserved", reserve)
	}
	r, err := reserveRegion(int(max(reserve, arenaStart)), o.HugePages, o.Placement)
	if err != nil {
		return nil, fmt.Errorf("mmapfs: reserve %d bytes for arena %q: %w", reserve, o.Name, err)
	}
	a := &Arena{data: r.data, region: r, name: o.Name}
	a.used.Store(arenaStart)
	usage.addArena(a)
	return a, nil
}

// Alloc hands out n bytes, zero if they were never written, at a multiple of align, a power of two (0 counts as 1). ok is false when the reserve
// has no room for them; a smaller request may still succeed. Offset 0 is never returned. Lock-free, safe for
// concurrent use.
func (a *Arena) Alloc(n, align uint32) (off uint64, ok bool) {
	mask := uint64(1)
	if align > 1 {
		mask = uint64(align)
	}
	mask--
	for {
		used := a.used.Load()
		off = (uint64(used) + mask) &^ mask
		end := off + uint64(n)
		if end > uint64(len(a.data)) {
			return 0, false
		}
		if a.used.CompareAndSwap(used, int64(end)) {
			return off, true
		}
	}
}

// Bytes returns the whole reserve, borrowed until Free.
func (a *Arena) Bytes() []byte { return a.data }

// Used returns how many bytes are handed out, padding included.
func (a *Arena) Used() int64 { return a.used.Load() }

// Reserved returns the size of the reserve.
func (a *Arena) Reserved() int64 { return int64(len(a.data)) }

// Populate makes the pages of [off, off+n) exist now, in a system call, instead of at the first touch. What lies there
// is kept. It is an optimisation, and does nothing where the system cannot.
func (a *Arena) Populate(off, n int64) error {
	if off < 0 || n < 0 || off > int64(len(a.data)) || n > int64(len(a.data))-off {
		return fmt.Errorf("mmapfs: populate [%d, %d) of an arena of %d bytes", off, off+n, len(a.data))
	}
	return populateWrite(pagesAround(a.data, off, n))
}

// Free unmaps the arena. The caller guarantees that nobody reads or writes it any more. A second Free does nothing.
func (a *Arena) Free() {
	if a.freed.Swap(true) {
		return
	}
	usage.removeArena(a)
	a.data = nil
	a.region.release()
}

// region is anonymous memory: raw is what was mapped, data the part of it that is aligned for huge pages.
type region struct{ raw, data []byte }

const hugePageSize = 2 << 20

func reserveRegion(n int, huge bool, p Placement) (region, error) {
	if err := p.check(); err != nil {
		return region{}, err
	}
	size := (n + pageSize - 1) &^ (pageSize - 1)
	slack := 0
	if huge && n >= hugePageSize {
		size = (n + hugePageSize - 1) &^ (hugePageSize - 1)
		slack = hugePageSize
	}
	raw, err := reserveMemory(size + slack)
	if err != nil {
		return region{}, err
	}
	r := region{raw: raw, data: raw[:size:size]}
	if slack > 0 {
		skip := int(-addressOf(raw) & (hugePageSize - 1))
		r.data = raw[skip : skip+size : skip+size]
		adviseHuge(r.data)
	}
	if p.Mode != PlacementDefault {
		if err := bindMemory(r.data, p); err != nil {
			r.release()
			return region{}, err
		}
	}
	return r, nil
}

func (r region) release() { releaseMemory(r.raw) }

// maxNodes is the kernel's limit (CONFIG_NODES_SHIFT is at most 10).
const maxNodes = 1024

func (p Placement) check() error {
	if p.Mode < PlacementDefault || p.Mode > PlacementPrefer {
		return fmt.Errorf("mmapfs: unknown placement mode %d", p.Mode)
	}
	if p.Mode != PlacementDefault && len(p.Nodes) == 0 {
		return fmt.Errorf("mmapfs: a placement needs at least one node")
	}
	for _, n := range p.Nodes {
		if n < 0 || n >= maxNodes {
			return fmt.Errorf("mmapfs: NUMA node %d: expected 0 to %d", n, maxNodes-1)
		}
	}
	return nil
}

// pagesAround returns the whole pages of b, which begins on a page, that hold [off, off+n).
func pagesAround(b []byte, off, n int64) []byte {
	lo := off &^ int64(pageSize-1)
	hi := min((off+n+int64(pageSize)-1)&^int64(pageSize-1), int64(len(b)))
	return b[lo:hi]
}

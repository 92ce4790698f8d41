package plaintable

import (
	"fmt"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Placement says on which NUMA nodes the memory of a Reader lies. The zero value
// leaves it to the threads that touch it first.
type Placement struct {
	// Rows is for the copy of a file under mmapfs.MemoryResident.
	Rows mmapfs.Placement
	// Index is for index and bloom filter, which are copied to an arena for it. The
	// default leaves them with the rows.
	Index mmapfs.Placement
	// Replicas, if not nil, asks for a copy on each node instead.
	Replicas *Replicas
}

// Replicas describes read-only copies, one for each of some NUMA nodes. Each read
// uses the copy of the node that it runs on. A copy prefers its node: where that is
// full, the rest of it lies elsewhere.
type Replicas struct {
	// Nodes get a copy each; at least one.
	Nodes []int
	// Rows copies the whole file, if it is read under mmapfs.MemoryResident. Otherwise,
	// and without Rows, index and bloom filter are copied.
	Rows bool
	// Run calls f on the calling goroutine while that is on a thread of the node.
	Run func(node int, f func() error) error
	// Here tells which of Nodes is the caller's, as an index. Every read asks it: it
	// must be fast, and neither block nor allocate. A wrong answer costs remote
	// accesses only.
	Here func() int
}

func prefer(node int) mmapfs.Placement {
	return mmapfs.Placement{Mode: mmapfs.PlacementPrefer, Nodes: []int{node}}
}

// copiesRows reports whether files under that policy are copied whole.
func (p *Placement) copiesRows(memory mmapfs.Memory) bool {
	return p.Replicas != nil && p.Replicas.Rows && memory == mmapfs.MemoryResident
}

// rows is where the first, and mostly only, copy of a resident file goes.
func (p *Placement) rows(memory mmapfs.Memory) mmapfs.Placement {
	if p.copiesRows(memory) {
		return prefer(p.Replicas.Nodes[0])
	}
	return p.Rows
}

// index is where the first, and mostly only, index goes if it has an arena.
func (p *Placement) index() mmapfs.Placement {
	switch {
	case p.Replicas != nil:
		return prefer(p.Replicas.Nodes[0])
	case p.Index.Mode != mmapfs.PlacementDefault:
		return p.Index
	}
	return p.Rows
}

// movesIndex reports whether index and bloom filter belong elsewhere than the rows.
func (p *Placement) movesIndex(memory mmapfs.Memory) bool {
	return p.Replicas != nil && !p.copiesRows(memory) || p.Replicas == nil && p.Index.Mode != mmapfs.PlacementDefault
}

// near is the view for the node of the caller: its replica, or else v.
func (v *view) near() *view {
	if v.replicas == nil {
		return v
	}
	return v.replicas[v.here()]
}

// replicate gives v, which is complete, a replica for each node. The first is v
// itself, which open and Load have put on the first node.
func (r *Reader) replicate(v *view, memory mmapfs.Memory, p *Placement) error {
	if p.Replicas == nil || v.noSeek || len(v.rows) == 0 {
		return nil
	}
	rows := p.copiesRows(memory)
	replicas := make([]*view, len(p.Replicas.Nodes))
	for i, node := range p.Replicas.Nodes {
		c := *v
		replicas[i] = &c
		if i == 0 {
			continue
		}
		if err := p.Replicas.Run(node, func() error { return r.copyView(&c, node, rows) }); err != nil {
			return fmt.Errorf("plain table: replica of %s on node %d: %w", r.file, node, err)
		}
	}
	v.replicas, v.here = replicas, p.Replicas.Here
	return nil
}

// copyView makes v, a copy of the reader's view, a replica with memory of its own on the node.
func (r *Reader) copyView(v *view, node int, rows bool) (err error) {
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	if rows {
		if err := r.copyRows(v, node); err != nil {
			return err
		}
	}
	if h, ok := block.FindMeta(r.layout.meta, block.MetaPlainTableIndex); ok {
		// Decoded anew, since slices of the file's memory must become those of the copy's.
		if v.extractor == nil {
			v.rowIdx = nil
		}
		if err := r.findRowIndex(v); err != nil {
			return err
		}
		if err := r.decodeStored(v, h); err != nil {
			return err
		}
		if !rows {
			if err := r.copyIndex(v, prefer(node)); err != nil {
				return err
			}
		}
		return r.totalOrderRowIndex(v)
	}
	if err := r.findRowIndex(v); err != nil {
		return err
	}
	return r.copyIndex(v, prefer(node))
}

func (r *Reader) copyRows(v *view, node int) error {
	n := len(v.whole)
	a, err := r.reserve(int64(n), prefer(node), "plain table replica")
	if err != nil {
		return err
	}
	// The first allocation is on a cache line, as the file's first byte is in a mapping.
	mem, err := r.alloc(a, n)
	if err != nil {
		return err
	}
	copy(mem, v.whole)
	v.whole, v.rowsArena = mem, a
	v.rows = mem[:r.layout.rows:r.layout.rows]
	return nil
}

// copyTo is the filter over memory that alloc gives; f is not changed.
func (f *bloomFilter) copyTo(alloc func(n int) ([]byte, error)) (bloomFilter, error) {
	c := *f
	if f.kind != memoryBloom {
		mem, err := alloc(len(f.data))
		copy(mem, f.data)
		c.data = mem
		return c, err
	}
	from := f.inMemory.BitSet().Words()
	mem, err := alloc(8 * len(from))
	if err != nil {
		return c, err
	}
	to := words(mem)
	copy(to, from)
	c.inMemory = bloom.FromWithM(to, f.inMemory.Cap(), bloomProbes)
	return c, nil
}

// bytes is the size of the filter in memory.
func (f *bloomFilter) bytes() int {
	if f.kind == memoryBloom {
		return 8 * len(f.inMemory.BitSet().Words())
	}
	return len(f.data)
}

// Part says what a range of a Reader's memory holds.
type Part uint8

// The parts: a file in the page cache (mapped), the file in anonymous memory, or
// index and bloom filter that are not in the file's memory.
const (
	PartMapped Part = iota
	PartResident
	PartIndex
)

// EachMemory calls f with each range of memory that reads use now, which begins on a
// page. replicated tells that the range is one of several copies, one a node. The ranges
// are borrowed until Close; PartMapped may fault.
func (r *Reader) EachMemory(f func(part Part, b []byte, replicated bool)) {
	v := r.view.Load()
	views := v.replicas
	if views == nil {
		views = []*view{v}
	}
	part := PartMapped
	if !v.rowsFault {
		part = PartResident
	}
	last := views[len(views)-1]
	for i, w := range views {
		if i == 0 && len(w.m.Bytes()) > 0 {
			f(part, w.m.Bytes(), last.rowsArena != nil)
		}
		if i == 0 && w.indexArena != nil || w.indexArena != views[0].indexArena {
			f(PartIndex, w.indexArena.Bytes()[:w.indexArena.Used()], len(views) > 1)
		}
		if w.rowsArena != nil {
			f(part, w.rowsArena.Bytes()[:w.rowsArena.Used()], true)
		}
	}
}

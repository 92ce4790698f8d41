package numa

import (
	"fmt"
	"slices"
	"sync"
)

// Replicas are read-only copies of one byte string, a copy on each node.
type Replicas struct {
	*PerNode[[]byte] // each copy is borrowed until Free
	free             sync.Once
	freeErr          error
}

// Replicate copies src into anonymous memory on each of the nodes: bound there,
// in huge pages where the kernel has them, read-only afterwards (a write is a
// fault), outside of Go's heap. It checks where the pages are before it returns.
// src is not used afterwards. It costs a copy per node, all at once.
//
// ErrNode if a node has no memory or less of it in total than src is long. On
// systems other than Linux there is one copy, on the pseudo-node, in Go's heap.
func Replicate(t *Topology, src []byte, nodes ...int) (*Replicas, error) {
	for _, id := range nodes {
		if !slices.Contains(t.MemoryNodes(), id) {
			return nil, fmt.Errorf("numa: replicate on node %d: it has no memory that this process may use: %w", id, ErrNode)
		}
		// Binding more than a node has ends in the kernel killing the process.
		if total := t.Node(id).MemTotal; int64(len(src)) > total && !t.Pseudo {
			return nil, fmt.Errorf("numa: replicate %s on node %d of %s: %w",
				formatBytes(int64(len(src))), id, formatBytes(total), ErrNode)
		}
	}
	copies, err := NewPerNode(t, nodes,
		func(node int) ([]byte, error) { return copyTo(src, node) },
		func(b []byte) { freeCopy(b) })
	if err != nil {
		return nil, err
	}
	return &Replicas{PerNode: copies}, nil
}

// Placement is where all copies are together.
func (r *Replicas) Placement() (Placement, error) {
	var sum Placement
	var err error
	r.Each(func(_ int, b []byte) {
		if len(b) == 0 || err != nil {
			return
		}
		var p Placement
		p, err = PlacementOf(b)
		sum.Add(p)
	})
	return sum, err
}

// Free unmaps the copies. Nobody may read them any more. A second call does nothing.
func (r *Replicas) Free() error {
	r.free.Do(func() {
		r.Each(func(_ int, b []byte) {
			if err := freeCopy(b); r.freeErr == nil {
				r.freeErr = err
			}
		})
	})
	return r.freeErr
}

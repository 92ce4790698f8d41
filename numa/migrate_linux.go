//go:build !nonuma

package numa

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Migrate moves those pages of b that are present to one node, and leaves b's
// policy alone: pages allocated later follow that. It works for mapped files too,
// as far as no other process maps the page. It returns where the pages are
// afterwards, and ErrMisplaced if some are not on the node.
//
// ErrNode if the process may not allocate there. Where there is no NUMA it is
// ErrNotSupported.
func Migrate(b []byte, node int) (Placement, error) {
	if err := checkRange(b); err != nil {
		return Placement{}, err
	}
	p := Policy{Mode: BindTo, Nodes: []int{node}}
	if err := p.check(); err != nil {
		return Placement{}, err
	}
	if err := usable(p); err != nil {
		return Placement{}, err
	}
	var found Placement
	for range 2 { // the second round is for pages that only PlacementOf made visible
		if err := move(b, unix.MPOL_MF_MOVE, func(uintptr) int { return node }); err != nil {
			return Placement{}, fmt.Errorf("numa: migrate to node %d: %w", node, explain(err))
		}
		var err error
		if found, err = PlacementOf(b); err != nil || found.Elsewhere(node) == 0 {
			return found, err
		}
	}
	return found, &MisplacedError{Want: []int{node}, Pages: found.Elsewhere(node), Found: found}
}

// move moves each present page of b to nodeOf its address.
func move(b []byte, flags int, nodeOf func(addr uintptr) int) error {
	page := os.Getpagesize()
	pages := (len(b) + page - 1) / page
	addrs := make([]uintptr, min(batch, pages))
	nodes := make([]int32, len(addrs))
	status := make([]int32, len(addrs))
	for from := 0; from < pages; from += batch {
		n := min(batch, pages-from)
		for i := range n {
			addrs[i] = address(b) + uintptr(from+i)*uintptr(page)
			nodes[i] = int32(nodeOf(addrs[i]))
		}
		err := movePages(addrs[:n], nodes[:n], status[:n], flags)
		// ENOENT: no page of the batch was there, or all were in place already.
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	runtime.KeepAlive(b)
	return nil
}

// hugeUnit is the size of a transparent huge page on the systems that matter
// here; where it is not, dealing by it is merely coarser.
const hugeUnit = 2 << 20

// deal spreads the present pages of b over the nodes if they are not so already.
// Large ranges are dealt in units of huge pages, which keeps those whole.
func deal(b []byte, nodes []int, flags int) error {
	found, err := PlacementOf(b)
	if err != nil || even(found, nodes, 0.9) {
		return err
	}
	unit := uintptr(os.Getpagesize())
	if len(b) >= 16*len(nodes)*hugeUnit {
		unit = hugeUnit
	}
	err = move(b, flags, func(addr uintptr) int { return nodes[addr/unit%uintptr(len(nodes))] })
	if err != nil {
		return fmt.Errorf("numa: interleave over nodes %s: %w", FormatList(nodes), explain(err))
	}
	if found, err = PlacementOf(b); err != nil {
		return err
	}
	if even(found, nodes, 0.5) {
		return nil
	}
	fair := found.Present() / int64(len(nodes))
	off := found.Elsewhere(nodes...)
	for _, id := range nodes {
		off += max(0, found.ByNode[id]-fair)
	}
	return &MisplacedError{Want: nodes, Pages: off, Found: found}
}

package mmapfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns the file system that a restart would find if the machine died now. The receiver goes on unharmed, so
// one run can be crashed at many points; the two share nothing.
//
// What is durable by M1 and M2 is there. What is not survives by rng's choice, the same for the same seed and the same
// history. Directory changes: none, all, those up to some moment (a journalled file system), or any of them. Bytes of
// each file: none, all, those up to an arbitrary byte (a torn tail), or any of the 512-byte blocks; a size that
// survives without its bytes shows zeros.
//
// With a nil rng nothing survives but what is durable.
func (m *MemFS) Crash(rng *rand.Rand) *MemFS {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := imager{entries: make(map[*memNode]map[string]*memNode), copies: make(map[*memNode]*memNode)}
	keep := chooseChanges(rng, len(m.pending))
	for i, change := range m.pending {
		if keep[i] {
			for _, e := range change {
				e.apply(c.durable(e.dir))
			}
		}
	}
	c.content = func(n *memNode) []byte { return n.surviving(rng) }
	return c.image(m.root)
}

// Kill returns the file system that a restart would find if only the process died now: every write is there, and no
// lock. What was not durable is still not, and a later Crash may lose it. The receiver goes on unharmed.
func (m *MemFS) Kill() *MemFS {
	m.mu.RLock()
	defer m.mu.RUnlock()
	copies := make(map[*memNode]*memNode)
	var clone func(n *memNode) *memNode
	cloneEntries := func(entries map[string]*memNode) map[string]*memNode {
		if entries == nil {
			return nil
		}
		c := make(map[string]*memNode, len(entries))
		for name, n := range entries {
			c[name] = clone(n)
		}
		return c
	}
	clone = func(n *memNode) *memNode {
		if n == nil {
			return nil
		}
		if c := copies[n]; c != nil {
			return c
		}
		c := &memNode{mod: n.mod, data: slices.Clone(n.data), synced: slices.Clone(n.synced), dirty: slices.Clone(n.dirty)}
		copies[n] = c
		c.entries = cloneEntries(n.entries)
		c.durable = cloneEntries(n.durable)
		return c
	}
	k := &MemFS{root: clone(m.root), locks: make(map[string]bool)}
	for _, change := range m.pending {
		var c memChange
		for _, e := range change {
			c = append(c, memEntry{clone(e.dir), e.name, clone(e.node)})
		}
		k.pending = append(k.pending, c)
	}
	return k
}

// imager copies a tree.
type imager struct {
	entries map[*memNode]map[string]*memNode // of directories, where they are not the durable ones
	copies  map[*memNode]*memNode            // so that links stay links
	content func(file *memNode) []byte
}

// durable returns a copy of dir's durable entries that the imager may change.
func (c *imager) durable(dir *memNode) map[string]*memNode {
	e, ok := c.entries[dir]
	if !ok {
		e = maps.Clone(dir.durable)
		c.entries[dir] = e
	}
	return e
}

func (c *imager) image(root *memNode) *MemFS {
	m := NewMem()
	m.root = c.copy(root)
	return m
}

func (c *imager) copy(n *memNode) *memNode {
	if d := c.copies[n]; d != nil {
		return d
	}
	d := &memNode{mod: n.mod}
	c.copies[n] = d
	if !n.isDir() {
		d.data = c.content(n)
		d.synced = slices.Clone(d.data)
		return d
	}
	entries, ok := c.entries[n]
	if !ok {
		entries = n.durable
	}
	d.entries = make(map[string]*memNode, len(entries))
	for _, name := range slices.Sorted(maps.Keys(entries)) { // in order, for the same seed must choose the same
		d.entries[name] = c.copy(entries[name])
	}
	d.durable = maps.Clone(d.entries)
	return d
}

// chooseChanges chooses which of n changes survive.
func chooseChanges(rng *rand.Rand, n int) []bool {
	keep := make([]bool, n)
	if rng == nil || n == 0 {
		return keep
	}
	all := n
	switch rng.IntN(4) {
	case 0: // none
		all = 0
	case 1: // all
	case 2: // a journal, cut somewhere
		all = rng.IntN(n + 1)
	case 3:
		all = 0
		for i := range keep {
			keep[i] = rng.IntN(2) == 0
		}
	}
	for i := range all {
		keep[i] = true
	}
	return keep
}

const crashBlock = 512 // a sector: what a disk writes wholly or not at all

// surviving returns a file's content after a crash, owned by the caller.
func (n *memNode) surviving(rng *rand.Rand) []byte {
	clean := len(n.dirty) == 0 && len(n.data) == len(n.synced)
	choice := 0
	if rng != nil && !clean {
		choice = rng.IntN(4)
	}
	switch choice {
	case 1:
		return slices.Clone(n.data)
	case 2:
		return n.tornAt(rng)
	case 3:
		return n.tornBlocks(rng)
	}
	return slices.Clone(n.synced)
}

// tornAt keeps the unsynced bytes up to a cut.
func (n *memNode) tornAt(rng *rand.Rand) []byte {
	lo, hi := n.unsyncedRange()
	cut := lo + rng.IntN(hi-lo+1)
	size := max(len(n.synced), min(cut, len(n.data)))
	if len(n.data) < len(n.synced) && rng.IntN(2) == 0 {
		size = len(n.data) // the truncation survived
	}
	b := make([]byte, size)
	copy(b, n.synced)
	for _, s := range n.dirty {
		n.keep(b, s.lo, min(s.hi, cut))
	}
	return b
}

// tornBlocks keeps the size by one choice, and each 512-byte block by another.
func (n *memNode) tornBlocks(rng *rand.Rand) []byte {
	small, large := min(len(n.synced), len(n.data)), max(len(n.synced), len(n.data))
	size := small + rng.IntN(large-small+1)
	if rng.IntN(2) == 0 {
		size = len(n.data)
	}
	b := make([]byte, size)
	copy(b, n.synced)
	for _, s := range n.dirty {
		for lo := s.lo; lo < s.hi; {
			hi := min(lo&^(crashBlock-1)+crashBlock, s.hi)
			if rng.IntN(2) == 0 {
				n.keep(b, lo, hi)
			}
			lo = hi
		}
	}
	return b
}

// keep copies data[lo:hi] to b, as far as both reach.
func (n *memNode) keep(b []byte, lo, hi int) {
	hi = min(hi, len(n.data), len(b))
	if lo < hi {
		copy(b[lo:hi], n.data[lo:hi])
	}
}

// unsyncedRange returns the range that holds every byte in which data and synced may differ.
func (n *memNode) unsyncedRange() (lo, hi int) {
	lo, hi = len(n.synced), len(n.data)
	if lo > hi {
		lo, hi = hi, lo
	}
	if len(n.dirty) > 0 {
		lo = min(lo, n.dirty[0].lo)
		hi = max(hi, n.dirty[len(n.dirty)-1].hi)
	}
	return lo, hi
}

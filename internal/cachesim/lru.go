package cachesim

// lru evicts what was used longest ago.
type lru struct {
	capacity, used int64
	index          map[uint64]int32
	nodes          []lruNode // 0 is the head of a ring: next is the newest, prev the oldest
	free           int32
}

type lruNode struct {
	block      uint64
	size       int64
	prev, next int32
}

func newLRU(capacity int64) *lru {
	return &lru{capacity: capacity, index: map[uint64]int32{}, nodes: make([]lruNode, 1)}
}

func (l *lru) Used() int64 { return l.used }

func (l *lru) unlink(i int32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next, l.nodes[n.next].prev = n.next, n.prev
}

func (l *lru) front(i int32) {
	head := &l.nodes[0]
	n := &l.nodes[i]
	n.prev, n.next = 0, head.next
	l.nodes[head.next].prev = i
	head.next = i
}

func (l *lru) Access(a *Access) bool {
	if i, ok := l.index[a.Block]; ok {
		l.unlink(i)
		l.front(i)
		return true
	}
	if !a.Insert || a.Size > l.capacity {
		return false
	}
	for l.used+a.Size > l.capacity {
		l.evict()
	}
	i := l.free
	if i != 0 {
		l.free = l.nodes[i].next
	} else {
		i = int32(len(l.nodes))
		l.nodes = append(l.nodes, lruNode{})
	}
	l.nodes[i] = lruNode{block: a.Block, size: a.Size}
	l.front(i)
	l.index[a.Block] = i
	l.used += a.Size
	return false
}

func (l *lru) evict() {
	i := l.nodes[0].prev
	l.unlink(i)
	l.used -= l.nodes[i].size
	delete(l.index, l.nodes[i].block)
	l.nodes[i].next, l.free = l.free, i
}

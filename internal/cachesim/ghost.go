package cachesim

// ghost lets a block into a cache only when it is missed for the second time while
// a list of keys, as long as if it were a cache of the same capacity, still has it: a
// filter against blocks that are used once.
type ghost struct {
	keys  *lru
	cache Policy
}

func newGhost(capacity int64, cache Policy) *ghost { return &ghost{newLRU(capacity), cache} }

func (g *ghost) Used() int64 { return g.cache.Used() }

func (g *ghost) Access(a *Access) bool {
	admit := *a
	admit.Insert = false
	if g.cache.Access(&admit) {
		return true
	}
	if !a.Insert {
		return false
	}
	if seen := g.keys.Access(a); seen || a.High {
		g.cache.Access(a)
	}
	return false
}

// Package cachesim simulates block caches over the accesses of a trace: policies at
// given capacities (this file, lru.go, clock.go, ghost.go), and reuse distances, from
// which the miss ratios of an LRU cache follow at all capacities at once (distance.go).
//
// Sizes and capacities are in bytes. A trace that holds one of every n blocks, chosen by a
// hash, is simulated with one n-th of the capacity (SHARDS: Waldspurger and others, FAST
// 2015 and ATC 2017): Curve does the arithmetic.
package cachesim

import (
	"fmt"
	"slices"
	"strings"
)

// Access is one access of a block.
type Access struct {
	Block  uint64 // a hash that names it
	Size   int64  // what it takes in the cache
	High   bool   // index and filter blocks, which some policies keep longer
	Insert bool   // keep it after a miss
}

// Policy is a simulated cache.
type Policy interface {
	// Access looks a block up, inserts it if it is not there, and reports whether it was.
	Access(a *Access) (hit bool)
	// Used is the bytes in the cache.
	Used() int64
}

// The policies by name.
var policies = map[string]func(c int64, every float64) Policy{
	"lru":            func(c int64, every float64) Policy { return newLRU(part(c, every)) },
	"clock":          func(c int64, every float64) Policy { return newClock(part(c, every)) },
	"flatrock":       func(c int64, every float64) Policy { return newFlatrock(c, every) },
	"ghost_lru":      func(c int64, every float64) Policy { return newGhost(part(c, every), newLRU(part(c, every))) },
	"ghost_clock":    func(c int64, every float64) Policy { return newGhost(part(c, every), newClock(part(c, every))) },
	"ghost_flatrock": func(c int64, every float64) Policy { return newGhost(part(c, every), newFlatrock(c, every)) },
}

// part is the capacity that serves one of every blocks.
func part(capacity int64, every float64) int64 { return int64(float64(capacity) / every) }

// Names lists the policies.
func Names() []string {
	return []string{"lru", "clock", "flatrock", "ghost_lru", "ghost_clock", "ghost_flatrock"}
}

// New makes a cache of a policy, for one of every blocks of those that a cache of the
// capacity would serve.
func New(name string, capacity int64, every float64) (Policy, error) {
	f := policies[name]
	if f == nil {
		return nil, fmt.Errorf("unknown policy %q: expected one of %s", name, strings.Join(Names(), ", "))
	}
	return f(max(capacity, 0), max(every, 1)), nil
}

// Mix spreads a hash anew: what was sampled by its high bits is uniform again.
func Mix(h uint64) uint64 {
	h ^= h >> 31
	h *= 0x7FB5D329728EA185
	h ^= h >> 27
	h *= 0x81DADEF4BC2DD44D
	return h ^ h>>33
}

// Curve runs one policy at several capacities over a sample of a trace.
type Curve struct {
	Name       string
	Capacities []int64
	every      float64
	caches     []Policy
	misses     []uint64
	accesses   uint64
	byBlock    [][]uint32 // misses by capacity and block, for blocks that have an index
}

// NewCurve simulates caches of the capacities, of whose blocks the accesses are one in
// every.
func NewCurve(name string, capacities []int64, every float64) (*Curve, error) {
	every = max(every, 1)
	c := &Curve{Name: name, Capacities: slices.Clone(capacities), every: every,
		misses: make([]uint64, len(capacities)), byBlock: make([][]uint32, len(capacities))}
	for _, n := range capacities {
		p, err := New(name, n, every)
		if err != nil {
			return nil, err
		}
		c.caches = append(c.caches, p)
	}
	return c, nil
}

// Access goes to all caches. index numbers the blocks, for MissRatio to correct by; -1
// is none.
func (c *Curve) Access(a *Access, index int) {
	c.accesses++
	for i, p := range c.caches {
		if p.Access(a) {
			continue
		}
		c.misses[i]++
		if index >= 0 {
			for len(c.byBlock[i]) <= index {
				c.byBlock[i] = append(c.byBlock[i], 0)
			}
			c.byBlock[i][index]++
		}
	}
}

// Preload puts a block into the caches that was there before the trace began.
func (c *Curve) Preload(a *Access) {
	for _, p := range c.caches {
		if g, ok := p.(*ghost); ok {
			p = g.cache
		}
		p.Access(a)
	}
}

// MissRatio is the predicted miss ratio at capacity i. total is how many accesses the
// whole has; counts are those of each block that has an index, nil for none.
//
// Which blocks are in a sample is chance. Of Poisson samples with accesses a and misses m of each
// block, the estimate of all misses with the least variance that knows the total is
//
//	every·Σm + β·(total − every·Σa),  β = Σma / Σa²
//
// Where all blocks are alike, β is the miss ratio, and it does not matter how many of them
// came into the sample. Where a few hot blocks have most accesses, and hardly miss, β
// is about zero, and it does not matter whether they are in the sample (SHARDS-adj).
func (c *Curve) MissRatio(i int, total float64, counts []uint32) float64 {
	if total <= 0 || c.accesses == 0 {
		return 0
	}
	var ma, aa float64
	for b, a := range counts {
		if b < len(c.byBlock[i]) {
			ma += float64(c.byBlock[i][b]) * float64(a)
		}
		aa += float64(a) * float64(a)
	}
	beta := 0.0
	if aa > 0 {
		beta = ma / aa
	}
	misses := c.every*float64(c.misses[i]) + beta*(total-c.every*float64(c.accesses))
	return min(max(misses/total, 0), 1)
}

package numa

import (
	"fmt"
)

// Shards assigns keys to nodes by a hash, such as that of the key's prefix, so
// that a service can keep a key's data on one node and send the request to a
// worker there (Pool).
//
// The assignment depends on the hash and the set of nodes only: the same in each
// process and version. It is rendezvous hashing: taking a node away moves only
// that node's keys, adding one moves only the keys that it gets. Each node gets
// an equal part.
//
// A Shards is never changed: safe for concurrent use.
type Shards struct {
	nodes []int // ascending
	seeds []uint64
}

// NewShards makes an assignment over these nodes, in any order; at least one.
// Use Topology.MemoryNodes for data that lives in memory.
func NewShards(nodes ...int) (*Shards, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("numa: shards: no node given: %w", ErrNode)
	}
	s := &Shards{nodes: normal(nodes)}
	for _, id := range s.nodes {
		if id < 0 || id >= maxNodes {
			return nil, fmt.Errorf("numa: shards: no node has number %d: %w", id, ErrNode)
		}
		s.seeds = append(s.seeds, mix(uint64(id)+1))
	}
	return s, nil
}

// Nodes are those that keys are assigned to, ascending. Borrowed: do not change.
func (s *Shards) Nodes() []int { return s.nodes }

// Node is the node of a key with that hash. The hash need not be of high quality
// (32 bits, widened, do), but must tell the keys apart. It costs a few
// nanoseconds a node and does not allocate.
func (s *Shards) Node(hash uint64) int { return s.nodes[s.Index(hash)] }

// Index is Node's place in Nodes, for arrays of what there is per node.
func (s *Shards) Index(hash uint64) int {
	best, most := 0, uint64(0)
	for i, seed := range s.seeds {
		if w := mix(hash ^ seed); w > most {
			best, most = i, w
		}
	}
	return best
}

// mix is a bijection that spreads each bit over all (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

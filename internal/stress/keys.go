package stress

import "fmt"

// keyspace makes the keys of one family. Keys grow with their index in byte order.
type keyspace struct {
	n        int
	prefixes int
	fixed    bool // all keys have 8 bytes
}

// key is the i-th key, of n; i = n is behind all of them and before the counters.
func (s keyspace) key(i int) []byte {
	if i >= s.n {
		return []byte("zzzzzzzz")
	}
	group := i * s.prefixes / s.n
	k := fmt.Appendf(nil, "%c%c%06d", 'a'+group/20, 'a'+group%20, i)
	if !s.fixed {
		h := mix(uint64(i))
		k = append(k, "~suffix!~"[:h%10]...)
	}
	return k
}

// counter is the key of a worker's counter, behind all others.
func counterKey(worker int) []byte { return fmt.Appendf(nil, "~~%06d", worker) }

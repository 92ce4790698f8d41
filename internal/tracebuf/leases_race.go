//go:build race

package tracebuf

import "sync"

// leases is a list under the race detector, which makes pools forget at random what
// they are given; and each lease that is forgotten has a chunk.
type leases struct {
	mu   sync.Mutex
	all  []*lease
	lend func() *lease
}

func (s *leases) init(lend func() *lease) { s.lend = lend }

func (s *leases) get() *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.all)
	if n == 0 {
		return s.lend()
	}
	l := s.all[n-1]
	s.all = s.all[:n-1]
	return l
}

func (s *leases) put(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, l)
}

//go:build !race

package tracebuf

import "sync"

// leases holds what nobody uses at the moment: each processor mostly has one at hand.
type leases struct{ pool sync.Pool }

func (s *leases) init(lend func() *lease) { s.pool.New = func() any { return lend() } }

func (s *leases) get() *lease { return s.pool.Get().(*lease) }

func (s *leases) put(l *lease) { s.pool.Put(l) }

//go:build !amd64 || race

package statistics

import "sync/atomic"

// bump adds n to a counter that the caller alone writes.
func bump(counter *uint64, n uint64) { atomic.StoreUint64(counter, *counter+n) }

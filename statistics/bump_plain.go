//go:build amd64 && !race

package statistics

// bump adds n to a counter that the caller alone writes. The store is an ordinary one: the processor
// does an aligned one of eight bytes at once, so whoever adds up meanwhile sees the counter as it
// was before or after. The race detector, which knows nothing of that, sees atomic stores instead.
func bump(counter *uint64, n uint64) { *counter += n }

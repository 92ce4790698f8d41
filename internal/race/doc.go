// Package race tells tests whether the race detector watches them. Under it a sync.Pool
// forgets at random and the detector allocates, so that counts of allocations mean nothing,
// and long loops of one goroutine only take time.
package race

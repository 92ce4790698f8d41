package compaction

// Batches of a few keys: goroutines take turns in tests whose jobs are small.
func init() { batchBytes = 60 }

package perf

// Tally is what the files did for one point read, for statistics that count the read as a
// whole: fewer additions than one for each of these.
type Tally struct {
	CachedBytes    uint64 // of blocks that were in the cache
	FilterPositive uint32 // filters of whole keys that let the read pass
	FilterUseful   uint32 // those that spared it a file
	FilterTrue     uint32 // files that had the key as the filter said
	PrefixChecked  uint32 // filters of prefixes, of plain tables too, that were asked
	PrefixUseful   uint32 // those that spared it a file
}

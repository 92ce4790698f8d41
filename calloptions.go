package flatrock

// ReadOptions tunes one read. Nil means the zero value.
type ReadOptions struct {
	// Snapshot is the state to read. Nil means the newest.
	Snapshot *Snapshot
	// LowerBound and UpperBound limit an iterator to LowerBound <= key < UpperBound.
	// They are borrowed until the iterator is closed. RocksDB: iterate_lower_bound,
	// iterate_upper_bound.
	LowerBound, UpperBound []byte
	// PrefixSameAsStart ends an iterator where the prefix of the key it was
	// positioned with ends. RocksDB: prefix_same_as_start.
	PrefixSameAsStart bool
	// TotalOrderSeek makes seeks ignore prefix hashes. Answers are the same; it is
	// faster for an iterator that will leave the prefix at once. RocksDB: total_order_seek.
	TotalOrderSeek bool
	// AutoPrefixMode lets seeks go through prefix hashes only where UpperBound keeps the walk within the
	// prefix, and ignore them elsewhere. Answers are the same either way; without it, every seek to a key
	// with a prefix goes through them, unless TotalOrderSeek. RocksDB: auto_prefix_mode.
	AutoPrefixMode bool
	// Tailing makes an iterator begin each SeekGE, SeekLT, SeekLE, First and Last with what the family
	// holds at that moment. Steps stay in the moment of the last such call. It has no effect with a
	// Snapshot. RocksDB: tailing.
	Tailing bool
	// PinData keeps the keys and values that an iterator shows valid until it is closed, by copying them.
	// Default means off: they are valid until the next move. RocksDB: pin_data.
	PinData bool
	// MaxSkippableInternalKeys is how many hidden entries (deleted keys, older versions) one move of an
	// iterator may pass over before it fails with ErrIncomplete. Zero means no limit.
	// RocksDB: max_skippable_internal_keys.
	MaxSkippableInternalKeys uint64
	// FillCache Off keeps blocks that this read loads out of the block cache.
	// Default means on. RocksDB: fill_cache.
	FillCache Toggle
	// VerifyChecksums Off trusts blocks that come from storage. Default means on.
	// RocksDB: verify_checksums.
	VerifyChecksums Toggle
	// ReadaheadSize is how many bytes an iterator reads ahead; zero adapts, see
	// BlockBasedTableOptions.InitialAutoReadaheadSize. RocksDB: readahead_size.
	ReadaheadSize int
	// AutoReadaheadSize Off lets readahead go beyond UpperBound. Default means on: it ends with the last block that may
	// hold something below the bound. RocksDB: auto_readahead_size.
	AutoReadaheadSize Toggle
	// AdaptiveReadahead keeps what readahead has grown to from one file of a level to the next, instead of
	// beginning anew with each. RocksDB: adaptive_readahead.
	AdaptiveReadahead bool
	// AsyncIO is accepted and changes nothing: a MultiGet reads its blocks side by side anyway, and iterators read
	// ahead through the page cache, where the kernel goes on reading by itself. RocksDB: async_io.
	AsyncIO bool
	// Perf is where what the read does is added up; nil for nowhere. One goroutine at a time
	// may use it, and an iterator does until it is closed. RocksDB: get_perf_context.
	Perf *PerfContext
}

// WriteOptions tunes one write. Nil means the zero value.
type WriteOptions struct {
	// Sync waits until the write would survive the death of the machine; without
	// it a write that returned survives the death of the process. RocksDB: sync.
	Sync bool
	// DisableWAL skips the log: the write survives only once it is flushed.
	// RocksDB: disableWAL.
	DisableWAL bool
	// NoSlowdown fails the write with an error that is ErrIncomplete where it would have to
	// wait: for a write stall, a delay of writes, or the write buffer manager. Nothing of it is
	// written then. RocksDB: no_slowdown.
	NoSlowdown bool
	// LowPri lets the write give way while compactions are behind (from twice
	// Level0FileNumCompactionTrigger or a quarter of SoftPendingCompactionBytesLimit on, well before other
	// writes are delayed): such writes together have 1 MiB a second, or once writes were
	// delayed a quarter of that rate. With NoSlowdown it fails instead. RocksDB: low_pri.
	LowPri bool
	// ProtectionBytesPerKey is 0 (the default) or 8: with 8 each operation of the batch has a checksum
	// from the beginning of Write, or from when it was added if Batch.Protect was called, which is checked
	// before it is logged and as it enters the memtable. Changed memory fails the write with ErrCorruption.
	// RocksDB: protection_bytes_per_key.
	ProtectionBytesPerKey int
	// Perf is where what the write does is added up; nil for nowhere. RocksDB: get_perf_context.
	Perf *PerfContext
}

// FlushOptions tunes Flush. Nil means the zero value.
type FlushOptions struct {
	// NoWait returns once the flush is scheduled. RocksDB: wait=false.
	NoWait bool
	// AllowWriteStall makes the memtable immutable at once, even if writes are then delayed or stopped
	// because too many memtables wait for their flush, or too many files of level 0 for their
	// compaction. The default, false, waits first until that is not so. RocksDB: allow_write_stall.
	AllowWriteStall bool
}

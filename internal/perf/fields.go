package perf

// Context is what operations did and where their time went, under RocksDB's names: counts,
// and nanoseconds for what is called time or nanos. Those that Flatrock does not count
// stay zero. The zero Context counts, without times. An operation adds to the Context
// that its options name; one goroutine at a time may use it.
type Context struct {
	// Level says what is measured. Zero means EnableCount.
	Level Level

	UserKeyComparisonCount                uint64 // user_key_comparison_count
	BlockCacheHitCount                    uint64 // block_cache_hit_count
	BlockReadCount                        uint64 // block_read_count
	BlockReadByte                         uint64 // block_read_byte
	BlockReadTime                         uint64 // block_read_time
	BlockCacheIndexHitCount               uint64 // block_cache_index_hit_count
	BlockCacheStandaloneHandleCount       uint64 // block_cache_standalone_handle_count
	BlockCacheRealHandleCount             uint64 // block_cache_real_handle_count
	IndexBlockReadCount                   uint64 // index_block_read_count
	BlockCacheFilterHitCount              uint64 // block_cache_filter_hit_count
	FilterBlockReadCount                  uint64 // filter_block_read_count
	CompressionDictBlockReadCount         uint64 // compression_dict_block_read_count
	SecondaryCacheHitCount                uint64 // secondary_cache_hit_count
	CompressedSecCacheInsertRealCount     uint64 // compressed_sec_cache_insert_real_count
	CompressedSecCacheInsertDummyCount    uint64 // compressed_sec_cache_insert_dummy_count
	CompressedSecCacheUncompressedBytes   uint64 // compressed_sec_cache_uncompressed_bytes
	CompressedSecCacheCompressedBytes     uint64 // compressed_sec_cache_compressed_bytes
	BlockChecksumTime                     uint64 // block_checksum_time
	BlockDecompressTime                   uint64 // block_decompress_time
	GetReadBytes                          uint64 // get_read_bytes
	MultiGetReadBytes                     uint64 // multiget_read_bytes
	IterReadBytes                         uint64 // iter_read_bytes
	BlobCacheHitCount                     uint64 // blob_cache_hit_count
	BlobReadCount                         uint64 // blob_read_count
	BlobReadByte                          uint64 // blob_read_byte
	BlobReadTime                          uint64 // blob_read_time
	BlobChecksumTime                      uint64 // blob_checksum_time
	BlobDecompressTime                    uint64 // blob_decompress_time
	InternalKeySkippedCount               uint64 // internal_key_skipped_count
	InternalDeleteSkippedCount            uint64 // internal_delete_skipped_count
	InternalRecentSkippedCount            uint64 // internal_recent_skipped_count
	InternalMergeCount                    uint64 // internal_merge_count
	InternalRangeDelReseekCount           uint64 // internal_range_del_reseek_count
	WriteWALTime                          uint64 // write_wal_time
	GetSnapshotTime                       uint64 // get_snapshot_time
	GetFromMemtableTime                   uint64 // get_from_memtable_time
	GetFromMemtableCount                  uint64 // get_from_memtable_count
	GetPostProcessTime                    uint64 // get_post_process_time
	GetFromOutputFilesTime                uint64 // get_from_output_files_time
	SeekOnMemtableTime                    uint64 // seek_on_memtable_time
	SeekOnMemtableCount                   uint64 // seek_on_memtable_count
	NextOnMemtableCount                   uint64 // next_on_memtable_count
	PrevOnMemtableCount                   uint64 // prev_on_memtable_count
	SeekChildSeekTime                     uint64 // seek_child_seek_time
	SeekChildSeekCount                    uint64 // seek_child_seek_count
	SeekMinHeapTime                       uint64 // seek_min_heap_time
	SeekInternalSeekTime                  uint64 // seek_internal_seek_time
	FindNextUserEntryTime                 uint64 // find_next_user_entry_time
	WritePreAndPostProcessTime            uint64 // write_pre_and_post_process_time
	WriteMemtableTime                     uint64 // write_memtable_time
	WriteThreadWaitNanos                  uint64 // write_thread_wait_nanos
	WriteSchedulingFlushesCompactionsTime uint64 // write_scheduling_flushes_compactions_time
	DBMutexLockNanos                      uint64 // db_mutex_lock_nanos
	DBConditionWaitNanos                  uint64 // db_condition_wait_nanos
	MergeOperatorTimeNanos                uint64 // merge_operator_time_nanos
	WriteDelayTime                        uint64 // write_delay_time
	ReadIndexBlockNanos                   uint64 // read_index_block_nanos
	ReadFilterBlockNanos                  uint64 // read_filter_block_nanos
	NewTableBlockIterNanos                uint64 // new_table_block_iter_nanos
	NewTableIteratorNanos                 uint64 // new_table_iterator_nanos
	BlockSeekNanos                        uint64 // block_seek_nanos
	FindTableNanos                        uint64 // find_table_nanos
	BloomMemtableHitCount                 uint64 // bloom_memtable_hit_count
	BloomMemtableMissCount                uint64 // bloom_memtable_miss_count
	BloomSSTHitCount                      uint64 // bloom_sst_hit_count
	BloomSSTMissCount                     uint64 // bloom_sst_miss_count
	KeyLockWaitTime                       uint64 // key_lock_wait_time
	KeyLockWaitCount                      uint64 // key_lock_wait_count
	EnvNewSequentialFileNanos             uint64 // env_new_sequential_file_nanos
	EnvNewRandomAccessFileNanos           uint64 // env_new_random_access_file_nanos
	EnvNewWritableFileNanos               uint64 // env_new_writable_file_nanos
	EnvReuseWritableFileNanos             uint64 // env_reuse_writable_file_nanos
	EnvNewRandomRwFileNanos               uint64 // env_new_random_rw_file_nanos
	EnvNewDirectoryNanos                  uint64 // env_new_directory_nanos
	EnvFileExistsNanos                    uint64 // env_file_exists_nanos
	EnvGetChildrenNanos                   uint64 // env_get_children_nanos
	EnvGetChildrenFileAttributesNanos     uint64 // env_get_children_file_attributes_nanos
	EnvDeleteFileNanos                    uint64 // env_delete_file_nanos
	EnvCreateDirNanos                     uint64 // env_create_dir_nanos
	EnvCreateDirIfMissingNanos            uint64 // env_create_dir_if_missing_nanos
	EnvDeleteDirNanos                     uint64 // env_delete_dir_nanos
	EnvGetFileSizeNanos                   uint64 // env_get_file_size_nanos
	EnvGetFileModificationTimeNanos       uint64 // env_get_file_modification_time_nanos
	EnvRenameFileNanos                    uint64 // env_rename_file_nanos
	EnvLinkFileNanos                      uint64 // env_link_file_nanos
	EnvLockFileNanos                      uint64 // env_lock_file_nanos
	EnvUnlockFileNanos                    uint64 // env_unlock_file_nanos
	EnvNewLoggerNanos                     uint64 // env_new_logger_nanos
	GetCPUNanos                           uint64 // get_cpu_nanos
	IterNextCPUNanos                      uint64 // iter_next_cpu_nanos
	IterPrevCPUNanos                      uint64 // iter_prev_cpu_nanos
	IterSeekCPUNanos                      uint64 // iter_seek_cpu_nanos
	NumberAsyncSeek                       uint64 // number_async_seek

	// IOStats is what reached the file system.
	IOStats IOStats
}

// IOStats counts calls of the file system, under RocksDB's names.
type IOStats struct {
	BytesWritten      uint64 // bytes_written
	BytesRead         uint64 // bytes_read
	OpenNanos         uint64 // open_nanos
	AllocateNanos     uint64 // allocate_nanos
	WriteNanos        uint64 // write_nanos
	ReadNanos         uint64 // read_nanos
	RangeSyncNanos    uint64 // range_sync_nanos
	FsyncNanos        uint64 // fsync_nanos
	PrepareWriteNanos uint64 // prepare_write_nanos
	LoggerNanos       uint64 // logger_nanos
	CPUWriteNanos     uint64 // cpu_write_nanos
	CPUReadNanos      uint64 // cpu_read_nanos
}

var names = [...]string{
	"user_key_comparison_count",
	"block_cache_hit_count",
	"block_read_count",
	"block_read_byte",
	"block_read_time",
	"block_cache_index_hit_count",
	"block_cache_standalone_handle_count",
	"block_cache_real_handle_count",
	"index_block_read_count",
	"block_cache_filter_hit_count",
	"filter_block_read_count",
	"compression_dict_block_read_count",
	"secondary_cache_hit_count",
	"compressed_sec_cache_insert_real_count",
	"compressed_sec_cache_insert_dummy_count",
	"compressed_sec_cache_uncompressed_bytes",
	"compressed_sec_cache_compressed_bytes",
	"block_checksum_time",
	"block_decompress_time",
	"get_read_bytes",
	"multiget_read_bytes",
	"iter_read_bytes",
	"blob_cache_hit_count",
	"blob_read_count",
	"blob_read_byte",
	"blob_read_time",
	"blob_checksum_time",
	"blob_decompress_time",
	"internal_key_skipped_count",
	"internal_delete_skipped_count",
	"internal_recent_skipped_count",
	"internal_merge_count",
	"internal_range_del_reseek_count",
	"write_wal_time",
	"get_snapshot_time",
	"get_from_memtable_time",
	"get_from_memtable_count",
	"get_post_process_time",
	"get_from_output_files_time",
	"seek_on_memtable_time",
	"seek_on_memtable_count",
	"next_on_memtable_count",
	"prev_on_memtable_count",
	"seek_child_seek_time",
	"seek_child_seek_count",
	"seek_min_heap_time",
	"seek_internal_seek_time",
	"find_next_user_entry_time",
	"write_pre_and_post_process_time",
	"write_memtable_time",
	"write_thread_wait_nanos",
	"write_scheduling_flushes_compactions_time",
	"db_mutex_lock_nanos",
	"db_condition_wait_nanos",
	"merge_operator_time_nanos",
	"write_delay_time",
	"read_index_block_nanos",
	"read_filter_block_nanos",
	"new_table_block_iter_nanos",
	"new_table_iterator_nanos",
	"block_seek_nanos",
	"find_table_nanos",
	"bloom_memtable_hit_count",
	"bloom_memtable_miss_count",
	"bloom_sst_hit_count",
	"bloom_sst_miss_count",
	"key_lock_wait_time",
	"key_lock_wait_count",
	"env_new_sequential_file_nanos",
	"env_new_random_access_file_nanos",
	"env_new_writable_file_nanos",
	"env_reuse_writable_file_nanos",
	"env_new_random_rw_file_nanos",
	"env_new_directory_nanos",
	"env_file_exists_nanos",
	"env_get_children_nanos",
	"env_get_children_file_attributes_nanos",
	"env_delete_file_nanos",
	"env_create_dir_nanos",
	"env_create_dir_if_missing_nanos",
	"env_delete_dir_nanos",
	"env_get_file_size_nanos",
	"env_get_file_modification_time_nanos",
	"env_rename_file_nanos",
	"env_link_file_nanos",
	"env_lock_file_nanos",
	"env_unlock_file_nanos",
	"env_new_logger_nanos",
	"get_cpu_nanos",
	"iter_next_cpu_nanos",
	"iter_prev_cpu_nanos",
	"iter_seek_cpu_nanos",
	"number_async_seek",
}

var ioNames = [...]string{
	"bytes_written",
	"bytes_read",
	"open_nanos",
	"allocate_nanos",
	"write_nanos",
	"read_nanos",
	"range_sync_nanos",
	"fsync_nanos",
	"prepare_write_nanos",
	"logger_nanos",
	"cpu_write_nanos",
	"cpu_read_nanos",
}

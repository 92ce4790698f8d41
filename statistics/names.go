package statistics

// Ticker is a counter that only grows. The order, and with it that of String, is
// RocksDB 7.8's.
type Ticker uint16

// The tickers of RocksDB, by its names. Those of parts that Flatrock does not have
// stay zero.
const (
	BlockCacheMiss                        Ticker = iota // rocksdb.block.cache.miss
	BlockCacheHit                                       // rocksdb.block.cache.hit
	BlockCacheAdd                                       // rocksdb.block.cache.add
	BlockCacheAddFailures                               // rocksdb.block.cache.add.failures
	BlockCacheIndexMiss                                 // rocksdb.block.cache.index.miss
	BlockCacheIndexHit                                  // rocksdb.block.cache.index.hit
	BlockCacheIndexAdd                                  // rocksdb.block.cache.index.add
	BlockCacheIndexBytesInsert                          // rocksdb.block.cache.index.bytes.insert
	BlockCacheIndexBytesEvict                           // rocksdb.block.cache.index.bytes.evict
	BlockCacheFilterMiss                                // rocksdb.block.cache.filter.miss
	BlockCacheFilterHit                                 // rocksdb.block.cache.filter.hit
	BlockCacheFilterAdd                                 // rocksdb.block.cache.filter.add
	BlockCacheFilterBytesInsert                         // rocksdb.block.cache.filter.bytes.insert
	BlockCacheFilterBytesEvict                          // rocksdb.block.cache.filter.bytes.evict
	BlockCacheDataMiss                                  // rocksdb.block.cache.data.miss
	BlockCacheDataHit                                   // rocksdb.block.cache.data.hit
	BlockCacheDataAdd                                   // rocksdb.block.cache.data.add
	BlockCacheDataBytesInsert                           // rocksdb.block.cache.data.bytes.insert
	BlockCacheBytesRead                                 // rocksdb.block.cache.bytes.read
	BlockCacheBytesWrite                                // rocksdb.block.cache.bytes.write
	BloomFilterUseful                                   // rocksdb.bloom.filter.useful
	BloomFilterFullPositive                             // rocksdb.bloom.filter.full.positive
	BloomFilterFullTruePositive                         // rocksdb.bloom.filter.full.true.positive
	BloomFilterMicros                                   // rocksdb.bloom.filter.micros
	PersistentCacheHit                                  // rocksdb.persistent.cache.hit
	PersistentCacheMiss                                 // rocksdb.persistent.cache.miss
	SimBlockCacheHit                                    // rocksdb.sim.block.cache.hit
	SimBlockCacheMiss                                   // rocksdb.sim.block.cache.miss
	MemtableHit                                         // rocksdb.memtable.hit
	MemtableMiss                                        // rocksdb.memtable.miss
	GetHitL0                                            // rocksdb.l0.hit
	GetHitL1                                            // rocksdb.l1.hit
	GetHitL2AndUp                                       // rocksdb.l2andup.hit
	CompactionKeyDropNewerEntry                         // rocksdb.compaction.key.drop.new
	CompactionKeyDropObsolete                           // rocksdb.compaction.key.drop.obsolete
	CompactionKeyDropRangeDel                           // rocksdb.compaction.key.drop.range_del
	CompactionKeyDropUser                               // rocksdb.compaction.key.drop.user
	CompactionRangeDelDropObsolete                      // rocksdb.compaction.range_del.drop.obsolete
	CompactionOptimizedDelDropObsolete                  // rocksdb.compaction.optimized.del.drop.obsolete
	CompactionCancelled                                 // rocksdb.compaction.cancelled
	NumberKeysWritten                                   // rocksdb.number.keys.written
	NumberKeysRead                                      // rocksdb.number.keys.read
	NumberKeysUpdated                                   // rocksdb.number.keys.updated
	BytesWritten                                        // rocksdb.bytes.written
	BytesRead                                           // rocksdb.bytes.read
	NumberDBSeek                                        // rocksdb.number.db.seek
	NumberDBNext                                        // rocksdb.number.db.next
	NumberDBPrev                                        // rocksdb.number.db.prev
	NumberDBSeekFound                                   // rocksdb.number.db.seek.found
	NumberDBNextFound                                   // rocksdb.number.db.next.found
	NumberDBPrevFound                                   // rocksdb.number.db.prev.found
	IterBytesRead                                       // rocksdb.db.iter.bytes.read
	NoFileCloses                                        // rocksdb.no.file.closes
	NoFileOpens                                         // rocksdb.no.file.opens
	NoFileErrors                                        // rocksdb.no.file.errors
	StallL0SlowdownMicros                               // rocksdb.l0.slowdown.micros
	StallMemtableCompactionMicros                       // rocksdb.memtable.compaction.micros
	StallL0NumFilesMicros                               // rocksdb.l0.num.files.stall.micros
	StallMicros                                         // rocksdb.stall.micros
	DBMutexWaitMicros                                   // rocksdb.db.mutex.wait.micros
	RateLimitDelayMillis                                // rocksdb.rate.limit.delay.millis
	NoIterators                                         // rocksdb.num.iterators
	NumberMultiGetCalls                                 // rocksdb.number.multiget.get
	NumberMultiGetKeysRead                              // rocksdb.number.multiget.keys.read
	NumberMultiGetBytesRead                             // rocksdb.number.multiget.bytes.read
	NumberFilteredDeletes                               // rocksdb.number.deletes.filtered
	NumberMergeFailures                                 // rocksdb.number.merge.failures
	BloomFilterPrefixChecked                            // rocksdb.bloom.filter.prefix.checked
	BloomFilterPrefixUseful                             // rocksdb.bloom.filter.prefix.useful
	NumberOfReseeksInIteration                          // rocksdb.number.reseeks.iteration
	GetUpdatesSinceCalls                                // rocksdb.getupdatessince.calls
	BlockCacheCompressedMiss                            // rocksdb.block.cachecompressed.miss
	BlockCacheCompressedHit                             // rocksdb.block.cachecompressed.hit
	BlockCacheCompressedAdd                             // rocksdb.block.cachecompressed.add
	BlockCacheCompressedAddFailures                     // rocksdb.block.cachecompressed.add.failures
	WALFileSynced                                       // rocksdb.wal.synced
	WALFileBytes                                        // rocksdb.wal.bytes
	WriteDoneBySelf                                     // rocksdb.write.self
	WriteDoneByOther                                    // rocksdb.write.other
	WriteTimedout                                       // rocksdb.write.timeout
	WriteWithWAL                                        // rocksdb.write.wal
	CompactReadBytes                                    // rocksdb.compact.read.bytes
	CompactWriteBytes                                   // rocksdb.compact.write.bytes
	FlushWriteBytes                                     // rocksdb.flush.write.bytes
	CompactReadBytesMarked                              // rocksdb.compact.read.marked.bytes
	CompactReadBytesPeriodic                            // rocksdb.compact.read.periodic.bytes
	CompactReadBytesTTL                                 // rocksdb.compact.read.ttl.bytes
	CompactWriteBytesMarked                             // rocksdb.compact.write.marked.bytes
	CompactWriteBytesPeriodic                           // rocksdb.compact.write.periodic.bytes
	CompactWriteBytesTTL                                // rocksdb.compact.write.ttl.bytes
	NumberDirectLoadTableProperties                     // rocksdb.number.direct.load.table.properties
	NumberSuperversionAcquires                          // rocksdb.number.superversion_acquires
	NumberSuperversionReleases                          // rocksdb.number.superversion_releases
	NumberSuperversionCleanups                          // rocksdb.number.superversion_cleanups
	NumberBlockCompressed                               // rocksdb.number.block.compressed
	NumberBlockDecompressed                             // rocksdb.number.block.decompressed
	NumberBlockNotCompressed                            // rocksdb.number.block.not_compressed
	MergeOperationTotalTime                             // rocksdb.merge.operation.time.nanos
	FilterOperationTotalTime                            // rocksdb.filter.operation.time.nanos
	RowCacheHit                                         // rocksdb.row.cache.hit
	RowCacheMiss                                        // rocksdb.row.cache.miss
	ReadAmpEstimateUsefulBytes                          // rocksdb.read.amp.estimate.useful.bytes
	ReadAmpTotalReadBytes                               // rocksdb.read.amp.total.read.bytes
	NumberRateLimiterDrains                             // rocksdb.number.rate_limiter.drains
	NumberIterSkip                                      // rocksdb.number.iter.skip
	BlobDBNumPut                                        // rocksdb.blobdb.num.put
	BlobDBNumWrite                                      // rocksdb.blobdb.num.write
	BlobDBNumGet                                        // rocksdb.blobdb.num.get
	BlobDBNumMultiGet                                   // rocksdb.blobdb.num.multiget
	BlobDBNumSeek                                       // rocksdb.blobdb.num.seek
	BlobDBNumNext                                       // rocksdb.blobdb.num.next
	BlobDBNumPrev                                       // rocksdb.blobdb.num.prev
	BlobDBNumKeysWritten                                // rocksdb.blobdb.num.keys.written
	BlobDBNumKeysRead                                   // rocksdb.blobdb.num.keys.read
	BlobDBBytesWritten                                  // rocksdb.blobdb.bytes.written
	BlobDBBytesRead                                     // rocksdb.blobdb.bytes.read
	BlobDBWriteInlined                                  // rocksdb.blobdb.write.inlined
	BlobDBWriteInlinedTTL                               // rocksdb.blobdb.write.inlined.ttl
	BlobDBWriteBlob                                     // rocksdb.blobdb.write.blob
	BlobDBWriteBlobTTL                                  // rocksdb.blobdb.write.blob.ttl
	BlobDBBlobFileBytesWritten                          // rocksdb.blobdb.blob.file.bytes.written
	BlobDBBlobFileBytesRead                             // rocksdb.blobdb.blob.file.bytes.read
	BlobDBBlobFileSynced                                // rocksdb.blobdb.blob.file.synced
	BlobDBBlobIndexExpiredCount                         // rocksdb.blobdb.blob.index.expired.count
	BlobDBBlobIndexExpiredSize                          // rocksdb.blobdb.blob.index.expired.size
	BlobDBBlobIndexEvictedCount                         // rocksdb.blobdb.blob.index.evicted.count
	BlobDBBlobIndexEvictedSize                          // rocksdb.blobdb.blob.index.evicted.size
	BlobDBGCNumFiles                                    // rocksdb.blobdb.gc.num.files
	BlobDBGCNumNewFiles                                 // rocksdb.blobdb.gc.num.new.files
	BlobDBGCFailures                                    // rocksdb.blobdb.gc.failures
	BlobDBGCNumKeysOverwritten                          // rocksdb.blobdb.gc.num.keys.overwritten
	BlobDBGCNumKeysExpired                              // rocksdb.blobdb.gc.num.keys.expired
	BlobDBGCNumKeysRelocated                            // rocksdb.blobdb.gc.num.keys.relocated
	BlobDBGCBytesOverwritten                            // rocksdb.blobdb.gc.bytes.overwritten
	BlobDBGCBytesExpired                                // rocksdb.blobdb.gc.bytes.expired
	BlobDBGCBytesRelocated                              // rocksdb.blobdb.gc.bytes.relocated
	BlobDBFIFONumFilesEvicted                           // rocksdb.blobdb.fifo.num.files.evicted
	BlobDBFIFONumKeysEvicted                            // rocksdb.blobdb.fifo.num.keys.evicted
	BlobDBFIFOBytesEvicted                              // rocksdb.blobdb.fifo.bytes.evicted
	TxnPrepareMutexOverhead                             // rocksdb.txn.overhead.mutex.prepare
	TxnOldCommitMapMutexOverhead                        // rocksdb.txn.overhead.mutex.old.commit.map
	TxnDuplicateKeyOverhead                             // rocksdb.txn.overhead.duplicate.key
	TxnSnapshotMutexOverhead                            // rocksdb.txn.overhead.mutex.snapshot
	TxnGetTryAgain                                      // rocksdb.txn.get.tryagain
	NumberMultiGetKeysFound                             // rocksdb.number.multiget.keys.found
	NoIteratorCreated                                   // rocksdb.num.iterator.created
	NoIteratorDeleted                                   // rocksdb.num.iterator.deleted
	BlockCacheCompressionDictMiss                       // rocksdb.block.cache.compression.dict.miss
	BlockCacheCompressionDictHit                        // rocksdb.block.cache.compression.dict.hit
	BlockCacheCompressionDictAdd                        // rocksdb.block.cache.compression.dict.add
	BlockCacheCompressionDictBytesInsert                // rocksdb.block.cache.compression.dict.bytes.insert
	BlockCacheCompressionDictBytesEvict                 // rocksdb.block.cache.compression.dict.bytes.evict
	BlockCacheAddRedundant                              // rocksdb.block.cache.add.redundant
	BlockCacheIndexAddRedundant                         // rocksdb.block.cache.index.add.redundant
	BlockCacheFilterAddRedundant                        // rocksdb.block.cache.filter.add.redundant
	BlockCacheDataAddRedundant                          // rocksdb.block.cache.data.add.redundant
	BlockCacheCompressionDictAddRedundant               // rocksdb.block.cache.compression.dict.add.redundant
	FilesMarkedTrash                                    // rocksdb.files.marked.trash
	FilesDeletedImmediately                             // rocksdb.files.deleted.immediately
	ErrorHandlerBgErrorCount                            // rocksdb.error.handler.bg.errro.count
	ErrorHandlerBgIOErrorCount                          // rocksdb.error.handler.bg.io.errro.count
	ErrorHandlerBgRetryableIOErrorCount                 // rocksdb.error.handler.bg.retryable.io.errro.count
	ErrorHandlerAutoresumeCount                         // rocksdb.error.handler.autoresume.count
	ErrorHandlerAutoresumeRetryTotalCount               // rocksdb.error.handler.autoresume.retry.total.count
	ErrorHandlerAutoresumeSuccessCount                  // rocksdb.error.handler.autoresume.success.count
	MemtablePayloadBytesAtFlush                         // rocksdb.memtable.payload.bytes.at.flush
	MemtableGarbageBytesAtFlush                         // rocksdb.memtable.garbage.bytes.at.flush
	SecondaryCacheHits                                  // rocksdb.secondary.cache.hits
	VerifyChecksumReadBytes                             // rocksdb.verify_checksum.read.bytes
	BackupReadBytes                                     // rocksdb.backup.read.bytes
	BackupWriteBytes                                    // rocksdb.backup.write.bytes
	RemoteCompactReadBytes                              // rocksdb.remote.compact.read.bytes
	RemoteCompactWriteBytes                             // rocksdb.remote.compact.write.bytes
	HotFileReadBytes                                    // rocksdb.hot.file.read.bytes
	WarmFileReadBytes                                   // rocksdb.warm.file.read.bytes
	ColdFileReadBytes                                   // rocksdb.cold.file.read.bytes
	HotFileReadCount                                    // rocksdb.hot.file.read.count
	WarmFileReadCount                                   // rocksdb.warm.file.read.count
	ColdFileReadCount                                   // rocksdb.cold.file.read.count
	LastLevelReadBytes                                  // rocksdb.last.level.read.bytes
	LastLevelReadCount                                  // rocksdb.last.level.read.count
	NonLastLevelReadBytes                               // rocksdb.non.last.level.read.bytes
	NonLastLevelReadCount                               // rocksdb.non.last.level.read.count
	BlockChecksumComputeCount                           // rocksdb.block.checksum.compute.count
	MultiGetCoroutineCount                              // rocksdb.multiget.coroutine.count
	BlobDBCacheMiss                                     // rocksdb.blobdb.cache.miss
	BlobDBCacheHit                                      // rocksdb.blobdb.cache.hit
	BlobDBCacheAdd                                      // rocksdb.blobdb.cache.add
	BlobDBCacheAddFailures                              // rocksdb.blobdb.cache.add.failures
	BlobDBCacheBytesRead                                // rocksdb.blobdb.cache.bytes.read
	BlobDBCacheBytesWrite                               // rocksdb.blobdb.cache.bytes.write
	ReadAsyncMicros                                     // rocksdb.read.async.micros
	AsyncReadErrorCount                                 // rocksdb.async.read.error.count

	numTickers
)

var tickerNames = [numTickers]string{
	BlockCacheMiss:                        "rocksdb.block.cache.miss",
	BlockCacheHit:                         "rocksdb.block.cache.hit",
	BlockCacheAdd:                         "rocksdb.block.cache.add",
	BlockCacheAddFailures:                 "rocksdb.block.cache.add.failures",
	BlockCacheIndexMiss:                   "rocksdb.block.cache.index.miss",
	BlockCacheIndexHit:                    "rocksdb.block.cache.index.hit",
	BlockCacheIndexAdd:                    "rocksdb.block.cache.index.add",
	BlockCacheIndexBytesInsert:            "rocksdb.block.cache.index.bytes.insert",
	BlockCacheIndexBytesEvict:             "rocksdb.block.cache.index.bytes.evict",
	BlockCacheFilterMiss:                  "rocksdb.block.cache.filter.miss",
	BlockCacheFilterHit:                   "rocksdb.block.cache.filter.hit",
	BlockCacheFilterAdd:                   "rocksdb.block.cache.filter.add",
	BlockCacheFilterBytesInsert:           "rocksdb.block.cache.filter.bytes.insert",
	BlockCacheFilterBytesEvict:            "rocksdb.block.cache.filter.bytes.evict",
	BlockCacheDataMiss:                    "rocksdb.block.cache.data.miss",
	BlockCacheDataHit:                     "rocksdb.block.cache.data.hit",
	BlockCacheDataAdd:                     "rocksdb.block.cache.data.add",
	BlockCacheDataBytesInsert:             "rocksdb.block.cache.data.bytes.insert",
	BlockCacheBytesRead:                   "rocksdb.block.cache.bytes.read",
	BlockCacheBytesWrite:                  "rocksdb.block.cache.bytes.write",
	BloomFilterUseful:                     "rocksdb.bloom.filter.useful",
	BloomFilterFullPositive:               "rocksdb.bloom.filter.full.positive",
	BloomFilterFullTruePositive:           "rocksdb.bloom.filter.full.true.positive",
	BloomFilterMicros:                     "rocksdb.bloom.filter.micros",
	PersistentCacheHit:                    "rocksdb.persistent.cache.hit",
	PersistentCacheMiss:                   "rocksdb.persistent.cache.miss",
	SimBlockCacheHit:                      "rocksdb.sim.block.cache.hit",
	SimBlockCacheMiss:                     "rocksdb.sim.block.cache.miss",
	MemtableHit:                           "rocksdb.memtable.hit",
	MemtableMiss:                          "rocksdb.memtable.miss",
	GetHitL0:                              "rocksdb.l0.hit",
	GetHitL1:                              "rocksdb.l1.hit",
	GetHitL2AndUp:                         "rocksdb.l2andup.hit",
	CompactionKeyDropNewerEntry:           "rocksdb.compaction.key.drop.new",
	CompactionKeyDropObsolete:             "rocksdb.compaction.key.drop.obsolete",
	CompactionKeyDropRangeDel:             "rocksdb.compaction.key.drop.range_del",
	CompactionKeyDropUser:                 "rocksdb.compaction.key.drop.user",
	CompactionRangeDelDropObsolete:        "rocksdb.compaction.range_del.drop.obsolete",
	CompactionOptimizedDelDropObsolete:    "rocksdb.compaction.optimized.del.drop.obsolete",
	CompactionCancelled:                   "rocksdb.compaction.cancelled",
	NumberKeysWritten:                     "rocksdb.number.keys.written",
	NumberKeysRead:                        "rocksdb.number.keys.read",
	NumberKeysUpdated:                     "rocksdb.number.keys.updated",
	BytesWritten:                          "rocksdb.bytes.written",
	BytesRead:                             "rocksdb.bytes.read",
	NumberDBSeek:                          "rocksdb.number.db.seek",
	NumberDBNext:                          "rocksdb.number.db.next",
	NumberDBPrev:                          "rocksdb.number.db.prev",
	NumberDBSeekFound:                     "rocksdb.number.db.seek.found",
	NumberDBNextFound:                     "rocksdb.number.db.next.found",
	NumberDBPrevFound:                     "rocksdb.number.db.prev.found",
	IterBytesRead:                         "rocksdb.db.iter.bytes.read",
	NoFileCloses:                          "rocksdb.no.file.closes",
	NoFileOpens:                           "rocksdb.no.file.opens",
	NoFileErrors:                          "rocksdb.no.file.errors",
	StallL0SlowdownMicros:                 "rocksdb.l0.slowdown.micros",
	StallMemtableCompactionMicros:         "rocksdb.memtable.compaction.micros",
	StallL0NumFilesMicros:                 "rocksdb.l0.num.files.stall.micros",
	StallMicros:                           "rocksdb.stall.micros",
	DBMutexWaitMicros:                     "rocksdb.db.mutex.wait.micros",
	RateLimitDelayMillis:                  "rocksdb.rate.limit.delay.millis",
	NoIterators:                           "rocksdb.num.iterators",
	NumberMultiGetCalls:                   "rocksdb.number.multiget.get",
	NumberMultiGetKeysRead:                "rocksdb.number.multiget.keys.read",
	NumberMultiGetBytesRead:               "rocksdb.number.multiget.bytes.read",
	NumberFilteredDeletes:                 "rocksdb.number.deletes.filtered",
	NumberMergeFailures:                   "rocksdb.number.merge.failures",
	BloomFilterPrefixChecked:              "rocksdb.bloom.filter.prefix.checked",
	BloomFilterPrefixUseful:               "rocksdb.bloom.filter.prefix.useful",
	NumberOfReseeksInIteration:            "rocksdb.number.reseeks.iteration",
	GetUpdatesSinceCalls:                  "rocksdb.getupdatessince.calls",
	BlockCacheCompressedMiss:              "rocksdb.block.cachecompressed.miss",
	BlockCacheCompressedHit:               "rocksdb.block.cachecompressed.hit",
	BlockCacheCompressedAdd:               "rocksdb.block.cachecompressed.add",
	BlockCacheCompressedAddFailures:       "rocksdb.block.cachecompressed.add.failures",
	WALFileSynced:                         "rocksdb.wal.synced",
	WALFileBytes:                          "rocksdb.wal.bytes",
	WriteDoneBySelf:                       "rocksdb.write.self",
	WriteDoneByOther:                      "rocksdb.write.other",
	WriteTimedout:                         "rocksdb.write.timeout",
	WriteWithWAL:                          "rocksdb.write.wal",
	CompactReadBytes:                      "rocksdb.compact.read.bytes",
	CompactWriteBytes:                     "rocksdb.compact.write.bytes",
	FlushWriteBytes:                       "rocksdb.flush.write.bytes",
	CompactReadBytesMarked:                "rocksdb.compact.read.marked.bytes",
	CompactReadBytesPeriodic:              "rocksdb.compact.read.periodic.bytes",
	CompactReadBytesTTL:                   "rocksdb.compact.read.ttl.bytes",
	CompactWriteBytesMarked:               "rocksdb.compact.write.marked.bytes",
	CompactWriteBytesPeriodic:             "rocksdb.compact.write.periodic.bytes",
	CompactWriteBytesTTL:                  "rocksdb.compact.write.ttl.bytes",
	NumberDirectLoadTableProperties:       "rocksdb.number.direct.load.table.properties",
	NumberSuperversionAcquires:            "rocksdb.number.superversion_acquires",
	NumberSuperversionReleases:            "rocksdb.number.superversion_releases",
	NumberSuperversionCleanups:            "rocksdb.number.superversion_cleanups",
	NumberBlockCompressed:                 "rocksdb.number.block.compressed",
	NumberBlockDecompressed:               "rocksdb.number.block.decompressed",
	NumberBlockNotCompressed:              "rocksdb.number.block.not_compressed",
	MergeOperationTotalTime:               "rocksdb.merge.operation.time.nanos",
	FilterOperationTotalTime:              "rocksdb.filter.operation.time.nanos",
	RowCacheHit:                           "rocksdb.row.cache.hit",
	RowCacheMiss:                          "rocksdb.row.cache.miss",
	ReadAmpEstimateUsefulBytes:            "rocksdb.read.amp.estimate.useful.bytes",
	ReadAmpTotalReadBytes:                 "rocksdb.read.amp.total.read.bytes",
	NumberRateLimiterDrains:               "rocksdb.number.rate_limiter.drains",
	NumberIterSkip:                        "rocksdb.number.iter.skip",
	BlobDBNumPut:                          "rocksdb.blobdb.num.put",
	BlobDBNumWrite:                        "rocksdb.blobdb.num.write",
	BlobDBNumGet:                          "rocksdb.blobdb.num.get",
	BlobDBNumMultiGet:                     "rocksdb.blobdb.num.multiget",
	BlobDBNumSeek:                         "rocksdb.blobdb.num.seek",
	BlobDBNumNext:                         "rocksdb.blobdb.num.next",
	BlobDBNumPrev:                         "rocksdb.blobdb.num.prev",
	BlobDBNumKeysWritten:                  "rocksdb.blobdb.num.keys.written",
	BlobDBNumKeysRead:                     "rocksdb.blobdb.num.keys.read",
	BlobDBBytesWritten:                    "rocksdb.blobdb.bytes.written",
	BlobDBBytesRead:                       "rocksdb.blobdb.bytes.read",
	BlobDBWriteInlined:                    "rocksdb.blobdb.write.inlined",
	BlobDBWriteInlinedTTL:                 "rocksdb.blobdb.write.inlined.ttl",
	BlobDBWriteBlob:                       "rocksdb.blobdb.write.blob",
	BlobDBWriteBlobTTL:                    "rocksdb.blobdb.write.blob.ttl",
	BlobDBBlobFileBytesWritten:            "rocksdb.blobdb.blob.file.bytes.written",
	BlobDBBlobFileBytesRead:               "rocksdb.blobdb.blob.file.bytes.read",
	BlobDBBlobFileSynced:                  "rocksdb.blobdb.blob.file.synced",
	BlobDBBlobIndexExpiredCount:           "rocksdb.blobdb.blob.index.expired.count",
	BlobDBBlobIndexExpiredSize:            "rocksdb.blobdb.blob.index.expired.size",
	BlobDBBlobIndexEvictedCount:           "rocksdb.blobdb.blob.index.evicted.count",
	BlobDBBlobIndexEvictedSize:            "rocksdb.blobdb.blob.index.evicted.size",
	BlobDBGCNumFiles:                      "rocksdb.blobdb.gc.num.files",
	BlobDBGCNumNewFiles:                   "rocksdb.blobdb.gc.num.new.files",
	BlobDBGCFailures:                      "rocksdb.blobdb.gc.failures",
	BlobDBGCNumKeysOverwritten:            "rocksdb.blobdb.gc.num.keys.overwritten",
	BlobDBGCNumKeysExpired:                "rocksdb.blobdb.gc.num.keys.expired",
	BlobDBGCNumKeysRelocated:              "rocksdb.blobdb.gc.num.keys.relocated",
	BlobDBGCBytesOverwritten:              "rocksdb.blobdb.gc.bytes.overwritten",
	BlobDBGCBytesExpired:                  "rocksdb.blobdb.gc.bytes.expired",
	BlobDBGCBytesRelocated:                "rocksdb.blobdb.gc.bytes.relocated",
	BlobDBFIFONumFilesEvicted:             "rocksdb.blobdb.fifo.num.files.evicted",
	BlobDBFIFONumKeysEvicted:              "rocksdb.blobdb.fifo.num.keys.evicted",
	BlobDBFIFOBytesEvicted:                "rocksdb.blobdb.fifo.bytes.evicted",
	TxnPrepareMutexOverhead:               "rocksdb.txn.overhead.mutex.prepare",
	TxnOldCommitMapMutexOverhead:          "rocksdb.txn.overhead.mutex.old.commit.map",
	TxnDuplicateKeyOverhead:               "rocksdb.txn.overhead.duplicate.key",
	TxnSnapshotMutexOverhead:              "rocksdb.txn.overhead.mutex.snapshot",
	TxnGetTryAgain:                        "rocksdb.txn.get.tryagain",
	NumberMultiGetKeysFound:               "rocksdb.number.multiget.keys.found",
	NoIteratorCreated:                     "rocksdb.num.iterator.created",
	NoIteratorDeleted:                     "rocksdb.num.iterator.deleted",
	BlockCacheCompressionDictMiss:         "rocksdb.block.cache.compression.dict.miss",
	BlockCacheCompressionDictHit:          "rocksdb.block.cache.compression.dict.hit",
	BlockCacheCompressionDictAdd:          "rocksdb.block.cache.compression.dict.add",
	BlockCacheCompressionDictBytesInsert:  "rocksdb.block.cache.compression.dict.bytes.insert",
	BlockCacheCompressionDictBytesEvict:   "rocksdb.block.cache.compression.dict.bytes.evict",
	BlockCacheAddRedundant:                "rocksdb.block.cache.add.redundant",
	BlockCacheIndexAddRedundant:           "rocksdb.block.cache.index.add.redundant",
	BlockCacheFilterAddRedundant:          "rocksdb.block.cache.filter.add.redundant",
	BlockCacheDataAddRedundant:            "rocksdb.block.cache.data.add.redundant",
	BlockCacheCompressionDictAddRedundant: "rocksdb.block.cache.compression.dict.add.redundant",
	FilesMarkedTrash:                      "rocksdb.files.marked.trash",
	FilesDeletedImmediately:               "rocksdb.files.deleted.immediately",
	ErrorHandlerBgErrorCount:              "rocksdb.error.handler.bg.errro.count",
	ErrorHandlerBgIOErrorCount:            "rocksdb.error.handler.bg.io.errro.count",
	ErrorHandlerBgRetryableIOErrorCount:   "rocksdb.error.handler.bg.retryable.io.errro.count",
	ErrorHandlerAutoresumeCount:           "rocksdb.error.handler.autoresume.count",
	ErrorHandlerAutoresumeRetryTotalCount: "rocksdb.error.handler.autoresume.retry.total.count",
	ErrorHandlerAutoresumeSuccessCount:    "rocksdb.error.handler.autoresume.success.count",
	MemtablePayloadBytesAtFlush:           "rocksdb.memtable.payload.bytes.at.flush",
	MemtableGarbageBytesAtFlush:           "rocksdb.memtable.garbage.bytes.at.flush",
	SecondaryCacheHits:                    "rocksdb.secondary.cache.hits",
	VerifyChecksumReadBytes:               "rocksdb.verify_checksum.read.bytes",
	BackupReadBytes:                       "rocksdb.backup.read.bytes",
	BackupWriteBytes:                      "rocksdb.backup.write.bytes",
	RemoteCompactReadBytes:                "rocksdb.remote.compact.read.bytes",
	RemoteCompactWriteBytes:               "rocksdb.remote.compact.write.bytes",
	HotFileReadBytes:                      "rocksdb.hot.file.read.bytes",
	WarmFileReadBytes:                     "rocksdb.warm.file.read.bytes",
	ColdFileReadBytes:                     "rocksdb.cold.file.read.bytes",
	HotFileReadCount:                      "rocksdb.hot.file.read.count",
	WarmFileReadCount:                     "rocksdb.warm.file.read.count",
	ColdFileReadCount:                     "rocksdb.cold.file.read.count",
	LastLevelReadBytes:                    "rocksdb.last.level.read.bytes",
	LastLevelReadCount:                    "rocksdb.last.level.read.count",
	NonLastLevelReadBytes:                 "rocksdb.non.last.level.read.bytes",
	NonLastLevelReadCount:                 "rocksdb.non.last.level.read.count",
	BlockChecksumComputeCount:             "rocksdb.block.checksum.compute.count",
	MultiGetCoroutineCount:                "rocksdb.multiget.coroutine.count",
	BlobDBCacheMiss:                       "rocksdb.blobdb.cache.miss",
	BlobDBCacheHit:                        "rocksdb.blobdb.cache.hit",
	BlobDBCacheAdd:                        "rocksdb.blobdb.cache.add",
	BlobDBCacheAddFailures:                "rocksdb.blobdb.cache.add.failures",
	BlobDBCacheBytesRead:                  "rocksdb.blobdb.cache.bytes.read",
	BlobDBCacheBytesWrite:                 "rocksdb.blobdb.cache.bytes.write",
	ReadAsyncMicros:                       "rocksdb.read.async.micros",
	AsyncReadErrorCount:                   "rocksdb.async.read.error.count",
}

// String is RocksDB's name of t.
func (t Ticker) String() string {
	if t < numTickers {
		return tickerNames[t]
	}
	return "unknown"
}

// Histogram is a distribution of times or sizes.
type Histogram uint16

// The histograms of RocksDB, by its names.
const (
	DBGet                               Histogram = iota // rocksdb.db.get.micros
	DBWrite                                              // rocksdb.db.write.micros
	CompactionTime                                       // rocksdb.compaction.times.micros
	CompactionCPUTime                                    // rocksdb.compaction.times.cpu_micros
	SubcompactionSetupTime                               // rocksdb.subcompaction.setup.times.micros
	TableSyncMicros                                      // rocksdb.table.sync.micros
	CompactionOutfileSyncMicros                          // rocksdb.compaction.outfile.sync.micros
	WALFileSyncMicros                                    // rocksdb.wal.file.sync.micros
	ManifestFileSyncMicros                               // rocksdb.manifest.file.sync.micros
	TableOpenIOMicros                                    // rocksdb.table.open.io.micros
	DBMultiGet                                           // rocksdb.db.multiget.micros
	ReadBlockCompactionMicros                            // rocksdb.read.block.compaction.micros
	ReadBlockGetMicros                                   // rocksdb.read.block.get.micros
	WriteRawBlockMicros                                  // rocksdb.write.raw.block.micros
	StallL0SlowdownCount                                 // rocksdb.l0.slowdown.count
	StallMemtableCompactionCount                         // rocksdb.memtable.compaction.count
	StallL0NumFilesCount                                 // rocksdb.num.files.stall.count
	HardRateLimitDelayCount                              // rocksdb.hard.rate.limit.delay.count
	SoftRateLimitDelayCount                              // rocksdb.soft.rate.limit.delay.count
	NumFilesInSingleCompaction                           // rocksdb.numfiles.in.singlecompaction
	DBSeek                                               // rocksdb.db.seek.micros
	WriteStall                                           // rocksdb.db.write.stall
	SSTReadMicros                                        // rocksdb.sst.read.micros
	NumSubcompactionsScheduled                           // rocksdb.num.subcompactions.scheduled
	BytesPerRead                                         // rocksdb.bytes.per.read
	BytesPerWrite                                        // rocksdb.bytes.per.write
	BytesPerMultiGet                                     // rocksdb.bytes.per.multiget
	BytesCompressed                                      // rocksdb.bytes.compressed
	BytesDecompressed                                    // rocksdb.bytes.decompressed
	CompressionTimesNanos                                // rocksdb.compression.times.nanos
	DecompressionTimesNanos                              // rocksdb.decompression.times.nanos
	ReadNumMergeOperands                                 // rocksdb.read.num.merge_operands
	BlobDBKeySize                                        // rocksdb.blobdb.key.size
	BlobDBValueSize                                      // rocksdb.blobdb.value.size
	BlobDBWriteMicros                                    // rocksdb.blobdb.write.micros
	BlobDBGetMicros                                      // rocksdb.blobdb.get.micros
	BlobDBMultiGetMicros                                 // rocksdb.blobdb.multiget.micros
	BlobDBSeekMicros                                     // rocksdb.blobdb.seek.micros
	BlobDBNextMicros                                     // rocksdb.blobdb.next.micros
	BlobDBPrevMicros                                     // rocksdb.blobdb.prev.micros
	BlobDBBlobFileWriteMicros                            // rocksdb.blobdb.blob.file.write.micros
	BlobDBBlobFileReadMicros                             // rocksdb.blobdb.blob.file.read.micros
	BlobDBBlobFileSyncMicros                             // rocksdb.blobdb.blob.file.sync.micros
	BlobDBGCMicros                                       // rocksdb.blobdb.gc.micros
	BlobDBCompressionMicros                              // rocksdb.blobdb.compression.micros
	BlobDBDecompressionMicros                            // rocksdb.blobdb.decompression.micros
	FlushTime                                            // rocksdb.db.flush.micros
	SSTBatchSize                                         // rocksdb.sst.batch.size
	NumIndexAndFilterBlocksReadPerLevel                  // rocksdb.num.index.and.filter.blocks.read.per.level
	NumDataBlocksReadPerLevel                            // rocksdb.num.data.blocks.read.per.level
	NumSSTReadPerLevel                                   // rocksdb.num.sst.read.per.level
	ErrorHandlerAutoresumeRetryCount                     // rocksdb.error.handler.autoresume.retry.count
	AsyncReadBytes                                       // rocksdb.async.read.bytes
	PollWaitMicros                                       // rocksdb.poll.wait.micros
	PrefetchedBytesDiscarded                             // rocksdb.prefetched.bytes.discarded
	MultiGetIOBatchSize                                  // rocksdb.multiget.io.batch.size
	NumLevelReadPerMultiGet                              // rocksdb.num.level.read.per.multiget
	AsyncPrefetchAbortMicros                             // rocksdb.async.prefetch.abort.micros

	numHistograms
)

var histogramNames = [numHistograms]string{
	DBGet:                               "rocksdb.db.get.micros",
	DBWrite:                             "rocksdb.db.write.micros",
	CompactionTime:                      "rocksdb.compaction.times.micros",
	CompactionCPUTime:                   "rocksdb.compaction.times.cpu_micros",
	SubcompactionSetupTime:              "rocksdb.subcompaction.setup.times.micros",
	TableSyncMicros:                     "rocksdb.table.sync.micros",
	CompactionOutfileSyncMicros:         "rocksdb.compaction.outfile.sync.micros",
	WALFileSyncMicros:                   "rocksdb.wal.file.sync.micros",
	ManifestFileSyncMicros:              "rocksdb.manifest.file.sync.micros",
	TableOpenIOMicros:                   "rocksdb.table.open.io.micros",
	DBMultiGet:                          "rocksdb.db.multiget.micros",
	ReadBlockCompactionMicros:           "rocksdb.read.block.compaction.micros",
	ReadBlockGetMicros:                  "rocksdb.read.block.get.micros",
	WriteRawBlockMicros:                 "rocksdb.write.raw.block.micros",
	StallL0SlowdownCount:                "rocksdb.l0.slowdown.count",
	StallMemtableCompactionCount:        "rocksdb.memtable.compaction.count",
	StallL0NumFilesCount:                "rocksdb.num.files.stall.count",
	HardRateLimitDelayCount:             "rocksdb.hard.rate.limit.delay.count",
	SoftRateLimitDelayCount:             "rocksdb.soft.rate.limit.delay.count",
	NumFilesInSingleCompaction:          "rocksdb.numfiles.in.singlecompaction",
	DBSeek:                              "rocksdb.db.seek.micros",
	WriteStall:                          "rocksdb.db.write.stall",
	SSTReadMicros:                       "rocksdb.sst.read.micros",
	NumSubcompactionsScheduled:          "rocksdb.num.subcompactions.scheduled",
	BytesPerRead:                        "rocksdb.bytes.per.read",
	BytesPerWrite:                       "rocksdb.bytes.per.write",
	BytesPerMultiGet:                    "rocksdb.bytes.per.multiget",
	BytesCompressed:                     "rocksdb.bytes.compressed",
	BytesDecompressed:                   "rocksdb.bytes.decompressed",
	CompressionTimesNanos:               "rocksdb.compression.times.nanos",
	DecompressionTimesNanos:             "rocksdb.decompression.times.nanos",
	ReadNumMergeOperands:                "rocksdb.read.num.merge_operands",
	BlobDBKeySize:                       "rocksdb.blobdb.key.size",
	BlobDBValueSize:                     "rocksdb.blobdb.value.size",
	BlobDBWriteMicros:                   "rocksdb.blobdb.write.micros",
	BlobDBGetMicros:                     "rocksdb.blobdb.get.micros",
	BlobDBMultiGetMicros:                "rocksdb.blobdb.multiget.micros",
	BlobDBSeekMicros:                    "rocksdb.blobdb.seek.micros",
	BlobDBNextMicros:                    "rocksdb.blobdb.next.micros",
	BlobDBPrevMicros:                    "rocksdb.blobdb.prev.micros",
	BlobDBBlobFileWriteMicros:           "rocksdb.blobdb.blob.file.write.micros",
	BlobDBBlobFileReadMicros:            "rocksdb.blobdb.blob.file.read.micros",
	BlobDBBlobFileSyncMicros:            "rocksdb.blobdb.blob.file.sync.micros",
	BlobDBGCMicros:                      "rocksdb.blobdb.gc.micros",
	BlobDBCompressionMicros:             "rocksdb.blobdb.compression.micros",
	BlobDBDecompressionMicros:           "rocksdb.blobdb.decompression.micros",
	FlushTime:                           "rocksdb.db.flush.micros",
	SSTBatchSize:                        "rocksdb.sst.batch.size",
	NumIndexAndFilterBlocksReadPerLevel: "rocksdb.num.index.and.filter.blocks.read.per.level",
	NumDataBlocksReadPerLevel:           "rocksdb.num.data.blocks.read.per.level",
	NumSSTReadPerLevel:                  "rocksdb.num.sst.read.per.level",
	ErrorHandlerAutoresumeRetryCount:    "rocksdb.error.handler.autoresume.retry.count",
	AsyncReadBytes:                      "rocksdb.async.read.bytes",
	PollWaitMicros:                      "rocksdb.poll.wait.micros",
	PrefetchedBytesDiscarded:            "rocksdb.prefetched.bytes.discarded",
	MultiGetIOBatchSize:                 "rocksdb.multiget.io.batch.size",
	NumLevelReadPerMultiGet:             "rocksdb.num.level.read.per.multiget",
	AsyncPrefetchAbortMicros:            "rocksdb.async.prefetch.abort.micros",
}

// String is RocksDB's name of h.
func (h Histogram) String() string {
	if h < numHistograms {
		return histogramNames[h]
	}
	return "unknown"
}

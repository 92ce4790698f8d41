package dbbench

import (
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// backgroundConfig are the flags of background work and of what holds writes up.
type backgroundConfig struct {
	maxBackgroundJobs, maxBackgroundCompactions, maxBackgroundFlushes int64
	subcompactions                                                    uint64
	bottomThreads                                                     int64
	delayedWriteRate                                                  uint64
	softPendingBytes, hardPendingBytes                                uint64
	rateLimit, bytesPerSync, walBytesPerSync                          uint64
	rateRefillMicros                                                  int64
	rateAutoTuned, rateReads                                          bool
	compactionReadahead                                               int64
	dbWriteBufferSize                                                 int64
	costWriteBufferToCache, concurrentMemtable, pipelined             bool
}

func newBackgroundConfig() backgroundConfig {
	return backgroundConfig{
		maxBackgroundJobs: 2, maxBackgroundCompactions: -1, maxBackgroundFlushes: -1, subcompactions: 1,
		delayedWriteRate: 8 << 20, softPendingBytes: 64 << 30, hardPendingBytes: 128 << 30, rateRefillMicros: 100_000, concurrentMemtable: true, pipelined: true,
	}
}

func (c *backgroundConfig) bindings() []binding {
	return []binding{
		{"max_background_jobs", &c.maxBackgroundJobs, "flushes and compactions at once"},
		{"max_background_compactions", &c.maxBackgroundCompactions, "compactions at once; negative means by --max_background_jobs"},
		{"max_background_flushes", &c.maxBackgroundFlushes, "flushes at once; negative means by --max_background_jobs"},
		{"subcompactions", &c.subcompactions, "goroutines that share a compaction out of level 0"},
		{"num_bottom_pri_threads", &c.bottomThreads, "compactions into the last level that run beside the others; zero counts them among those"},
		{"delayed_write_rate", &c.delayedWriteRate, "bytes a second while writes are slowed down, at most"},
		{"soft_pending_compaction_bytes_limit", &c.softPendingBytes, "bytes that compactions may be behind before writes are slowed down; zero means no limit"},
		{"hard_pending_compaction_bytes_limit", &c.hardPendingBytes, "the same for stopping writes"},
		{"rate_limiter_bytes_per_sec", &c.rateLimit, "bytes a second that flushes and compactions may write; zero means no limit"},
		{"rate_limiter_refill_period_us", &c.rateRefillMicros, "microseconds between handing out bytes of that limit"},
		{"rate_limiter_auto_tuned", &c.rateAutoTuned, "let the limit follow the demand, up to what is given"},
		{"rate_limit_bg_reads", &c.rateReads, "limit what compactions read, too"},
		{"bytes_per_sync", &c.bytesPerSync, "bytes of a table file after which to begin writing them to the device; zero leaves it to the end"},
		{"wal_bytes_per_sync", &c.walBytesPerSync, "the same for logs"},
		{"compaction_readahead_size", &c.compactionReadahead, "bytes that compactions read at once; zero means 2 MiB"},
		{"db_write_buffer_size", &c.dbWriteBufferSize, "bytes of all memtables together; zero means no limit"},
		{"allow_concurrent_memtable_write", &c.concurrentMemtable, "writers of large batches insert them side by side"},
		{"enable_pipelined_write", &c.pipelined, "log the next group of writes while one goes into the memtables"},
		{"cost_write_buffer_to_cache", &c.costWriteBufferToCache, "the block cache gives way to memtables"},
	}
}

// apply sets what the flags say; cf is nil for families that the OPTIONS file describes.
func (c *backgroundConfig) apply(o *flatrock.Options, cf *flatrock.ColumnFamilyOptions) {
	o.MaxBackgroundJobs = int(c.maxBackgroundJobs)
	if c.maxBackgroundCompactions >= 0 || c.maxBackgroundFlushes >= 0 {
		// RocksDB's zero counts as one job, and so does what is not given once the other is.
		o.MaxBackgroundCompactions = int(max(c.maxBackgroundCompactions, 1))
		o.MaxBackgroundFlushes = int(max(c.maxBackgroundFlushes, 1))
	}
	o.AllowConcurrentMemtableWrite, o.EnablePipelinedWrite = toggle(c.concurrentMemtable), c.pipelined
	o.MaxSubcompactions = int(c.subcompactions)
	o.BottomPriorityCompactions = int(c.bottomThreads)
	o.DelayedWriteRate = int64(c.delayedWriteRate)
	o.BytesPerSync, o.WALBytesPerSync = int64(c.bytesPerSync), int64(c.walBytesPerSync)
	o.CompactionReadaheadSize = c.compactionReadahead
	if c.rateLimit > 0 {
		mode := flatrock.LimitWrites
		if c.rateReads {
			mode = flatrock.LimitAll
		}
		o.RateLimiter = flatrock.NewRateLimiter(flatrock.RateLimiterOptions{
			BytesPerSec: int64(c.rateLimit), RefillPeriod: time.Duration(c.rateRefillMicros) * time.Microsecond, AutoTuned: c.rateAutoTuned, Mode: mode,
		})
	}
	if o.DBWriteBufferSize = c.dbWriteBufferSize; c.costWriteBufferToCache {
		o.WriteBufferManager = flatrock.NewWriteBufferManager(flatrock.WriteBufferManagerOptions{BufferSize: c.dbWriteBufferSize, CostToCache: true})
	}
	if cf != nil {
		cf.SoftPendingCompactionBytesLimit = limit(c.softPendingBytes)
		cf.HardPendingCompactionBytesLimit = limit(c.hardPendingBytes)
	}
}

// limit turns RocksDB's zero into no limit.
func limit(n uint64) int64 {
	if n == 0 {
		return flatrock.NoLimit
	}
	return int64(min(n, 1<<62))
}

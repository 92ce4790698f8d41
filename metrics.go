package flatrock

import (
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// metrics counts what the write side and the background do. Reads count nothing:
// a shared counter would cost them more than all else.
type metrics struct {
	parallelGroups atomic.Int64 // groups that their writers inserted side by side
	// damagedBlocks counts what protection found.
	damagedBlocks atomic.Int64
	sampledReads  atomic.Int64
	scrubbed      atomic.Int64
	scrubs        atomic.Int64

	writes       atomic.Int64
	walBytes     atomic.Int64
	groups       atomic.Int64 // of writes that were committed together
	batches      atomic.Int64
	walBatches   atomic.Int64
	walSyncs     atomic.Int64
	ingested     atomic.Int64 // bytes of batches
	flushes      atomic.Int64
	flushed      atomic.Int64
	compactions  atomic.Int64
	compactedIn  atomic.Int64
	compactedOut atomic.Int64

	droppedCovered atomic.Int64 // input files that range tombstones covered whole

	stalls     [stallCauses]atomic.Int64
	stallNanos [stallCauses]atomic.Int64

	lowPriNanos atomic.Int64
}

func (m *metrics) addStall(c stallCause, d time.Duration) {
	m.stalls[c].Add(1)
	m.stallNanos[c].Add(int64(d))
}

// Metrics is what a database has done since Open and what it holds now.
type Metrics struct {
	// Writes counts operations that were committed, WALBytes what they took in the log.
	Writes, WALBytes int64
	// Flushes counts memtables flushes, FlushedBytes the files they made.
	Flushes, FlushedBytes int64
	// Compactions counts compactions, with the bytes of files they read and wrote.
	Compactions, CompactedIn, CompactedOut int64
	// CoveredFiles counts input files that compactions dropped without reading them, since
	// range tombstones covered them whole.
	CoveredFiles int64
	// Stalls and StallTime say how often and how long writes were held, by cause:
	// "memtables" (too many wait for their flush), "level0" (too many files there), "pending-bytes" (compactions
	// are too far behind), "write-buffer-manager" (it is full); the first three followed by "-slowdown" when
	// writes were delayed, not held. Families says whose fault it was.
	Stalls    map[string]int64
	StallTime map[string]time.Duration
	// LowPriTime is how long writes with WriteOptions.LowPri gave way to others.
	LowPriTime time.Duration

	// DamagedBlocks counts blocks that changed in memory; see BlockProtectionBytesPerKey.
	DamagedBlocks int64
	// SampledReads counts reads of plain tables that VerifyReadsOneIn checked; ScrubbedBytes and Scrubs what
	// the scrub has read and how often it has gone over everything.
	SampledReads, ScrubbedBytes, Scrubs int64

	// BlockCache is the cache of the block-based families, zero if there are none.
	BlockCache BlockCacheMetrics

	// FlushesRunning and CompactionsRunning are under way now. DelayedWriteRate is how many bytes a second
	// writes may add while they are delayed, zero while they are not. RocksDB: rocksdb.num-running-flushes,
	// rocksdb.num-running-compactions, rocksdb.actual-delayed-write-rate.
	FlushesRunning, CompactionsRunning int
	DelayedWriteRate                   int64

	// Families describes the column families by name.
	Families map[string]FamilyMetrics
	// OffHeap is the memory outside of the Go heap of the whole process.
	OffHeap mmapfs.Usage
}

// BlockCacheMetrics is what the block cache holds, in bytes, and how it served.
type BlockCacheMetrics struct {
	Capacity int64
	// Usage is what blocks take; PinnedUsage those that somebody holds, or held a moment ago: it
	// is found out again when that has become cheap for the time since. Charged is
	// memory elsewhere that the capacity covers.
	Usage, PinnedUsage, Charged int64
	Blocks                      int64
	// Hits and Misses by type of block: "data", "index", "filter", "other".
	Hits, Misses       map[string]uint64
	Inserts, Evictions uint64
}

// pinnedUsage is what blocks that are held take, found out again once the walk over the
// cache that it costs is a hundredth of the time since the last one. RocksDB's statistics of
// cache entries are bounded likewise.
type pinnedUsage struct {
	bytes int64
	at    time.Time // when the walk ended
	took  time.Duration
}

func (p *pinnedUsage) usage(c *blockcache.Cache) int64 {
	if start := time.Now(); p.at.IsZero() || start.Sub(p.at) >= 100*p.took {
		p.bytes = c.PinnedUsage()
		p.at = time.Now()
		p.took = p.at.Sub(start)
	}
	return p.bytes
}

func (db *DB) blockCacheMetrics() BlockCacheMetrics {
	db.cacheMu.Lock()
	defer db.cacheMu.Unlock()
	if db.cache == nil {
		return BlockCacheMetrics{}
	}
	s := db.cache.Figures()
	m := BlockCacheMetrics{
		Capacity: s.Capacity, Usage: s.Usage, PinnedUsage: db.pinned.usage(db.cache), Charged: s.Charged, Blocks: s.Blocks,
		Hits: map[string]uint64{}, Misses: map[string]uint64{}, Inserts: s.Inserts, Evictions: s.Evictions,
	}
	for t := range blockcache.NumBlockTypes {
		m.Hits[t.String()], m.Misses[t.String()] = s.Hits[t], s.Misses[t]
	}
	return m
}

// FamilyMetrics is what a column family holds.
type FamilyMetrics struct {
	MemTables      int   // the active one included
	MemTableBytes  int64 // arena memory in use
	MemTableCount  int64 // entries, deletes included
	Levels         []LevelMetrics
	TableMemory    int64 // what open table files hold outside of caches and mappings
	EstimatedCount int64 // entries in files and memtables, deletes and old versions included

	// Stall is what the family imposes on writes now: "none" or a cause as in Metrics.Stalls.
	Stall string
	// StallCounts says how often a flush, a compaction or a full memtable left the family in such a condition, StallTime
	// how long writes waited for it.
	StallCounts map[string]int64
	StallTime   map[string]time.Duration
	// PendingCompactionBytes is how many bytes compactions must rewrite until all levels have their
	// sizes. RocksDB: rocksdb.estimate-pending-compaction-bytes.
	PendingCompactionBytes int64
	FlushRunning           bool
	CompactionsRunning     int
}

// LevelMetrics is what a level holds.
type LevelMetrics struct {
	Files int
	Bytes int64
}

// Metrics returns figures for monitoring. Safe for concurrent use; it takes the
// database's lock for a moment, and walks the block cache, a millisecond for each 100,000 blocks or so.
func (db *DB) Metrics() Metrics {
	m := &db.metrics
	out := Metrics{
		Writes: m.writes.Load(), WALBytes: m.walBytes.Load(), DamagedBlocks: m.damagedBlocks.Load(),
		SampledReads: m.sampledReads.Load(), ScrubbedBytes: m.scrubbed.Load(), Scrubs: m.scrubs.Load(),
		Flushes: m.flushes.Load(), FlushedBytes: m.flushed.Load(),
		Compactions: m.compactions.Load(), CompactedIn: m.compactedIn.Load(), CompactedOut: m.compactedOut.Load(),
		CoveredFiles: m.droppedCovered.Load(),
		Stalls:       map[string]int64{},
		StallTime:    map[string]time.Duration{},
		LowPriTime:   time.Duration(m.lowPriNanos.Load()),
		Families:     map[string]FamilyMetrics{},
		OffHeap:      mmapfs.OffHeap(),

		BlockCache: db.blockCacheMetrics(),
	}
	for c := stallNone + 1; c < stallCauses; c++ {
		out.Stalls[c.String()] = m.stalls[c].Load()
		out.StallTime[c.String()] = time.Duration(m.stallNanos[c].Load())
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	out.FlushesRunning, out.CompactionsRunning = db.sched.flushes, db.sched.compactions
	if _, delays := db.stallsLocked(); delays != nil {
		out.DelayedWriteRate = db.delays.rate
	}
	for _, cf := range db.families {
		out.Families[cf.name] = cf.metricsLocked()
	}
	return out
}

func (cf *ColumnFamily) metricsLocked() FamilyMetrics {
	var f FamilyMetrics
	for _, m := range append([]*memState{cf.active}, cf.immutables...) {
		f.MemTables++
		f.MemTableBytes += m.mem.UsedBytes()
		f.MemTableCount += m.mem.Entries()
	}
	f.EstimatedCount = f.MemTableCount
	for l, files := range cf.files.version.Levels {
		f.Levels = append(f.Levels, LevelMetrics{len(files), int64(cf.files.version.LevelBytes(l))})
	}
	f.Stall, f.StallCounts, f.StallTime = cf.stall.cause.String(), map[string]int64{}, map[string]time.Duration{}
	for c := stallNone + 1; c < stallCauses; c++ {
		if cf.stall.counts[c] > 0 {
			f.StallCounts[c.String()] = cf.stall.counts[c]
		}
		if cf.stall.times[c] > 0 {
			f.StallTime[c.String()] = cf.stall.times[c]
		}
	}
	f.PendingCompactionBytes = int64(cf.stall.pending)
	f.FlushRunning, f.CompactionsRunning = cf.flushing, cf.running.Len()
	for _, h := range cf.tables {
		f.TableMemory += h.reader().MemoryUsage()
		f.EstimatedCount += int64(h.reader().Properties().NumEntries)
	}
	return f
}

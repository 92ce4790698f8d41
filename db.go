package flatrock

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/infolog"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
	"github.com/flatrock-db/flatrock/statistics"
)

// DB is an open database. All methods are safe for concurrent use; those of
// Batch, Iterator and PinnedValue are not.
//
// Locks, in the order in which they may be taken: the commit queue's leadership,
// manifestMu, mu. Nothing waits for readers.
type DB struct {
	// Fixed after Open.
	dir         string
	opts        *Options // as given to Open, defaults filled in; see inForce
	fs          mmapfs.FS
	log         *slog.Logger
	stats       *statistics.Statistics // nil: nobody counts
	lock        io.Closer              // LOCK; nil when read-only
	dbID        string
	sessionID   string
	hostID      string
	cache       *blockcache.Cache  // shared by the block-based families; the first of them brings it
	cacheMu     sync.Mutex         // held while cache is made, inspected or closed
	pinned      pinnedUsage        // of cache; guarded by cacheMu
	cacheSource *statistics.Source // of cache
	placed      placement
	defaultCF   *ColumnFamily
	buffers     *WriteBufferManager // nil for none
	nudged      atomic.Bool         // somebody asked this database to flush for the sake of others
	opening     bool                // true until Open returns
	lifetime    context.Context     // ends when Close begins
	notifier    notifier            // tells listeners of what happens under locks
	infoLog     *infolog.File       // the LOG file; nil without one
	lastJobID   atomic.Int64
	errorCount  atomic.Int64 // background errors since Open
	tablesOpen  atomic.Int64 // table files that are open
	endLife     context.CancelFunc

	// inForce is opts with what SetDBOptions changed; see mutable.
	inForce atomic.Pointer[Options]
	// baseFigures is what ResetStats found, nil before the first.
	baseFigures atomic.Pointer[dbFigures]
	// optionsMu is held while options change and while an OPTIONS file is written. It
	// comes before the locks below.
	optionsMu sync.Mutex

	// visibleSeq is the newest sequence number that readers may see. It moves once
	// a group of writes is in the memtables.
	visibleSeq atomic.Uint64
	queries    atomic.Pointer[queryTracer] // nil without a trace; beside what every read loads
	tracing    sync.Mutex                  // held while a trace begins or ends
	snapshots  snapshotList
	deletions  deletions
	secondary  *secondary // nil unless OpenAsSecondary made it
	blobs      sync.Map   // *blob.Reader by number: the blob files that were read
	// heldBack is the oldest sequence number that keeps a file from being compacted at
	// the bottom: the release of a snapshot is of interest once the oldest is newer.
	heldBack atomic.Uint64
	closed   atomic.Bool
	metrics  metrics
	// entered, if not nil, is called by enterAt before it takes the sequence number: for tests.
	entered func()
	// scrubbing is set when the scrub of plain tables has begun.
	scrubbing atomic.Bool

	requests sync.Pool // of *request
	queue    commitQueue
	// Owned by the commit leader.
	lastSeq uint64 // newest sequence number given out
	group   commitGroup
	pipe    pipeline // with EnablePipelinedWrite
	wal     *logFile // takes writes; the last of logs. Changed under mu
	// logsHurt: a log before wal may end in the middle of a record, and families still need it. See repairWriteSide.
	logsHurt bool
	// logsReplaced counts the logs that a Resume has cut and replaced.
	logsReplaced atomic.Uint64

	// recovered is where this opening began: the newest sequence number found, and the first log of its own.
	recovered struct{ seq, log uint64 }

	// closedLogBytes is the size of the live logs but the current one; logLimit is
	// what all of them may have. See limitLogs.
	closedLogBytes, logLimit atomic.Int64

	// stalled sends writers through waitOutStall, slowed through delay.
	stalled, slowed atomic.Bool

	// manifestMu is held while an edit is written and applied, so that edits reach
	// the MANIFEST in the order of the versions they describe.
	manifestMu sync.Mutex
	manifest   *manifest.Writer
	marks      []*manifest.VersionEdit      // what Open adds to the MANIFEST; see markRangeDeletes
	creating   atomic.Pointer[ColumnFamily] // the family that CreateColumnFamily adds, for the MANIFEST's comparator

	// replayAbove is set by Repair: writes in logs up to this number are in tables, by family.
	replayAbove map[uint32]uint64

	readers slotSet

	mu dbMutex
	// Guarded by mu.
	families    []*ColumnFamily // by id
	released    compaction.Released
	byID        atomic.Pointer[familyTable]
	logs        []*logFile // live logs, oldest first; the last takes writes
	retiring    []*readState
	background  error      // the first write-side failure; nothing is written after it
	work        *sync.Cond // background work was requested or finished
	workers     sync.WaitGroup
	stopping    bool
	sched       schedule
	delays      delayedWrites
	lowPri      *ratelimit.Limiter // of LowPri writes while compactions are behind
	manual      []*manualCompaction
	loading     bool      // files wait for loadLoop
	statsSince  time.Time // when the figures of rocksdb.stats began
	lastFigures dbFigures // of the last text of rocksdb.dbstats
}

// familyTable finds families by id without a lock.
type familyTable struct{ byID map[uint32]*ColumnFamily }

// Put sets key to value in the default column family.
func (db *DB) Put(wo *WriteOptions, key, value []byte) error {
	return db.defaultCF.Put(wo, key, value)
}

// Delete removes key from the default column family; it need not exist.
func (db *DB) Delete(wo *WriteOptions, key []byte) error { return db.defaultCF.Delete(wo, key) }

// SingleDelete removes a key that was written exactly once since it was last
// removed; the pair vanishes in compactions sooner than with Delete. After several
// writes of the key the result is undefined, as in RocksDB.
func (db *DB) SingleDelete(wo *WriteOptions, key []byte) error {
	return db.defaultCF.SingleDelete(wo, key)
}

// Merge adds an operand for the family's MergeOperator to combine.
func (db *DB) Merge(wo *WriteOptions, key, operand []byte) error {
	return db.defaultCF.Merge(wo, key, operand)
}

// DeleteRange removes the keys from start up to but not including end.
// Families with plain tables refuse it with ErrNotSupported, but with
// PlainTableOptions.RangeDeletes.
func (db *DB) DeleteRange(wo *WriteOptions, start, end []byte) error {
	return db.defaultCF.DeleteRange(wo, start, end)
}

// NewIterator returns an iterator over the default column family, not positioned. Close it
// before the database.
func (db *DB) NewIterator(ro *ReadOptions) (*Iterator, error) { return db.defaultCF.NewIterator(ro) }

// Flush writes the memtables of the default column family to level 0 and waits for it.
func (db *DB) Flush(ctx context.Context, fo *FlushOptions) error { return db.defaultCF.Flush(ctx, fo) }

// CompactRange compacts the keys from start to end, both inclusive and nil for
// open, of the default column family down to one sorted run, so that reads meet one file per key.
func (db *DB) CompactRange(ctx context.Context, o *CompactRangeOptions, start, end []byte) error {
	return db.defaultCF.CompactRange(ctx, o, start, end)
}

// Put sets key to value. The value may be empty; both are copied.
func (cf *ColumnFamily) Put(wo *WriteOptions, key, value []byte) error {
	return cf.writeOne(wo, func(b *Batch) { b.Put(cf, key, value) })
}

// Delete is DB.Delete for this column family.
func (cf *ColumnFamily) Delete(wo *WriteOptions, key []byte) error {
	return cf.writeOne(wo, func(b *Batch) { b.Delete(cf, key) })
}

// SingleDelete is DB.SingleDelete for this column family.
func (cf *ColumnFamily) SingleDelete(wo *WriteOptions, key []byte) error {
	return cf.writeOne(wo, func(b *Batch) { b.SingleDelete(cf, key) })
}

// Merge is DB.Merge for this column family.
func (cf *ColumnFamily) Merge(wo *WriteOptions, key, operand []byte) error {
	return cf.writeOne(wo, func(b *Batch) { b.Merge(cf, key, operand) })
}

// DeleteRange is DB.DeleteRange for this column family.
func (cf *ColumnFamily) DeleteRange(wo *WriteOptions, start, end []byte) error {
	return cf.writeOne(wo, func(b *Batch) { b.DeleteRange(cf, start, end) })
}

// writeOne commits a batch of one operation that comes from a pool.
func (cf *ColumnFamily) writeOne(wo *WriteOptions, op func(*Batch)) error {
	b := batchPool.Get().(*Batch)
	b.Reset()
	op(b)
	err := cf.db.Write(wo, b)
	if b.Size() > maxPooledBatch {
		return err // one huge value must not stay in memory for good
	}
	batchPool.Put(b)
	return err
}

var batchPool = sync.Pool{New: func() any { return new(Batch) }}

const maxPooledBatch = 1 << 20

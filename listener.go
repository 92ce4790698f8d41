package flatrock

import (
	"errors"
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
)

// EventListener is told what happens in a database. Any of its functions may be nil. They are
// called outside of the database's locks, by the goroutine at work where that is
// possible: one that takes long holds up a flush or a compaction, not writers. They
// may read and write the database, but must not wait for background work, nor close it. Those of
// MemTableSealed, WriteStallChanged and ExternalFileIngested come, in order, from a goroutine of their
// own, which Close waits for. RocksDB: EventListener.
type EventListener struct {
	FlushBegin     func(FlushInfo)
	FlushCompleted func(FlushInfo) // failed ones too: see Err
	// CompactionBegin and CompactionCompleted also tell of trivial moves.
	CompactionBegin     func(CompactionInfo)
	CompactionCompleted func(CompactionInfo)
	// SubcompactionBegin and SubcompactionCompleted tell of the parts of a compaction, one if it
	// is not shared.
	SubcompactionBegin     func(SubcompactionInfo)
	SubcompactionCompleted func(SubcompactionInfo)
	TableFileCreated       func(TableFileCreatedInfo)
	TableFileDeleted       func(TableFileDeletedInfo)
	MemTableSealed         func(MemTableInfo)
	WriteStallChanged      func(WriteStallInfo)
	ExternalFileIngested   func(ExternalFileIngestedInfo)
	// BackgroundError is told of a failure that is about to stop writes. What it returns takes the
	// failure's place; nil after a failed flush, compaction or check of files means that the
	// database goes on, and tries again. Failures of logs and the MANIFEST cannot be ignored.
	BackgroundError        func(BackgroundErrorInfo) error
	ErrorRecoveryBegin     func(BackgroundErrorInfo)
	ErrorRecoveryCompleted func(BackgroundErrorInfo) // Err is nil if writes go on
}

// FlushInfo describes a flush. RocksDB: FlushJobInfo.
type FlushInfo struct {
	ColumnFamily   string
	ColumnFamilyID uint32
	JobID          int
	// MemTables is how many it writes, with so many entries, deletes and bytes of memory.
	MemTables            int
	Entries, MemoryBytes int64
	// Once it is completed: the file, zero if nothing was left to write; its path, size and properties.
	FileNumber              uint64
	FilePath                string
	FileSize                uint64
	SmallestSeqno           uint64
	LargestSeqno            uint64
	Properties              *TableProperties
	TriggeredWritesSlowdown bool
	TriggeredWritesStop     bool
	Duration                time.Duration
	Err                     error
}

// CompactionInfo describes a compaction. RocksDB: CompactionJobInfo.
type CompactionInfo struct {
	ColumnFamily   string
	ColumnFamilyID uint32
	JobID          int
	// Reason is RocksDB's name of why it was begun, such as "LevelL0FilesNum".
	Reason      string
	InputLevel  int
	OutputLevel int
	TrivialMove bool
	// InputFiles are numbers by level, in the order of levels; OutputFiles once it is completed.
	InputFiles  []uint64
	OutputFiles []uint64
	InputBytes  uint64
	OutputBytes uint64
	// InputRecords and OutputRecords count entries; Dropped by why: see CompactionDrops.
	InputRecords, OutputRecords uint64
	Dropped                     CompactionDrops
	Duration                    time.Duration
	Err                         error
}

// CompactionDrops counts what compactions leave away.
type CompactionDrops struct {
	Newer      uint64 // hidden by a newer entry
	Obsolete   uint64 // deletes with nothing left to hide
	RangeDel   uint64 // under a range tombstone
	User       uint64 // by the compaction filter
	SinglePair uint64 // single deletes that met their value
}

// SubcompactionInfo describes a part of a compaction. RocksDB: SubcompactionJobInfo.
type SubcompactionInfo struct {
	ColumnFamily            string
	Index                   int // of the part
	InputLevel, OutputLevel int
	InputRecords            uint64 // once it is completed
	OutputRecords           uint64
	Err                     error
}

// TableFileCreatedInfo describes a table file that was finished. RocksDB:
// TableFileCreationInfo.
type TableFileCreatedInfo struct {
	ColumnFamily string
	JobID        int
	Reason       FilterReason // flush, compaction or recovery
	FileNumber   uint64
	FilePath     string
	FileSize     uint64
	Properties   *TableProperties
}

// TableFileDeletedInfo describes a table file that was deleted. RocksDB:
// TableFileDeletionInfo.
type TableFileDeletedInfo struct {
	FileNumber uint64
	FilePath   string
	Err        error // of the deletion
}

// MemTableInfo describes a memtable that became immutable. RocksDB: MemTableInfo.
type MemTableInfo struct {
	ColumnFamily string
	ID           uint64 // grows with each memtable of the family
	Entries      int64
	Bytes        int64
}

// WriteStallCondition says how writes go.
type WriteStallCondition uint8

// The conditions. RocksDB: WriteStallCondition.
const (
	WritesNormal WriteStallCondition = iota
	WritesDelayed
	WritesStopped
)

// String is RocksDB's word.
func (c WriteStallCondition) String() string {
	return [...]string{"Normal", "Delayed", "Stopped"}[c]
}

// WriteStallInfo describes a change of how writes go. RocksDB: WriteStallInfo.
type WriteStallInfo struct {
	ColumnFamily  string // the family that is behind, or was
	Before, After WriteStallCondition
	Cause         string // of After, as Metrics.Stalls names it
}

// ExternalFileIngestedInfo describes a file that became part of a family. RocksDB:
// ExternalFileIngestionInfo.
type ExternalFileIngestedInfo struct {
	ColumnFamily string
	ExternalPath string
	InternalPath string
	FileNumber   uint64
	FileSize     uint64
	GlobalSeqno  uint64
	Level        int
	Properties   *TableProperties
}

// BackgroundErrorInfo describes a failure of the write side.
type BackgroundErrorInfo struct {
	Op  string // what failed, such as "flush" or "WAL sync"
	Err error
}

// notifier calls the functions that are told of what happens under locks, in order, on a goroutine
// that exists while there is something to tell.
type notifier struct {
	mu      sync.Mutex
	idle    sync.Cond
	queue   []func()
	running bool
}

func (n *notifier) post(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.queue = append(n.queue, f); !n.running {
		n.running = true
		go n.run()
	}
}

func (n *notifier) run() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		f := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		f()
		n.mu.Lock()
	}
	n.running = false
	n.idle.Broadcast()
}

// drain waits until everything has been told.
func (n *notifier) drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.running {
		n.idle.Wait()
	}
}

// tell calls one function of each listener.
func tell[I any](db *DB, pick func(*EventListener) func(I), info I) {
	for _, l := range db.opts.Listeners {
		if f := pick(l); f != nil {
			f(info)
		}
	}
}

// tellLater is tell for callers that hold a lock.
func tellLater[I any](db *DB, pick func(*EventListener) func(I), info I) {
	for _, l := range db.opts.Listeners {
		if f := pick(l); f != nil {
			db.notifier.post(func() { f(info) })
		}
	}
}

// sealed tells of a memtable that became immutable.
func (db *DB) sealed(cf *ColumnFamily, m *memState) {
	if len(db.opts.Listeners) > 0 {
		tellLater(db, func(l *EventListener) func(MemTableInfo) { return l.MemTableSealed },
			MemTableInfo{ColumnFamily: cf.name, ID: m.id, Entries: m.mem.Entries(), Bytes: m.usedBytes()})
	}
}

// stallChanged tells of a family whose stall is another one.
func (db *DB) stallChanged(cf *ColumnFamily, before, after stallCause) {
	if b, a := before.condition(), after.condition(); b != a {
		tellLater(db, func(l *EventListener) func(WriteStallInfo) { return l.WriteStallChanged },
			WriteStallInfo{ColumnFamily: cf.name, Before: b, After: a, Cause: after.String()})
	}
}

func (c stallCause) condition() WriteStallCondition {
	switch {
	case c == stallNone:
		return WritesNormal
	case c.stops():
		return WritesStopped
	}
	return WritesDelayed
}

// overrideLocked asks the listeners about a failure. It lets go of db.mu meanwhile.
// ignored means that the operation has failed with the error, and the database goes on.
func (db *DB) overrideLocked(op string, cause error) (err error, ignored bool) {
	asked := false
	for _, l := range db.opts.Listeners {
		asked = asked || l.BackgroundError != nil
	}
	if !asked {
		return cause, false
	}
	db.mu.Unlock()
	defer db.mu.Lock()
	err = cause
	for _, l := range db.opts.Listeners {
		if l.BackgroundError != nil && err != nil {
			err = l.BackgroundError(BackgroundErrorInfo{Op: op, Err: err})
		}
	}
	switch {
	case err != nil:
		return err, false
	case op == "flush" || op == "compaction" || op == "checking table files":
		return cause, true
	}
	return cause, false // the log or the MANIFEST may have lost something: no write may succeed over it
}

// tellIngested counts files that became part of families, and tells of them. The commit
// leader calls it.
func (in *ingestion) tellIngested() {
	db := in.db
	for _, f := range in.files {
		cf := f.family.cf
		p := cf.propertiesOf(f.meta.Number)
		db.mu.Lock()
		cf.work.ingested += f.meta.Size
		cf.work.ingestedFiles++
		if f.level == 0 {
			cf.work.ingestedL0++
		}
		if p != nil {
			cf.work.ingestedKeys += p.NumEntries
		}
		db.mu.Unlock()
		db.event("ingest_finished", 0, cf.name, member("file_number", f.meta.Number), member("file_size", f.meta.Size),
			member("global_seqno", f.seq), member("level", f.level))
		tellLater(db, func(l *EventListener) func(ExternalFileIngestedInfo) { return l.ExternalFileIngested }, ExternalFileIngestedInfo{
			ColumnFamily: cf.name, ExternalPath: f.path, InternalPath: manifest.TableName(db.dir, f.meta.Number), FileNumber: f.meta.Number,
			FileSize: f.meta.Size, GlobalSeqno: f.seq, Level: f.level, Properties: p})
	}
}

// tellRecovery tells that Resume begins to repair what has failed, if something has; what it returns
// tells how that went.
func (db *DB) tellRecovery() (done func(error)) {
	db.mu.Lock()
	cause := db.background
	db.mu.Unlock()
	if cause == nil {
		return func(error) {}
	}
	info := BackgroundErrorInfo{Op: "resume", Err: cause}
	if b := new(backgroundError); errors.As(cause, &b) {
		info.Op = b.op
	}
	tell(db, func(l *EventListener) func(BackgroundErrorInfo) { return l.ErrorRecoveryBegin }, info)
	return func(err error) {
		info.Err = err
		tell(db, func(l *EventListener) func(BackgroundErrorInfo) { return l.ErrorRecoveryCompleted }, info)
	}
}

package flatrock

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// ColumnFamily is a key space of its own within a database: its own options,
// memtables and files, but one log and one order of writes with the others, so
// that a Batch over several families is atomic. Its methods do for this family
// what those of DB do for the default one. Safe for concurrent use.
type ColumnFamily struct {
	db    *DB
	id    uint32
	name  string
	opts  *ColumnFamilyOptions // defaults filled in; fixed after Open, see inForce
	order keys.Order

	// inForce is opts with what SetOptions changed; see mutable.
	inForce atomic.Pointer[ColumnFamilyOptions]

	// state is what readers see; see readState.
	state atomic.Pointer[readState]
	// resolver is cf.resolve, made once: iterators must not allocate for it.
	resolver func(userKey []byte, kind keys.Kind, stored []byte) (value []byte, live bool, err error)
	// dropped is set by DropColumnFamily.
	dropped atomic.Bool

	// active takes writes. Changed by the commit leader, under db.mu.
	active *memState

	// Guarded by db.mu.
	immutables []*memState // newest first; replaced, never changed in place
	files      *fileSet    // of the current version
	logNumber  uint64      // as recorded in the MANIFEST: older logs hold nothing that this family needs
	memID      uint64
	flushing   bool               // a flush of this family runs
	flushed    uint64             // memtables up to this one have been let go by their flush
	flushBelow uint64             // memtables with ids up to this one are flushed without waiting for more
	running    compaction.Running // compactions of this family under way
	ingesting  bool               // files find their place: no compaction begins
	stall      familyStall

	published uint64     // how often the read state was replaced
	versions  int        // file sets that somebody still reads
	work      familyWork // of flushes and compactions

	// tables are the open files by number. Guarded by db.mu.
	tables map[uint64]*tableHandle
}

// Name is the family's name, ID its number in the files.
func (cf *ColumnFamily) Name() string { return cf.name }

// ID is the family's number in the log and the MANIFEST.
func (cf *ColumnFamily) ID() uint32 { return cf.id }

// Options returns the options in force, defaults filled in. They must not be changed;
// SetOptions changes them. RocksDB: GetOptions.
func (cf *ColumnFamily) Options() *ColumnFamilyOptions { return cf.mutable() }

// newColumnFamily checks options and makes a family without memtable or files. The
// first that is block-based brings the block cache. One call at a time.
func (db *DB) newColumnFamily(id uint32, name string, o *ColumnFamilyOptions) (*ColumnFamily, error) {
	if o == nil {
		o = &ColumnFamilyOptions{}
	}
	o = o.withDefaults()
	if err := o.validate(name); err != nil {
		return nil, err
	}
	if db.opts.AllowIngestBehind && o.NumLevels < 3 {
		return nil, fmt.Errorf("%w: column family %q: NumLevels %d: AllowIngestBehind needs 3 or more", ErrInvalidArgument, name, o.NumLevels)
	}
	if o.PrefixExtractor == nil && (o.MemTable.Kind == HashSkipList || o.MemTable.Kind == HashLinkList) {
		db.log.Warn("a hash memtable needs a prefix extractor; using a skip list", "family", name)
	}
	if b, ok := o.Table.(BlockBasedTableOptions); ok && !b.NoBlockCache && db.cache == nil {
		c, err := blockcache.New(blockcache.Options{
			Capacity:  db.opts.BlockCacheSize,
			HugePages: true,
			Placement: db.placed.cache,
		})
		if err != nil {
			return nil, err
		}
		db.cacheMu.Lock()
		db.cache = c
		db.cacheMu.Unlock()
		db.attachCache(c)
	}
	cf := &ColumnFamily{
		db: db, id: id, name: name, opts: o,
		order:  keys.NewOrder(o.Comparator),
		tables: make(map[uint64]*tableHandle),
	}
	cf.inForce.Store(o)
	cf.resolver = cf.resolve
	cf.work.levels = make([]levelWork, o.NumLevels)
	return cf, nil
}

// checkKey refuses a key that the family's table format could not store later.
func (cf *ColumnFamily) checkKey(key []byte) error {
	t, ok := cf.opts.Table.(PlainTableOptions)
	if !ok {
		return nil
	}
	if t.UserKeyLen != 0 && len(key) != int(t.UserKeyLen) {
		return fmt.Errorf("%w: column family %q: key %q has %d bytes, and UserKeyLen is %d", ErrInvalidArgument, cf.name, key, len(key), t.UserKeyLen)
	}
	if e := cf.opts.PrefixExtractor; e != nil && e.PrefixLen(key) < 0 {
		return fmt.Errorf("%w: column family %q: key %q is outside the domain of prefix extractor %s", ErrInvalidArgument, cf.name, key, e.Name())
	}
	return nil
}

// ColumnFamily returns the open family of that name, or nil.
func (db *DB) ColumnFamily(name string) *ColumnFamily {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, cf := range db.families {
		if cf.name == name {
			return cf
		}
	}
	return nil
}

// ColumnFamilies returns the open families in the order of their ids.
func (db *DB) ColumnFamilies() []*ColumnFamily {
	db.mu.Lock()
	defer db.mu.Unlock()
	return append([]*ColumnFamily(nil), db.families...)
}

// DefaultColumnFamily returns the family that every database has.
func (db *DB) DefaultColumnFamily() *ColumnFamily { return db.defaultCF }

// CreateColumnFamily adds a family. Nil options mean all zero. The name must be new and not empty.
func (db *DB) CreateColumnFamily(name string, o *ColumnFamilyOptions) (*ColumnFamily, error) {
	if db.opts.ReadOnly {
		return nil, ErrReadOnly
	}
	return db.createColumnFamily(name, o, nil)
}

func (db *DB) createColumnFamily(name string, o *ColumnFamilyOptions, files []manifest.NewFile) (*ColumnFamily, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: a column family needs a name", ErrInvalidArgument)
	}
	var cf *ColumnFamily
	var err error
	db.exclusive(func() { cf, err = db.createFamily(name, o, files) })
	return cf, err
}

// createFamily runs as the commit leader, so that the family's first log is the
// current one. The family begins with files, if there are any.
func (db *DB) createFamily(name string, o *ColumnFamilyOptions, files []manifest.NewFile) (*ColumnFamily, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	if err := db.writable(); err != nil {
		return nil, err
	}
	if db.ColumnFamily(name) != nil {
		return nil, fmt.Errorf("%w: column family %q", ErrExists, name)
	}
	if len(files) > 0 {
		// As with an ingestion: what is durable from now on must not be newer than
		// writes that a crash of the machine could still take.
		if err := db.syncLogs(); err != nil {
			return nil, db.fail("WAL sync", err)
		}
	}
	db.optionsMu.Lock()
	defer db.optionsMu.Unlock()
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	cf, err := db.newColumnFamily(db.manifest.NewColumnFamilyID(), name, o)
	if err != nil {
		return nil, err
	}
	mark := cf.markRangeDeletes(0)
	lastSeq := db.lastSeq
	for _, f := range files {
		h, err := cf.openTable(f.Meta, f.Level, table.CallerExternalIngestion)
		if err != nil {
			cf.closeTables()
			return nil, err
		}
		cf.tables[f.Meta.Number] = h
		lastSeq = max(lastSeq, f.Meta.LargestSeq)
	}
	if !db.opening {
		// Who finds the family in the MANIFEST, after a crash too, finds its options.
		if err := db.writeOptionsLocked(cf); err != nil {
			cf.closeTables()
			return nil, err
		}
	}
	edits := []*manifest.VersionEdit{{
		ColumnFamily:    cf.id,
		AddColumnFamily: manifest.Some(name),
		Comparator:      manifest.Some(cf.opts.Comparator.Name()),
		LogNumber:       manifest.Some(db.wal.number),
		LastSeq:         manifest.Some(lastSeq),
		Features:        mark,
	}}
	db.creating.Store(cf)
	defer db.creating.Store(nil)
	if len(files) > 0 {
		edits = append(edits, &manifest.VersionEdit{ColumnFamily: cf.id, NewFiles: files, LastSeq: manifest.Some(lastSeq)})
		err = db.manifest.AppendAtomic(edits...)
	} else {
		err = db.manifest.Append(edits...)
	}
	if err != nil {
		cf.closeTables()
		if db.manifest.Err() == nil {
			if oerr := db.writeOptionsLocked(); oerr != nil {
				db.log.Warn("the OPTIONS file names a column family that could not be created", "family", name, "err", oerr)
			}
			return nil, fmt.Errorf("%w: column family %q: %w", ErrInvalidArgument, name, err)
		}
		return nil, db.fail("MANIFEST append", err)
	}
	db.lastSeq = lastSeq
	db.visibleSeq.Store(lastSeq)
	killpoint.Here("family added")
	cf.logNumber = db.wal.number
	if err := cf.start(db.manifest.Version(cf.id), db.wal.number); err != nil {
		return nil, db.fail("column family", err)
	}
	db.mu.Lock()
	db.setFamiliesLocked(append(slices.Clone(db.families), cf))
	db.mu.Unlock()
	if !db.opening {
		db.startScrub()
	}
	return cf, nil
}

// closeTables closes the files of a family that did not come to be.
func (cf *ColumnFamily) closeTables() {
	for _, h := range cf.tables {
		h.close()
	}
}

// setFamiliesLocked replaces the list of families and the table that finds them by id.
func (db *DB) setFamiliesLocked(families []*ColumnFamily) {
	t := &familyTable{byID: make(map[uint32]*ColumnFamily, len(families))}
	var logLimit int64
	for _, cf := range families {
		t.byID[cf.id] = cf
		o := cf.mutable()
		logLimit += 4 * o.WriteBufferSize * int64(o.MaxWriteBufferNumber)
	}
	if limit := db.mutable().MaxTotalWALSize; limit > 0 {
		logLimit = limit
	}
	db.logLimit.Store(logLimit)
	db.families = families
	db.byID.Store(t)
}

// DropColumnFamily removes a family and its data. Iterators and pinned values that
// are open go on until they are closed; everything else through the handle fails
// with ErrColumnFamilyDropped. The default family cannot be dropped.
func (db *DB) DropColumnFamily(cf *ColumnFamily) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if cf.id == 0 {
		return fmt.Errorf("%w: the default column family cannot be dropped", ErrInvalidArgument)
	}
	var err error
	db.exclusive(func() { err = db.dropFamily(cf) })
	if err != nil {
		return err
	}
	return db.writeOptions()
}

func (db *DB) dropFamily(cf *ColumnFamily) error {
	if err := db.usable(cf); err != nil {
		return err
	}
	db.manifestMu.Lock()
	defer db.manifestMu.Unlock()
	edit := &manifest.VersionEdit{ColumnFamily: cf.id, DropColumnFamily: true, LastSeq: manifest.Some(db.lastSeq)}
	if err := db.manifest.Append(edit); err != nil {
		return db.fail("MANIFEST append", err)
	}
	killpoint.Here("family dropped")
	db.mu.Lock()
	cf.dropped.Store(true)
	for _, h := range cf.tables {
		h.obsolete = true
	}
	rest := slices.Clone(db.families)
	rest = slices.DeleteFunc(rest, func(o *ColumnFamily) bool { return o == cf })
	db.setFamiliesLocked(rest)
	dead := db.obsoleteLogsLocked()
	db.updateStallLocked()
	db.mu.Unlock()
	db.retire(cf)
	db.deleteLogs(dead)
	return nil
}

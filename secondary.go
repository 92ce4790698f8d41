package flatrock

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/memtable"
)

// secondary is what a database knows that follows another process's.
//
// The primary's MANIFEST says which files there are and which logs hold the rest.
// Both are read on from where reading ended: the MANIFEST first, then the logs. A
// memtable holds writes of one log only, so that it can go as soon as the MANIFEST says that
// the family needs that log no more.
type secondary struct {
	mu    sync.Mutex
	state *manifest.State
	logs  map[uint64]*followedLog
	seq   uint64 // of the newest write that was applied
	// settled asks that the MANIFEST has not grown while the logs were read: what is ingested is in no log,
	// and would be missing below writes that came later.
	settled bool
}

// followedLog is how far a log was read.
type followedLog struct {
	end int64 // behind the last record that was applied
	zip bool  // its first record says how the others are read
}

// errMoved says that the primary has gone on meanwhile: what was read of it does not fit
// together, and the next try will.
var errMoved = errors.New("flatrock: the primary has moved on")

// followTries is how often a catch-up begins again when the primary moves on meanwhile; after
// ingestTries of them a MANIFEST that has grown is no reason any more, if nothing is missing.
const (
	followTries = 50
	ingestTries = 40
)

// OpenAsSecondary opens a database read-only that another process, or this one, has
// open and writes to, RocksDB included. It shows the state of the moment of opening;
// TryCatchUpWithPrimary moves it on. It writes nothing, and the primary knows nothing
// of it: files that it has open stay readable after the primary has deleted them, on file systems where that is so
// (not on Windows). Snapshots are not supported. RocksDB: OpenAsSecondary.
func OpenAsSecondary(dir string, o *Options) (db *DB, err error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.ReadOnly = true
	for try := range followTries {
		if db, err = newDB(dir, &opts); err != nil {
			return nil, err
		}
		db.secondary = &secondary{logs: map[uint64]*followedLog{}, settled: try < ingestTries}
		if err = db.open(); err == nil {
			return db, nil
		}
		err = db.abandon(err)
		if !moved(err) {
			return nil, err
		}
	}
	return nil, err
}

// moved reports whether an error may come from a file that the primary has deleted.
func moved(err error) bool {
	if errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	c := new(CorruptionError)
	return errors.As(err, &c) && c.Offset < 0 // the MANIFEST names a file that is gone
}

// ErrSecondaryStale matches the error of TryCatchUpWithPrimary after the primary has taken back
// what its MANIFEST held already: it could not make sure of an edit that the secondary has
// read, and went on without it. The secondary stays what it was; to follow, open it anew.
var ErrSecondaryStale = errors.New("flatrock: the secondary must be opened anew")

// TryCatchUpWithPrimary moves a secondary on to what the primary has written by now.
// Reads that begin before it returns see the state before or a newer one. After an error it
// may be called again, but for ErrSecondaryStale. RocksDB: TryCatchUpWithPrimary.
func (db *DB) TryCatchUpWithPrimary() (err error) {
	s := db.secondary
	if s == nil {
		return fmt.Errorf("%w: TryCatchUpWithPrimary needs OpenAsSecondary", ErrNotSupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for try := range followTries {
		if db.closed.Load() {
			return ErrClosed
		}
		s.settled = try < ingestTries
		if err = db.catchUp(); err == nil || !moved(err) {
			return err
		}
	}
	return err
}

// openSecondary is the last step of opening one.
func (db *DB) openSecondary(state *manifest.State) error {
	s := db.secondary
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.seq = state, state.LastSeq
	if err := db.applyLogs(state); err != nil {
		return err
	}
	db.visibleSeq.Store(s.seq)
	return nil
}

func (db *DB) catchUp() error {
	s := db.secondary
	st, err := db.advance(s.state)
	if err != nil {
		return err
	}
	if behind(st, s.state) {
		return fmt.Errorf("%w: %w: the MANIFEST lacks what it held when it was read last", errMoved, ErrSecondaryStale)
	}
	// Also if the rest fails: logs are read with regard to it, and what it says is in
	// files is passed over in them for good.
	s.state = st
	if err := db.followFamilies(st); err != nil {
		return err
	}
	// Open what is new before anything shows.
	sets := map[*ColumnFamily]*fileSet{}
	defer func() {
		db.mu.Lock()
		var dead []*tableHandle
		for _, files := range sets {
			dead = append(dead, files.unref()...)
		}
		db.mu.Unlock()
		for _, h := range dead {
			db.closeTable(h)
		}
	}()
	for _, f := range st.Families {
		cf := db.byID.Load().byID[f.ID]
		db.mu.Lock()
		if cf.files.version == f.Version { // a file that was brought into memory changes the set all the same
			db.mu.Unlock()
			continue
		}
		files, err := cf.newFileSet(f.Version)
		if err == nil {
			files.refs++
			sets[cf] = files
		}
		db.mu.Unlock()
		if err != nil {
			return err
		}
	}
	s.seq = max(s.seq, st.LastSeq)
	if err := db.applyLogs(st); err != nil {
		return err
	}
	fresh := map[*ColumnFamily]*memState{}
	for _, f := range st.Families {
		cf := db.byID.Load().byID[f.ID]
		if !cf.active.empty() && cf.active.logNumber < f.LogNumber {
			if fresh[cf], err = cf.newMemState(f.LogNumber, 0); err != nil {
				return err
			}
		}
	}
	// The number first: who sees the new files must not look for what they no longer
	// have. The other way round a read of one key is only a little behind; enterAt waits.
	db.mu.Lock()
	db.visibleSeq.Store(s.seq)
	for _, f := range st.Families {
		cf := db.byID.Load().byID[f.ID]
		if sets[cf] == nil && fresh[cf] == nil && cf.logNumber == f.LogNumber {
			continue
		}
		if files := sets[cf]; files != nil {
			cf.files = files
		}
		if m := fresh[cf]; m != nil {
			cf.active = m // nothing of the old one is needed: its log is older than what the files have
			cf.immutables = nil
		}
		cf.immutables = slices.DeleteFunc(slices.Clone(cf.immutables), func(m *memState) bool { return m.logNumber < f.LogNumber })
		cf.logNumber = f.LogNumber
		cf.publish(cf.active, cf.immutables, cf.files)
	}
	db.mu.Unlock()
	db.retirePublished()
	return nil
}

// advance reads the MANIFEST on from st. Families that are new to st have the levels of the newest
// OPTIONS file, not those of an earlier family of their name.
func (db *DB) advance(st *manifest.State) (*manifest.State, error) {
	o := db.recoverOptions(nil)
	var stored storedOptions
	var unread error
	isNew := false
	o.NumLevels = func(family string) int {
		if isNew = true; stored == nil {
			if stored, unread = db.loadOptions(); unread != nil {
				stored = storedOptions{}
			}
		}
		if f := db.familyOptions(family, stored); f != nil {
			return f.withDefaults().NumLevels
		}
		return 0
	}
	next, err := st.Advance(db.fs, db.dir, o)
	if err != nil && isNew { // there may be an OPTIONS file by now that knows better
		err = errors.Join(fmt.Errorf("%w: %w", errMoved, err), unread)
	}
	return next, err
}

// behind reports whether a state lacks what an earlier one had. Either the end of the MANIFEST
// could not be read, which looks as if it was still being written, and the next try finds it;
// or the primary could not write an edit that was read here, and has begun a MANIFEST without
// it. Then logs were passed over that it needs, and writes were applied whose numbers it
// has given to others.
func behind(st, earlier *manifest.State) bool {
	if st.NextFileNumber < earlier.NextFileNumber || st.LastSeq < earlier.LastSeq || st.MaxColumnFamily < earlier.MaxColumnFamily {
		return true
	}
	for _, f := range st.Families {
		if e := earlier.Family(f.ID); e != nil && f.LogNumber < e.LogNumber {
			return true
		}
	}
	return false
}

// unsure says of an error with a family of a secondary that the OPTIONS file may have told of another
// family that now has its name.
func (db *DB) unsure(name string, err error) error {
	if db.secondary == nil || db.familyOptions(name, nil) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errMoved, err)
}

// followFamilies makes the families that are new, and drops those that are gone.
func (db *DB) followFamilies(st *manifest.State) (err error) {
	var stored storedOptions
	families := db.ColumnFamilies()
	var begun []*ColumnFamily
	defer func() {
		if err != nil {
			for _, cf := range begun {
				db.retire(cf)
			}
		}
	}()
	for _, f := range st.Families {
		if db.byID.Load().byID[f.ID] != nil {
			continue
		}
		if stored == nil {
			if stored, err = db.loadOptions(); err != nil {
				return err
			}
		}
		cf, err := db.newColumnFamily(f.ID, f.Name, db.optionsFor(f, stored))
		if err != nil {
			return err
		}
		cf.markRangeDeletes(f.Features)
		cf.logNumber = f.LogNumber
		if err := cf.start(f.Version, f.LogNumber); err != nil {
			return db.unsure(f.Name, err)
		}
		families, begun = append(families, cf), append(begun, cf)
	}
	slices.SortFunc(families, func(a, b *ColumnFamily) int { return cmp.Compare(a.id, b.id) })
	var gone []*ColumnFamily
	families = slices.DeleteFunc(families, func(cf *ColumnFamily) bool {
		if st.Family(cf.id) != nil {
			return false
		}
		gone = append(gone, cf)
		return true
	})
	db.mu.Lock()
	db.setFamiliesLocked(families)
	for _, cf := range gone {
		cf.dropped.Store(true)
	}
	db.mu.Unlock()
	for _, cf := range gone {
		db.retire(cf)
	}
	return nil
}

// applyLogs reads the logs on that the MANIFEST needs, into the memtables.
func (db *DB) applyLogs(st *manifest.State) error {
	names, err := db.fs.List(db.walDir())
	if err != nil {
		return err
	}
	var logs []uint64
	for _, name := range names {
		if kind, number, ok := manifest.ParseName(name); ok && kind == manifest.KindLog && number >= st.MinLogNumber() {
			logs = append(logs, number)
		}
	}
	slices.Sort(logs)
	if len(logs) == 0 || logs[0] > st.MinLogNumber() {
		// Either it was never there, or what it held is in files that a newer MANIFEST has.
		if err := db.unmoved(st); err != nil {
			return err
		}
	}
	for number := range db.secondary.logs {
		if number < st.MinLogNumber() {
			delete(db.secondary.logs, number)
		}
	}
	for i, number := range logs {
		if err := db.startLog(st, number); err != nil {
			return err
		}
		if err := db.applyLog(st, number, i == len(logs)-1); err != nil {
			return err
		}
	}
	if db.secondary.settled {
		return db.unmoved(st)
	}
	return nil
}

// unmoved is errMoved if the MANIFEST has more than st by now.
func (db *DB) unmoved(st *manifest.State) error {
	now, err := db.advance(st)
	if err == nil && now != st {
		err = errMoved
	}
	return err
}

// startLog gives the families memtables for the writes of a log.
func (db *DB) startLog(st *manifest.State, number uint64) error {
	for _, cf := range db.ColumnFamilies() {
		if cf.active.logNumber >= number || st.Family(cf.id).LogNumber > number {
			continue
		}
		if cf.active.empty() {
			cf.active.logNumber = number
			continue
		}
		m, err := cf.newMemState(number, 0)
		if err != nil {
			return err
		}
		cf.shelve(m, number)
	}
	return nil
}

// applyLog reads one log on to its end. Of the last one the end may be in the making.
func (db *DB) applyLog(st *manifest.State, number uint64, last bool) (err error) {
	l := db.secondary.logs[number]
	if l == nil {
		l = new(followedLog)
		db.secondary.logs[number] = l
	}
	path := manifest.LogName(db.walDir(), number)
	open := func() (*wal.Reader, error) {
		from := l.end
		if l.zip {
			from = 0
		}
		in, err := wal.OpenAt(db.fs, path, number, wal.TolerateCorruptedTailRecords, from)
		if err == nil {
			in.Limit(db.opts.MaxDecompressedSize)
		}
		return in, err
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	again := int64(-1) // where the log was opened anew
	for {
		rec, err := in.Next()
		l.zip = l.zip || in.Compressed()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, ErrCorruption) && last:
			return nil
		case err != nil:
			return err
		case in.End() <= l.end:
			continue
		case in.Hole() && again != l.end:
			// The zeros before the record were the end of the log when their block was
			// read, and records may be there by now.
			anew, err := open()
			if err != nil {
				return err
			}
			err = in.Close()
			if in, again = anew, l.end; err != nil {
				return err
			}
			continue
		}
		if err := db.applyRecord(st, number, rec); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		l.end = in.End()
	}
}

func (db *DB) applyRecord(st *manifest.State, log uint64, rec []byte) error {
	if err := wal.Validate(rec); err != nil {
		return err
	}
	families := db.byID.Load().byID
	var op wal.Op
	for d := wal.Decode(rec); d.Next(&op); {
		switch {
		case op.Counts() && families[op.CF] == nil && op.CF > st.MaxColumnFamily:
			return errMoved // a family that the MANIFEST has by now
		case op.Kind == wal.KindBeginPrepare || op.Kind == wal.KindBeginPersistedPrepare || op.Kind == wal.KindBeginUnprepare:
			return fmt.Errorf("%w: a secondary of a database with two-phase transactions", ErrNotSupported)
		}
	}
	d := wal.Decode(rec)
	seq := d.Sequence()
	for d.Next(&op) {
		if !op.Counts() {
			continue
		}
		cf := families[op.CF]
		if cf != nil && log >= st.Family(cf.id).LogNumber {
			if err := cf.applyFollowed(log, seq, &op); err != nil {
				return err
			}
		}
		seq++
	}
	db.secondary.seq = max(db.secondary.seq, seq-1)
	return nil
}

func (cf *ColumnFamily) applyFollowed(log, seq uint64, op *wal.Op) error {
	need := memtable.BatchBytes(1, int64(len(op.Key)+len(op.Value)))
	if !cf.active.mem.HasRoom(need) || cf.active.full(cf.mutable().WriteBufferSize) {
		m, err := cf.newMemState(log, need)
		if err != nil {
			return err
		}
		cf.shelve(m, log+1)
	}
	p := prepared{cf: cf, key: op.Key, value: op.Value, kind: op.Kind}
	p.prefixLen, p.hash = cf.opts.PrefixExtractor.Hash(op.Key)
	if seq > keys.MaxSeq {
		return keys.Corruptf(manifest.LogName("", log), -1, "expected sequence numbers up to %d, found %d", keys.MaxSeq, seq)
	}
	return cf.active.add(&p, seq)
}

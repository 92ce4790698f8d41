package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Get appends the value of key to dst and returns the extended slice.
// ErrNotFound says that the key has no value; dst is then returned as it came.
// Safe for concurrent use. With room in dst a Get allocates nothing, takes no
// lock and, on data in RAM, makes no system call.
func (db *DB) Get(ro *ReadOptions, key, dst []byte) ([]byte, error) {
	return db.defaultCF.Get(ro, key, dst)
}

// Get is DB.Get for this column family.
func (cf *ColumnFamily) Get(ro *ReadOptions, key, dst []byte) ([]byte, error) {
	s, reader, err := cf.enter()
	if err != nil {
		return dst, err
	}
	var look keys.Lookup
	switch {
	case cf.db.stats != nil || ro.measured():
		dst, err = s.getObserved(reader, ro, key, dst)
	case s.files.faultable:
		dst, err = s.getGuarded(ro, &look, key, dst)
	default:
		dst, err = s.getInto(ro, &look, key, dst)
	}
	s.release(reader)
	return dst, err
}

// getGuarded is getInto for families with mapped files: a fault while a page is
// read becomes an error that names the file.
func (s *readState) getGuarded(ro *ReadOptions, look *keys.Lookup, key, dst []byte) (_ []byte, err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	return s.getInto(ro, look, key, dst)
}

func (s *readState) getInto(ro *ReadOptions, look *keys.Lookup, key, dst []byte) ([]byte, error) {
	look.UserKey = key
	look.Seq = s.cf.readSeq(ro)
	if t := s.cf.db.queries.Load(); t != nil {
		t.get(s.cf.id, key)
	}
	ro.apply(look)
	s.cf.opts.PrefixExtractor.Prepare(look)
	var pin table.Pin
	value, trailer, ok, err := s.find(look, &pin)
	if err != nil {
		return dst, err
	}
	if !ok {
		return dst, ErrNotFound
	}
	dst, err = s.appendValue(dst, look, value, trailer)
	pin.Release()
	return dst, err
}

// PinnedValue is a value that is read where it lies. The zero value is ready to
// use, and may be used again after Release.
type PinnedValue struct {
	value  []byte
	own    []byte // backs value when it had to be copied
	state  *readState
	reader *reader
	pin    table.Pin
}

// Value is the value, valid until Release. It must not be changed.
func (p *PinnedValue) Value() []byte { return p.value }

// Release lets go of the value. It may be called twice.
func (p *PinnedValue) Release() {
	p.pin.Release()
	if p.state != nil {
		p.state.release(p.reader)
		p.state = nil
	}
	p.value = nil
}

// GetPinned reads key into p without copying the value where the memory that
// holds it can be pinned: memtables, resident tables and cached blocks. Values in
// mapped files are copied, since reading them may fault. p must be released, also before Close;
// holding one keeps old memtables and files alive.
func (db *DB) GetPinned(ro *ReadOptions, key []byte, p *PinnedValue) error {
	return db.defaultCF.GetPinned(ro, key, p)
}

// GetPinned is DB.GetPinned for this column family.
func (cf *ColumnFamily) GetPinned(ro *ReadOptions, key []byte, p *PinnedValue) error {
	p.Release()
	s, reader, err := cf.enter()
	if err != nil {
		return err
	}
	if cf.db.stats != nil || ro.measured() {
		return s.getPinnedObserved(reader, ro, key, p)
	}
	var look keys.Lookup
	err = s.getPinned(ro, &look, key, p)
	s.keepFor(reader, p, err)
	return err
}

// keepFor holds s for a value that lies in it, or lets it go.
func (s *readState) keepFor(reader *reader, p *PinnedValue, err error) {
	if err != nil || s.files.faultable { // then the value is a copy
		s.release(reader)
		return
	}
	p.state, p.reader = s, reader
}

// getPinned reads key into p. The caller keeps s for it.
func (s *readState) getPinned(ro *ReadOptions, look *keys.Lookup, key []byte, p *PinnedValue) (err error) {
	cf := s.cf
	if s.files.faultable {
		p.own, err = s.getGuarded(ro, look, key, p.own[:0])
		p.value = p.own
		return err
	}
	if t := cf.db.queries.Load(); t != nil {
		t.get(cf.id, key)
	}
	look.UserKey = key
	look.Seq = cf.readSeq(ro)
	ro.apply(look)
	cf.opts.PrefixExtractor.Prepare(look)
	value, trailer, ok, err := s.find(look, &p.pin)
	if err == nil && !ok {
		err = ErrNotFound
	}
	if err == nil && keys.KindOf(trailer) != keys.KindValue {
		p.own, err = s.appendValue(p.own[:0], look, value, trailer)
		value = p.own
	}
	if err != nil {
		p.pin.Release()
		return err
	}
	p.value = value
	return nil
}

// enter pins the read state of a family that is open.
func (cf *ColumnFamily) enter() (*readState, *reader, error) {
	s, reader := cf.acquire()
	if s.active == nil { // what Close publishes
		s.release(reader)
		if cf.dropped.Load() {
			return nil, nil, fmt.Errorf("%w: %q", ErrColumnFamilyDropped, cf.name)
		}
		return nil, nil, ErrClosed
	}
	return s, reader, nil
}

// readSeq is the newest sequence number that a read may see. It is taken after
// the read state was pinned: an older number could name versions that a flush
// or compaction has dropped since.
func (cf *ColumnFamily) readSeq(ro *ReadOptions) uint64 {
	if ro != nil && ro.Snapshot != nil {
		if mutation.On(mutation.StaleSnapshot) {
			return max(ro.Snapshot.seq, 1) - 1
		}
		return ro.Snapshot.seq
	}
	return cf.db.visibleSeq.Load()
}

// enterAt is enter for reads that must agree with each other: of several keys, or by an iterator. It returns the sequence
// number to read at, too, and the state has all that came up to there. To take the one and then the
// other is not enough: between the two a file may be ingested, which the state lacks, and then a write go to the state's
// memtable, which the number covers.
func (cf *ColumnFamily) enterAt(ro *ReadOptions) (*readState, *reader, uint64, error) {
	for {
		s, reader, err := cf.enter()
		if err != nil {
			return nil, nil, 0, err
		}
		if cf.db.entered != nil {
			cf.db.entered()
		}
		if cf.db.secondary != nil { // a catch-up moves number and state together, under the lock
			cf.db.mu.Lock()
		}
		seq, same := cf.readSeq(ro), cf.state.Load() == s
		if cf.db.secondary != nil {
			cf.db.mu.Unlock()
		}
		if same || ro != nil && ro.Snapshot != nil {
			return s, reader, seq, nil
		}
		s.release(reader)
	}
}

// apply puts into look what ro says about blocks.
func (ro *ReadOptions) apply(look *keys.Lookup) {
	if ro != nil {
		look.NoFill, look.NoVerify = ro.FillCache == Off, ro.VerifyChecksums == Off
		look.Perf = ro.perf()
		look.FromSnapshot = ro.Snapshot != nil
	}
}

// find returns the newest entry that look may see, deletes excluded: for a key
// that is deleted, ok is false. The order of the search is the order of age:
// active memtable, immutable ones, level 0 from its newest file, deeper levels.
// The first entry found is the newest, since sources never overlap in age for
// one key. A range tombstone of a source hides its own older entries and all of
// the sources after it.
func (s *readState) find(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	if look.Perf != nil {
		value, trailer, ok, err = s.findMeasured(look, pin)
	} else {
		value, trailer, ok, err = s.active.get(look)
		for i := 0; !ok && err == nil && i < len(s.immutables); i++ {
			value, trailer, ok, err = s.immutables[i].get(look)
		}
		if look.Found = keys.Memory; !ok && err == nil {
			value, trailer, ok, err = s.files.get(look, pin)
		}
	}
	if ok && isDelete(keys.KindOf(trailer)) {
		pin.Release()
		return nil, 0, false, err
	}
	return value, trailer, ok, err
}

func isDelete(k keys.Kind) bool {
	return k == keys.KindDelete || k == keys.KindSingleDelete || k == keys.KindRangeDelete || k == keys.KindDeleteWithTimestamp
}

// appendValue appends what the entry (value, trailer) that find returned means to a reader.
func (s *readState) appendValue(dst []byte, look *keys.Lookup, value []byte, trailer uint64) ([]byte, error) {
	if keys.KindOf(trailer) == keys.KindValue {
		return append(dst, value...), nil
	}
	if keys.KindOf(trailer) == keys.KindMerge {
		return s.appendMerged(dst, *look, value, trailer)
	}
	if keys.KindOf(trailer) == keys.KindBlobIndex {
		return s.cf.appendBlob(dst, look.UserKey, value)
	}
	v, err := resolveValue(look.UserKey, value, keys.KindOf(trailer))
	if err != nil {
		return dst, err
	}
	return append(dst, v...), nil
}

// resolveValue gives the plain value of an entry of a kind that wraps one.
func resolveValue(userKey, value []byte, k keys.Kind) ([]byte, error) {
	switch k {
	case keys.KindValue:
		return value, nil
	case keys.KindEntity:
		return entity.Default(value)
	case keys.KindValuePreferredSeqno:
		if len(value) < 8 {
			return nil, fmt.Errorf("%w: key %q: a TimedPut value of %d bytes, want at least 8", ErrCorruption, userKey, len(value))
		}
		return value[:len(value)-8], nil
	}
	return nil, fmt.Errorf("%w: key %q is stored as %v", ErrNotSupported, userKey, k)
}

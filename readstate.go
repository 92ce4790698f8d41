package flatrock

import (
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/invariant"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// readState is everything a reader of one column family needs, pinned together:
// the active memtable, the immutable ones and the files of a version. RocksDB
// calls it a superversion.
//
// Invariants:
//
//	R1 A readState is never changed once published, but for its counters.
//	R2 The published readState of a family holds a reference to each of its
//	   memtables and files; so does every retired one that still has readers.
//	R3 A reader's slot names the state it uses from before it looks at anything in
//	   it until after; see readSlot.
//	R4 Memtables and files are released under db.mu, by whoever finds a retired
//	   state without readers.
type readState struct {
	cf         *ColumnFamily
	active     *memState
	immutables []*memState // newest first
	files      *fileSet

	// retired is set once the state is no longer published, and every reader who
	// may have taken it before is to be seen in its slot.
	retired atomic.Bool

	wait sync.Mutex
	// Guarded by wait. A retired state that somebody uses waits for one of them, the
	// slot of that index: whoever else leaves has nothing to do. scanned tells
	// that the one who retired it has looked.
	slot      int
	scanned   bool
	collected bool
}

// acquire pins the published read state. No lock, and on most machines no barrier: the
// reader announces the state it saw, and looks again whether that state is still the
// published one. If not, nobody may have seen the announcement, so it tries the new state.
func (cf *ColumnFamily) acquire() (*readState, *reader) {
	r := cf.db.readers.pool.Get().(*reader)
	for {
		s := cf.state.Load()
		r.slot.hold(s)
		if cf.state.Load() == s {
			return s, r
		}
		s.leave(r)
	}
}

// release undoes acquire. The last reader of a retired state frees it.
func (s *readState) release(r *reader) {
	pool := &s.cf.db.readers.pool
	s.leave(r)
	pool.Put(r)
}

// leave takes the announcement back. Either the reader sees retired set, or the
// one who sets it sees the slot empty, for a barrier comes between: the fence of
// retirePublished, or those of the atomic operations.
func (s *readState) leave(r *reader) {
	r.slot.hold(nil)
	if s.retired.Load() {
		s.freeIfIdle(r.slot.index)
	}
}

// freeIfIdle releases what a retired state pins if nobody uses it any more. It is called
// by the one who retired it, with slot -1, and then by readers who have left their
// slot. Slots before the one that is waited for were empty when it was found, and no
// reader can take a state that is no longer published. Called without db.mu.
func (s *readState) freeIfIdle(slot int) {
	s.wait.Lock()
	if s.collected || slot >= 0 && (!s.scanned || slot != s.slot) {
		s.wait.Unlock()
		return
	}
	s.slot = s.cf.db.readers.holder(s, s.slot)
	s.scanned, s.collected = true, s.slot < 0 || mutation.On(mutation.ReuseArenaEarly)
	idle := s.collected
	s.wait.Unlock()
	if idle {
		s.cf.db.collect(s)
	}
}

// publish makes a state of the given parts the one that readers see. It takes
// references to the parts and retires the state before. The caller holds db.mu and
// calls retire on the returned state after it has let go of db.mu.
func (cf *ColumnFamily) publish(active *memState, immutables []*memState, files *fileSet) (old *readState) {
	cf.checkImmutables(active, immutables)
	s := &readState{cf: cf, active: active, immutables: immutables, files: files}
	active.refs++
	for _, m := range immutables {
		m.refs++
	}
	files.refs++
	cf.published++
	old = cf.state.Swap(s)
	if old != nil {
		cf.db.retiring = append(cf.db.retiring, old)
	}
	return old
}

// retirePublished frees the states that publish replaced, as far as they have no
// readers; the rest is freed by its last reader. Called without db.mu.
func (db *DB) retirePublished() {
	db.mu.Lock()
	states := db.retiring
	db.retiring = nil
	db.mu.Unlock()
	if len(states) == 0 {
		return
	}
	for _, s := range states {
		s.retired.Store(true)
	}
	if db.readers.plain && !mmapfs.FenceAll() {
		return // cannot be, after CanFenceAll; then the states stay
	}
	for _, s := range states {
		s.freeIfIdle(-1)
	}
}

// collect drops the references of a state that nobody reads any more, and frees
// what is left without any.
func (db *DB) collect(s *readState) {
	db.mu.Lock()
	garbage := db.unrefLocked(s)
	db.mu.Unlock()
	garbage.dispose(db)
}

// garbage is what unrefLocked found unreferenced: freed without db.mu.
type garbage struct {
	memtables []*memState
	tables    []*tableHandle
}

func (db *DB) unrefLocked(s *readState) garbage {
	var g garbage
	drop := func(m *memState) {
		m.refs--
		invariant.Check(m.refs >= 0, "memtable %d was let go once too often", m.id)
		if m.refs == 0 {
			g.memtables = append(g.memtables, m)
		}
	}
	drop(s.active)
	for _, m := range s.immutables {
		drop(m)
	}
	g.tables = s.files.unref()
	return g
}

func (g *garbage) dispose(db *DB) {
	for _, m := range g.memtables {
		m.free(db)
	}
	for _, t := range g.tables {
		db.closeTable(t)
	}
}

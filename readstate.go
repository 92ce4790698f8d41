package flatrock

import (
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/stripe"
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
//	R3 Memtables and files are released under db.mu, by whoever finds a retired
//	   state without readers.
type readState struct {
	cf         *ColumnFamily
	active     *memState
	immutables []*memState // newest first
	files      *fileSet

	retired   atomic.Bool
	collected atomic.Bool // claims the release, which happens once
	stripes   [stripe.Count]readerStripe
}

// readerStripe counts the readers of a stripe. The padding keeps neighbours off
// the cache line, and off the line that the prefetcher fetches with it.
type readerStripe struct {
	n atomic.Int64
	_ [120]byte
}

// acquire pins the published read state. No lock: the reader raises a counter of
// the state it saw, and looks again whether that state is still the published
// one. If not, its raised counter may be one that nobody waits for any more,
// so it steps back and tries the new state.
func (cf *ColumnFamily) acquire() (*readState, uint32) {
	i := stripe.Current()
	for {
		s := cf.state.Load()
		s.stripes[i].n.Add(1)
		if cf.state.Load() == s {
			return s, i
		}
		s.release(i)
	}
}

// release undoes acquire. The last reader of a retired state frees it.
//
// Every operation here and in retire is sequentially consistent: either this
// reader sees retired set, or the retirer's scan sees this counter lowered.
func (s *readState) release(stripe uint32) {
	s.stripes[stripe].n.Add(-1)
	if s.retired.Load() {
		s.collectIfIdle()
	}
}

// idle reports whether no reader holds s. It is meaningful only once s is
// retired: from then on a counter can rise only for the moment in which acquire
// notices that s is no longer published.
func (s *readState) idle() bool {
	for i := range s.stripes {
		if s.stripes[i].n.Load() != 0 {
			return false
		}
	}
	return true
}

// collectIfIdle releases what a retired state pins once it has no readers.
func (s *readState) collectIfIdle() {
	if s.idle() && s.collected.CompareAndSwap(false, true) {
		s.cf.db.collect(s)
	}
}

// publish makes a state of the given parts the one that readers see. It takes
// references to the parts and retires the state before. The caller holds db.mu and
// calls retire on the returned state after it has let go of db.mu.
func (cf *ColumnFamily) publish(active *memState, immutables []*memState, files *fileSet) (old *readState) {
	s := &readState{cf: cf, active: active, immutables: immutables, files: files}
	active.refs++
	for _, m := range immutables {
		m.refs++
	}
	files.refs++
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
	for _, s := range states {
		s.retired.Store(true)
		s.collectIfIdle()
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
		if m.refs--; m.refs == 0 {
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

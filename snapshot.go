package flatrock

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Snapshot is a moment of the database that reads can go back to. It costs
// memory and disk: versions that it may see are kept. Release it when done.
type Snapshot struct {
	db   *DB
	seq  uint64
	once sync.Once
}

// Sequence is the sequence number of the newest write that the snapshot sees.
func (s *Snapshot) Sequence() uint64 { return s.seq }

// Release lets the versions that only s could see go. It may be called twice.
// Iterators made from s stay valid.
func (s *Snapshot) Release() {
	s.once.Do(func() { s.db.releasedSnapshot(s.db.snapshots.remove(s.seq, &s.db.visibleSeq)) })
}

// NewSnapshot pins the newest state of all column families. Safe for concurrent use.
func (db *DB) NewSnapshot() (*Snapshot, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	if db.secondary != nil {
		return nil, fmt.Errorf("%w: the primary does not keep what a snapshot of a secondary needs", ErrNotSupported)
	}
	return &Snapshot{db: db, seq: db.snapshots.add(&db.visibleSeq)}, nil
}

// SnapshotAt pins the state as of a sequence number, for readers that were told one:
// that of a snapshot that somebody holds (Snapshot.Sequence), or of the newest write.
// Others are refused with ErrInvalidArgument, since compactions may have dropped
// what they would see. Safe for concurrent use.
func (db *DB) SnapshotAt(seq uint64) (*Snapshot, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	if !db.snapshots.addAt(seq, &db.visibleSeq) {
		return nil, fmt.Errorf("%w: no snapshot holds sequence number %d, and the newest is %d", ErrInvalidArgument, seq, db.visibleSeq.Load())
	}
	return &Snapshot{db: db, seq: seq}, nil
}

// snapshotList is the multiset of sequence numbers that snapshots pin.
type snapshotList struct {
	mu    sync.Mutex
	seqs  []uint64 // ascending
	times []int64  // of each, when it was taken, unix seconds
	// thawed, while not nil, holds new snapshots back until it is closed.
	thawed chan struct{}
}

// freeze lets no snapshot begin before thaw, and reports whether there are any.
func (l *snapshotList) freeze() (some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thawed = make(chan struct{})
	return len(l.seqs) > 0
}

func (l *snapshotList) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.thawed)
	l.thawed = nil
}

// lockThawed locks l as soon as new snapshots may begin.
func (l *snapshotList) lockThawed() {
	l.mu.Lock()
	for l.thawed != nil {
		thawed := l.thawed
		l.mu.Unlock()
		<-thawed
		l.mu.Lock()
	}
}

// add reads the newest sequence number under the lock, so that a flush that lists
// the snapshots afterwards either sees this one, or drops nothing that it needs:
// what is newest at that time is kept anyway.
func (l *snapshotList) add(newest interface{ Load() uint64 }) uint64 {
	l.lockThawed()
	defer l.mu.Unlock()
	seq := newest.Load()
	l.seqs = append(l.seqs, seq) // newest only grows
	l.times = append(l.times, time.Now().Unix())
	return seq
}

// addAt adds seq if it is held already, or is the newest.
func (l *snapshotList) addAt(seq uint64, newest interface{ Load() uint64 }) bool {
	l.lockThawed()
	defer l.mu.Unlock()
	i, held := slices.BinarySearch(l.seqs, seq)
	if !held && seq != newest.Load() {
		return false
	}
	taken := time.Now().Unix()
	if held {
		taken = l.times[i] // it may be there for as long as the other
	}
	l.seqs, l.times = slices.Insert(l.seqs, i, seq), slices.Insert(l.times, i, taken)
	return true
}

// remove returns what is the oldest from now on: a snapshot, or the newest sequence number
// when there is none.
func (l *snapshotList) remove(seq uint64, newest interface{ Load() uint64 }) (oldest uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, ok := slices.BinarySearch(l.seqs, seq); ok {
		l.seqs = slices.Delete(l.seqs, i, i+1)
		l.times = slices.Delete(l.times, i, i+1)
	}
	if len(l.seqs) > 0 {
		return l.seqs[0]
	}
	return newest.Load()
}

// oldestTime is when the oldest was taken, in unix seconds; zero if there is none.
func (l *snapshotList) oldestTime() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.times) == 0 {
		return 0
	}
	return uint64(l.times[0])
}

// count is how many snapshots there are, several of one moment each for itself.
func (l *snapshotList) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.seqs))
}

// list returns the distinct sequence numbers, ascending.
func (l *snapshotList) list() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Compact(slices.Clone(l.seqs))
}

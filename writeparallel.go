package flatrock

import "sync/atomic"

// A group of large batches is inserted by those who brought them: the leader wakes each writer for its
// own operations, and goes on once all are done. Small batches are not worth the waking. RocksDB:
// allow_concurrent_memtable_write.

// parallelOps is how many operations a batch must have for its writer to be woken.
const parallelOps = 32

// share is what one writer of a group inserts.
type share struct {
	group    *commitGroup
	from, to int    // of group.ops
	seq      uint64 // of the first
}

// crew waits for the writers of a group that insert.
type crew struct {
	busy atomic.Int32
	done chan struct{} // buffered: the last says so
}

// parallel reports whether the group's batches are inserted side by side.
func (g *commitGroup) parallel(db *DB) bool {
	if len(g.requests) < 2 || len(g.ops) < parallelOps*len(g.requests) || !db.opts.AllowConcurrentMemtableWrite.or(true) {
		return false
	}
	for _, r := range g.requests {
		if r.batch.rep.Count() < parallelOps || !r.concurrent(db) {
			return false
		}
	}
	return true
}

// concurrent reports whether all that the request writes to takes entries from several goroutines at once.
func (r *request) concurrent(db *DB) bool {
	for i := range r.batch.use {
		u := &r.batch.use[i]
		cf := u.cf
		if cf == nil {
			cf = db.defaultCF
		}
		if u.ranges || !cf.active.mem.ConcurrentAdd() {
			return false
		}
	}
	return true
}

// insertParallel is insert with the help of all writers of the group.
func (g *commitGroup) insertParallel(seq uint64, noWAL bool) error {
	if g.crew.done == nil {
		g.crew.done = make(chan struct{}, 1)
	}
	g.crew.busy.Store(int32(len(g.requests)))
	from := 0
	for i, r := range g.requests {
		to := from + int(r.batch.rep.Count())
		r.share = share{group: g, from: from, to: to, seq: seq + uint64(from)}
		r.noWAL, from = noWAL, to
		if i > 0 {
			r.insert = true
			r.rouse()
		}
	}
	g.requests[0].insertShare()
	<-g.crew.done
	for _, r := range g.requests {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// insertShare inserts what the leader gave r to insert.
func (r *request) insertShare() {
	s := r.share
	r.share, r.insert = share{}, false
	r.err = insertOps(s.group.ops[s.from:s.to], s.seq, r.noWAL)
	if s.group.crew.busy.Add(-1) == 0 {
		s.group.crew.done <- struct{}{}
	}
}

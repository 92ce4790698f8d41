package flatrock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/spin"
)

// The pipelined write path, Options.EnablePipelinedWrite: a leader hands on the lead once its group
// is in the log, so that the next group is logged, and synced, while this one goes into the memtables.
// What the memtables take from several goroutines at once, groups insert side by side. They become
// visible in the order of the log all the same: each waits for the one before it.
//
// Whoever changes what groups insert into (switchMemtables, exclusive) drains the pipeline first.

// checkPipelined refuses what RocksDB refuses: an atomic flush wants the memtables of all families at one
// moment, and its groups are then not whole.
func (opts *Options) checkPipelined() error {
	if opts.EnablePipelinedWrite && opts.AtomicFlush == On {
		return fmt.Errorf("%w: EnablePipelinedWrite and AtomicFlush exclude each other", ErrInvalidArgument)
	}
	return nil
}

// pipelineDepth is how many groups may be behind the log stage at once.
const pipelineDepth = 4

// One group in sampledGroups is timed, to see whether it takes longInsert.
const (
	sampledGroups = 32
	longInsert    = 700 * time.Nanosecond
)

// pipeline are the groups that are in the log and not yet visible. The zero value is empty.
type pipeline struct {
	groups [pipelineDepth]commitGroup

	// Owned by the commit leader.
	issued     uint64 // groups that were logged so far; the last one's ticket
	concurrent bool   // the last group is inserted beside others

	bytes atomic.Int64  // arena bytes at most that groups under way will take, of all families
	done  atomic.Uint64 // the last ticket whose group is visible, or failed

	spins   bool // several processors: it is worth to wait a moment for another
	turns   spin.Waiter
	mu      sync.Mutex
	changed sync.Cond // of done
	waiters atomic.Int32

	// long says that groups take so long to insert that it is worth to do it on several processors. What is
	// quickly done, keys in order for one, is better left on one of them, whose caches have it all.
	long   atomic.Bool
	failed error // of a group under way: those behind it fail with it. Owned by whose turn it is
}

// await waits until the group with that ticket is done.
func (p *pipeline) await(ticket uint64) {
	if p.done.Load() >= ticket || p.spins && p.turns.Until(func() bool { return p.done.Load() >= ticket }) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// It counts itself before it looks again, and finish looks for waiters after it has set done.
	p.waiters.Add(1)
	for p.done.Load() < ticket {
		p.changed.Wait()
	}
	p.waiters.Add(-1)
}

// finish lets the group behind that ticket have its turn.
func (p *pipeline) finish(ticket uint64) {
	p.done.Store(ticket)
	if p.waiters.Load() > 0 {
		p.mu.Lock()
		p.changed.Broadcast()
		p.mu.Unlock()
	}
}

// drain waits until no group is under way. Only the commit leader calls it.
func (p *pipeline) drain() { p.await(p.issued) }

// leadPipelined is leadCommit that hands on the lead between the log and the memtables.
func (db *DB) leadPipelined(r *request) {
	p := &db.pipe
	if next := p.issued + 1; next > pipelineDepth {
		p.await(next - pipelineDepth) // whose memory this group takes
	}
	g := &p.groups[p.issued%pipelineDepth]
	g.requests = append(g.requests[:0], r)
	db.joinGroup(g)
	if err := db.logStage(g); err != nil {
		g.release(err)
		db.passLead()
		return
	}
	if p.done.Load() == p.issued {
		p.failed = nil // nobody is under way who would have to know
	}
	p.issued++
	ticket := p.issued
	bytes := g.arenaBytes()
	p.bytes.Add(bytes)
	before := p.concurrent
	p.concurrent = g.concurrent(db)
	beside := before && p.concurrent
	db.passLead()

	if !beside {
		p.await(ticket - 1)
	}
	var start time.Time
	sampled := p.spins && ticket%sampledGroups == 0
	if sampled {
		start = time.Now()
	}
	err := db.memtableStage(g)
	if sampled {
		p.long.Store(time.Since(start) >= longInsert)
	}
	p.await(ticket - 1)
	if err = db.failStage(err); err == nil {
		db.publishGroup(g)
	}
	p.bytes.Add(-bytes)
	g.release(err)
	p.finish(ticket)
}

// failStage is what becomes of a group whose turn it is: its own error, or that of one before it, without
// which it must not be seen.
func (db *DB) failStage(err error) error {
	if db.pipe.failed == nil {
		db.pipe.failed = err
	}
	return db.pipe.failed
}

// release wakes all of the group but its leader, who goes on by itself.
func (g *commitGroup) release(err error) {
	for _, m := range g.requests {
		m.err = err
	}
	for _, m := range g.requests[1:] {
		m.rouse()
	}
	clear(g.requests)
}

// concurrent reports whether the group may be inserted while others are.
func (g *commitGroup) concurrent(db *DB) bool {
	if !db.opts.AllowConcurrentMemtableWrite.or(true) {
		return false
	}
	for _, r := range g.requests {
		if !r.concurrent(db) {
			return false
		}
	}
	return true
}

// arenaBytes is how many bytes of arenas the group may take.
func (g *commitGroup) arenaBytes() (n int64) {
	for _, r := range g.requests {
		for i := range r.batch.use {
			n += batchBytes(&r.batch.use[i])
		}
	}
	return n
}

// roomBeside reports whether a memtable has room for need bytes and for what groups under way
// still put into it.
func (db *DB) roomBeside(cf *ColumnFamily, need int64) bool {
	if !db.opts.EnablePipelinedWrite {
		return cf.active.mem.HasRoom(need)
	}
	if cf.active.mem.HasRoom(need + db.pipe.bytes.Load()) {
		return true
	}
	db.pipe.drain()
	return cf.active.mem.HasRoom(need)
}

// memtableStage inserts a group that was logged.
func (db *DB) memtableStage(g *commitGroup) error {
	lead := g.requests[0]
	start := lead.perf.Start()
	var err error
	if g.parallel(db) {
		db.metrics.parallelGroups.Add(1)
		err = g.insertParallel(g.first, lead.noWAL)
	} else {
		err = g.insert(g.first, lead.noWAL)
	}
	if lead.perf != nil {
		lead.perf.Stop(&lead.perf.WriteMemtableTime, start)
	}
	killpoint.Here("memtable inserted")
	clear(g.ops)
	if cap(g.ops) > maxKeptOps {
		g.ops = nil
	}
	if err != nil {
		return db.fail("memtable insert", err)
	}
	return nil
}

// publishGroup makes a group visible that is in the memtables.
func (db *DB) publishGroup(g *commitGroup) {
	if t := db.queries.Load(); t != nil {
		t.writes(g) // before a read that sees it
	}
	db.visibleSeq.Store(g.first + uint64(g.count) - 1)
	if db.buffers != nil {
		db.reportGroup(g)
	}
	db.metrics.writes.Add(int64(g.count))
	db.metrics.groups.Add(1)
	db.metrics.batches.Add(int64(len(g.requests)))
	db.metrics.ingested.Add(g.size)
	db.observeGroup(g, g.count, g.size)
}

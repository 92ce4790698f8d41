package flatrock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/perf"
	"github.com/flatrock-db/flatrock/internal/spin"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/statistics"
)

// The life of a write: it joins the commit queue; one of those that wait leads,
// takes as many others as fit into its group, makes room in the memtables, appends
// the group to the log as one record, syncs if anybody asked for it, inserts the
// entries, publishes the group's last sequence number, and wakes the others. Only
// the leader touches the log and the active memtables, so none of that needs a lock.
// (writepipeline.go: the lead is handed on between the log and the memtables.)

// commitQueue elects leaders.
type commitQueue struct {
	mu      sync.Mutex
	led     bool       // a leader is at work
	waiting []*request // in order of arrival
	stalled bool       // the leader waits for compactions or flushes

	next spin.Waiter // how the first of them waits for the leader
}

// request is a write in the queue.
type request struct {
	batch *Batch
	sync  bool
	noWAL bool
	// noSlowdown says that it fails rather than wait for compactions or flushes.
	noSlowdown bool
	// protected says that the batch has checksums.
	protected bool

	perf   *perf.Context
	err    error
	lead   bool // woken to lead, not because it is done
	insert bool // woken to insert share
	share  share
	state  atomic.Uint32
	wake   chan struct{} // buffered, one token per wake-up of who sleeps
}

// States of a request that somebody may wake.
const (
	requestIdle uint32 = iota
	requestAsleep
	requestWoken // and did not see it yet
)

// rouse wakes who awaits r, or will. r may be gone when it returns.
func (r *request) rouse() {
	if r.state.Swap(requestWoken) == requestAsleep {
		r.wake <- struct{}{}
	}
}

// newRequest is what the pool of a database makes: one of its own, as the channels must not pass
// between databases that tests run in different bubbles.
func newRequest() any { return &request{wake: make(chan struct{}, 1)} }

// commitGroup is the memory of a leader: what it commits and the parts of the log record.
type commitGroup struct {
	requests []*request
	parts    [][]byte
	ops      []prepared
	header   [wal.HeaderLen]byte
	crew     crew

	first uint64 // sequence number of the first operation
	count uint32 // of operations
	size  int64  // of the batches, in bytes
}

// maxKeptOps is how many operations a group's memory is kept for.
const maxKeptOps = 4096

// Write commits b atomically. When it returns nil the writes are visible, and
// survive the death of the process; with WriteOptions.Sync that of the machine
// too. b may be reused. A failed Write leaves nothing visible; if it failed
// while logging, the database refuses writes from then on with ErrBackground.
func (db *DB) Write(wo *WriteOptions, b *Batch) error {
	if b.err != nil {
		return b.err
	}
	if err := db.checkBatch(b); err != nil {
		return err
	}
	if err := b.protectFor(wo); err != nil {
		return err
	}
	if wo != nil && wo.LowPri {
		if err := db.throttleLowPri(int64(b.Size()), wo.NoSlowdown); err != nil {
			return err
		}
	}
	r := db.requests.Get().(*request)
	r.batch, r.err, r.lead, r.insert = b, nil, false, false
	r.sync = wo != nil && wo.Sync
	r.noWAL = wo != nil && wo.DisableWAL
	r.noSlowdown = wo != nil && wo.NoSlowdown
	r.protected = b.protection.on || wo != nil && wo.ProtectionBytesPerKey != 0
	r.perf = wo.perf()
	if r.sync && r.noWAL {
		db.requests.Put(r)
		return fmt.Errorf("%w: Sync and DisableWAL exclude each other", ErrInvalidArgument)
	}
	stripe, t := uint32(0), statistics.Timing{}
	if db.stats != nil {
		stripe = statistics.Stripe()
		t = db.stats.Start(stripe, statistics.DBWrite)
	}
	q := &db.queue
	q.mu.Lock()
	if q.led && q.stalled && r.noSlowdown {
		q.mu.Unlock()
		r.err = errWriteStall
	} else if q.led {
		var soon *spin.Waiter
		if len(q.waiting) == 0 && db.pipe.long.Load() {
			soon = &q.next
		}
		q.waiting = append(q.waiting, r)
		q.mu.Unlock()
		r.await(soon)
		for r.insert {
			r.insertShare()
			r.await(nil)
		}
	} else {
		q.led = true
		q.mu.Unlock()
		r.lead = true
	}
	if r.lead {
		db.leadCommit(r)
	}
	err := r.err
	r.batch, r.perf = nil, nil
	db.requests.Put(r)
	db.stats.End(stripe, statistics.DBWrite, t)
	return err
}

// checkBatch refuses what a family could not store or resolve later, before
// anything is logged.
func (db *DB) checkBatch(b *Batch) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	for i := range b.use {
		u := &b.use[i]
		cf := u.cf
		if cf == nil {
			cf = db.defaultCF
			if err := cf.checkKeysOf(b); err != nil {
				return err
			}
		}
		switch {
		case cf.db != db:
			return fmt.Errorf("%w: column family %q belongs to another database", ErrInvalidArgument, cf.name)
		case cf.dropped.Load():
			return fmt.Errorf("%w: %q", ErrColumnFamilyDropped, cf.name)
		case u.merges && cf.opts.MergeOperator == nil:
			return fmt.Errorf("%w: Merge into column family %q, which has no MergeOperator", ErrNotSupported, cf.name)
		case u.ranges && !cf.takesRangeDeletes():
			return fmt.Errorf("%w: DeleteRange in column family %q: plain tables store range deletes only with PlainTableOptions.RangeDeletes, which keeps RocksDB from opening the database", ErrNotSupported, cf.name)
		}
	}
	return nil
}

// checkKeysOf checks the keys that b has for the default family by id 0.
func (cf *ColumnFamily) checkKeysOf(b *Batch) error {
	if _, ok := cf.opts.Table.(PlainTableOptions); !ok {
		return nil
	}
	var op wal.Op
	ops := wal.Decode(b.rep.Bytes())
	for ops.Next(&op) {
		if op.CF == cf.id && op.Counts() && op.Kind != keys.KindRangeDelete {
			if err := cf.checkKey(op.Key); err != nil {
				return err
			}
		}
	}
	return ops.Err()
}

// exclusive runs fn as the commit leader with an empty group: no write is under
// way, and none begins before fn returns.
func (db *DB) exclusive(fn func()) {
	r := db.requests.Get().(*request)
	r.batch, r.err, r.lead, r.noSlowdown = nil, nil, false, false
	q := &db.queue
	q.mu.Lock()
	if q.led {
		q.waiting = append(q.waiting, r)
		q.mu.Unlock()
		r.await(nil) // a request without batch is never taken into a group: it leads
	} else {
		q.led = true
		q.mu.Unlock()
	}
	db.pipe.drain()
	fn()
	db.passLead()
	db.requests.Put(r)
}

// leadCommit commits r and those that arrived meanwhile, and hands on the lead.
func (db *DB) leadCommit(r *request) {
	if db.opts.EnablePipelinedWrite {
		db.leadPipelined(r)
		return
	}
	g := &db.group
	g.requests = append(g.requests[:0], r)
	db.joinGroup(g)
	// The leader's own request goes back to the pool in Write; the others wake up
	// here, before the group's memory passes to the next leader.
	g.release(db.commit(g))
	db.passLead()
}

// joinGroup takes waiting requests of the leader's kind into the group. A small
// leader takes a small group, so that its latency stays small.
func (db *DB) joinGroup(g *commitGroup) {
	q := &db.queue
	lead := g.requests[0]
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return
	}
	size := int64(lead.batch.Size())
	limit := db.opts.MaxWriteBatchGroupSize
	if small := limit / 8; size <= small {
		limit = size + small
	}
	n := 0
	for _, m := range q.waiting {
		// A group is synced as a whole: a leader that need not wait for the disk
		// does not take one that must.
		if m.batch == nil || m.noWAL != lead.noWAL || m.noSlowdown != lead.noSlowdown || (m.sync && !lead.sync) {
			break
		}
		if size += int64(m.batch.Size()); size > limit {
			break
		}
		g.requests = append(g.requests, m)
		n++
	}
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	q.waiting = q.waiting[:left]
}

// passLead makes the first that waits the leader.
func (db *DB) passLead() {
	q := &db.queue
	q.mu.Lock()
	if len(q.waiting) == 0 {
		q.led = false
		q.mu.Unlock()
		return
	}
	next := q.waiting[0]
	copy(q.waiting, q.waiting[1:])
	q.waiting[len(q.waiting)-1] = nil
	q.waiting = q.waiting[:len(q.waiting)-1]
	q.mu.Unlock()
	next.lead = true
	next.rouse()
}

// commit makes a group durable and visible. Only the leader runs it.
func (db *DB) commit(g *commitGroup) error {
	if err := db.logStage(g); err != nil {
		return err
	}
	if mutation.On(mutation.PublishEarly) {
		db.visibleSeq.Store(db.lastSeq)
		time.Sleep(20 * time.Microsecond)
	}
	if err := db.memtableStage(g); err != nil {
		return err
	}
	db.publishGroup(g)
	return nil
}

// logStage makes a group durable and gives it its sequence numbers. Only the leader runs it.
func (db *DB) logStage(g *commitGroup) error {
	if db.closed.Load() {
		return ErrClosed
	}
	lead := g.requests[0]
	start := lead.perf.Start()
	if err := db.makeRoom(g); err != nil {
		return err
	}
	g.first, g.count, g.size = db.lastSeq+1, 0, 0
	for _, r := range g.requests {
		g.count += r.batch.rep.Count()
		g.size += int64(r.batch.Size())
	}
	if db.slowed.Load() {
		if err := db.delay(g.size, lead.noSlowdown); err != nil {
			return err
		}
	}
	if lead.perf != nil {
		lead.perf.Stop(&lead.perf.WriteDelayTime, start)
		start = lead.perf.Start()
	}
	if err := db.prepare(g); err != nil {
		return err
	}
	if lead.perf != nil {
		lead.perf.Stop(&lead.perf.WritePreAndPostProcessTime, start)
		start = lead.perf.Start()
	}
	if !lead.noWAL {
		if err := db.logGroup(g, g.first, g.count); err != nil {
			return err
		}
	}
	if lead.perf != nil {
		lead.perf.Stop(&lead.perf.WriteWALTime, start)
	}
	db.lastSeq += uint64(g.count)
	return nil
}

// logGroup appends the group to the log as one record and syncs it if asked to.
func (db *DB) logGroup(g *commitGroup, first uint64, count uint32) error {
	wal.PutHeader(&g.header, first, count)
	g.parts = append(g.parts[:0], g.header[:])
	bytes := int64(len(g.header))
	for _, r := range g.requests {
		body := r.batch.rep.Records()
		g.parts = append(g.parts, body)
		bytes += int64(len(body))
	}
	log := db.wal
	if mutation.On(mutation.LoseLogRecord) && first%64 == 0 {
		return nil
	}
	before := log.w.Size()
	err := log.w.Append(g.parts...)
	clear(g.parts)
	if err != nil {
		return db.fail("WAL append", err)
	}
	killpoint.Here("wal appended")
	log.records = true
	db.metrics.walBytes.Add(bytes)
	db.metrics.walBatches.Add(int64(len(g.requests)))
	db.stats.Add(statistics.Stripe(), statistics.WALFileBytes, uint64(bytes))
	if lead := g.requests[0]; lead.sync {
		start := time.Now()
		err := db.syncLogs()
		db.observeSync(lead.perf, start)
		if err != nil {
			log.w.Undo(before, err)
			return db.fail("WAL sync", err)
		}
	}
	return nil
}

// prepared is an operation of the group that is ready for its memtable. Key and
// value are borrowed from the batch.
type prepared struct {
	cf         *ColumnFamily
	key, value []byte
	kind       keys.Kind
	prefixLen  int
	hash       uint32
	sum        uint64 // with protected
	protected  bool
}

// prepare decodes the group, hashes each key, and loads the bucket that it goes
// to: the misses of different keys overlap with each other, and with the work of
// logging that comes in between. It finds what is wrong with a batch before
// anything is logged.
func (db *DB) prepare(g *commitGroup) error {
	g.ops = g.ops[:0]
	families := db.byID.Load().byID
	cf := db.defaultCF
	var touched uint64
	for _, r := range g.requests {
		var op wal.Op
		decoder := wal.Decode(r.batch.rep.Bytes())
		sums, i := r.checksums(), 0
		for decoder.Next(&op) {
			if !op.Counts() {
				continue
			}
			if op.CF != cf.id {
				if cf = families[op.CF]; cf == nil {
					return fmt.Errorf("%w: a batch for column family %d, which does not exist", ErrInvalidArgument, op.CF)
				}
			}
			p := prepared{cf: cf, key: op.Key, value: op.Value, kind: op.Kind}
			if r.protected {
				if i >= len(sums) {
					return fmt.Errorf("%w: a batch has more operations than checksums: it changed in memory", ErrCorruption)
				}
				p.sum, p.protected = sums[i], true
				if err := checkOp(p.sum, op.CF, op.Kind, op.Key, op.Value); err != nil {
					return err
				}
				i++
			}
			p.prefixLen, p.hash = cf.opts.PrefixExtractor.Hash(op.Key)
			touched += cf.active.mem.TouchAdd(p.prefixLen, p.hash)
			g.ops = append(g.ops, p)
		}
		if err := decoder.Err(); err != nil {
			return err
		}
		if i < len(sums) {
			return fmt.Errorf("%w: a batch has %d operations and %d checksums: it changed in memory", ErrCorruption, i, len(sums))
		}
	}
	sink(touched)
	return nil
}

// insert puts the prepared operations into the memtables, the first with seq.
func (g *commitGroup) insert(seq uint64, noWAL bool) error { return insertOps(g.ops, seq, noWAL) }

// insertOps is insert for some of the operations.
func insertOps(ops []prepared, seq uint64, noWAL bool) error {
	if len(ops) > 1 {
		var touched uint64
		for i := range ops {
			p := &ops[i]
			touched += p.cf.active.mem.TouchAddNode(p.prefixLen, p.hash)
		}
		sink(touched)
	}
	for i := range ops {
		p := &ops[i]
		if noWAL {
			p.cf.active.unlogged.Store(true)
		}
		if err := p.cf.active.add(p, seq); err != nil {
			return err
		}
		seq++
	}
	return nil
}

// add inserts one operation into the memtable.
func (m *memState) add(p *prepared, seq uint64) error {
	if p.protected {
		if err := checkOp(p.sum, p.cf.id, p.kind, p.key, p.value); err != nil {
			return err
		}
	}
	if p.kind == keys.KindRangeDelete {
		m.tombs.Add(p.key, p.value, seq)
		return nil
	}
	return m.mem.Add(p.key, keys.Pack(seq, p.kind), p.value, p.prefixLen, p.hash)
}

// makeRoom switches memtables that are full or too small for the group, and waits
// where too many wait for their flush.
func (db *DB) makeRoom(g *commitGroup) error {
	if err := db.limitLogs(); err != nil {
		return err
	}
	if db.buffers != nil {
		if err := db.obeyManager(g.requests[0].noSlowdown); err != nil {
			return err
		}
	}
	for _, r := range g.requests {
		for i := range r.batch.use {
			u := &r.batch.use[i]
			cf := u.cf
			if cf == nil {
				cf = db.defaultCF
			}
			need := batchBytes(u)
			if len(g.requests) > 1 {
				need = g.need(cf)
			}
			if !cf.active.full(cf.mutable().WriteBufferSize) && db.roomBeside(cf, need) && !db.stalled.Load() {
				continue
			}
			if err := db.makeRoomIn(cf, need, g.requests[0].noSlowdown); err != nil {
				return err
			}
		}
	}
	return nil
}

// batchBytes is how many bytes of arena a batch may take in a family.
func batchBytes(u *familyUse) int64 { return memtable.BatchBytes(u.entries, u.bytes) }

// need is how many bytes of arena the whole group may take in a family.
func (g *commitGroup) need(cf *ColumnFamily) int64 {
	var entries int
	var bytes int64
	for _, r := range g.requests {
		for i := range r.batch.use {
			if u := &r.batch.use[i]; u.cf == cf || (u.cf == nil && cf.id == 0) {
				entries += u.entries
				bytes += u.bytes
			}
		}
	}
	return memtable.BatchBytes(entries, bytes)
}

// fail records the first write-side failure. From then on every write returns it.
func (db *DB) fail(op string, cause error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.failLocked(op, cause)
}

func (db *DB) failLocked(op string, cause error) error {
	if db.background == nil {
		db.errorCount.Add(1)
		var ignored bool
		if cause, ignored = db.overrideLocked(op, cause); ignored || db.background != nil {
			return cause
		}
		b := &backgroundError{op, cause}
		db.background = b
		db.log.Error("background error: writes are refused until the database is resumed or reopened", "op", op, "err", cause)
		if mmapfs.IsNoSpace(cause) && b.recoverable() {
			db.resumeLaterLocked()
		}
		db.stalled.Store(true) // sends writers through makeRoomIn, which refuses
		db.work.Broadcast()
	}
	return db.background
}

package blockcache

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/internal/tracebuf"
	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// TraceOptions configures a Tracer.
type TraceOptions struct {
	// Every keeps one of so many blocks, with all of their accesses; 0 and 1 keep all.
	Every uint64
	// MaxBytes ends the trace when the file has that size; zero means 64 GiB.
	MaxBytes uint64
	// BufferBytes is the memory for accesses that have not been written; zero means 64 MiB.
	BufferBytes int64
}

// ErrTracing matches the refusal of a second trace at a time.
var ErrTracing = errors.New("blockcache: a trace is being written already")

// ErrClosed matches the refusal of a trace of a closed cache.
var ErrClosed = errors.New("blockcache: closed")

// FileInfo is what traces say about a file.
type FileInfo struct {
	Family uint64
	Name   string // of the family
	Level  uint32
	Number uint64 // of the file: with the offset it names a block in traces, across restarts
}

// files is what traces say about the files that have blocks in the cache.
type files struct {
	mu        sync.Mutex
	byID      map[uint64]FileInfo
	tracing   bool     // from before the first access of a trace to after its last is written
	forgotten []uint64 // dead files that the tracer may still have to name
}

// Describe says what traces are to say about the file with a file id, until Forget.
func (c *Cache) Describe(id uint64, f FileInfo) {
	c.files.mu.Lock()
	defer c.files.mu.Unlock()
	if c.files.byID == nil {
		c.files.byID = map[uint64]FileInfo{}
	}
	c.files.byID[id] = f
}

// Described is of how many files traces would know something.
func (c *Cache) Described() int {
	c.files.mu.Lock()
	defer c.files.mu.Unlock()
	return len(c.files.byID)
}

// undescribe drops what is known of a file that nobody reads any more, once the
// tracer has named it for the last time.
func (c *Cache) undescribe(id uint64) {
	c.files.mu.Lock()
	defer c.files.mu.Unlock()
	if c.files.tracing {
		c.files.forgotten = append(c.files.forgotten, id)
		return
	}
	delete(c.files.byID, id)
}

// Access is one access of a block, for Tracer.Add.
type Access struct {
	File, Offset uint64 // the block's Key
	Type         tracefile.Type
	Caller       table.Caller
	Hit          bool
	NoInsert     bool
	Size         int // bytes that the block takes in the cache

	// For point reads.
	FromSnapshot bool
	GetID        uint64 // links the accesses of one Get; zero at the first, which sets it

	// For point reads of data blocks.
	Exists   bool
	DataSize int
	Keys     int // in the block
}

// The flags of an access in a buffer.
const (
	flagHit = 1 << iota
	flagNoInsert
	flagSnapshot
	flagExists
)

// accessLen is the size of an access in a buffer, without its key:
//
//	fixed64 file id ‖ fixed64 offset ‖ fixed64 get ‖ fixed32 size ‖ fixed32 data size ‖
//	fixed32 keys ‖ type ‖ caller ‖ flags ‖ zero ‖ user key ‖ [fixed64 trailer]
const accessLen = 40

// Tracer writes a block cache trace. Readers add to it without waiting for anything; see
// internal/tracebuf.
type Tracer struct {
	cache     *Cache
	threshold uint64
	every     uint64
	buf       *tracebuf.Collector
	out       *tracefile.Output // but for Full and Bytes the collector's goroutine's
	_         [128]byte         // readers come to what is above

	// Owned by the collector's goroutine.
	base  uint64 // microseconds at the collector's start
	files [tracedFiles]tracedFile
	looks uint64 // at the buffers
	key   [tracefile.BlockKeyLen]byte
	gets  getNumbers
	dead  []uint64 // file ids to be dropped at the next pause
	added uint64   // accesses in out

	records atomic.Uint64 // added, as of the last pause
}

// tracedFiles is how many files the writer of a trace remembers: a power of two.
const tracedFiles = 256

// tracedFile is what the writer knows about a file. A level may change, so that it
// is good for one look at the buffers.
type tracedFile struct {
	id, look uint64
	number   uint64
	fixed    []byte // see tracefile.AppendBlockFile
}

// Summary is what a trace has got so far.
type Summary struct {
	Records uint64 // accesses in the file
	Dropped uint64 // accesses that are missing, as they came faster than they could be written
	Bytes   uint64 // of the file
	Full    bool   // the file has reached its greatest size
}

// StartTrace begins to trace the accesses that Tracer.Add is told of. w is written to
// by one goroutine, until EndTrace.
func (c *Cache) StartTrace(o TraceOptions, w io.Writer) error {
	c.traceMu.Lock()
	defer c.traceMu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.tracer.Load() != nil {
		return ErrTracing
	}
	t := &Tracer{cache: c, threshold: tracefile.Threshold(o.Every), every: max(o.Every, 1), looks: 1, base: uint64(time.Now().UnixMicro())}
	t.gets.every, t.gets.start = t.every, c.pointReads()
	var err error
	if t.out, err = tracefile.NewOutput(w, o.MaxBytes, tracefile.AppendBlockHeader(nil, t.base)); err != nil {
		return err
	}
	if t.buf, err = tracebuf.New(o.BufferBytes, t); err != nil {
		return errors.Join(err, t.out.End(nil))
	}
	c.files.mu.Lock()
	c.files.tracing = true
	c.files.mu.Unlock()
	c.tracer.Store(t)
	return nil
}

// EndTrace ends the trace, and returns what kept it from being written. Nothing is
// written after it. Without a trace it does nothing.
func (c *Cache) EndTrace() (Summary, error) {
	c.traceMu.Lock()
	defer c.traceMu.Unlock()
	return c.endTrace()
}

func (c *Cache) endTrace() (Summary, error) {
	t := c.tracer.Load()
	if t == nil {
		return Summary{}, nil
	}
	c.tracer.Store(nil)
	t.buf.Close()
	err := t.out.End(nil)
	c.files.mu.Lock()
	for _, id := range append(c.files.forgotten, t.dead...) {
		delete(c.files.byID, id)
	}
	c.files.forgotten, c.files.tracing = nil, false
	c.files.mu.Unlock()
	return t.summary(), err
}

// TraceSummary describes the trace that is being written; ok is false if there is none.
func (c *Cache) TraceSummary() (s Summary, ok bool) {
	t := c.tracer.Load()
	if t == nil {
		return s, false
	}
	return t.summary(), true
}

func (t *Tracer) summary() Summary {
	return Summary{Records: t.records.Load(), Dropped: t.buf.Dropped(), Bytes: t.out.Bytes(), Full: t.out.Full()}
}

// Tracer is the trace that is being written, nil for none. It costs the load of a word
// beside those that every lookup loads.
func (c *Cache) Tracer() *Tracer { return c.tracer.Load() }

// Samples reports whether the trace has the block of a file, by its number, at an offset.
func (t *Tracer) Samples(number, offset uint64) bool {
	return (t.every == 1 || tracefile.BlockHash(number, offset) <= t.threshold) && !t.out.Full()
}

// Add adds an access, for point reads with the key that they referred to. It does not
// allocate, wait or keep anything.
func (t *Tracer) Add(a *Access, userKey []byte, trailer uint64) {
	n := accessLen
	if a.Caller.PointRead() {
		n += len(userKey) + 8
	}
	s := t.buf.Reserve(n)
	if !s.OK() {
		return
	}
	b := s.Payload[:accessLen]
	if a.GetID == 0 && n > accessLen {
		a.GetID = s.Serial()
	}
	binary.LittleEndian.PutUint64(b, a.File)
	binary.LittleEndian.PutUint64(b[8:], a.Offset)
	binary.LittleEndian.PutUint64(b[16:], a.GetID)
	binary.LittleEndian.PutUint32(b[24:], uint32(a.Size))
	binary.LittleEndian.PutUint32(b[28:], uint32(a.DataSize))
	binary.LittleEndian.PutUint32(b[32:], uint32(a.Keys))
	flags := bit(a.Hit, flagHit) | bit(a.NoInsert, flagNoInsert) | bit(a.FromSnapshot, flagSnapshot) | bit(a.Exists, flagExists)
	binary.LittleEndian.PutUint32(b[36:], uint32(a.Type)|uint32(a.Caller)<<8|uint32(flags)<<16)
	if n > accessLen {
		k := s.Payload[accessLen:]
		copy(k, userKey)
		binary.LittleEndian.PutUint64(k[len(k)-8:], trailer)
	}
	s.Publish()
}

func bit(b bool, flag uint8) uint8 {
	if b {
		return flag
	}
	return 0
}

// Consume writes an access that Add took. It implements tracebuf.Consumer.
func (t *Tracer) Consume(nanos int64, b []byte) {
	if t.out.Full() {
		return
	}
	id := binary.LittleEndian.Uint64(b)
	f := &t.files[id%tracedFiles]
	if f.id != id || f.look != t.looks {
		t.describe(f, id)
	}
	what := binary.LittleEndian.Uint32(b[36:])
	flags := uint8(what >> 16)
	a := tracefile.BlockAccess{
		Micros: t.base + uint64(nanos)/1000, Type: tracefile.Type(what), Size: uint64(binary.LittleEndian.Uint32(b[24:])),
		BlockKey: tracefile.AppendBlockKey(t.key[:0], f.number, binary.LittleEndian.Uint64(b[8:])),
		Caller:   table.Caller(what >> 8), Hit: flags&flagHit != 0, NoInsert: flags&flagNoInsert != 0,
	}
	if len(b) > accessLen {
		a.GetID = t.gets.number(binary.LittleEndian.Uint64(b[16:]), t.buf.Share)
		a.FromSnapshot, a.KeyExists = flags&flagSnapshot != 0, flags&flagExists != 0
		a.ReferencedKey = b[accessLen:]
		a.DataSize, a.KeyCount = uint64(binary.LittleEndian.Uint32(b[28:])), uint64(binary.LittleEndian.Uint32(b[32:]))
	}
	if t.out.Added(tracefile.AppendBlockAccessOf(t.out.Pending(), f.fixed, &a), 0) {
		t.added++
	}
}

// describe finds out what to say about a file.
func (t *Tracer) describe(f *tracedFile, id uint64) {
	t.cache.files.mu.Lock()
	info, ok := t.cache.files.byID[id]
	t.cache.files.mu.Unlock()
	if !ok {
		info.Level = tracefile.UnknownLevel
	}
	f.id, f.look, f.number = id, t.looks, info.Number
	f.fixed = tracefile.AppendBlockFile(f.fixed[:0], info.Family, []byte(info.Name), info.Level, info.Number)
}

// Begin notes how far the cache has come. It implements tracebuf.Consumer.
func (t *Tracer) Begin(int64) {
	if t.every > 1 {
		t.gets.stretch(t.cache.pointReads())
	}
}

// Pause writes what is old. It implements tracebuf.Consumer.
func (t *Tracer) Pause() {
	t.out.Age()
	t.records.Store(t.added)
	// A level may have changed, and file ids that were forgotten before this look will not come again.
	t.looks++
	t.cache.files.mu.Lock()
	for _, id := range t.dead {
		delete(t.cache.files.byID, id)
	}
	t.dead = append(t.dead[:0], t.cache.files.forgotten...)
	t.cache.files.forgotten = t.cache.files.forgotten[:0]
	t.cache.files.mu.Unlock()
}

// getNumbers gives the Gets in a trace the numbers that the file shows. With all blocks
// traced they are 1, 2, 3 … in the order of time. With a sample of the blocks the
// numbers go on as the cache's count of point reads of data blocks does, so that the
// last one tells how many of these a sample stands for: what the sample itself does not
// know when a few blocks are hot.
type getNumbers struct {
	every uint64
	given uint64            // the last number
	seen  [1 << 10]struct { // the latest Gets, by their serial numbers
		serial, number uint64
	}
	start        uint64 // the cache's count when the trace began
	count, after uint64 // the cache's counts between which the accesses of this look lie, less start
}

// stretch says up to which count of the cache the next accesses are.
func (g *getNumbers) stretch(count uint64) { g.count, g.after = g.after, count-g.start }

// number is what the file shows for the serial number of a Get; share is how far this look has
// come with it. The sample's own accesses say that better than time, in which they may
// be anywhere.
func (g *getNumbers) number(serial uint64, share func() float64) uint64 {
	s := &g.seen[serial*0x9E3779B97F4A7C15>>(64-10)]
	if s.serial == serial {
		return s.number
	}
	next := g.given + 1
	if g.every > 1 {
		next = max(next, g.count+uint64(share()*float64(g.after-g.count)))
	}
	g.given = next
	s.serial, s.number = serial, next
	return next
}

// pointReads counts the lookups of data blocks by point reads. It costs a walk over the
// stripes of the shards.
func (c *Cache) pointReads() (n uint64) {
	for _, s := range c.shards {
		for i := range s.stats.stripes {
			n += s.stats.stripes[i].hits[PointData].Load() + s.stats.stripes[i].misses[PointData].Load()
		}
	}
	return n
}

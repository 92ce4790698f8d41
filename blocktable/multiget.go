package blocktable

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Request is one key of a MultiGet, and its answer.
type Request struct {
	Look *keys.Lookup

	// The answer: what Get returns. Value is pinned by Pin.
	Value   []byte
	Trailer uint64
	Found   bool
	Err     error
	Pin     table.Pin
}

// maxReads bounds how many blocks one MultiGet reads at a time, and readSlots
// how many all of them do.
const maxReads = 16

var readSlots = make(chan struct{}, 64)

// multiState is the scratch of a MultiGet.
type multiState struct {
	getState
	wanted []wantedBlock
	groups []blockGroup

	traceID uint64 // of all keys of the call
}

// wantedBlock is a request and the block that may answer it.
type wantedBlock struct {
	h   block.Handle
	req int
}

// blockGroup is the requests [from, to) of wanted, which want the same block.
type blockGroup struct {
	from, to int
	ref      blockRef
	hit      bool // ref was in the cache
	err      error
}

var multiStates = sync.Pool{New: func() any { return new(multiState) }}

// MultiGet answers all requests, in stages over the whole batch so that cache
// misses and reads overlap: filters and index first, then every block once. Blocks
// that are not in the cache are read in parallel. Requests may come in any order.
func (r *Reader) MultiGet(reqs []Request) {
	m := multiStates.Get().(*multiState)
	if r.Faultable() {
		r.multiGetFaultable(m, reqs)
		return
	}
	r.multiGet(m, reqs)
}

// multiGetFaultable is MultiGet for a mapped file. A fault is the error of the requests that
// are not answered yet, and leaves nothing of the cache held but what the others pin.
func (r *Reader) multiGetFaultable(m *multiState, reqs []Request) {
	m.groups = m.groups[:0]
	m.index.open = false
	if err := r.multiGetGuarded(m, reqs); err != nil {
		m.index.close()
		for i := range m.groups {
			r.release(&m.groups[i].ref)
		}
		for i := range reqs {
			if q := &reqs[i]; !q.Found && q.Err == nil {
				q.Err = err
			}
		}
	}
}

func (r *Reader) multiGetGuarded(m *multiState, reqs []Request) (err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	r.multiGet(m, reqs)
	return nil
}

func (r *Reader) multiGet(m *multiState, reqs []Request) {
	o := fetchOptions{kind: blockcache.Data, fill: true, verify: r.opts.VerifyChecksums}
	if len(reqs) > 0 { // the same for all keys of a call
		o.perf = reqs[0].Look.Perf
		o.fill, o.verify = !reqs[0].Look.NoFill, o.verify && !reqs[0].Look.NoVerify
	}
	tracing := len(reqs) > 0 && r.tracer() != nil
	if tracing {
		m.traceID = reqs[0].Look.TraceID
		if r.partitioned {
			o.point = &m.point
		}
	}
	m.index.init(r, o)
	o.point = nil
	m.data.order, m.data.gseq, m.data.file = r.opts.Order, r.gseq, r.name
	m.wanted, m.groups = m.wanted[:0], m.groups[:0]
	for i := range reqs {
		q := &reqs[i]
		if tracing { // all of a MultiGet have one number
			q.Look.TraceID = m.traceID
		}
		may, err := r.mayContain(q.Look)
		if err == nil && may {
			if tracing {
				m.point.begin(q.Look)
			}
			if m.index.seekGE(q.Look.UserKey, q.Look.Trailer()) {
				h := m.index.handle()
				m.wanted = append(m.wanted, wantedBlock{h, i})
				if r.cache != nil {
					r.cache.Prefetch(r.cacheKey(h))
				}
			}
			err = m.index.err
			m.index.err = nil
			if tracing {
				q.Look.TraceID = m.point.id
			}
		}
		if tracing {
			m.traceID = q.Look.TraceID
		}
		q.Value, q.Trailer, q.Found, q.Err = nil, 0, false, err
	}
	slices.SortFunc(m.wanted, func(a, b wantedBlock) int {
		if a.h.Offset != b.h.Offset {
			return cmp.Compare(a.h.Offset, b.h.Offset)
		}
		return cmp.Compare(a.req, b.req)
	})
	for i := 0; i < len(m.wanted); {
		j := i + 1
		for j < len(m.wanted) && m.wanted[j].h == m.wanted[i].h {
			j++
		}
		m.groups = append(m.groups, blockGroup{from: i, to: j})
		i = j
	}
	r.fetchGroups(m, o)
	for i := range m.groups {
		r.answer(m, &m.groups[i], reqs, o)
	}
	for i := range reqs {
		if tracing {
			reqs[i].Look.TraceID = m.traceID
		}
	}
	m.index.close()
	clear(m.groups)
	m.data.b, m.data.hash, m.data.val = nil, nil, nil
	multiStates.Put(m)
}

// fetchGroups gets the block of each group: those in the cache, then the others
// side by side.
func (r *Reader) fetchGroups(m *multiState, o fetchOptions) {
	missing := 0
	for i := range m.groups {
		g := &m.groups[i]
		if r.cache != nil {
			h := m.wanted[g.from].h
			var ok bool
			if g.ref, ok = r.find(h, blockcache.PointData); ok {
				g.hit = true
				if o.perf != nil || r.opts.Statistics != nil {
					r.countHit(&g.ref, o.kind, o.perf, nil)
				}
				// The first that the search reads, asked for of all blocks.
				if b := g.ref.hint; len(b) > 0 {
					prefetch.Span(b, max(len(b)-hintAhead, 0), len(b))
				} else {
					prefetch.At(g.ref.data, 0)
					prefetch.At(g.ref.data, len(g.ref.data)-1)
				}
				continue
			}
		}
		missing++
	}
	if missing < 2 || r.inMemory {
		for i := range m.groups {
			if g := &m.groups[i]; g.ref.data == nil {
				g.ref, g.err = r.load(m.wanted[g.from].h, o)
			}
		}
		return
	}
	if p := o.perf; p != nil { // one goroutine at a time may count
		o.perf = nil
		for i := range m.groups {
			if g := &m.groups[i]; !g.hit {
				countLoads(p, o.kind, 1, m.wanted[g.from].h.Size+block.TrailerLen)
			}
		}
	}
	r.loadGroups(m.groups, m.wanted, o, missing)
}

// loadGroups reads the missing blocks with several goroutines.
func (r *Reader) loadGroups(groups []blockGroup, wanted []wantedBlock, o fetchOptions, missing int) {
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(groups) {
				return
			}
			if g := &groups[i]; g.ref.data == nil {
				g.ref, g.err = r.load(wanted[g.from].h, o)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(missing, maxReads) - 1 {
		select {
		case readSlots <- struct{}{}:
			wg.Go(func() {
				work()
				<-readSlots
			})
		default: // enough is being read already
		}
	}
	work()
	wg.Wait()
}

// answer searches a group's block for its requests.
func (r *Reader) answer(m *multiState, g *blockGroup, reqs []Request, o fetchOptions) {
	bad := g.err
	if g.ref.room != nil && r.sumLen == 0 {
		r.annotate(&g.ref)
	}
	ready := false // m.data is on the block
	for _, w := range m.wanted[g.from:g.to] {
		q := &reqs[w.req]
		if bad != nil {
			q.Err = bad
			continue
		}
		var value []byte
		var trailer uint64
		var found, goOn bool
		if r.sumLen != 0 {
			m.data.err = nil
			if value, trailer, found, goOn = r.searchProtected(&m.data, &g.ref, w.h, q.Look.UserKey, q.Look.Trailer()); m.data.err != nil {
				// Get drops the block and reads it again.
				q.Value, q.Trailer, q.Found, q.Err = r.Get(q.Look, &q.Pin)
				continue
			}
		} else {
			var verdict hintVerdict
			value, trailer, _, verdict = hintGet(g.ref.data, g.ref.hint, q.Look.UserKey, q.Look.Trailer(), r.indexFormat.userKeys)
			found, goOn = verdict == hintFound, verdict == hintNext
			if verdict == hintUnknown {
				if !ready && !m.data.init(g.ref.data, w.h.Offset) {
					bad = m.data.err
					q.Err = bad
					continue
				}
				ready = true
				found, goOn = m.data.get(q.Look.UserKey, q.Look.Trailer(), r.indexFormat.userKeys)
				value, trailer = m.data.val, m.data.trailer
				if m.data.err != nil {
					q.Err = m.data.err
					m.data.err = nil
					continue
				}
			}
		}
		if t := r.tracer(); t != nil && w == m.wanted[g.from] { // one lookup in the cache
			q.Look.TraceID = m.traceID
			r.tracedData(t, q.Look, w.h, &g.ref, g.hit, &o, found, trailer, value)
			m.traceID = q.Look.TraceID
		}
		switch {
		case found:
			r.countTruePositive(q.Look)
			q.Value, q.Trailer, q.Found = value, trailer, true
			if g.ref.hold != 0 {
				r.cache.Hold(g.ref.hold)
				q.Pin.Set(r.cache, uint64(g.ref.hold))
			}
		case goOn: // the versions of the key go on in the next block
			q.Value, q.Trailer, q.Found, q.Err = r.Get(q.Look, &q.Pin)
		}
	}
	r.release(&g.ref)
}

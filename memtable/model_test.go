package memtable

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/race"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

var allKinds = []Kind{SkipList, HashSkipList, HashLinkList, Vector}

// permuted orders bytes by a permutation; keys of one prefix stay neighbours.
type permuted struct{}

func (permuted) Name() string { return "test.Permuted" }
func (permuted) Compare(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i]*167, b[i]*167; x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}
func (permuted) AppendSeparator(dst, a, b []byte) []byte { return append(dst, a...) }
func (permuted) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

var allOrders = []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise), keys.NewOrder(permuted{})}

// newTest makes a memtable that is freed with the test. Under the race detector
// its memory is on the Go heap, since the detector does not watch mapped memory.
func newTest(t testing.TB, o Options) *MemTable {
	t.Helper()
	if o.Reserve == 0 {
		o.Reserve = 8 << 20
	}
	if !race.Enabled {
		m, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Free)
		return m
	}
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMemTable(o, newHeapMemory(o.Reserve, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m
}

func lookup(e *prefixhash.Extractor, key []byte, seq uint64) *keys.Lookup {
	look := &keys.Lookup{UserKey: key, Seq: seq}
	e.Prepare(look)
	return look
}

func add(m *MemTable, key []byte, trailer uint64, value []byte) error {
	n, h := m.extractor.Hash(key)
	return m.Add(key, trailer, value, n, h)
}

// entry and model are the sorted map that memtables are compared with.
type entry struct {
	key     []byte
	trailer uint64
	value   []byte
}

func (e entry) String() string {
	return fmt.Sprintf("%q#%d,%v=%q", e.key, keys.Seq(e.trailer), keys.KindOf(e.trailer), e.value)
}

type model struct {
	order   keys.Order
	entries []entry
}

func (m *model) search(key []byte, trailer uint64) int {
	return sort.Search(len(m.entries), func(i int) bool {
		e := m.entries[i]
		return m.order.CompareInternal(e.key, e.trailer, key, trailer) >= 0
	})
}

func (m *model) add(e entry) bool {
	i := m.search(e.key, e.trailer)
	if i < len(m.entries) && bytes.Equal(m.entries[i].key, e.key) && m.entries[i].trailer == e.trailer {
		return false
	}
	m.entries = slices.Insert(m.entries, i, e)
	return true
}

func (m *model) get(key []byte, seq uint64) (entry, bool) {
	i := m.search(key, keys.Pack(seq, keys.KindSeek))
	if i < len(m.entries) && bytes.Equal(m.entries[i].key, key) {
		return m.entries[i], true
	}
	return entry{}, false
}

// current is what an iterator stands on.
func current(it table.Iterator) string {
	if !it.Valid() {
		return "none"
	}
	return entry{it.UserKey(), it.Trailer(), it.Value()}.String()
}

func (m *model) at(i int) string {
	if i < 0 || i >= len(m.entries) {
		return "none"
	}
	return m.entries[i].String()
}

package memtable

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/race"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

var extractors = []*prefixhash.Extractor{nil, prefixhash.Fixed(2), prefixhash.Capped(2), prefixhash.Noop(), prefixhash.Fixed(0),
	prefixhash.Custom("test.OutsideUpperCase", func(key []byte) int {
		if len(key) == 0 || key[0] < 'a' {
			return -1
		}
		return 1
	})}

// randomKey makes keys of few letters and lengths, so that versions, shared
// prefixes and collisions abound, and some keys are outside of any domain.
func randomKey(rng *rand.Rand) []byte {
	key := make([]byte, rng.IntN(6))
	for i := range key {
		key[i] = []byte{0, 'A', 'a', 'b', 'z', 0xff}[rng.IntN(6)]
	}
	return key
}

var someKinds = []keys.Kind{keys.KindValue, keys.KindDelete, keys.KindMerge, keys.KindSingleDelete, keys.KindDeleteWithTimestamp}

// forAll runs f for every kind, order and extractor.
func forAll(t *testing.T, f func(t *testing.T, o Options)) {
	for _, kind := range allKinds {
		for _, order := range allOrders {
			for _, e := range extractors {
				o := Options{Kind: kind, Order: order, Extractor: e, Threshold: 3, BucketCount: 7, BranchingFactor: 2}
				name := fmt.Sprintf("%v/%s/%v", kind, order.Comparator().Name(), e)
				t.Run(name, func(t *testing.T) { f(t, o) })
				if kind != Vector && order.Bytewise() {
					o.FilterRatio = 0.1
					t.Run(name+"/filter", func(t *testing.T) { f(t, o) })
					o.WholeKeyFilter = true
					t.Run(name+"/whole key filter", func(t *testing.T) { f(t, o) })
				}
			}
		}
	}
}

func TestAgainstASortedMap(t *testing.T) {
	forAll(t, func(t *testing.T, o Options) {
		const seed = 7
		rng := rand.New(rand.NewPCG(seed, uint64(o.Kind)))
		m, mod := newTest(t, o), &model{order: o.Order}
		it := m.NewIterator() // one iterator that stays open, closed and renewed now and then
		itLen := 0
		var data, deletes int64
		writes := uint64(1500)
		if race.Enabled { // one goroutine: the detector only slows it down
			writes = 200
		}
		for seq := uint64(1); seq <= writes; seq++ {
			s := seq
			if rng.IntN(10) == 0 {
				s = 1 + rng.Uint64N(seq) // an old sequence number, sometimes a duplicate
			}
			e := entry{randomKey(rng), keys.Pack(s, someKinds[rng.IntN(len(someKinds))]), fmt.Appendf(nil, "v%d", seq)}
			if rng.IntN(30) == 0 && len(mod.entries) > 0 {
				e.key, e.trailer = mod.entries[rng.IntN(len(mod.entries))].key, mod.entries[rng.IntN(len(mod.entries))].trailer
			}
			err := add(m, e.key, e.trailer, e.value)
			if mod.add(e) {
				if err != nil {
					t.Fatalf("seed %d: Add(%v) = %v", seed, e, err)
				}
				data += int64(len(e.key) + len(e.value))
				if k := keys.KindOf(e.trailer); k != keys.KindValue && k != keys.KindMerge {
					deletes++
				}
			} else if !errors.Is(err, ErrDuplicate) {
				t.Fatalf("seed %d: Add(%v) twice = %v", seed, e, err)
			}
			for range 3 {
				key, at := randomKey(rng), rng.Uint64N(seq+2)
				if rng.IntN(8) == 0 {
					at = keys.MaxSeq
				}
				want, wantOK := mod.get(key, at)
				look := lookup(o.Extractor, key, at)
				value, trailer, ok := m.Get(look)
				if ok != wantOK || ok && (trailer != want.trailer || !bytes.Equal(value, want.value)) {
					t.Fatalf("seed %d: Get(%q, %d) = %q, %#x, %v; want %v, %v", seed, key, at, value, trailer, ok, want, wantOK)
				}
				if sum := m.Touch(look) + m.TouchNode(look) + m.TouchAddNode(look.PrefixLen, look.Hash); sum == 0 && ok && m.kind != Vector {
					t.Fatalf("seed %d: nothing to touch for %q, which is there", seed, key)
				}
			}
			if rng.IntN(20) == 0 {
				it.Close()
				it, itLen = m.NewIterator(), len(mod.entries)
				walk(t, rng, m, it, mod, 60)
			}
			if rng.IntN(200) == 0 {
				m.MarkImmutable()
			}
		}
		if itLen == 0 {
			t.Fatal("no iterator was tried")
		}
		if m.Entries() != int64(len(mod.entries)) || m.DataBytes() != data || m.Deletes() != deletes {
			t.Errorf("Entries, DataBytes, Deletes = %d, %d, %d; want %d, %d, %d",
				m.Entries(), m.DataBytes(), m.Deletes(), len(mod.entries), data, deletes)
		}
		it.Close()
		it = m.NewIterator()
		checkWhole(t, it, mod)
		it.Close()
		it.Close()
	})
}

func checkWhole(t *testing.T, it table.Iterator, mod *model) {
	t.Helper()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if got := (entry{it.UserKey(), it.Trailer(), it.Value()}).String(); got != mod.at(i) {
			t.Fatalf("forward %d: %s, want %s", i, got, mod.at(i))
		}
		i++
	}
	if i != len(mod.entries) {
		t.Fatalf("forward: %d entries, want %d", i, len(mod.entries))
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		i--
		if got := (entry{it.UserKey(), it.Trailer(), it.Value()}).String(); got != mod.at(i) {
			t.Fatalf("backward %d: %s, want %s", i, got, mod.at(i))
		}
	}
	if i != 0 {
		t.Fatalf("backward: %d entries missing", i)
	}
}

// walk moves it at random, with at standing for the model's place.
func walk(t *testing.T, rng *rand.Rand, m *MemTable, it table.Iterator, mod *model, steps int) {
	t.Helper()
	at, log := -1, ""
	for range steps {
		key := randomKey(rng)
		trailer := keys.Pack(rng.Uint64N(1500), someKinds[rng.IntN(len(someKinds))])
		if rng.IntN(2) == 0 {
			trailer = keys.Pack(keys.MaxSeq, keys.KindSeek)
		}
		if len(mod.entries) > 0 && rng.IntN(3) == 0 {
			e := mod.entries[rng.IntN(len(mod.entries))]
			key, trailer = e.key, e.trailer
		}
		var ok bool
		switch op := rng.IntN(12); {
		case op == 0:
			log += fmt.Sprintf("SeekGE(%q,%#x) ", key, trailer)
			ok, at = it.SeekGE(key, trailer), mod.search(key, trailer)
		case op == 1:
			log += fmt.Sprintf("SeekLT(%q,%#x) ", key, trailer)
			ok, at = it.SeekLT(key, trailer), mod.search(key, trailer)-1
		case op == 2 && rng.IntN(3) == 0:
			log += "First "
			ok, at = it.First(), 0
		case op == 3 && rng.IntN(3) == 0:
			log += "Last "
			ok, at = it.Last(), len(mod.entries)-1
		case op <= 5:
			look := lookup(m.extractor, key, keys.MaxSeq)
			if look.PrefixLen < 0 {
				continue
			}
			log += fmt.Sprintf("SeekPrefixGE(%q,%#x) ", key, trailer)
			ok, at = it.SeekPrefixGE(look, trailer), mod.search(key, trailer)
			if at < len(mod.entries) {
				k := mod.entries[at].key
				n := m.extractor.PrefixLen(k)
				if n != look.PrefixLen || !bytes.Equal(k[:n], key[:n]) {
					at = -1
				}
			}
		case !it.Valid():
			continue
		case op <= 8:
			log += "Next "
			ok = it.Next()
			at++
		default:
			log += "Prev "
			ok = it.Prev()
			at--
		}
		if current(it) != mod.at(at) || ok != it.Valid() || it.Err() != nil {
			t.Fatalf("%s: at %s (%v), want %s", log, current(it), ok, mod.at(at))
		}
	}
}

func TestKeysOutsideTheDomainAreReachable(t *testing.T) {
	for _, kind := range []Kind{HashSkipList, HashLinkList} {
		m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(8), BucketCount: 4})
		if m.Kind() != kind || m.ConcurrentAdd() {
			t.Fatalf("%v became %v", kind, m.Kind())
		}
		for i, key := range []string{"", "short", "longenough", "sevenby", "eightby8"} {
			if err := add(m, []byte(key), keys.Pack(uint64(i+1), keys.KindValue), []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{"", "short", "longenough", "sevenby", "eightby8"} {
			v, _, ok := m.Get(lookup(m.extractor, []byte(key), 99))
			if !ok || string(v) != key {
				t.Errorf("%v: Get(%q) = %q, %v", kind, key, v, ok)
			}
		}
		if _, _, ok := m.Get(lookup(m.extractor, []byte("shor"), 99)); ok {
			t.Errorf("%v: found a key that is not there", kind)
		}
		it := m.NewIterator()
		got := ""
		for ok := it.First(); ok; ok = it.Next() {
			got += string(it.UserKey()) + ","
		}
		if got != ",eightby8,longenough,sevenby,short," {
			t.Errorf("%v: in order %s", kind, got)
		}
		it.Close()
	}
}

func TestFilterRulesOutAbsentKeys(t *testing.T) {
	for _, o := range []Options{
		{Kind: HashSkipList, Extractor: prefixhash.Fixed(8)},
		{Kind: HashLinkList, Extractor: prefixhash.Noop()},
		{Kind: SkipList, Extractor: prefixhash.Capped(8), FilterRatio: 1.0 / 128},
		{Kind: SkipList, FilterRatio: 1.0 / 128, WholeKeyFilter: true},
	} {
		o.Reserve = 8 << 20
		m := newTest(t, o)
		value := make([]byte, 100)
		n := 0
		// Not decimal keys: GetSliceHash maps many of those to one 32-bit hash.
		key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15) }
		for ; add(m, key(2*n), keys.Pack(uint64(n+1), keys.KindValue), value) == nil; n++ {
		}
		wrong := 0
		for i := range n {
			look := lookup(o.Extractor, key(2*i), keys.MaxSeq)
			if _, _, ok := m.Get(look); !ok {
				t.Fatalf("%v: lost %q", m.Kind(), look.UserKey)
			}
			look = lookup(o.Extractor, key(2*i+1), keys.MaxSeq)
			if m.mayHaveKey(look.UserKey, look.PrefixLen, look.Hash) {
				wrong++
			}
		}
		if n < 40_000 || wrong > n/20 {
			t.Errorf("%v: of %d absent keys %d pass the filter of a full memtable", m.Kind(), n, wrong)
		}
	}
	for _, o := range []Options{
		{Kind: SkipList, Extractor: prefixhash.Fixed(8)},
		{Kind: SkipList, FilterRatio: 0.1},
		{Kind: Vector, Extractor: prefixhash.Fixed(8), FilterRatio: 0.1, WholeKeyFilter: true},
		{Kind: SkipList, WholeKeyFilter: true},
	} {
		if m := newTest(t, o); m.filter.words != 0 || m.EmptyBytes() > 256 {
			t.Errorf("%+v has a filter", o)
		}
	}
}

func TestHashKindsWithoutExtractorAreSkipLists(t *testing.T) {
	for _, kind := range []Kind{HashSkipList, HashLinkList} {
		m := newTest(t, Options{Kind: kind})
		if m.Kind() != SkipList || !m.ConcurrentAdd() {
			t.Errorf("%v without an extractor is %v", kind, m.Kind())
		}
	}
}

// TestLinkedListBecomesASkipList fills one bucket and watches its state.
func TestLinkedListBecomesASkipList(t *testing.T) {
	const threshold = 20
	m := newTest(t, Options{Kind: HashLinkList, Extractor: prefixhash.Fixed(1), BucketCount: 1, Threshold: threshold})
	mod := &model{}
	for i := range 100 {
		if l := m.linkBucket(0); (l.height > 1) != (i > threshold) {
			t.Fatalf("with %d entries the bucket's height is %d", i, l.height)
		}
		state := m.linkHead(0).next(linkState)
		if want := math.MaxUint32 - uint32(i); i > 1 && i <= threshold && state != want || i <= 1 && state != 0 {
			t.Fatalf("with %d entries the state is %#x", i, state)
		}
		e := entry{fmt.Appendf(nil, "k%02d", i*37%100), keys.Pack(uint64(i), keys.KindValue), nil}
		if err := add(m, e.key, e.trailer, nil); err != nil {
			t.Fatal(err)
		}
		mod.add(e)
		for _, e := range mod.entries {
			if _, trailer, ok := m.Get(lookup(m.extractor, e.key, keys.MaxSeq)); !ok || trailer != e.trailer {
				t.Fatalf("with %d entries: Get(%q) = %#x, %v", i+1, e.key, trailer, ok)
			}
		}
	}
	tower := m.linkBucket(0)
	for level := 1; level < tower.height; level++ {
		n := 0
		for at := tower.head; at.next(level) != 0; at = m.at(at.next(level)) {
			n++
		}
		if n == 0 && level == 1 {
			t.Errorf("level %d is empty", level)
		}
	}
	it := m.NewIterator()
	checkWhole(t, it, mod)
	it.Close()
}

func TestFullArenaInsertsNothing(t *testing.T) {
	for _, kind := range allKinds {
		m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(2), Reserve: minReserve, Threshold: 3})
		mod := &model{}
		rng := rand.New(rand.NewPCG(3, 3))
		full := 0
		for i := uint64(1); full < 50; i++ {
			e := entry{fmt.Appendf(nil, "%05d", rng.IntN(99999)), keys.Pack(i, keys.KindValue), make([]byte, rng.IntN(200))}
			room := m.HasRoom(BatchBytes(1, int64(len(e.key)+len(e.value))))
			entries, data := m.Entries(), m.DataBytes()
			switch err := add(m, e.key, e.trailer, e.value); {
			case err == nil:
				mod.add(e)
			case !errors.Is(err, ErrFull) || room:
				t.Fatalf("%v: Add = %v although HasRoom = %v", kind, err, room)
			default:
				full++
				if m.Entries() != entries || m.DataBytes() != data {
					t.Fatalf("%v: a failed Add was counted", kind)
				}
				if _, _, ok := m.Get(lookup(m.extractor, e.key, keys.MaxSeq)); ok != (mod.has(e.key)) {
					t.Fatalf("%v: a failed Add is visible", kind)
				}
			}
			if m.UsedBytes() > m.size {
				t.Fatalf("%v: used %d of %d", kind, m.UsedBytes(), m.size)
			}
		}
		it := m.NewIterator()
		checkWhole(t, it, mod)
		it.Close()
	}
}

func (m *model) has(key []byte) bool {
	_, ok := m.get(key, keys.MaxSeq)
	return ok
}

// TestBatchesThatHaveRoomFit adds batches for as long as HasRoom lets them in.
func TestBatchesThatHaveRoomFit(t *testing.T) {
	for _, kind := range allKinds {
		m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(1), Reserve: 256 << 10, Threshold: 3, SkipListHeight: 12, BranchingFactor: 2})
		seq := uint64(0)
		for batch := 0; ; batch++ {
			n := 1 + batch%17
			key := fmt.Appendf(nil, "%c%d", 'a'+batch%20, batch)
			if !m.HasRoom(BatchBytes(n, int64(n*len(key)))) {
				break
			}
			for range n {
				seq++
				if err := add(m, key, keys.Pack(seq, keys.KindValue), nil); err != nil {
					t.Fatalf("%v: entry %d of a batch with room: %v", kind, seq, err)
				}
			}
		}
		if used := m.UsedBytes(); used < m.size*9/10 {
			t.Errorf("%v: turned away with %d of %d bytes used", kind, used, m.size)
		}
	}
}

func TestEntryTooLarge(t *testing.T) {
	m := newTest(t, Options{Kind: HashSkipList, Extractor: prefixhash.Fixed(1)})
	if err := add(m, make([]byte, maxKeyLen+1), 1, nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long key: %v", err)
	}
	if err := add(m, make([]byte, 9<<20), 1, nil); !errors.Is(err, ErrFull) {
		t.Errorf("key larger than the arena: %v", err)
	}
	if m.Entries() != 0 {
		t.Error("something was inserted")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{Kind: Vector + 1}); err == nil {
		t.Error("unknown kind")
	}
	if _, err := New(Options{Reserve: MaxReserve + 1}); err == nil {
		t.Error("reserve beyond the reach of links")
	}
	o, err := Options{Kind: HashSkipList, Extractor: prefixhash.Noop(), Reserve: 1 << 20}.withDefaults()
	if err != nil || o.BucketCount*skipBucketLen(o.SkipListHeight) > 1<<18 || o.BucketCount < 1<<13 {
		t.Errorf("buckets of a small arena: %d, %v", o.BucketCount, err)
	}
	for kind, name := range map[Kind]string{SkipList: "SkipListFactory", HashSkipList: "HashSkipListRepFactory",
		HashLinkList: "HashLinkListRepFactory", Vector: "VectorRepFactory", 9: "Kind(9)"} {
		if kind.String() != name {
			t.Errorf("Kind %d is %s", int(kind), kind)
		}
	}
}

// TestLinksReachTheEndOfTheLargestArena maps the whole reach and uses its end.
func TestLinksReachTheEndOfTheLargestArena(t *testing.T) {
	m, err := New(Options{Kind: HashLinkList, Extractor: prefixhash.Fixed(1), Reserve: MaxReserve, Threshold: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	for m.size-m.usedBytes() > 1<<20 { // address space only: nothing is touched
		if _, ok := m.alloc(uint32(min(m.size-m.usedBytes()-1<<20, 1<<31) &^ 7)); !ok {
			t.Fatal("no room")
		}
	}
	mod := &model{}
	for i := uint64(0); ; i++ {
		e := entry{fmt.Appendf(nil, "k%d", i*7919), keys.Pack(i, keys.KindValue), fmt.Appendf(nil, "%d", i)}
		if err := add(m, e.key, e.trailer, e.value); err != nil {
			break
		}
		mod.add(e)
		if i%1000 == 0 {
			if v, _, ok := m.Get(lookup(m.extractor, e.key, keys.MaxSeq)); !ok || !bytes.Equal(v, e.value) {
				t.Fatalf("Get(%q) = %q, %v", e.key, v, ok)
			}
		}
	}
	if len(mod.entries) < 10000 {
		t.Fatalf("only %d entries", len(mod.entries))
	}
	it := m.NewIterator()
	defer it.Close()
	checkWhole(t, it, mod)
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for _, kind := range allKinds {
		e := prefixhash.Fixed(4)
		m := newTest(t, Options{Kind: kind, Extractor: e, BucketCount: 1000})
		seq := uint64(0)
		key, value := []byte("00000000"), make([]byte, 100)
		put := func() {
			seq++
			k := seq * 7919 % 100000
			for i := range key {
				key[len(key)-1-i] = byte('0' + k%10)
				k /= 10
			}
			n, h := e.Hash(key)
			if err := m.Add(key, keys.Pack(seq, keys.KindValue), value, n, h); err != nil {
				t.Fatal(err)
			}
		}
		for range 5000 {
			put()
		}
		look := lookup(e, bytes.Clone(key), keys.MaxSeq)
		check := func(what string, f func()) {
			t.Helper()
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%v: %s allocates %v times", kind, what, n)
			}
		}
		check("Add", put)
		m.MarkImmutable()
		check("Get", func() {
			if _, _, ok := m.Get(look); !ok {
				t.Fatal("not found")
			}
		})
		it := m.NewIterator()
		defer it.Close()
		it.First()
		check("Next", func() { it.Next() })
		check("Prev", func() { it.Prev() })
		check("SeekGE", func() { it.SeekGE(look.UserKey, look.Trailer()) })
		check("SeekLT", func() { it.SeekLT(look.UserKey, look.Trailer()) })
		check("SeekPrefixGE", func() { it.SeekPrefixGE(look, look.Trailer()) })
	}
}

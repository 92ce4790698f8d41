package memtable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// checkRuns checks R1, R2 and the lengths of the current set.
func checkRuns(t *testing.T, m *MemTable) {
	t.Helper()
	set := m.currentRuns()
	defer set.release()
	seen := map[uint32]bool{}
	for i, r := range set.runs {
		if i > 0 && len(set.runs[i-1].links) <= 2*len(r.links) {
			t.Fatalf("run %d has %d links after one of %d", i, len(r.links), len(set.runs[i-1].links))
		}
		for j, link := range r.links {
			if seen[link] {
				t.Fatalf("link %d twice", link)
			}
			seen[link] = true
			if j > 0 && m.compareLinks(r.links[j-1], link) >= 0 {
				t.Fatalf("run %d is out of order at %d", i, j)
			}
		}
	}
	if len(seen) != int(set.entries) {
		t.Fatalf("%d links for %d entries", len(seen), set.entries)
	}
	link, skip := uint32(m.newest.Load()), uint32(m.newest.Load()>>32)-set.entries
	for ; link != 0; link = m.at(link).older() {
		if skip > 0 {
			skip--
		} else if !seen[link] {
			t.Fatalf("link %d is in no run", link)
		}
	}
}

func TestRunsMergeGeometrically(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, kind := range []Kind{HashSkipList, HashLinkList, Vector} {
		m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(4), Reserve: 16 << 20})
		seq := uint64(0)
		for round := range 400 {
			for range 1 + rng.IntN(1<<rng.IntN(8)) {
				seq++
				if err := add(m, fmt.Appendf(nil, "%08d", rng.IntN(1e8)), keys.Pack(seq, keys.KindValue), nil); err != nil {
					t.Fatal(err)
				}
			}
			it := m.NewIterator()
			if !it.First() {
				t.Fatal("nothing there")
			}
			it.Close()
			if round%50 == 0 {
				checkRuns(t, m)
			}
		}
		checkRuns(t, m)
		set := m.currentRuns()
		if set.entries != uint32(seq) || len(set.runs) > 16 {
			t.Errorf("%v: %d runs for %d of %d entries", kind, len(set.runs), set.entries, seq)
		}
		set.release()
		if got := m.RunBytes(); got != 4*int64(seq) {
			t.Errorf("%v: runs take %d bytes for %d entries: replaced ones were not freed", kind, got, seq)
		}
	}
}

// TestReplacedRunsLiveWhileAnIteratorUsesThem holds iterators over sets of every age.
func TestReplacedRunsLiveWhileAnIteratorUsesThem(t *testing.T) {
	e := prefixhash.Fixed(2)
	o, err := Options{Kind: HashSkipList, Extractor: e, Reserve: 64 << 20}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(6, 6))
	const batch = offHeapLinks // so that runs are mapped memory, which would fault if freed early
	seq := uint64(0)
	its := []interface {
		First() bool
		Next() bool
		Close() error
	}{}
	for range 6 {
		for range batch {
			seq++
			if err := add(m, fmt.Appendf(nil, "%09d", rng.IntN(1e9)), keys.Pack(seq, keys.KindValue), nil); err != nil {
				t.Fatal(err)
			}
		}
		it := m.NewIterator()
		it.First()
		its = append(its, it)
	}
	held := m.RunBytes()
	for i, it := range its {
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		if n != (i+1)*batch {
			t.Errorf("iterator %d sees %d entries", i, n)
		}
		it.Close()
	}
	if got := m.RunBytes(); got >= held || got != 4*int64(seq) {
		t.Errorf("runs take %d bytes after Close, %d before", got, held)
	}
	counter := &m.runs.bytes
	m.Free()
	if got := counter.Load(); got != 0 {
		t.Errorf("%d bytes of runs after Free", got)
	}
}

func TestSortLinksInChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, order := range allOrders {
		m := newTest(t, Options{Kind: Vector, Order: order})
		var links []uint32
		for seq := uint64(1); seq <= 3000; seq++ {
			key := append([]byte("common/prefix/"), randomKey(rng)...)
			if seq%100 == 0 {
				key = key[:rng.IntN(len(key))]
			}
			if err := add(m, key, keys.Pack(seq, keys.KindValue), nil); err != nil {
				t.Fatal(err)
			}
			links = append(links, uint32(m.newest.Load()))
		}
		want := slices.Clone(links)
		slices.SortFunc(want, m.compareLinks)
		for _, chunk := range []int{1, 2, 7, 64, 1000, 2999, 3000, 1 << 20} {
			got := slices.Clone(links)
			m.sortLinks(got, chunk)
			if !slices.Equal(got, want) {
				t.Fatalf("%s: chunks of %d are not merged in order", order.Comparator().Name(), chunk)
			}
			m.sortLinks(got, chunk) // sorted already
			if !slices.Equal(got, want) {
				t.Fatal("sorting twice changed the order")
			}
		}
	}
}

func TestKeyHeadOrdersAsBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 20000 {
		a, b := make([]byte, rng.IntN(12)), make([]byte, rng.IntN(12))
		for i := range a {
			a[i] = byte(rng.IntN(3)) * 127
		}
		for i := range b {
			b[i] = byte(rng.IntN(3)) * 127
		}
		if x, y := keyHead(a), keyHead(b); x != y && (x < y) != (string(a) < string(b)) {
			t.Fatalf("%x and %x: heads %x and %x", a, b, x, y)
		}
	}
}

// TestPrefixSeekBuildsNoRuns: point lookups by iterator must stay in the bucket.
func TestPrefixSeekBuildsNoRuns(t *testing.T) {
	for _, kind := range []Kind{HashSkipList, HashLinkList} {
		m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(2), BucketCount: 3})
		for i := range 500 {
			if err := add(m, fmt.Appendf(nil, "%04d", i), keys.Pack(uint64(i+1), keys.KindValue), nil); err != nil {
				t.Fatal(err)
			}
		}
		it := m.NewIterator()
		look := lookup(m.extractor, []byte("0210"), keys.MaxSeq)
		n := 0
		for ok := it.SeekPrefixGE(look, look.Trailer()); ok; ok = it.Next() {
			if want := fmt.Sprintf("%04d", 210+n); string(it.UserKey()) != want {
				t.Fatalf("at %q, want %q", it.UserKey(), want)
			}
			if built := m.runs.set.Load().entries != 0; built != (n >= 90) {
				t.Fatalf("%v: after %d steps, runs built: %v", kind, n, built)
			}
			n++
		}
		if n != 290 {
			t.Errorf("%v: walked %d entries", kind, n)
		}
		if it.SeekPrefixGE(lookup(m.extractor, []byte("99"), keys.MaxSeq), look.Trailer()) || it.Valid() {
			t.Errorf("%v: found a prefix that is not there", kind)
		}
		it.Close()
	}
}

package plaintable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// model is an iterator over a sorted slice.
type model struct {
	order keys.Order
	rows  []entry
	at    int // len(rows) when past the end, -1 before the start
}

func (m *model) seek(key []byte, trailer uint64) int {
	i, _ := slices.BinarySearchFunc(m.rows, entry{key: key, trailer: trailer}, func(a, b entry) int {
		return m.order.CompareInternal(a.key, a.trailer, b.key, b.trailer)
	})
	return i
}

// checkPosition compares the iterator with row i of the model, if there is one.
func checkPosition(t *testing.T, what string, it table.Iterator, ok bool, rows []entry, i int) {
	t.Helper()
	want := i >= 0 && i < len(rows)
	if ok != want || it.Valid() != want || it.Err() != nil {
		t.Fatalf("%s: expected valid %t, found %t, %t, error %v", what, want, ok, it.Valid(), it.Err())
	}
	if !want {
		return
	}
	r := rows[i]
	if !bytes.Equal(it.UserKey(), r.key) || it.Trailer() != r.trailer || !bytes.Equal(it.Value(), r.value) {
		t.Fatalf("%s: expected row %d %x %x, found %x %x", what, i, r.key, r.trailer, it.UserKey(), it.Trailer())
	}
}

// walkRandomly drives an iterator and a model by the same random steps.
func walkRandomly(t *testing.T, name string, r *Reader, order keys.Order, rows []entry, rng *rand.Rand, steps int) {
	t.Helper()
	m := &model{order: order, rows: rows, at: -1}
	it := r.NewIterator(table.IterOptions{})
	defer it.Close()
	target := func() ([]byte, uint64) {
		var key []byte
		seq := rng.Uint64N(200)
		if len(rows) > 0 {
			p := rows[rng.IntN(len(rows))]
			key = bytes.Clone(p.key)
			if rng.IntN(2) == 0 {
				seq = keys.Seq(p.trailer) + rng.Uint64N(2)
			}
		}
		if rng.IntN(3) == 0 && len(key) > 0 {
			key[rng.IntN(len(key))] ^= byte(1 << rng.IntN(8))
		}
		if rng.IntN(10) == 0 {
			key = key[:rng.IntN(len(key)+1)]
		}
		return key, keys.Pack(seq, keys.KindSeek)
	}
	for step := range steps {
		what := fmt.Sprintf("%s step %d", name, step)
		op := rng.IntN(9)
		if !it.Valid() && (op == 5 || op >= 6) {
			op = rng.IntN(5)
		}
		switch op {
		case 0:
			m.at = 0
			checkPosition(t, what+" First", it, it.First(), rows, m.at)
		case 1:
			m.at = len(rows) - 1
			checkPosition(t, what+" Last", it, it.Last(), rows, m.at)
		case 2:
			key, trailer := target()
			m.at = m.seek(key, trailer)
			checkPosition(t, fmt.Sprintf("%s SeekGE(%x, %x)", what, key, trailer), it, it.SeekGE(key, trailer), rows, m.at)
		case 3:
			key, trailer := target()
			m.at = m.seek(key, trailer) - 1
			checkPosition(t, fmt.Sprintf("%s SeekLT(%x, %x)", what, key, trailer), it, it.SeekLT(key, trailer), rows, m.at)
		case 4:
			look := keys.Lookup{}
			var trailer uint64
			look.UserKey, trailer = target()
			r.o.Extractor.Prepare(&look)
			if look.PrefixLen < 0 {
				continue
			}
			i := m.seek(look.UserKey, trailer)
			if i < len(rows) {
				n, _ := r.o.Extractor.Hash(rows[i].key)
				if n != look.PrefixLen || !bytes.Equal(rows[i].key[:n], look.UserKey[:n]) {
					i = len(rows)
				}
			}
			m.at = i
			checkPosition(t, fmt.Sprintf("%s SeekPrefixGE(%x, %x)", what, look.UserKey, trailer), it, it.SeekPrefixGE(&look, trailer), rows, m.at)
		case 5, 6:
			m.at++
			checkPosition(t, what+" Next", it, it.Next(), rows, m.at)
		default:
			m.at--
			checkPosition(t, what+" Prev", it, it.Prev(), rows, m.at)
		}
	}
}

func TestGoldenIteratorsAgreeWithAModelInBothDirections(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, g := range loadGolden(t) {
		for _, memory := range []mmapfs.Memory{mmapfs.MemoryResident, mmapfs.MemoryNone} {
			o := g.readerOptions(t)
			o.Memory = memory
			r := openReader(t, g.File, g.bytes, o)
			rows := collect(t, r)
			walkRandomly(t, g.File, r, o.Order, rows, rng, 3000)
			it := r.NewIterator(table.IterOptions{})
			i := len(rows) - 1
			for ok := it.Last(); ok; ok = it.Prev() {
				checkPosition(t, g.File+" backward", it, true, rows, i)
				i--
			}
			if i != -1 {
				t.Fatalf("%s: expected to come to the first row, stopped before row %d", g.File, i)
			}
		}
	}
}

// TestOurFilesAnswerLikeAModel covers every combination of encoding, key length,
// extractor, order, bloom, index and layout with random data.
func TestOurFilesAnswerLikeAModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	extractors := []*prefixhash.Extractor{nil, prefixhash.Fixed(4), prefixhash.Capped(6), prefixhash.Noop(), prefixhash.Custom("test.LastColon", afterColon)}
	orders := []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise), keys.NewOrder(plainComparator{})}
	for i := range 120 {
		o := WriterOptions{Options: DefaultOptions()}
		o.Extractor = extractors[i%len(extractors)]
		o.Order = orders[i/5%len(orders)]
		o.EncodingType = EncodingType(i / 15 % 2)
		if i/30%2 == 1 {
			o.UserKeyLen = uint32([]int{4, 8, 16}[rng.IntN(3)])
		}
		o.StoreIndexInFile = rng.IntN(4) > 0
		o.BloomBitsPerKey = []int{0, 3, 10}[rng.IntN(3)]
		o.BloomLocality = uint32(rng.IntN(2))
		o.IndexSparseness = []int{0, 1, 3, 16}[rng.IntN(4)]
		o.HashTableRatio = []float64{0, 0.2, 0.75, 3}[rng.IntN(4)]
		o.ChunkChecksums = rng.IntN(2) == 0
		o.RocksDBLayout = rng.IntN(3) == 0
		if o.Extractor == nil {
			o.HashTableRatio = 0
		}
		rows := randomRows(rng, o, rng.IntN(400))
		b, sum := writeTable(t, o, rows)
		checkSummary(t, sum, rows)
		ro := ReaderOptions{Options: o.Options, Order: o.Order, Extractor: o.Extractor, BloomLocality: uint32(rng.IntN(2)), Verify: VerifyAtOpen}
		ro.Memory = []mmapfs.Memory{mmapfs.MemoryNone, mmapfs.MemoryPopulate, mmapfs.MemoryResident}[rng.IntN(3)]
		r := openReader(t, "000007.sst", b, ro)
		name := fmt.Sprintf("file %d %+v", i, o)
		got := collect(t, r)
		if len(got) != len(rows) {
			t.Fatalf("%s: expected %d rows, found %d", name, len(rows), len(got))
		}
		checkGets(t, name, r, rows, lookups(rng, rows))
		walkRandomly(t, name, r, o.Order, rows, rng, 800)
		if err := r.Load(mmapfs.MemoryResident, Placement{}); err != nil {
			t.Fatal(err)
		}
		if r.CanFault() {
			t.Fatalf("%s: expected a resident file after Load", name)
		}
		checkGets(t, name, r, rows, lookups(rng, rows))
		walkRandomly(t, name, r, o.Order, rows, rng, 200)
	}
}

func checkSummary(t *testing.T, sum table.Summary, rows []entry) {
	t.Helper()
	if sum.Entries != uint64(len(rows)) {
		t.Fatalf("expected %d entries, found %d", len(rows), sum.Entries)
	}
	if len(rows) == 0 {
		return
	}
	first, last := rows[0], rows[len(rows)-1]
	if !bytes.Equal(sum.SmallestUserKey, first.key) || sum.SmallestTrailer != first.trailer ||
		!bytes.Equal(sum.LargestUserKey, last.key) || sum.LargestTrailer != last.trailer {
		t.Fatalf("expected bounds %x %x to %x %x, found %+v", first.key, first.trailer, last.key, last.trailer, sum)
	}
	var deletes, rawKeys, rawValues uint64
	low, high := keys.MaxSeq, uint64(0)
	for _, r := range rows {
		low, high = min(low, keys.Seq(r.trailer)), max(high, keys.Seq(r.trailer))
		if k := keys.KindOf(r.trailer); k == keys.KindDelete || k == keys.KindSingleDelete {
			deletes++
		}
		rawKeys += uint64(len(r.key) + 8)
		rawValues += uint64(len(r.value))
	}
	if sum.SmallestSeq != low || sum.LargestSeq != high || sum.Deletes != deletes || sum.RawKeySize != rawKeys || sum.RawValueSize != rawValues {
		t.Fatalf("expected seq %d to %d, %d deletes, raw %d and %d, found %+v", low, high, deletes, rawKeys, rawValues, sum)
	}
}

// afterColon is a prefix up to the first colon; keys without one are outside.
func afterColon(key []byte) int {
	return bytes.IndexByte(key, ':') + 1 - b2i(bytes.IndexByte(key, ':') < 0)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// plainComparator is the byte order as a custom comparator, so that the paths
// that need a key in one piece run.
type plainComparator struct{}

func (plainComparator) Name() string                            { return "test.Plain" }
func (plainComparator) Compare(a, b []byte) int                 { return bytes.Compare(a, b) }
func (plainComparator) AppendSeparator(dst, a, _ []byte) []byte { return append(dst, a...) }
func (plainComparator) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

// randomRows returns rows in the order of o, all in its extractor's domain, with
// several versions of some keys.
func randomRows(rng *rand.Rand, o WriterOptions, n int) []entry {
	kinds := []keys.Kind{keys.KindValue, keys.KindValue, keys.KindDelete, keys.KindMerge, keys.KindSingleDelete, keys.KindEntity}
	var rows []entry
	for range n {
		length := 5 + rng.IntN(20)
		if o.UserKeyLen != 0 {
			length = int(o.UserKeyLen)
		}
		key := make([]byte, length)
		for i := range key {
			key[i] = "ab:\xf0\xff"[rng.IntN(5)]
		}
		if rng.IntN(3) == 0 {
			copy(key, "aaaa:aaaa:aaaa")
		}
		if o.Extractor != nil && o.Extractor.PrefixLen(key) < 0 {
			key[rng.IntN(min(4, length))] = ':'
		}
		value := bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(300))
		seq := rng.Uint64N(150)
		for range 1 + rng.IntN(3)*rng.IntN(2) {
			rows = append(rows, entry{key, keys.Pack(seq, kinds[rng.IntN(len(kinds))]), value})
			seq += 1 + rng.Uint64N(9)
		}
	}
	cmp := func(a, b entry) int { return o.Order.CompareInternal(a.key, a.trailer, b.key, b.trailer) }
	slices.SortFunc(rows, cmp)
	return slices.CompactFunc(rows, func(a, b entry) bool { return cmp(a, b) == 0 })
}

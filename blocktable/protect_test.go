package blocktable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// flipTable is a small table whose blocks have several entries, restart points
// and, if asked for, several versions of keys.
func flipTable(t testing.TB, versions bool, change func(*WriterOptions)) (mmapfs.File, []entry) {
	t.Helper()
	fs := mmapfs.NewMem()
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("d/000008.sst")
	if err != nil {
		t.Fatal(err)
	}
	o := WriterOptions{Options: DefaultOptions(), CompressionOptions: DefaultCompressionOptions()}
	o.BlockSize, o.BlockRestartInterval, o.MetadataBlockSize = 300, 3, 100
	if change != nil {
		change(&o)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var all []entry
	for i := range 14 {
		key := fmt.Appendf(nil, "user%03d.name", 2*i)
		for v := range 3 {
			if v > 0 && !(versions && i%3 == 0) {
				break
			}
			value := make([]byte, 20+rng.IntN(20))
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			e := entry{key: key, trailer: keys.Pack(uint64(1000-10*v), keys.KindValue), value: value}
			if err := w.Add(e.key, e.trailer, e.value); err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if f, err = fs.Open("d/000008.sst"); err != nil {
		t.Fatal(err)
	}
	return keepOpen{f}, all
}

// outcome is what reads gave: wrong answers, and errors.
type outcome struct{ wrong, failed int }

func (o *outcome) add(err error, right bool) {
	switch {
	case err != nil && !errors.Is(err, keys.ErrCorruption):
		o.wrong++ // an error, but not one that says what happened
	case err != nil:
		o.failed++
	case !right:
		o.wrong++
	}
}

// readEverything reads all entries with Get, MultiGet and iterators, keys between them
// too, and counts.
func readEverything(r *Reader, all []entry) (o outcome) {
	get := func(key []byte, seq uint64, want *entry) {
		look := keys.Lookup{UserKey: key, Seq: seq}
		check := func(value []byte, trailer uint64, ok bool, err error) {
			o.add(err, ok == (want != nil) && (!ok || bytes.Equal(value, want.value) && trailer == want.trailer))
		}
		var pin table.Pin
		value, trailer, ok, err := r.Get(&look, &pin)
		check(value, trailer, ok, err)
		pin.Release()
		reqs := []Request{{Look: &look}}
		r.MultiGet(reqs)
		check(reqs[0].Value, reqs[0].Trailer, reqs[0].Found, reqs[0].Err)
		reqs[0].Pin.Release()
	}
	for i := range all {
		get(all[i].key, keys.Seq(all[i].trailer), &all[i])
		get(append(bytes.Clone(all[i].key), 'x'), keys.MaxSeq, nil)
	}
	get([]byte("a"), keys.MaxSeq, nil)
	get([]byte("z"), keys.MaxSeq, nil)

	is := func(it *Iterator, i int) bool {
		return it.Valid() && bytes.Equal(it.UserKey(), all[i].key) && it.Trailer() == all[i].trailer && bytes.Equal(it.Value(), all[i].value)
	}
	it := r.Iterate(table.IterOptions{})
	it.First()
	for i := range all {
		if o.add(it.Err(), is(it, i)); !is(it, i) {
			break
		}
		it.Next()
	}
	o.add(it.Err(), true)
	it.Last()
	for i := len(all) - 1; i >= 0; i-- {
		if o.add(it.Err(), is(it, i)); !is(it, i) {
			break
		}
		it.Prev()
	}
	o.add(it.Err(), true)
	for i := range all {
		it.SeekGE(all[i].key, all[i].trailer)
		o.add(it.Err(), is(it, i))
		it.SeekLT(all[i].key, all[i].trailer)
		o.add(it.Err(), i == 0 && !it.Valid() || i > 0 && is(it, i-1))
	}
	it.SeekGE([]byte("z"), 0)
	o.add(it.Err(), !it.Valid())
	it.Close()
	return o
}

// cachedBlocks are the bytes of the table's blocks of entries in the cache, with what lies behind them.
func cachedBlocks(t *testing.T, r *Reader) (blocks [][]byte) {
	add := func(h block.Handle, kind blockcache.BlockType) {
		hold, b := r.cache.Lookup(r.cacheKey(h), kind)
		if hold == 0 {
			t.Fatalf("the block at %d is not in the cache", h.Offset)
		}
		blocks = append(blocks, b)
		r.cache.Release(hold)
	}
	if r.partitioned {
		for i := range r.index.n {
			add(r.index.handle(i), blockcache.Index)
		}
	}
	var c indexCursor
	c.init(r, fetchOptions{verify: true, fill: true})
	defer c.close()
	for ok := c.first(); ok; ok = c.next() {
		add(c.handle(), blockcache.Data)
	}
	return blocks
}

var flipCases = map[string]struct {
	versions, cachedIndex bool
	change                func(*WriterOptions)
}{
	"plain":         {},
	"versions":      {versions: true},
	"compressed":    {change: func(o *WriterOptions) { o.Compression = compress.LZ4 }},
	"hash index":    {change: func(o *WriterOptions) { o.DataBlockIndexType = DataBlockBinaryAndHash }},
	"no checksum":   {change: func(o *WriterOptions) { o.Checksum = 0 }},
	"two levels":    {change: func(o *WriterOptions) { o.IndexType = TwoLevelIndexSearch }, versions: true},
	"cached index":  {cachedIndex: true, change: func(o *WriterOptions) { o.IndexBlockRestartInterval = 4 }},
	"first key":     {cachedIndex: true, change: func(o *WriterOptions) { o.IndexType = BinarySearchWithFirstKey }},
	"version 7":     {change: func(o *WriterOptions) { o.FormatVersion = 7 }},
	"no delta keys": {change: func(o *WriterOptions) { o.UseDeltaEncoding = false }},
}

// flipEach changes each byte of the cached blocks in turn and reads everything. after
// judges each outcome.
func flipEach(t *testing.T, protection int, noReread bool, name string, masks []byte, after func(at string, o outcome, told int)) {
	c := flipCases[name]
	f, all := flipTable(t, c.versions, c.change)
	cache, err := blockcache.New(blockcache.Options{Capacity: 4 << 20, EstimatedEntryCharge: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	told := 0
	r, err := Open(f, ReaderOptions{
		Cache: cache, CacheIndexAndFilterBlocks: c.cachedIndex, VerifyChecksums: true,
		Protection: protection, NoReread: noReread, OnDamage: func(error) { told++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	warm := func() [][]byte {
		for range 2 {
			if o := readEverything(r, all); o != (outcome{}) {
				t.Fatalf("%s: reads without damage: %+v", name, o)
			}
		}
		return cachedBlocks(t, r)
	}
	blocks := warm()
	for b := range blocks {
		for i := range blocks[b] {
			for _, mask := range masks {
				told = 0
				flipped := &blocks[b][i]
				*flipped ^= mask
				o := readEverything(r, all)
				after(fmt.Sprintf("%s, protection %d, block %d, byte %d of %d ^ %#x", name, protection, b, i, len(blocks[b]), mask), o, told)
				if told > 0 {
					blocks = warm() // the damaged block is gone
					continue
				}
				*flipped ^= mask
			}
		}
	}
	if p := cache.Stats().PinnedUsage; p != 0 {
		t.Errorf("%s: %d bytes are still pinned", name, p)
	}
}

// TestEveryFlipInACachedBlockIsCaught changes each byte that the cache holds for a table:
// blocks, hints, sums. Every answer is right, since the block is read again; with
// NoReread it is right or an error.
func TestEveryFlipInACachedBlockIsCaught(t *testing.T) {
	for name, c := range flipCases {
		for _, protection := range []int{1, 2, 4, 8} {
			if protection > 1 && name != "versions" && name != "cached index" ||
				testing.Short() && (protection > 1 || name != "versions" && name != "cached index") {
				continue
			}
			masks := []byte{0x01, 0x80}
			if protection != 1 || c.change != nil {
				masks = masks[:1]
			}
			for _, noReread := range []bool{false, true} {
				if noReread && (protection > 1 || c.change != nil) {
					continue
				}
				caught := 0
				flipEach(t, protection, noReread, name, masks, func(at string, o outcome, told int) {
					if o.wrong > 0 || o.failed > 0 && !noReread {
						t.Errorf("%s, NoReread %v: %+v", at, noReread, o)
					}
					if told > 0 {
						caught++
					}
				})
				if caught < 400 {
					t.Errorf("%s: only %d flips were noticed", name, caught)
				}
			}
		}
	}
}

// TestWithoutProtectionFlipsGoUnseen is the same with protection off: it gives
// wrong answers.
func TestWithoutProtectionFlipsGoUnseen(t *testing.T) {
	wrong := 0
	flipEach(t, 0, false, "plain", []byte{1}, func(_ string, o outcome, _ int) {
		if o.wrong > 0 {
			wrong++
		}
	})
	if wrong < 300 {
		t.Errorf("%d flips gave wrong answers without protection; expected most of those in keys and values", wrong)
	}
}

// TestFlipsUnderAnIteratorAreCaught changes a block that an iterator stands on and
// that is not in the cache.
func TestFlipsUnderAnIteratorAreCaught(t *testing.T) {
	f, all := flipTable(t, true, nil)
	for _, noReread := range []bool{false, true} {
		r, err := Open(f, ReaderOptions{VerifyChecksums: true, Protection: 1, NoReread: noReread})
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for i := 0; ; i++ {
			it := r.Iterate(table.IterOptions{})
			it.First()
			if i >= len(it.ref.data) {
				it.Close()
				break
			}
			it.ref.data[i] ^= 0x10
			for n := 1; it.Next(); n++ {
				if n >= len(all) || !bytes.Equal(it.UserKey(), all[n].key) || it.Trailer() != all[n].trailer || !bytes.Equal(it.Value(), all[n].value) {
					t.Fatalf("byte %d: entry %d is wrong", i, n)
				}
			}
			if it.Err() != nil {
				failed++
			}
			it.Close()
		}
		if noReread != (failed > 0) {
			t.Errorf("NoReread %v: %d scans failed", noReread, failed)
		}
		r.Close()
	}
}

// TestEveryFlipInTheIndexOfAReaderIsCaught changes the index that a Reader holds.
func TestEveryFlipInTheIndexOfAReaderIsCaught(t *testing.T) {
	for _, versions := range []bool{false, true} {
		f, all := flipTable(t, versions, nil)
		cache := benchCache(t, 4<<20)
		for _, protection := range []int{0, 1, 8} {
			r, err := Open(f, ReaderOptions{Cache: cache, VerifyChecksums: true, Protection: protection})
			if err != nil {
				t.Fatal(err)
			}
			wrong, failed := 0, 0
			readEverything(r, all)
			for i := range r.index.mem.b {
				if protection == 0 && i >= 8*r.index.n {
					break // where blocks lie is not for the unprotected
				}
				r.index.mem.b[i] ^= 0x40
				o := readEverything(r, all)
				r.index.mem.b[i] ^= 0x40
				if o.wrong > 0 {
					wrong++
				}
				if o.failed > 0 {
					failed++
				}
			}
			if protection == 0 != (wrong > 0) || protection > 0 && failed < 40 {
				t.Errorf("versions %v, protection %d: %d flips gave wrong answers, %d errors", versions, protection, wrong, failed)
			}
			r.Close()
		}
	}
}

// TestDamageErrorSaysWhere checks the text of the error.
func TestDamageErrorSaysWhere(t *testing.T) {
	f, all := flipTable(t, false, nil)
	cache := benchCache(t, 4<<20)
	r, err := Open(f, ReaderOptions{Cache: cache, VerifyChecksums: true, Protection: 2, NoReread: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	readEverything(r, all)
	readEverything(r, all)
	hold, b := cache.Lookup(blockcache.Key{File: r.cacheID, Offset: r.index.handle(1).Offset}, blockcache.Data)
	cache.Release(hold)
	at := bytes.Index(b, all[7].value)
	if at < 0 {
		t.Fatal("entry 7 is expected in block 1")
	}
	b[at] ^= 1
	look := keys.Lookup{UserKey: all[7].key, Seq: keys.MaxSeq}
	var pin table.Pin
	_, _, _, err = r.Get(&look, &pin)
	var damage *DamageError
	if !errors.As(err, &damage) || !errors.Is(err, keys.ErrCorruption) || damage.File != "000008.sst" ||
		damage.Offset != r.index.handle(1).Offset || damage.Kind != blockcache.Data || damage.Entry < 0 {
		t.Fatalf("the error of a damaged entry: %v", err)
	}
	// The block is gone from the cache: the next read has it from the file.
	value, _, ok, err := r.Get(&look, &pin)
	if err != nil || !ok || !bytes.Equal(value, all[7].value) {
		t.Fatalf("after the damaged block was dropped: %x, %v, %v", value, ok, err)
	}
	pin.Release()
}

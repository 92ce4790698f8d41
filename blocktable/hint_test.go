package blocktable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// TestHintsAnswerAsTheirBlocksDo compares every verdict of a hint with a search of
// the block, over blocks whose keys share prefixes of all lengths, end early, or
// come in several versions.
func TestHintsAnswerAsTheirBlocksDo(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	found, absent := 0, 0
	for round := range 800 {
		prefix := bytes.Repeat([]byte("p"), rng.IntN(20))
		count := 1 + rng.IntN(40)
		seen := map[string]bool{}
		var ks [][]byte
		for range count {
			k := append(bytes.Clone(prefix), make([]byte, rng.IntN(12))...)
			for i := len(prefix); i < len(k); i++ {
				k[i] = byte(rng.IntN(3)) * 127
			}
			if !seen[string(k)] {
				seen[string(k)] = true
				ks = append(ks, k)
			}
		}
		sortKeys(ks)
		b := block.NewBuilder(1 + rng.IntN(16))
		var listed []entry
		for _, k := range ks {
			for seq := uint64(1 + rng.IntN(3)*rng.IntN(2)); seq > 0; seq-- {
				v := bytes.Repeat([]byte{byte(seq)}, rng.IntN(200))
				b.Add(keys.AppendInternal(nil, k, keys.Pack(seq*10, keys.KindValue)), v)
				listed = append(listed, entry{key: k, trailer: keys.Pack(seq*10, keys.KindValue), value: v})
			}
		}
		raw := b.Finish()
		buf := append(bytes.Clone(raw), make([]byte, hintTail+rng.IntN(600))...)
		hint := buf[len(raw):]
		buildHint(buf[:len(raw):len(raw)], hint)
		if !bytes.Equal(buf[:len(raw)], raw) {
			t.Fatal("the hint overwrites the block")
		}
		probe := func(k []byte, seq uint64) {
			for _, whole := range []bool{true, false} {
				trailer := keys.Pack(seq, keys.KindSeek)
				value, tr, _, v := hintGet(buf[:len(raw)], hint, k, trailer, whole)
				if v == hintUnknown {
					continue
				}
				var d dataIter
				if !d.init(raw, 0) {
					t.Fatal(d.err)
				}
				ok, more := d.get(k, trailer, whole)
				switch {
				case v == hintFound:
					found++
					if !ok || tr != d.trailer || !bytes.Equal(value, d.val) {
						t.Fatalf("round %d: %x #%d: the hint finds #%x, the block %v #%x", round, k, seq, tr, ok, d.trailer)
					}
				default:
					absent++
					// The hint may send the search on where the block knows better.
					if ok || more && v != hintNext {
						t.Fatalf("round %d: %x #%d: the hint says %d, the block %v, %v", round, k, seq, v, ok, more)
					}
				}
			}
		}
		for _, e := range listed {
			probe(e.key, keys.MaxSeq)
			probe(e.key, keys.Seq(e.trailer))
			probe(e.key, keys.Seq(e.trailer)-1)
			probe(append(bytes.Clone(e.key), 0), keys.MaxSeq)
			probe(append(bytes.Clone(e.key), 255), keys.MaxSeq)
			probe(e.key[:len(e.key)/2], keys.MaxSeq)
		}
	}
	if found < 3000 || absent < 3000 {
		t.Errorf("the hints answered %d and denied %d times", found, absent)
	}
}

func sortKeys(ks [][]byte) {
	for i := range ks {
		for j := i; j > 0 && bytes.Compare(ks[j-1], ks[j]) > 0; j-- {
			ks[j-1], ks[j] = ks[j], ks[j-1]
		}
	}
}

func FuzzHint(f *testing.F) {
	b := block.NewBuilder(4)
	for i := range 20 {
		b.Add(keys.AppendInternal(nil, fmt.Appendf(nil, "key%04d", i*3), keys.Pack(1, keys.KindValue)), []byte("value"))
	}
	f.Add(bytes.Clone(b.Finish()), []byte("key0006"))
	f.Fuzz(func(t *testing.T, raw, key []byte) {
		buf := append(bytes.Clone(raw), make([]byte, 400)...)
		buildHint(buf[:len(raw):len(raw)], buf[len(raw):])
		hintGet(buf[:len(raw)], buf[len(raw):], key, 1<<60, true)
	})
}

// TestPointReadsGiveBlocksTheirHint reads through a cache in which blocks are found
// again, and looks at what it holds.
func TestPointReadsGiveBlocksTheirHint(t *testing.T) {
	c, err := blockcache.New(blockcache.Options{Capacity: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hinted := 0
	for _, g := range goldens(t) {
		g.load(t)
		if len(g.entries) == 0 {
			continue
		}
		r := g.open(t, func(o *ReaderOptions) { o.Cache = c })
		it := r.Iterate(table.IterOptions{}) // loads blocks without hints
		for ok := it.First(); ok; ok = it.Next() {
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
		for _, e := range g.entries {
			look := &keys.Lookup{UserKey: e.key, Seq: keys.Seq(e.trailer)}
			r.opts.Extractor.Prepare(look)
			for range 2 {
				var pin table.Pin
				value, trailer, ok, err := r.Get(look, &pin)
				if err != nil || ok && trailer == e.trailer && !e.equal(value) {
					t.Fatalf("%s: get %x: %v", g.name, e.key, err)
				}
				pin.Release()
			}
		}
		var index indexCursor
		index.init(r, fetchOptions{fill: true, verify: true})
		for ok := index.first(); ok; ok = index.next() {
			ref, ok := r.find(index.handle(), blockcache.Data)
			if !ok {
				continue // no point read needed it
			}
			if n := len(ref.hint); n > hintTail && binary.LittleEndian.Uint16(ref.hint[n-hintTail+2:]) > 0 {
				hinted++
			}
			r.release(&ref)
		}
		index.close()
		r.Close()
	}
	if hinted < 100 {
		t.Errorf("%d blocks have hints", hinted)
	}
	if st := c.Stats(); st.PinnedUsage != 0 {
		t.Errorf("%d bytes are still held", st.PinnedUsage)
	}
}

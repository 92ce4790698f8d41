package iterator_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// levelOf cuts a run's entries into files and walks them as a Level.
func levelOf(rng *rand.Rand, order keys.Order, entries []itertest.Entry, prefixLen func([]byte) int) table.Iterator {
	var files [][]itertest.Entry
	for len(entries) > 0 {
		n := min(len(entries), 1+rng.IntN(6))
		for n < len(entries) && bytes.Equal(entries[n-1].Key, entries[n].Key) {
			n++
		}
		files = append(files, entries[:n])
		entries = entries[n:]
	}
	list := &iterator.FileList{OpenFile: func(i int) (table.Iterator, error) {
		it := itertest.New(order, files[i])
		it.PrefixLen = prefixLen
		return it, nil
	}}
	for _, f := range files {
		last := f[len(f)-1]
		list.Bounds = append(list.Bounds, iterator.Bounds{Smallest: f[0].Key, SmallestTrailer: f[0].Trailer,
			Largest: last.Key, LargestTrailer: last.Trailer})
	}
	return iterator.NewLevel(order, list)
}

// memtableOf inserts entries into a memtable of some kind, in any order.
func memtableOf(t *testing.T, rng *rand.Rand, order keys.Order, ext *prefixhash.Extractor, entries []itertest.Entry) *memtable.MemTable {
	kinds := []memtable.Kind{memtable.SkipList, memtable.Vector}
	if ext != nil {
		kinds = append(kinds, memtable.HashSkipList, memtable.HashLinkList)
	}
	m, err := memtable.New(memtable.Options{Order: order, Extractor: ext, Kind: kinds[rng.IntN(len(kinds))], BucketCount: 4, Reserve: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rng.Perm(len(entries)) {
		e := entries[i]
		n, hash := -1, uint32(0)
		if ext != nil {
			n, hash = ext.Hash(e.Key)
		}
		if err := m.Add(e.Key, e.Trailer, e.Value, n, hash); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// cursor is the model of an iterator: a place in a sorted slice.
type cursor struct {
	order  keys.Order
	pairs  []itertest.Pair
	at     int
	prefix []byte // walk may not leave it
	bound  bool
	short  bool // prefix is a whole key that is shorter than the extractor's
	ext    *prefixhash.Extractor
}

func (c *cursor) valid() bool {
	return c.at >= 0 && c.at < len(c.pairs) && (!c.bound || c.inPrefix(c.pairs[c.at].Key))
}

func (c *cursor) inPrefix(key []byte) bool {
	return (c.short || c.ext.PrefixLen(key) == len(c.prefix)) && bytes.HasPrefix(key, c.prefix)
}

func (c *cursor) confine(key []byte) {
	if n := c.ext.PrefixLen(key); n >= 0 {
		c.prefix, c.bound = key[:n], true
	}
}

func (c *cursor) firstGE(key []byte) int {
	return sort.Search(len(c.pairs), func(i int) bool { return c.order.Compare(c.pairs[i].Key, key) >= 0 })
}

func within(pairs []itertest.Pair, order keys.Order, lower, upper []byte) []itertest.Pair {
	var out []itertest.Pair
	for _, p := range pairs {
		if lower != nil && order.Compare(p.Key, lower) < 0 || upper != nil && order.Compare(p.Key, upper) >= 0 {
			continue
		}
		out = append(out, p)
	}
	return out
}

func TestUserAgreesWithASortedMap(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 100
	}
	var u iterator.User // reused, as a pool would
	for seed := range uint64(rounds) {
		if !agree(t, &u, seed) {
			return
		}
	}
}

func agree(t *testing.T, u *iterator.User, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 1))
	var order keys.Order
	if seed%5 == 4 {
		order = keys.NewOrder(keys.ReverseBytewise)
	}
	shape := itertest.Shape{Ops: 1 + rng.IntN(400), Keys: 1 + rng.IntN(120), Deletes: rng.IntN(40),
		Singles: rng.IntN(10), Merges: rng.IntN(25), Ranges: rng.IntN(3) * rng.IntN(8), Entities: rng.IntN(10), Timed: rng.IntN(5)}
	runs := 1 + rng.IntN(6)
	switch seed % 4 {
	case 0:
		shape.Keys = 1 + rng.IntN(8) // many versions a key
	case 1: // few versions under large range deletes, newest or oldest run nearly empty
		shape = itertest.Shape{Ops: 200, Keys: 400, Ranges: 2}
	case 2: // a few keys in each of many runs: prefixes that most runs lack
		shape.Ops, runs = 1+rng.IntN(60), 4+rng.IntN(8)
	}
	h := itertest.Random(rng, order, shape)
	var ext *prefixhash.Extractor
	switch rng.IntN(4) {
	case 0:
		ext = prefixhash.Fixed(2)
	case 1:
		ext = prefixhash.Capped(3)
	case 2:
		ext = prefixhash.Fixed(3) // some keys are outside its domain
	}
	same := ext != nil && rng.IntN(2) == 0

	o := iterator.Options{Order: order, Seq: uint64(rng.IntN(len(h.Ops) + 2)), Operator: merge.StringAppend(","), PrefixSameAsStart: same, AutoPrefix: !same && rng.IntN(3) == 0}
	var prefixLen func([]byte) int
	if ext != nil {
		o.Prefixer, prefixLen = ext, ext.PrefixLen
	}
	if rng.IntN(3) == 0 {
		o.Lower = boundary(rng)
	}
	if rng.IntN(3) == 0 {
		o.Upper = boundary(rng)
	}
	var sources []table.Iterator
	for i, r := range h.Runs(rng, runs) {
		if seed%8 == 3 { // real memtables, whose seeks by prefix go through buckets
			m := memtableOf(t, rng, order, ext, r.Entries)
			defer m.Free()
			sources = append(sources, m.NewIterator())
		} else if rng.IntN(2) == 0 {
			it := itertest.New(order, r.Entries)
			it.PrefixLen = prefixLen
			sources = append(sources, it)
		} else {
			sources = append(sources, levelOf(rng, order, r.Entries, prefixLen))
		}
		o.Tombstones = append(o.Tombstones, iterator.SourceTombstones{Source: i, List: rangedel.New(order, r.Tombstones)})
	}
	u.Reset(&o, sources)
	c := &cursor{order: order, pairs: within(h.At(o.Seq), order, o.Lower, o.Upper), at: -1, ext: ext}

	var script strings.Builder
	for range 60 {
		step := oneStep(rng, u, c, same)
		fmt.Fprintln(&script, step)
		if problem := compare(u, c); problem != "" {
			t.Errorf("seed %d: seq %d bounds %q %q extractor %v same-as-start %v\n%s\nhistory:\n%s\nscript:\n%s",
				seed, o.Seq, o.Lower, o.Upper, ext, same, problem, h, script.String())
			return false
		}
	}
	if err := u.Close(); err != nil {
		t.Errorf("seed %d: close: %v", seed, err)
	}
	return true
}

func boundary(rng *rand.Rand) []byte {
	return fmt.Appendf(nil, "%c%c%02d", 'a'+rng.IntN(4), 'a'+rng.IntN(3), rng.IntN(14))[:1+rng.IntN(4)]
}

func oneStep(rng *rand.Rand, u *iterator.User, c *cursor, same bool) string {
	roll := rng.IntN(10)
	if !c.valid() && roll >= 5 {
		roll = rng.IntN(5)
	}
	switch roll {
	case 0, 1, 2:
		key := boundary(rng)
		if len(c.pairs) > 0 && rng.IntN(2) == 0 {
			key = slices.Clone(c.pairs[rng.IntN(len(c.pairs))].Key)
		}
		c.bound, c.short = false, false
		if same {
			c.confine(key)
			if c.ext.TooShort(key) {
				c.prefix, c.bound, c.short = key, true, true
			}
		}
		switch rng.IntN(4) {
		case 0:
			u.SeekLT(key)
			c.at = c.firstGE(key) - 1
			return fmt.Sprintf("seek-lt %s", key)
		case 1:
			u.SeekLE(key)
			c.at = c.firstGE(key)
			if c.at == len(c.pairs) || !bytes.Equal(c.pairs[c.at].Key, key) {
				c.at--
			}
			return fmt.Sprintf("seek-le %s", key)
		default:
			u.SeekGE(key)
			c.at = c.firstGE(key)
			return fmt.Sprintf("seek-ge %s", key)
		}
	case 3:
		u.First()
		c.at, c.bound, c.short = 0, false, false
		if same && c.valid() {
			c.confine(c.pairs[0].Key)
		}
		return "first"
	case 4:
		u.Last()
		c.at, c.bound, c.short = len(c.pairs)-1, false, false
		if same && c.valid() {
			c.confine(c.pairs[c.at].Key)
		}
		return "last"
	case 5, 6, 7:
		u.Next()
		c.at++
		return "next"
	default:
		u.Prev()
		c.at--
		return "prev"
	}
}

func compare(u *iterator.User, c *cursor) string {
	if err := u.Err(); err != nil {
		return "error: " + err.Error()
	}
	if u.Valid() != c.valid() {
		if u.Valid() {
			return fmt.Sprintf("at %s=%s, the map at its end", u.Key(), u.Value())
		}
		return fmt.Sprintf("at the end, the map at %s=%s", c.pairs[c.at].Key, c.pairs[c.at].Value)
	}
	if !u.Valid() {
		return ""
	}
	p := c.pairs[c.at]
	if !bytes.Equal(u.Key(), p.Key) || !bytes.Equal(u.Value(), p.Value) {
		return fmt.Sprintf("at %s=%s, the map at %s=%s", u.Key(), u.Value(), p.Key, p.Value)
	}
	if _, ok := u.Entity(); ok != p.Entity {
		return fmt.Sprintf("at %s: entity %v, the map says %v", p.Key, ok, p.Entity)
	}
	cols, err := u.Columns(nil)
	if err != nil {
		return err.Error()
	}
	if p.Entity {
		if last := cols[len(cols)-1]; string(last.Name) != "x" || string(last.Value) != "other" {
			return fmt.Sprintf("at %s: columns %q", p.Key, cols)
		}
	}
	if len(cols[0].Name) == 0 && !bytes.Equal(cols[0].Value, p.Value) {
		return fmt.Sprintf("at %s: default column %q, the map has %q", p.Key, cols[0].Value, p.Value)
	}
	return ""
}

package plaintable

import (
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/race"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// TestReadsDoNotAllocate covers every path that a read takes: both encodings, all
// orders, the guard, stored and built filters.
func TestReadsDoNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for i := range 48 {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
		o.EncodingType = EncodingType(i % 2)
		if i/2%2 == 1 {
			o.UserKeyLen = 12
		}
		o.Order = []keys.Order{{}, keys.NewOrder(keys.ReverseBytewise), keys.NewOrder(plainComparator{})}[i/4%3]
		o.StoreIndexInFile = i/12%2 == 0
		if race.Enabled && o.EncodingType == Prefix && o.Order.Custom() {
			continue // put together in a pooled buffer
		}
		rows := randomRows(rng, o, 500)
		b, _ := writeTable(t, o, rows)
		ro := ReaderOptions{Options: o.Options, Order: o.Order, Extractor: o.Extractor, Memory: mmapfs.MemoryResident}
		if i/24 == 1 {
			ro.Memory = mmapfs.MemoryPopulate
			ro.Index = IndexInPlace
		}
		r := openReader(t, "000001.sst", b, ro)
		hit := keys.Lookup{UserKey: rows[len(rows)/2].key, Seq: keys.MaxSeq}
		miss := keys.Lookup{UserKey: append(rows[len(rows)/3].key[:4:4], "\x00zzzzzzz"...), Seq: keys.MaxSeq}
		o.Extractor.Prepare(&hit)
		o.Extractor.Prepare(&miss)
		it := r.NewIterator(table.IterOptions{})
		it.Last()
		var c Cursor
		for name, f := range map[string]func(){
			"Get hit": func() {
				if _, _, ok, _ := r.Get(&hit, nil); !ok {
					t.Fatal("expected a hit")
				}
			},
			"Get miss": func() {
				if _, _, ok, _ := r.Get(&miss, nil); ok {
					t.Fatal("expected a miss")
				}
			},
			"staged": func() {
				r.StageBucket(&hit, &c)
				for r.StageRow(&c) {
				}
				if _, _, ok, _ := r.Finish(&hit, &c); !ok {
					t.Fatal("expected a hit")
				}
			},
			"Next": func() {
				if !it.Valid() || !it.Next() {
					it.First()
				}
			},
			"Prev": func() {
				if !it.Valid() || !it.Prev() {
					it.Last()
				}
			},
			"seeks": func() {
				if !it.SeekGE(hit.UserKey, hit.Trailer()) || !it.SeekPrefixGE(&hit, hit.Trailer()) {
					t.Fatal("expected a row")
				}
				it.SeekLT(hit.UserKey, hit.Trailer())
			},
		} {
			for range 3000 { // buffers grow once
				f()
			}
			if n := testing.AllocsPerRun(300, f); n >= 1 {
				t.Errorf("file %d: %s: expected no allocation, found %g a run", i, name, n)
			}
		}
		_ = it.Close()
	}
}

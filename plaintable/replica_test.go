package plaintable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// threeNodes are replicas on three nodes that are all this machine's node 0; at is
// the place that readers are told.
func threeNodes(at *int, rows bool) *Replicas {
	return &Replicas{
		Nodes: []int{0, 0, 0}, Rows: rows,
		Run:  func(_ int, f func() error) error { return f() },
		Here: func() int { return *at },
	}
}

// inside reports whether b lies in the memory of one of the ranges.
func inside(b, memory []byte) bool {
	for i := range memory {
		if &memory[i] == &b[0] {
			return true
		}
	}
	return false
}

// TestEachNodeReadsItsOwnReplica: every kind of file, under every memory policy, answers
// the same from each replica, and from memory that is that replica's alone.
func TestEachNodeReadsItsOwnReplica(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	for i := range 48 {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4), RocksDBLayout: i/16%2 == 1}
		o.EncodingType = EncodingType(i % 2)
		o.StoreIndexInFile = i/2%2 == 0
		if i/4%2 == 1 {
			o.Extractor, o.HashTableRatio = nil, 0
		}
		memory := []mmapfs.Memory{mmapfs.MemoryResident, mmapfs.MemoryPopulate, mmapfs.MemoryNone}[i/8%3]
		rows := randomRows(rng, o, 600)
		b, _ := writeTable(t, o, rows)
		name := fmt.Sprintf("file %d, %v, %+v", i, memory, o.Options)

		at := 0
		p := Placement{Replicas: threeNodes(&at, true)}
		ro := ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: memory, Verify: VerifyAtOpen}
		if i/24 == 0 {
			ro.Placement = p
		}
		r := openReader(t, "000001.sst", b, ro)
		if i/24 == 1 {
			if err := r.Load(memory, p); err != nil {
				t.Fatal(name, err)
			}
		}
		v := r.view.Load()
		if len(v.replicas) != 3 || !v.detour {
			t.Fatalf("%s: expected 3 replicas, found %d", name, len(v.replicas))
		}
		for at = range 3 {
			w := v.near()
			if w != v.replicas[at] {
				t.Fatalf("%s: at place %d another replica is read", name, at)
			}
			for other := range at {
				x := v.replicas[other]
				if &w.index.slots[0] == &x.index.slots[0] || w.bloom.kind != memoryBloom && &w.bloom.data[0] == &x.bloom.data[0] ||
					w.bloom.kind == memoryBloom && &w.bloom.inMemory.BitSet().Words()[0] == &x.bloom.inMemory.BitSet().Words()[0] {
					t.Fatalf("%s: replicas %d and %d share index or bloom filter", name, other, at)
				}
				if (&w.rows[0] == &x.rows[0]) != (memory != mmapfs.MemoryResident) {
					t.Fatalf("%s: replicas %d and %d: shared rows: %t", name, other, at, &w.rows[0] == &x.rows[0])
				}
			}
			checkGets(t, name, r, rows, lookups(rng, rows[:100]))
			walkRandomly(t, name, r, o.Order, rows, rng, 100)
			look := keys.Lookup{UserKey: rows[300].key, Seq: keys.MaxSeq}
			o.Extractor.Prepare(&look)
			value, _, ok, err := r.Get(&look, nil)
			if !ok || err != nil || len(value) > 0 && !inside(value, w.whole) {
				t.Fatalf("%s: a value from another place than replica %d: %t %v", name, at, ok, err)
			}
			var c Cursor
			r.StageBucket(&look, &c)
			if c.v != w {
				t.Fatalf("%s: the stages read another replica than %d", name, at)
			}
		}
		var indexes, wholes int
		r.EachMemory(func(part Part, b []byte, replicated bool) {
			switch {
			case part == PartIndex && replicated:
				indexes++
			case part == PartResident && replicated:
				wholes++
			case part != PartMapped || replicated:
				t.Errorf("%s: unexpected range of part %d, replicated %t", name, part, replicated)
			}
		})
		wantIndexes, wantWholes := 3, 0
		if memory == mmapfs.MemoryResident {
			wantWholes = 3
			if o.StoreIndexInFile {
				wantIndexes = 0 // in the file's copies
			}
		}
		if indexes != wantIndexes || wholes != wantWholes {
			t.Errorf("%s: expected %d indexes and %d files, found %d and %d", name, wantIndexes, wantWholes, indexes, wholes)
		}
		if err := r.Load(memory, Placement{}); err != nil || r.view.Load().replicas != nil {
			t.Fatalf("%s: expected no replicas after another Load, found %v", name, err)
		}
		at = 99 // nobody asks any more
		checkGets(t, name, r, rows, lookups(rng, rows[:50]))
	}
}

// TestAReplicaThatFailsFailsOpen, with all that was made given back.
func TestAReplicaThatFailsFailsOpen(t *testing.T) {
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
	b, _ := writeTable(t, o, randomRows(rand.New(rand.NewPCG(1, 2)), o, 50))
	before := mmapfs.OffHeap()
	at, broken := 0, errors.New("no such node")
	rep := threeNodes(&at, true)
	rep.Run = func(int, func() error) error { return broken }
	_, err := Open(openBytes(t, "000001.sst", b), ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryResident, Placement: Placement{Replicas: rep}})
	if !errors.Is(err, broken) {
		t.Errorf("expected the error of Run, found %v", err)
	}
	if after := mmapfs.OffHeap(); after.ArenaReserved != before.ArenaReserved || after.Resident != before.Resident {
		t.Errorf("expected the memory of before, %+v, found %+v", before, after)
	}
}

// TestAnIndexGoesWhereItsPlacementSays: a placement of its own, or with Load later,
// makes an arena of its own.
func TestAnIndexGoesWhereItsPlacementSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	placed := Placement{Index: prefer(0)}
	for _, stored := range []bool{true, false} {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
		o.StoreIndexInFile = stored
		rows := randomRows(rng, o, 200)
		b, _ := writeTable(t, o, rows)
		r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryResident})
		first := r.view.Load().indexArena
		if (first == nil) != stored {
			t.Fatalf("stored %t: an index in an arena: %t", stored, first != nil)
		}
		if err := r.Load(mmapfs.MemoryResident, placed); err != nil {
			t.Fatal(err)
		}
		if a := r.view.Load().indexArena; a == nil || a == first {
			t.Errorf("stored %t: expected a new arena for the placed index", stored)
		}
		checkGets(t, "placed", r, rows, lookups(rng, rows))
	}
}

// TestReplicasDoNotAllocate: the detour costs no allocation either.
func TestReplicasDoNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, 28))
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4)}
	rows := randomRows(rng, o, 500)
	b, _ := writeTable(t, o, rows)
	at := 2
	r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryResident, Placement: Placement{Replicas: threeNodes(&at, true)}})
	look := keys.Lookup{UserKey: rows[100].key, Seq: keys.MaxSeq}
	o.Extractor.Prepare(&look)
	var c Cursor
	it := r.NewIterator(table.IterOptions{})
	defer it.Close()
	if n := testing.AllocsPerRun(300, func() {
		if _, _, ok, _ := r.Get(&look, nil); !ok {
			t.Fatal("expected a hit")
		}
		r.StageBucket(&look, &c)
		for r.StageRow(&c) {
		}
		if _, _, ok, _ := r.Finish(&look, &c); !ok || !it.SeekGE(look.UserKey, look.Trailer()) {
			t.Fatal("expected a hit")
		}
	}); n >= 1 {
		t.Errorf("expected no allocation, found %g a run", n)
	}
}

package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// protectedEntry is an entry and where its node lies.
type protectedEntry struct {
	key, value []byte
	trailer    uint64
	node       node
}

// newProtected is a memtable with a few entries, some of them versions of one key.
func newProtected(t testing.TB, kind Kind, protection int, onSeek bool) (*MemTable, []protectedEntry) {
	t.Helper()
	e := prefixhash.Fixed(4)
	o, err := Options{
		Order: keys.NewOrder(keys.Bytewise), Kind: kind, Extractor: e, BucketCount: 4, Reserve: 1 << 20,
		Protection: protection, VerifyOnSeek: onSeek,
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMemTable(o, newHeapMemory(1<<20, maxKeyLen+1))
	if err != nil {
		t.Fatal(err)
	}
	var all []protectedEntry
	for i := range 12 {
		for v := range 2 {
			if v == 1 && i%3 != 0 {
				continue
			}
			all = append(all, protectedEntry{
				key: fmt.Appendf(nil, "pre%d-key%02d", i/4, i), value: fmt.Appendf(nil, "value %d of version %d", i, v),
				trailer: keys.Pack(uint64(100-v), keys.KindValue),
			})
		}
	}
	for i := range all {
		p := &all[len(all)-1-i]
		n, h := e.Hash(p.key)
		if err := m.Add(p.key, p.trailer, p.value, n, h); err != nil {
			t.Fatal(err)
		}
	}
	it := m.NewIterator()
	for i := range all {
		if i == 0 {
			it.First()
		} else {
			it.Next()
		}
		if !it.Valid() || !bytes.Equal(it.UserKey(), all[i].key) || it.Trailer() != all[i].trailer {
			t.Fatalf("entry %d of the memtable is %q", i, it.UserKey())
		}
		switch it := it.(type) {
		case *checkedIterator:
			all[i].node = it.pos.cur
		case *listIterator:
			all[i].node = it.cur
		case *hashIterator:
			all[i].node = it.cur
		}
	}
	it.Close()
	return m, all
}

// readProtected reads everything in every way and counts wrong answers and errors.
func readProtected(m *MemTable, all []protectedEntry) (wrong, failed int) {
	add := func(err error, right bool) bool {
		switch {
		case err != nil && !errors.Is(err, keys.ErrCorruption):
			wrong++
		case err != nil:
			failed++
		case !right:
			wrong++
		}
		return err == nil && right
	}
	is := func(key []byte, trailer uint64, value []byte, e *protectedEntry) bool {
		return bytes.Equal(key, e.key) && trailer == e.trailer && bytes.Equal(value, e.value)
	}
	for i := range all {
		e := &all[i]
		look := keys.Lookup{UserKey: e.key, Seq: keys.Seq(e.trailer)}
		m.extractor.Prepare(&look)
		value, trailer, ok, err := m.Find(&look)
		add(err, ok && is(e.key, trailer, value, e))
		absent := keys.Lookup{UserKey: append(bytes.Clone(e.key), 0), Seq: keys.MaxSeq}
		m.extractor.Prepare(&absent)
		_, _, ok, err = m.Find(&absent)
		add(err, !ok)
		it := m.NewIterator()
		it.SeekPrefixGE(&look, e.trailer)
		add(it.Err(), it.Valid() && is(it.UserKey(), it.Trailer(), it.Value(), e))
		it.SeekGE(e.key, e.trailer)
		add(it.Err(), it.Valid() && is(it.UserKey(), it.Trailer(), it.Value(), e))
		it.SeekLT(e.key, e.trailer)
		add(it.Err(), i == 0 && !it.Valid() || i > 0 && it.Valid() && is(it.UserKey(), it.Trailer(), it.Value(), &all[i-1]))
		it.Close()
	}
	it := m.NewIterator()
	it.First()
	for i := range all {
		if !add(it.Err(), it.Valid() && is(it.UserKey(), it.Trailer(), it.Value(), &all[i])) {
			break
		}
		it.Next()
	}
	it.Last()
	for i := len(all) - 1; i >= 0; i-- {
		if !add(it.Err(), it.Valid() && is(it.UserKey(), it.Trailer(), it.Value(), &all[i])) {
			break
		}
		it.Prev()
	}
	it.Close()
	return wrong, failed
}

// flipEntries changes each byte of each entry's lengths, key, trailer, value and sum.
func flipEntries(t *testing.T, kind Kind, protection int, onSeek bool, mask byte, after func(at string, wrong, failed int)) {
	m, all := newProtected(t, kind, protection, onSeek)
	defer m.Free()
	for i, e := range all {
		for b := nodeKeyLen; b < nodeKey+len(e.key)+trailerLen+len(e.value)+m.sumLen; b++ {
			p := m.byteAt(e.node, b)
			*p ^= mask
			wrong, failed := readProtected(m, all)
			*p ^= mask
			after(fmt.Sprintf("%v, protection %d, on seek %v, entry %d, byte %d", kind, protection, onSeek, i, b), wrong, failed)
		}
	}
	if wrong, failed := readProtected(m, all); wrong+failed > 0 {
		t.Errorf("%v: %d wrong and %d failed reads after the damage was undone", kind, wrong, failed)
	}
}

// TestEveryFlipInAMemtableEntryIsCaught changes each byte of each entry.
func TestEveryFlipInAMemtableEntryIsCaught(t *testing.T) {
	for _, kind := range []Kind{SkipList, HashSkipList, HashLinkList, Vector} {
		for _, protection := range []int{1, 2, 4, 8} {
			for _, onSeek := range []bool{false, true} {
				if protection > 1 && (onSeek || testing.Short()) {
					continue
				}
				caught := 0
				flipEntries(t, kind, protection, onSeek, 0x10, func(at string, wrong, failed int) {
					if wrong > 0 {
						t.Errorf("%s: %d wrong answers, %d errors", at, wrong, failed)
					}
					if failed > 0 {
						caught++
					}
				})
				if caught < 500 {
					t.Errorf("%v, protection %d: only %d flips gave an error", kind, protection, caught)
				}
			}
		}
	}
}

// TestWithoutProtectionMemtableFlipsGoUnseen shows what protection is for. Lengths
// are left alone: nothing bounds them then.
func TestWithoutProtectionMemtableFlipsGoUnseen(t *testing.T) {
	m, all := newProtected(t, SkipList, 0, false)
	defer m.Free()
	for i, e := range all {
		for b := nodeKey; b < nodeKey+len(e.key)+trailerLen+len(e.value); b++ {
			p := m.byteAt(e.node, b)
			*p ^= 0x10
			wrong, failed := readProtected(m, all)
			*p ^= 0x10
			if wrong == 0 || failed > 0 {
				t.Fatalf("entry %d, byte %d: %d wrong answers and %d errors without protection", i, b, wrong, failed)
			}
		}
	}
}

// TestProtectedReadsAllocateNothing covers Find and iterator steps.
func TestProtectedReadsAllocateNothing(t *testing.T) {
	m, all := newProtected(t, SkipList, 4, true)
	defer m.Free()
	it := m.NewIterator()
	look := keys.Lookup{UserKey: all[3].key, Seq: keys.MaxSeq}
	m.extractor.Prepare(&look)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok, err := m.Find(&look); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			it.Value()
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

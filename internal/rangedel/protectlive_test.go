package rangedel

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

var errTestDamage = errors.New("damaged")

// nodes are the nodes below x and x itself.
func nodesOf(x *node) (all []*node) {
	all = append(all, x)
	if x.kids != nil {
		for i := range x.n {
			all = append(all, nodesOf(x.kids[i].Load())...)
		}
	}
	return all
}

// TestEveryFlipInALiveTombstoneIsCaught changes each byte of bounds, and bits of images, leads and
// sequence numbers, of a memtable's tree of several levels; unprotected it answers wrongly.
func TestEveryFlipInALiveTombstoneIsCaught(t *testing.T) {
	for _, protected := range []bool{true, false} {
		m := NewMutable(keys.NewOrder(keys.Bytewise))
		if protected {
			m.Protect(func() error { return errTestDamage })
		}
		for i := range 60 {
			n := i * 37 % 60
			m.Add(fmt.Appendf(nil, "key%03d", 10*n), fmt.Appendf(nil, "key%03d", 10*n+5+n%9), uint64(100+i))
		}
		m.Add([]byte("key100"), []byte("key400"), 50)
		m.Add([]byte("key100"), []byte("key300"), 300)
		if m.root.Load().kids == nil {
			t.Fatal("the tree has one level")
		}
		m.fence.Store(nil) // of the unprotected one: its answers come from the tree
		seqs := []uint64{55, 130, keys.MaxSeq}
		ask := func(check func(k []byte, seq, got uint64, err error)) {
			for i := range 700 {
				k := fmt.Appendf(nil, "key%03d", i)
				for _, seq := range seqs {
					got, err := m.Proven(k, seq)
					check(k, seq, got, err)
				}
			}
		}
		want := map[string]uint64{}
		name := func(k []byte, seq uint64) string { return fmt.Sprint(string(k), seq) }
		ask(func(k []byte, seq, got uint64, err error) {
			if slow := slowCover(m.order, m.all, k, seq); err != nil || got != slow {
				t.Fatalf("undamaged: %d for %s at %d, want %d; %v", got, k, seq, slow, err)
			}
			want[name(k, seq)] = got
		})
		if err := m.Verify(); err != nil {
			t.Fatal(err)
		}
		wrong, caught := 0, 0
		judge := func(at string) {
			t.Helper()
			ask(func(k []byte, seq, got uint64, err error) {
				switch {
				case err != nil:
					caught++
				case got != want[name(k, seq)]:
					if wrong++; protected {
						t.Fatalf("%s: %d for %s at %d, want %d", at, got, k, seq, want[name(k, seq)])
					}
				}
			})
		}
		marks := map[*mark]bool{}
		all := nodesOf(m.root.Load())
		for _, x := range all {
			for i := range x.n {
				x.bounds[i] = bytes.Clone(x.bounds[i]) // they share memory
				for k := x.marks[i].Load(); k != nil; k = k.next {
					marks[k] = true
				}
			}
		}
		for n, x := range all {
			for i := range x.n {
				for b := range x.bounds[i] {
					if b < 3 && i%8 != 1 { // what all keys share, of some
						continue
					}
					x.bounds[i][b] ^= 2
					judge(fmt.Sprintf("node %d, bound %d, byte %d", n, i, b))
					x.bounds[i][b] ^= 2
				}
				x.images[i] ^= 1 << 50
				judge(fmt.Sprintf("node %d, image %d", n, i))
				x.images[i] ^= 1 << 50
			}
			x.lead ^= 1 << 60
			judge(fmt.Sprintf("node %d, lead", n))
			x.lead ^= 1 << 60
		}
		for k := range marks {
			k.seq ^= 64
			judge(fmt.Sprintf("mark %d", k.seq))
			k.seq ^= 64
		}
		if protected && caught == 0 || !protected && wrong == 0 {
			t.Errorf("protected %v: %d errors, %d wrong answers", protected, caught, wrong)
		}
		if protected {
			for i := range m.all {
				s := m.all[i]
				m.all[i].Start = append(bytes.Clone(s.Start[:len(s.Start)-1]), 'x')
				if err := m.Verify(); !errors.Is(err, errTestDamage) {
					t.Fatalf("tombstone %d: %v", i, err)
				}
				m.all[i] = s
			}
		}
	}
}

// TestCursorsMeetDamage asks cursors over a list, a run of lists and a memtable for all keys, with one
// key or sequence number changed at a time: the answer is right, or Err says that it may not be.
func TestCursorsMeetDamage(t *testing.T) {
	order := keys.NewOrder(keys.Bytewise)
	report := func(i int) error { return fmt.Errorf("fragment %d: %w", i, errTestDamage) }
	var run []*List
	var all []table.Tombstone
	for l := range 4 {
		var ts []table.Tombstone
		for i := range 3 {
			at := 100*l + 30*i
			ts = append(ts, table.Tombstone{Start: fmt.Appendf(nil, "key%03d", at), End: fmt.Appendf(nil, "key%03d", at+20), Seq: uint64(7 + l + i)})
		}
		list := New(order, ts)
		for i := range list.frags {
			f := &list.frags[i]
			f.start, f.end = bytes.Clone(f.start), bytes.Clone(f.end)
		}
		list.Protect(2, report)
		run, all = append(run, list), append(all, ts...)
	}
	caught := 0
	judge := func(at string) {
		t.Helper()
		var over, alone Cursor
		over.ResetRun(run)
		alone.Reset(run[1])
		for i := range 450 {
			k := fmt.Appendf(nil, "key%03d", i)
			got := over.Cover(k, keys.MaxSeq)
			if over.Err() != nil {
				caught++
			} else if want := slowCover(order, all, k, keys.MaxSeq); got != want {
				t.Fatalf("%s: %d for %s, want %d", at, got, k, want)
			}
			got = alone.Cover(k, keys.MaxSeq)
			if alone.Err() != nil {
				caught++
			} else if want := slowCover(order, all[3:6], k, keys.MaxSeq); got != want {
				t.Fatalf("%s: %d for %s in one list, want %d", at, got, k, want)
			}
		}
	}
	if judge("undamaged"); caught != 0 {
		t.Fatal("an undamaged run is damaged")
	}
	for _, l := range run {
		for i := range l.frags {
			for _, key := range [][]byte{l.frags[i].start, l.frags[i].end} {
				for b := range key {
					before := caught
					key[b] ^= 4
					if judge(fmt.Sprintf("%s, byte %d", key, b)); caught == before {
						t.Errorf("%s, byte %d: no cursor met it", key, b)
					}
					key[b] ^= 4
				}
			}
			l.seqs.seqs[i] ^= 2
			judge(fmt.Sprintf("sequence number %d", i))
			l.seqs.seqs[i] ^= 2
		}
	}
}

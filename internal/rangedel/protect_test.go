package rangedel

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// TestEveryFlipInAFragmentIsCaught changes each byte of the keys, and bits of images and sequence
// numbers, of lists in both forms.
func TestEveryFlipInAFragmentIsCaught(t *testing.T) {
	order := keys.NewOrder(keys.Bytewise)
	for _, overlap := range []int{1, 40} {
		var ts []table.Tombstone
		for i := range 40 {
			ts = append(ts, table.Tombstone{
				Start: fmt.Appendf(nil, "key%03d", 10*i), End: fmt.Appendf(nil, "key%03d", 10*i+6*overlap), Seq: uint64(100 + i),
			})
		}
		l := New(order, ts)
		if overlap > 1 != (l.seqs.leaves > 0) {
			t.Fatalf("overlap %d: leaves %d", overlap, l.seqs.leaves)
		}
		var asked [][]byte
		var want []uint64
		for i := range 700 {
			k := fmt.Appendf(nil, "key%03d", i)
			asked = append(asked, k)
			want = append(want, l.Cover(k, keys.MaxSeq))
		}
		l.Protect(1, func(i int) error { return fmt.Errorf("fragment %d", i) })
		ask := func(at string) {
			t.Helper()
			for i, k := range asked {
				if l.DamagedAt(k) < 0 && l.Cover(k, keys.MaxSeq) != want[i] {
					t.Fatalf("overlap %d, %s: a wrong answer for %s, and no damage", overlap, at, k)
				}
			}
		}
		if ask("undamaged"); l.Damaged() >= 0 {
			t.Fatal("an undamaged list is damaged")
		}
		// Fragments share the memory of their keys: one of its own for each.
		for i := range l.frags {
			f := &l.frags[i]
			f.start, f.end = bytes.Clone(f.start), bytes.Clone(f.end)
		}
		for i := range l.frags {
			for _, key := range [][]byte{l.frags[i].start, l.frags[i].end} {
				for b := range key {
					key[b] ^= 2
					ask(fmt.Sprintf("fragment %d, byte %d", i, b))
					if l.Damaged() != i {
						t.Fatalf("overlap %d: damage to fragment %d is not found", overlap, i)
					}
					key[b] ^= 2
				}
			}
			l.images[i] ^= 1 << 40
			ask(fmt.Sprintf("image %d", i))
			l.images[i] ^= 1 << 40
		}
		for i := range l.seqs.seqs {
			l.seqs.seqs[i] ^= 4
			ask(fmt.Sprintf("sequence number %d", i))
			l.seqs.seqs[i] ^= 4
		}
	}
}

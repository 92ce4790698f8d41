//go:build flatrock_invariants

package blockcache

import "testing"

func broken(f func()) (found bool) {
	defer func() { found = recover() != nil }()
	f()
	return false
}

// TestInvariantsOfHandles: a block that is let go twice, or held by somebody who does not hold it, is found, and so
// is a page that is counted wrong.
func TestInvariantsOfHandles(t *testing.T) {
	c, err := New(Options{Capacity: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	h, b := c.Reserve(Key{File: 1, Offset: 0}, 1000, Data, Low)
	if h == 0 || len(b) < 1000 {
		t.Fatal("no room")
	}
	h, _ = c.Publish(h, 1000)
	c.Release(h)
	for what, f := range map[string]func(){"released again": func() { c.Release(h) }, "held again": func() { c.Hold(h) }} {
		if !broken(f) {
			t.Errorf("%s: not found", what)
		}
		// What was done is taken back.
		s, i := c.locate(h)
		s.slot(i).meta.Store(s.slot(i).meta.Load() &^ refMask)
	}
	s := c.shards[0]
	s.usedBytes++
	if !broken(s.checkStore) {
		t.Error("a byte too much is not found")
	}
	s.usedBytes--
	c.Close()
}

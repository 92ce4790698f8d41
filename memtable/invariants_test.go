//go:build flatrock_invariants

package memtable

import (
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

func broken(f func()) (found bool) {
	defer func() { found = recover() != nil }()
	f()
	return false
}

// TestInvariantsOfTheArena: an offset that alloc did not return yet, and any after release, is found.
func TestInvariantsOfTheArena(t *testing.T) {
	m, err := newMappedMemory(1<<16, mmapfs.ArenaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	off, ok := m.alloc(64)
	if !ok {
		t.Fatal("no room")
	}
	for n := range uint64(8) {
		m.atOffset(off + 8*n)
	}
	for what, f := range map[string]func(){
		"nothing": func() { m.atOffset(0) }, "beyond the end": func() { m.atOffset(off + 64) }, "a link beyond the end": func() { m.at(uint32(off+64) / linkUnit) },
		"a word across the end": func() { m.word(off + 62) },
	} {
		if !broken(f) {
			t.Errorf("%s: not found", what)
		}
	}
	m.release()
	if !broken(func() { m.atOffset(off) }) {
		t.Error("memory that was freed: not found")
	}
}

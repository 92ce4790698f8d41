//go:build !nonuma

package numa

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Only mapped pages are brought back, never pages that would have to be read in or
// that may not be touched.
func TestRevealTouchesMappedPagesOnly(t *testing.T) {
	page := os.Getpagesize()
	b := mapped(t, 6*page, false)
	at := func(i int) uintptr { return address(b) + uintptr(i*page) }
	b[0], b[2*page], b[3*page] = 1, 1, 1 // 1 and 4 stay untouched, 5 is only read
	touch(b[5*page:], page)
	if err := unix.Mprotect(b[3*page:4*page], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	f := ordinaryFile(t, page)
	file := mapOf(t, int(f.Fd()), page, unix.PROT_READ, unix.MAP_SHARED, false)
	addrs := []uintptr{at(0), at(1), at(2), at(3), at(4), at(5), address(file)}
	want := []uintptr{at(0), at(2), at(5)}
	if got := revealMapped(addrs); !slices.Equal(got, want) {
		t.Errorf("revealed %x of %x, want %x", got, addrs, want)
	}
	if p := placement(t, file); p.NotPresent != 1 {
		t.Errorf("the file was read in: %s", p)
	}
	if p := placement(t, b[:page]); p.Present() != 1 {
		t.Errorf("a written page: %s", p)
	}
}

func TestRevealDoesNothingWithoutBalancing(t *testing.T) {
	b := mapped(t, os.Getpagesize(), false)
	b[0] = 1
	if got := reveal([]uintptr{address(b)}); (len(got) == 1) != balancing() {
		t.Errorf("revealed %d pages; the kernel balances: %v", len(got), balancing())
	}
}

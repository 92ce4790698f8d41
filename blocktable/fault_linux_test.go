package blocktable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// TestFaultsInTheMiddleOfReadsHoldNothing takes pages of a mapped table away while index
// partitions, which are compressed, come from the cache and data blocks, which are not, from the mapping.
func TestFaultsInTheMiddleOfReadsHoldNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "000011.sst")
	f, err := mmapfs.OS.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	o := WriterOptions{Options: DefaultOptions(), CompressionOptions: DefaultCompressionOptions(), Compression: compress.LZ4}
	o.BlockSize, o.IndexType, o.MetadataBlockSize = 64<<10, TwoLevelIndexSearch, 512
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, 1000)
	const n = 2000
	key := func(i int) []byte {
		return fmt.Appendf(nil, "a long prefix that all keys have, for the index to be compressed %06d", i)
	}
	for i := range n {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if err := w.Add(key(i), keys.Pack(1, keys.KindValue), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if f, err = mmapfs.OS.Open(name); err != nil {
		t.Fatal(err)
	}
	cache := benchCache(t, 4<<20)
	r, err := Open(f, ReaderOptions{Mmap: true, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	look := func(i int) *keys.Lookup { return &keys.Lookup{UserKey: key(i), Seq: 5} }
	var pin table.Pin
	if _, _, ok, err := r.Get(look(1000), &pin); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if b := cache.Stats().Blocks; b == 0 {
		t.Fatal("no index partition is in the cache")
	}
	// All pages but those in which blocks end: their last bytes are read first.
	var c indexCursor
	c.init(r, fetchOptions{fill: true})
	page := uint64(unix.Getpagesize())
	for ok := c.first(); ok; ok = c.next() {
		h := c.handle()
		from, to := (h.Offset+page-1)/page*page, (h.Offset+h.Size-8)/page*page
		if from < to {
			if err := unix.Mprotect(r.mapped[from:to], unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.close()
	faults := 0
	for i := 0; i < n; i += 13 {
		_, _, _, err := r.Get(look(i), &pin)
		pin.Release()
		reqs := []Request{{Look: look(i)}, {Look: look((i + 700) % n)}, {Look: look((i + 1500) % n)}}
		r.MultiGet(reqs)
		errs := []error{err}
		for k := range reqs {
			errs = append(errs, reqs[k].Err)
			reqs[k].Pin.Release()
		}
		for _, err := range errs {
			if fault := new(mmapfs.FaultError); errors.As(err, &fault) {
				faults++
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if faults < n/13*2 {
		t.Errorf("only %d reads met a fault", faults)
	}
	if p := cache.Stats().PinnedUsage; p != 0 {
		t.Errorf("%d bytes of the cache are still held", p)
	}
}

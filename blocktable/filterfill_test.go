package blocktable

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Filters that fill their memory hold all that they were given, take no more of a cache than those that do not, and are wrong
// less often.
func TestFiltersFillTheMemoryThatTheyTake(t *testing.T) {
	for _, p := range []FilterPolicy{Bloom(10), Bloom(3.3), Ribbon(10), Ribbon(24), Bloom(60)} {
		grown, wrong, wrongFilled := 0, 0, 0
		for _, n := range []int{1, 7, 100, 433, 1000, 3321, 20000, 70001} {
			var filters [2][]byte
			for i := range filters {
				b := newBitsBuilder(p, 5, i == 1)
				for k := range n {
					b.add(fmt.Appendf(nil, "in %d", k))
				}
				filters[i] = b.finish()
			}
			plain, full := filters[0], filters[1]
			if len(full) < len(plain) || blockcache.Usable(len(full)+block.TrailerLen) != blockcache.Usable(len(plain)+block.TrailerLen) {
				t.Errorf("%v, %d keys: %d bytes grew to %d, of which a cache has room for %d", p, n, len(plain), len(full), blockcache.Usable(len(plain)+block.TrailerLen))
			}
			if len(full) > len(plain) {
				grown++
			}
			for k := range n {
				if !filterMayMatch(full, fmt.Appendf(nil, "in %d", k)) {
					t.Fatalf("%v, %d keys: key %d is lost", p, n, k)
				}
			}
			for k := range 20000 {
				e := fmt.Appendf(nil, "out %d", k)
				if filterMayMatch(plain, e) {
					wrong++
				}
				if filterMayMatch(full, e) {
					wrongFilled++
				}
			}
			if left := blockcache.Usable(len(full)+block.TrailerLen) - len(full) - block.TrailerLen; left >= bloomLine && p.BitsPerKey < 60 && n > 1000 && !(p.Ribbon && p.BitsPerKey > 20) {
				t.Errorf("%v, %d keys: %d bytes are left over", p, n, left)
			}
		}
		if grown < 3 || wrongFilled > wrong+wrong/20+20 {
			t.Errorf("%v: %d filters grew; wrong %d times, %d before", p, grown, wrongFilled, wrong)
		}
	}
}

// With the option and without it a table has the same entries, and the cache's usage is the same, as it says.
func TestTablesWithFilledFilters(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		var usage [2]int64
		var size [2]uint64
		for i := range usage {
			f := benchTable(t, 20000, func(o *WriterOptions) {
				o.FilterPolicy, o.OptimizeFiltersForMemory = Bloom(10), i == 1
				if o.PartitionFilters = partitioned; partitioned {
					o.IndexType, o.MetadataBlockSize = TwoLevelIndexSearch, 14000
				}
			})
			cache := benchCache(t, 256<<20)
			r, err := Open(f, ReaderOptions{Cache: cache, CacheIndexAndFilterBlocks: true, VerifyChecksums: true})
			if err != nil {
				t.Fatal(err)
			}
			for k := range uint64(20000) {
				var pin table.Pin
				value, _, ok, err := r.Get(&keys.Lookup{UserKey: benchKey(nil, k), Seq: keys.MaxSeq}, &pin)
				if err != nil || !ok || binary.LittleEndian.Uint64(value) != k {
					t.Fatalf("key %d: %v, %v", k, ok, err)
				}
				pin.Release()
			}
			size[i], usage[i] = r.Properties().FilterSize, cache.Stats().Usage
			r.Close()
		}
		if size[1] <= size[0] || usage[1] != usage[0] {
			t.Errorf("partitioned %v: filters of %d and filled %d bytes, a cache with %d and %d", partitioned, size[0], size[1], usage[0], usage[1])
		}
	}
}

package plaintable

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// TestLinesAnswerForTheBuckets: with few and with many prefixes to a bucket,
// in files with a stored index and without, the lines are there and every lookup agrees
// with the definition, as it does when they are taken away.
func TestLinesAnswerForTheBuckets(t *testing.T) {
	for _, ratio := range []float64{0.75, 6, 300} {
		for _, stored := range []bool{true, false} {
			for _, encoding := range []EncodingType{Plain, Prefix} {
				t.Run(fmt.Sprintf("ratio=%g/stored=%v/%v", ratio, stored, encoding), func(t *testing.T) {
					o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(6), ChunkChecksums: true}
					o.HashTableRatio, o.StoreIndexInFile, o.EncodingType, o.IndexSparseness = ratio, stored, encoding, 2
					o.BloomBitsPerKey = 0 // every lookup reaches the index
					var rows []entry
					for i := range 3000 {
						rows = append(rows, entry{fmt.Appendf(nil, "%06d-%d", i/3, i%3), keys.Pack(uint64(i+1), keys.KindValue), fmt.Append(nil, "value ", i)})
					}
					b, _ := writeTable(t, o, rows)
					r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor})
					v := r.view.Load()
					if int64(len(v.lines)) != linesSize(v.index.prefixes) {
						t.Fatalf("%d bytes of lines for %d prefixes", len(v.lines), v.index.prefixes)
					}
					if _, ok := block.FindMeta(r.layout.meta, metaIndexLines); ok != stored {
						t.Errorf("the file has lines: %v, want %v", ok, stored)
					}
					list := lookups(rand.New(rand.NewPCG(1, 2)), rows)
					for i := range 2000 {
						look := keys.Lookup{UserKey: fmt.Appendf(nil, "%06d-x", 5000+i), Seq: keys.MaxSeq}
						o.Extractor.Prepare(&look)
						list = append(list, look)
					}
					checkGets(t, "with lines", r, rows, list)
					// A view is fixed once published: take the lines from one of its own.
					bare := *v
					bare.lines = nil
					r.view.Store(&bare)
					checkGets(t, "without lines", r, rows, list)
				})
			}
		}
	}
}

// TestLinesTellWhatIsThere: of many hashes none is denied, few need the buckets, and
// nearly all that are absent are denied.
func TestLinesTellWhatIsThere(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 200_000
	records := make([]uint64, n)
	for i := range records {
		records[i] = uint64(rng.Uint32())<<32 | uint64(100*i)
	}
	lines := make(lineIndex, linesSize(n))
	lines.fill(slices.Values(records))
	ask := 0
	for i, rec := range records {
		switch off, f := lines.find(uint32(rec >> 32)); {
		case f == foundNone:
			t.Fatalf("record %d of hash %#x is denied", i, rec>>32)
		case f == foundAsk, f == foundMaybe && off != 100*i:
			ask++
		case off != 100*i:
			t.Fatalf("record %d is at %d, the lines say %d for sure", i, 100*i, off)
		}
	}
	denied := 0
	for range n {
		if _, f := lines.find(rng.Uint32()); f == foundNone {
			denied++
		}
	}
	if ask > n/100 || denied < n*95/100 {
		t.Errorf("of %d, %d need the buckets, and of as many absent ones %d are denied", n, ask, denied)
	}
}

// TestLinesLeaveHashesOfManyRecordsToTheBuckets: so that a scan begins at the nearest
// record, and prefixes of one hash are told apart.
func TestLinesLeaveHashesOfManyRecordsToTheBuckets(t *testing.T) {
	lines := make(lineIndex, linesSize(3))
	lines.fill(slices.Values([]uint64{1<<32 | 0, 2<<32 | 50, 2<<32 | 90, 3<<32 | 120}))
	for hash, want := range map[uint32]int{1: 0, 2: -1, 3: 120} {
		off, f := lines.find(hash)
		if want < 0 && f != foundAsk || want >= 0 && (f != foundRow || off != want) {
			t.Errorf("hash %d: the lines say %d, %d; want %d", hash, f, off, want)
		}
	}
}

// TestLinesOfTheWrongSizeAreDamage, as is one that leads nowhere.
func TestLinesOfTheWrongSizeAreDamage(t *testing.T) {
	if _, err := decodeLines("000007.sst", 640, make([]byte, 63), 3); !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "000007.sst") {
		t.Errorf("lines of 63 bytes: %v", err)
	}
	o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(2)}
	b, _ := writeTable(t, o, []entry{{[]byte("ab1"), keys.Pack(1, keys.KindValue), []byte("v")}})
	r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor})
	bad := *r.view.Load()
	bad.lines = slices.Clone(bad.lines)
	look := keys.Lookup{UserKey: []byte("ab1"), Seq: keys.MaxSeq}
	o.Extractor.Prepare(&look)
	at, _ := bad.lines.lineOf(look.Hash)
	bad.lines[at+2] = 0x70 // an offset far behind the rows
	r.view.Store(&bad)
	if _, _, ok, err := r.Get(&look, nil); ok || !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("an offset behind the rows: %v, %v", ok, err)
	}
}

package plaintable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// TestTagsTellTheRowsOfABucketApart: with few and with many prefixes to a bucket,
// in files with a stored index and without, tags are there and every lookup agrees
// with the definition, as it does when they are taken away.
func TestTagsTellTheRowsOfABucketApart(t *testing.T) {
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
					if len(v.index.tags) != tagsLen(len(v.index.sub)) || len(v.index.sub) == 0 {
						t.Fatalf("%d tags for a sub-index of %d bytes", len(v.index.tags), len(v.index.sub))
					}
					if _, ok := block.FindMeta(r.layout.meta, metaIndexTags); ok != stored {
						t.Errorf("the file has tags: %v, want %v", ok, stored)
					}
					list := lookups(rand.New(rand.NewPCG(1, 2)), rows)
					for i := range 2000 {
						look := keys.Lookup{UserKey: fmt.Appendf(nil, "%06d-x", 5000+i), Seq: keys.MaxSeq}
						o.Extractor.Prepare(&look)
						list = append(list, look)
					}
					checkGets(t, "with tags", r, rows, list)
					// A view is fixed once published: take the tags from one of its own.
					bare := *v
					bare.index.tags = nil
					r.view.Store(&bare)
					checkGets(t, "without tags", r, rows, list)
				})
			}
		}
	}
}

package plaintable

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// TestReadsGoOnWhileTheFileIsLoaded has readers and iterators beside Load, and
// several that need a row index that the file lacks.
func TestReadsGoOnWhileTheFileIsLoaded(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, stored := range []bool{true, false} {
		o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4), RocksDBLayout: true}
		o.StoreIndexInFile = stored
		rows := randomRows(rng, o, 2000)
		b, _ := writeTable(t, o, rows)
		r := openReader(t, "000001.sst", b, ReaderOptions{Options: o.Options, Extractor: o.Extractor, Memory: mmapfs.MemoryNone})
		all := versionsOf(rows)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(g, 1))
				it := r.NewIterator(table.IterOptions{})
				defer it.Close()
				for {
					select {
					case <-stop:
						return
					default:
					}
					row := rows[rng.IntN(len(rows))]
					look := keys.Lookup{UserKey: row.key, Seq: keys.MaxSeq}
					o.Extractor.Prepare(&look)
					want, _ := all.get(look.UserKey, look.Seq)
					if _, trailer, ok, err := r.Get(&look, nil); !ok || err != nil || trailer != want.trailer {
						t.Errorf("Get(%x): expected %x, found %x %t %v", look.UserKey, want.trailer, trailer, ok, err)
						return
					}
					if !it.SeekGE(row.key, row.trailer) || it.Trailer() != row.trailer {
						t.Errorf("SeekGE(%x, %x): found %x, %v", row.key, row.trailer, it.Trailer(), it.Err())
						return
					}
					if it.Prev(); it.Err() != nil {
						t.Error(it.Err())
						return
					}
				}
			})
		}
		for _, m := range []mmapfs.Memory{mmapfs.MemoryWillNeed, mmapfs.MemoryPopulate, mmapfs.MemoryResident, mmapfs.MemoryNone, mmapfs.MemoryResident} {
			if err := r.Load(m, Placement{}); err != nil {
				t.Error(err)
			}
			if got := r.MemoryUsage(); (m == mmapfs.MemoryResident) != (got >= int64(len(b))) {
				t.Errorf("%v: a memory usage of %d for a file of %d bytes", m, got, len(b))
			}
			checkGets(t, m.String(), r, rows, lookups(rng, rows[:50]))
		}
		close(stop)
		wg.Wait()
	}
}

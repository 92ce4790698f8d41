package memtable

import (
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

func TestSmoke(t *testing.T) {
	for k := SkipList; k <= Vector; k++ {
		m, err := New(Options{Kind: k, Extractor: prefixhash.Fixed(4), BucketCount: 100, Threshold: 5})
		if err != nil {
			t.Fatal(err)
		}
		ex := prefixhash.Fixed(4)
		for i := range 2000 {
			key := []byte(fmt.Sprintf("%07d", i*7919%2000))[3+i%4:]
			n, h := ex.Hash(key)
			if err := m.Add(key, keys.Pack(uint64(i+1), keys.KindValue), []byte("v"), n, h); err != nil {
				t.Fatal(err)
			}
			look := keys.Lookup{UserKey: key, Seq: uint64(i + 1)}
			ex.Prepare(&look)
			if _, tr, ok := m.Get(&look); !ok || keys.Seq(tr) != uint64(i+1) {
				t.Fatal(k, i, ok, tr)
			}
		}
		it := m.NewIterator()
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			n--
		}
		if n != 0 {
			t.Fatal(n)
		}
		it.Close()
		m.Free()
	}
}

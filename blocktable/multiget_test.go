package blocktable

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/keys"
)

func TestMultiGetAnswersAsGetDoes(t *testing.T) {
	variants := readerVariants(t)
	rng := rand.New(rand.NewPCG(1, 3))
	for _, g := range goldens(t) {
		g.load(t)
		if len(g.entries) == 0 {
			continue
		}
		for how, change := range variants {
			r := g.open(t, change)
			for range 3 {
				var reqs []Request
				for range 1 + rng.IntN(40) {
					e := g.entries[rng.IntN(len(g.entries))]
					look := &keys.Lookup{UserKey: e.key, Seq: keys.Seq(e.trailer)}
					switch rng.IntN(4) {
					case 0:
						look.Seq = keys.MaxSeq
					case 1:
						if g.recipe["cmp"] != "u64ts" {
							look.UserKey = append(bytes.Clone(e.key), byte(rng.Uint32()))
						}
					}
					r.opts.Extractor.Prepare(look)
					reqs = append(reqs, Request{Look: look})
				}
				r.MultiGet(reqs)
				for i := range reqs {
					q := &reqs[i]
					one := Request{Look: q.Look}
					one.Value, one.Trailer, one.Found, one.Err = r.Get(q.Look, &one.Pin)
					if q.Err != nil || one.Err != nil || q.Found != one.Found || q.Trailer != one.Trailer || !bytes.Equal(q.Value, one.Value) {
						t.Errorf("%s, %s: MultiGet %x #%d: %v #%x %v, Get %v #%x %v", g.name, how, q.Look.UserKey, q.Look.Seq, q.Found, q.Trailer, q.Err, one.Found, one.Trailer, one.Err)
					}
					q.Pin.Release()
					one.Pin.Release()
				}
			}
			r.Close()
		}
	}
}

func TestMultiGetReportsDamagePerRequest(t *testing.T) {
	b, err := os.ReadFile(goldenDir + "/block/fv5_xxh3.sst")
	if err != nil {
		t.Fatal(err)
	}
	b[10] ^= 1 // in the first data block
	c, err := blockcache.New(blockcache.Options{Capacity: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := Open(memFile(t, b), ReaderOptions{VerifyChecksums: true, Cache: c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	reqs := []Request{
		{Look: &keys.Lookup{UserKey: []byte("key000270"), Seq: keys.MaxSeq}},
		{Look: &keys.Lookup{UserKey: []byte("key000000"), Seq: keys.MaxSeq}},
		{Look: &keys.Lookup{UserKey: []byte("zzz"), Seq: keys.MaxSeq}},
	}
	r.MultiGet(reqs)
	if reqs[0].Err != nil || !reqs[0].Found {
		t.Errorf("a key in a sound block: %v, %v", reqs[0].Found, reqs[0].Err)
	}
	if !placed(reqs[1].Err) && reqs[1].Err == nil {
		t.Errorf("a key in a damaged block: %v, %v", reqs[1].Found, reqs[1].Err)
	}
	if reqs[2].Err != nil || reqs[2].Found {
		t.Errorf("an absent key: %v, %v", reqs[2].Found, reqs[2].Err)
	}
	for i := range reqs {
		reqs[i].Pin.Release()
	}
	if p := c.Stats().PinnedUsage; p != 0 {
		t.Errorf("%d bytes are still pinned", p)
	}
}

package prefixhash

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

func TestPrefixLen(t *testing.T) {
	vowel := Custom("vowel", func(key []byte) int {
		for i, c := range key {
			if c == 'a' || c == 'e' {
				return i
			}
		}
		return -7
	})
	for _, c := range []struct {
		e    *Extractor
		key  string
		want int
	}{
		{nil, "abc", -1}, {nil, "", -1},
		{Fixed(4), "abc", -1}, {Fixed(4), "abcd", 4}, {Fixed(4), "abcdefgh", 4}, {Fixed(4), "", -1},
		{Fixed(0), "", 0}, {Fixed(0), "a", 0}, {Fixed(-1), "a", 0},
		{Capped(4), "abc", 3}, {Capped(4), "abcde", 4}, {Capped(4), "", 0}, {Capped(0), "a", 0},
		{Noop(), "", 0}, {Noop(), "abcdefghijkl", 12},
		{vowel, "xxe", 2}, {vowel, "xyz", -1}, {vowel, "a", 0},
		{Custom("long", func([]byte) int { return 99 }), "abc", 3},
	} {
		if got := c.e.PrefixLen([]byte(c.key)); got != c.want {
			t.Errorf("%v.PrefixLen(%q) = %d, want %d", c.e, c.key, got, c.want)
		}
		prefix, ok := c.e.Prefix([]byte(c.key))
		if ok != (c.want >= 0) || ok && string(prefix) != c.key[:c.want] {
			t.Errorf("%v.Prefix(%q) = %q, %v", c.e, c.key, prefix, ok)
		}
	}
}

func TestParseKnowsEveryFormOfRocksDB(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "nullptr",
		"nullptr":                     "nullptr",
		"{id=nullptr;}":               "nullptr",
		"rocksdb.FixedPrefix.4":       "rocksdb.FixedPrefix.4",
		"fixed:20":                    "rocksdb.FixedPrefix.20",
		"rocksdb.CappedPrefix.6":      "rocksdb.CappedPrefix.6",
		"capped:6":                    "rocksdb.CappedPrefix.6",
		"rocksdb.Noop":                "rocksdb.Noop",
		"{id=rocksdb.Noop}":           "rocksdb.Noop",
		"{id=rocksdb.FixedPrefix.4;}": "rocksdb.FixedPrefix.4",
		" { id = fixed:3 ; } ":        "rocksdb.FixedPrefix.3",
	} {
		e, err := Parse(text)
		if err != nil || e.Name() != want {
			t.Errorf("Parse(%q) = %v, %v; want %s", text, e, err, want)
		}
		if again, err := Parse(e.Name()); err != nil || again.Name() != want {
			t.Errorf("Parse(%q) does not read its own name back: %v", e.Name(), err)
		}
	}
	for _, text := range []string{"fixed:", "fixed:-1", "fixed:x", "rocksdb.FixedPrefix.", "capped:99999999999",
		"rocksdb.FixedPrefix.4.4", "{id=fixed:3", "{id=fixed:3;x=y}"} {
		if e, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, e)
		}
	}
	if _, err := Parse("com.example.Tenant"); !errors.Is(err, ErrUnknownExtractor) {
		t.Errorf("unknown name: %v", err)
	}
}

// The hashes of the fact sheet plain-table, section 3.
func TestPrepareHashesThePrefix(t *testing.T) {
	for input, want := range map[string]uint32{
		"":                 0x0000018d,
		"61":               0x5c8473b1,
		"6162":             0xe77f7d03,
		"616263":           0x1d9aa392,
		"61626364":         0x0c6f6be9,
		"6162636465":       0x6a82bc08,
		"6f6e6c79":         0x9476e1e6,
		"6f6e6c792d6b6579": 0xb21fd88c,
		"6b303131":         0xa26d9f29,
		"61303030":         0xa56b14ed,
		"ff":               0x517c4df6,
		"8081":             0x99800228,
		"f0f1f2":           0xc911c865,
		"61626364fe":       0x7e435043,
	} {
		prefix, err := hex.DecodeString(input)
		if err != nil {
			t.Fatal(err)
		}
		look := keys.Lookup{UserKey: append(prefix, "tail"...)}
		Fixed(len(prefix)).Prepare(&look)
		if look.PrefixLen != len(prefix) || look.Hash != want {
			t.Errorf("Prepare(%s) = %d, %08x; want %08x", input, look.PrefixLen, look.Hash, want)
		}
		if n, h := Fixed(len(prefix)).Hash(look.UserKey); n != len(prefix) || h != want {
			t.Errorf("Hash(%s) = %d, %08x", input, n, h)
		}
	}
	look := keys.Lookup{UserKey: []byte("abc"), PrefixLen: 2, Hash: 7}
	Fixed(4).Prepare(&look)
	if look.PrefixLen != -1 || look.Hash != 0 {
		t.Errorf("outside the domain: %+v", look)
	}
	look.PrefixLen = 2
	(*Extractor)(nil).Prepare(&look)
	if look.PrefixLen != -1 {
		t.Errorf("no extractor: %+v", look)
	}
}

func TestBucketsAreTheRemainder(t *testing.T) {
	counts := []uint32{1, 2, 3, 5, 7, 64, 1000, 1_000_000, 1<<31 - 1, 1 << 31, math.MaxUint32 - 1, math.MaxUint32}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		counts = append(counts, rng.Uint32()>>rng.IntN(32)|1)
	}
	for _, n := range counts {
		b := NewBuckets(n)
		if b.Count() != n {
			t.Fatalf("Count() = %d, want %d", b.Count(), n)
		}
		hashes := []uint32{0, 1, n - 1, n, n + 1, 2*n - 1, math.MaxUint32 - 1, math.MaxUint32}
		for range 2000 {
			hashes = append(hashes, rng.Uint32())
		}
		for _, h := range hashes {
			if got := b.Of(h); got != h%n {
				t.Fatalf("%d mod %d = %d, want %d", h, n, got, h%n)
			}
		}
	}
	if NewBuckets(0).Of(12345) != 0 {
		t.Error("no buckets must count as one")
	}
}

func TestSlots(t *testing.T) {
	s := Slots(make([]byte, 3*SlotLen))
	for i := range uint32(3) {
		s.Set(i, 0x01020304*i)
	}
	for i := range uint32(3) {
		if s.At(i) != 0x01020304*i {
			t.Errorf("slot %d = %#x", i, s.At(i))
		}
	}
	if s[4] != 0x04 {
		t.Errorf("slots are not little-endian: % x", []byte(s))
	}
}

func TestPrepareDoesNotAllocate(t *testing.T) {
	e, look, sum := Fixed(8), keys.Lookup{UserKey: []byte("0123456789abcdef")}, uint32(0)
	b := NewBuckets(1_000_000)
	if n := testing.AllocsPerRun(100, func() { e.Prepare(&look); sum += b.Of(look.Hash) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPrepare(b *testing.B) {
	e, look := Fixed(20), keys.Lookup{UserKey: []byte("0123456789abcdefghij")}
	b.ReportAllocs()
	for b.Loop() {
		e.Prepare(&look)
	}
}

func BenchmarkBucket(b *testing.B) {
	buckets, h := NewBuckets(1_000_003), uint32(1)
	b.ReportAllocs()
	for b.Loop() {
		h = buckets.Of(h*0x9e3779b1) + 1
	}
}

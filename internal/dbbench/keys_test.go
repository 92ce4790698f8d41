package dbbench

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// Keys that db_bench 7.8.3 wrote with fillseq and --num=300, as ldb scan --hex shows
// them, the first two and the last.
func TestKeysAreDBBenchs(t *testing.T) {
	for _, test := range []struct {
		keySize, prefixSize, perPrefix int64
		number                         uint64
		want                           string
	}{
		{16, 0, 0, 0, "00000000000000003030303030303030"},
		{16, 0, 0, 1, "00000000000000013030303030303030"},
		{16, 0, 0, 256, "00000000000001003030303030303030"},
		{16, 0, 0, 299, "000000000000012b3030303030303030"},
		{20, 20, 0, 256, "0000000000000100303030303030303030303030"},
		{20, 20, 0, 299, "000000000000012b303030303030303030303030"},
		{24, 10, 5, 0, "000000000000000030300000000000000000303030303030"},
		{24, 10, 5, 0x3c, "00000000000000003030000000000000003c303030303030"},
		{24, 10, 5, 0x6f, "00000000000000333030000000000000006f303030303030"},
		{24, 10, 5, 299, "000000000000003b3030000000000000012b303030303030"},
		{30, 6, 7, 0x2a, "000000000000000000000000002a30303030303030303030303030303030"},
		{30, 6, 7, 0xf5, "00000000002300000000000000f530303030303030303030303030303030"},
		{30, 6, 7, 0x125, "000000000029000000000000012530303030303030303030303030303030"},
		{8, 0, 0, 299, "000000000000012b"},
		{4, 0, 0, 1, "00000001"},
		{4, 0, 0, 299, "0000012b"},
		{12, 12, 10, 299, "000000000000001d30303030"},
		{20, 3, 100, 0x0003, "0000000000000000000003303030303030303030"},
		{20, 3, 100, 0x00aa, "00000200000000000000aa303030303030303030"},
		{20, 3, 100, 299, "000002000000000000012b303030303030303030"},
	} {
		c := newConfig()
		c.num, c.keySize, c.prefixSize, c.keysPerPrefix = 300, test.keySize, test.prefixSize, test.perPrefix
		m := newKeyMaker(c)
		key := m.buffer()
		m.put(key, 7) // what was in the buffer must not matter
		if got := hex.EncodeToString(m.put(key, test.number)); got != test.want {
			t.Errorf("key size %d, prefix %d, %d a prefix, number %d:\n%s, want\n%s",
				test.keySize, test.prefixSize, test.perPrefix, test.number, got, test.want)
		}
	}
}

func TestPermutationVisitsEachOnce(t *testing.T) {
	for seed := range uint64(5) {
		for _, n := range []uint64{1, 2, 3, 4, 5, 7, 8, 9, 100, 1000, 1023, 1024, 1025, 65537} {
			p := newPermutation(n, rand.New(rand.NewPCG(seed, n)))
			seen := make([]bool, n)
			inPlace := 0
			for i := range n {
				v := p.at(i)
				if v >= n || seen[v] {
					t.Fatalf("n %d: %d twice or out of range", n, v)
				}
				seen[v] = true
				if v == i {
					inPlace++
				}
			}
			if n >= 1000 && inPlace > 20 {
				t.Errorf("n %d: %d of them did not move", n, inPlace)
			}
		}
	}
}

// A fill in random order must not walk through neighbours, or it would measure caches.
func TestPermutationScatters(t *testing.T) {
	const n = 100_000
	p := newPermutation(n, rand.New(rand.NewPCG(1, 2)))
	near, up := 0, 0
	for i := uint64(1); i < n; i++ {
		a, b := p.at(i-1), p.at(i)
		if max(a, b)-min(a, b) < n/100 {
			near++
		}
		if b > a {
			up++
		}
	}
	if near > n/25 || up < n*2/5 || up > n*3/5 {
		t.Fatalf("%d of %d steps to a near number, %d upwards", near, n, up)
	}
}

func TestSkewedDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const num = 1000
	for _, exp := range []float64{0, 1, 10} {
		counts := make([]int, num)
		for range 100_000 {
			counts[skewed(rng, num, exp)]++ // panics if out of range
		}
		top := 0
		for _, n := range counts {
			top = max(top, n)
		}
		// Uniform draws give 100 each; with an exponent of 10 a tenth of the draws
		// share each factor e of the range, the last ones a single number.
		if exp == 0 && top > 200 || exp == 10 && top < 5000 {
			t.Errorf("exponent %g: the most frequent number was drawn %d times", exp, top)
		}
	}
}

func TestExistingKeys(t *testing.T) {
	k := new(existingKeys)
	want := []string{"a", "", "long key", "z"}
	for _, key := range want {
		k.add([]byte(key))
	}
	c := newConfig()
	m := newKeyMaker(c)
	m.existing = k
	key := m.buffer()
	for i, w := range want {
		if key = m.put(key, uint64(i)); string(key) != w {
			t.Errorf("%d: %q, want %q", i, key, w)
		}
	}
}

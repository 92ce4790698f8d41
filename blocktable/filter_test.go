package blocktable

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/flatrock-db/flatrock/internal/hash"
)

// The filter blocks of RocksDB 7.8.3's SstFileWriter with NewRibbonFilterPolicy
// for keys "k%07d-%d-%g" of (7·i + id, n, bits), i below n.
func TestRibbonFiltersAreRocksDBsBitForBit(t *testing.T) {
	for _, v := range []struct {
		bits   float64
		n, id  int
		size   int
		sha256 string
	}{
		{3, 200, 0, 101, "4187083a24cd722ce43941eb2ca2b491a7b18ec10bb88225ea321c06b7b663e7"},
		{3, 400, 1, 165, "348636d7edb57462a26a12a5011d2893c86892349d125e675b20aaa7c8c606ab"},
		{3, 700, 2, 229, "c3b532b4abff5f9230fd31d7e70eba5f821ffba741dae3eb19d7a864d214115d"},
		{3, 900, 3, 293, "8e82bba3969be2792cd3b3dcbeedac1b4236c3ca8bac2c82a8cf82d520e5de47"},
		{3, 961, 4, 293, "b543f140132aeefdb8645df04c210d47c666bd785cf251ce172a02fb6b593e0f"},
		{3, 1000, 5, 293, "10253f86cdd31dace5b579477370cac11fac9b2c9ac1407c05c7f2f8e44c3222"},
		{3, 1100, 6, 325, "d3c3726f7ea15364123aa79d0e294743e90bbf0b8064c9f0dde3026a69fb25d7"},
		{3, 1300, 7, 405, "9aa9f5669c7b9da0a294e31dc03fefb31eadd3fe43c8eea40a6d3f31c5bef3ba"},
		{3, 1700, 8, 501, "2ec772cffba91dc8d2ba1e248ac4a59986a8ef385736bff265535e0181ed4586"},
		{3, 2100, 9, 597, "3492e715a36d6a53b1605549b3cb015914148262c68727f8a8044d02355a5578"},
		{3, 2600, 10, 741, "a45757b675d4357592e3248eb287ce977e3835605513606e7b6968635645f102"},
		{3, 3300, 11, 933, "9b47956706ed201d57aa2b21a4500e2356189eaf8236bb590cd33da501655c56"},
		{3, 4100, 12, 1141, "0a217325c8477ff48fa201b0d08c05a238aa4467b94eedf7baab273c66f38cb1"},
		{3, 5200, 13, 1445, "014edfa882d93970d1c2c1c5815593bedbf9bff77798dca1ebe350a02916e2cc"},
		{3, 7000, 14, 1909, "2bda21594c2c50a15cc65a48d056eba29b3c6db2381eb80dfd70d915540c2e9e"},
		{3, 9000, 15, 2485, "4783d26cb630c05dc7f371278c461de65e88fda4855fac7433ae527870bafe19"},
		{3, 13000, 16, 3557, "4f13fd369913f827bab92e2b5c0e67c352e27aac9aa74e4a6057d30b476a672f"},
		{3, 20000, 17, 5445, "37e8b5a41798d54ae75114458c740d73ef82579f77fedcedac4ca3837e6451c4"},
		{10, 200, 23, 229, "58654b536bbd716e3f881e933f65f38087bcd6ef71193e7f04d911f6375bf4e9"},
		{10, 400, 24, 453, "0d30d21d4afed9bb4b8e838e6cfd3b630410c855e5d7e73a4c3e49b46e89a7f1"},
		{10, 700, 25, 661, "919d6f5a8e44f1256f85ff6bcb58adf6e2b2c246bedcc1fd11b3d1c6bc22be20"},
		{10, 900, 26, 885, "3c8b70181b5947fab1026d0bef6e5ebfe8eafa17058f1253224788533da77ed5"},
		{10, 961, 27, 885, "85c2b02fd070129ff5e6f48a6a970c01c2b043fbbe2a5def45f40f172c643af6"},
		{10, 1000, 28, 885, "777538f85bc59821e45b6c26e22444b811b4c93d6fd2f58ee9b4413cbd3efa93"},
		{10, 1100, 29, 997, "f4b7617ed25e9b489f315b8cd64f52a8f65b98694c5742118cb2c615268a3bed"},
		{10, 1300, 30, 1205, "b098168c8c410450a5fffb65838ce158d9cbc0c61a93876f7a322a3ee65f79fe"},
		{10, 1700, 31, 1541, "a2de45a3829fa17653e4a8a3d620fea4eb602fe7168b43f3c3e10f36c993bc78"},
		{10, 2100, 32, 1861, "b81ad9a5216631028781a3afcb8ea205a4db90a38821abae0990fd2eb9657819"},
		{10, 2600, 33, 2293, "45f59da01d74d285cc327c4e9bb8b5e367236677d09c3fb366d5322b9073b9f7"},
		{10, 3300, 34, 2949, "2421eb1e3eca310de045daaf38143178bd8e575a85f3f2f5282cb7879759f2aa"},
		{10, 4100, 35, 3589, "cff9d5c294013839f14dbcf734189bbc08297a4254da597e71f384e127ae855a"},
		{10, 5200, 36, 4565, "25736d94c574150bff69e2748b05397bedef26844a78d8492a017e61b459b69b"},
		{10, 7000, 37, 6085, "422eed66277fb405ba7be86482273943076ba96471af218635afc22ad6b6006a"},
		{10, 9000, 38, 7941, "960412d7a69767da3d76327d0ea5414b50efe9ee2f04f575704c3d9c193f82c8"},
		{10, 13000, 39, 11413, "793d28b6d78733febe208231a514c98b14fbf0ecfc9b275217958c73b5e0eeb6"},
		{10, 20000, 40, 17477, "bc1dc1eb474fca89fd13e5781fc600cbd9459e469c4a7487c27ee8a9cf506ef8"},
		{7.3, 200, 46, 165, "d30c290c7b6b51ce5ed34e8d53ac1f0ac4b73edfe6a600eedd86f671f900a746"},
		{7.3, 400, 47, 325, "08c0f1f33df2636f030bd8f3a7e85aa7130eda3783985d2677877438e10cc9b9"},
		{7.3, 700, 48, 485, "cf1610d316593819fd76246deac9a35079d2c08720981d35347a45b300785f10"},
		{7.3, 900, 49, 645, "e522f4ccce9d92d54c23f2f4fbc7c6b7a3e914990c3acd26629fd123f736001b"},
		{7.3, 961, 50, 645, "6186997a151b4f2693fa2e721b0ee9ba6204c46a86d70557b9bfabbf49c9d803"},
		{7.3, 1000, 51, 645, "5e08a865989e5412cd2ee30b02b980435bf4a953f662e97cfc03448a28d4e328"},
		{7.3, 1100, 52, 725, "7636b48a96e296a469fce65f92b42045d775d3a0e12a76670b757dbae014c598"},
		{7.3, 1300, 53, 885, "9e11d506e9772e72942f12520a882d67af8bc72224b7b74999dc568e01fe97e7"},
		{7.3, 1700, 54, 1125, "ec7c6f48fd4c6879ed30a9cb095f0fc161e3bd1a1817db31297a00d8ddec7722"},
		{7.3, 2100, 55, 1365, "8c8c4fdc766be5265c5785b17f7f4a7942d4aefe536670a67346f024daee02df"},
		{7.3, 2600, 56, 1685, "27c8117a0c040cc4587192317eefbacef3b0164986e29636c59378a2397a85b6"},
		{7.3, 3300, 57, 2165, "ed15c16a4c2668ef20aaef3bfe8d41553bfcfc806423abae0a53a94aacdd89b9"},
		{7.3, 4100, 58, 2645, "0eb7ce68fe71569a688bed313051e837e4220a5116a455bd5a6524a5bf17b41b"},
		{7.3, 5200, 59, 3365, "f95ab60b61eeb26c59865b5238b527efd4917359b9772ab5ebe9544fba8c87c7"},
		{7.3, 7000, 60, 4485, "842dedcc81e3494a94eb4c2c1ae05bcb04bee5977c0034730307e6efd224a4f6"},
		{7.3, 9000, 61, 5845, "9db902ea2717175b8e7e58bf1f40a284f2c3cc2139e94ad9c325ff622c9b17cf"},
		{7.3, 13000, 62, 8405, "077286a5a8cf07aee6ed19eccb899958547574a1f81fd0561236e78dcea57059"},
		{7.3, 20000, 63, 12869, "72287a990b1463f79c1f8837b147cb698d58f686a4c6dbc6c3555626e97c11d5"},
	} {
		p := Ribbon(v.bits)
		b := newRibbonBuilder(p, p.millibits())
		for i := range v.n {
			b.add(fmt.Appendf(nil, "k%07d-%d-%g", i*7+v.id, v.n, v.bits))
		}
		f := b.finish()
		if got := fmt.Sprintf("%x", sha256.Sum256(f)); len(f) != v.size || got != v.sha256 {
			t.Errorf("%v bits, %d keys: %d bytes with hash %s, RocksDB made %d with %s", v.bits, v.n, len(f), got, v.size, v.sha256)
		}
	}
}

// absentRate builds a filter of n keys and returns how often it denies none of
// the keys that it has, and admits others.
func absentRate(t *testing.T, p FilterPolicy, version, n int) float64 {
	b := newBitsBuilder(p, version, false)
	for i := range n {
		b.add(fmt.Appendf(nil, "present%08d", i))
	}
	f := b.finish()
	for i := range n {
		if !filterMayMatch(f, fmt.Appendf(nil, "present%08d", i)) {
			t.Fatalf("%v, version %d: key %d of %d is denied", p, version, i, n)
		}
	}
	const probes = 100000
	admitted := 0
	for i := range probes {
		if filterMayMatch(f, fmt.Appendf(nil, "absent%08d", i)) {
			admitted++
		}
	}
	return float64(admitted) / probes
}

func TestFiltersAreAsAccurateAsTheirBitsPromise(t *testing.T) {
	for _, v := range []struct {
		p       FilterPolicy
		version int
		rate    float64 // RocksDB's documented estimate
	}{
		{Bloom(5), 5, 0.1006}, {Bloom(10), 5, 0.00953}, {Bloom(16), 5, 0.00093},
		{Bloom(10), 4, 0.0119}, {Ribbon(10), 5, 0.00953}, {Ribbon(5), 7, 0.1006},
	} {
		got := absentRate(t, v.p, v.version, 20000)
		if got > v.rate*1.2 || got < v.rate*0.5 {
			t.Errorf("%v, version %d: false positive rate %.5f, expected about %.5f", v.p, v.version, got, v.rate)
		}
	}
}

func TestNewBloomVectors(t *testing.T) {
	// Probe positions from the fact sheet, section 16: the line among 1000, and the first six bits.
	for _, v := range []struct {
		key  string
		line int
		bits []int
	}{
		{"", 62, []int{166, 121, 469, 452, 231, 149}},
		{"a", 376, []int{273, 289, 261, 1, 110, 50}},
		{"hello", 786, []int{321, 97, 331, 137, 40, 24}},
		{"key000000", 651, []int{392, 460, 259, 114, 275, 219}},
		{"0123456789abcdef0", 225, []int{84, 60, 194, 348, 457, 433}},
	} {
		f := buildBloom([]uint64{hash.XXPH3([]byte(v.key))}, 1000*bloomLine, 6)
		want := make([]byte, len(f))
		for _, b := range v.bits {
			want[v.line*bloomLine+b/8] |= 1 << (b % 8)
		}
		copy(want[1000*bloomLine:], []byte{0xff, 0, 6, 0, 0})
		if string(f) != string(want) {
			t.Errorf("the filter of %q has other bits than line %d, %v", v.key, v.line, v.bits)
		}
	}
}

func TestFilterPoliciesParseBack(t *testing.T) {
	for s, want := range map[string]FilterPolicy{
		"bloom:10": Bloom(10), "bloomfilter:9.5:false": Bloom(9.5), "rocksdb.BuiltinBloomFilter": {},
		"ribbon:7": Ribbon(7), "ribbonfilter:10:-1": Ribbon(10), "nullptr": {}, "": {},
	} {
		got, err := ParseFilterPolicy(s)
		if s == "rocksdb.BuiltinBloomFilter" {
			if err == nil {
				t.Errorf("%q has no size, and parsed as %v", s, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
		if again, err := ParseFilterPolicy(got.String()); err != nil || again != got {
			t.Errorf("%q prints as %q, which parses as %v, %v", s, got.String(), again, err)
		}
	}
	for _, bad := range []string{"bloom", "bloom:x", "bloom:-1", "xor:10", "bloom:1:2:3"} {
		if p, err := ParseFilterPolicy(bad); err == nil {
			t.Errorf("%q parsed as %v", bad, p)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, g := range goldens(f) {
		r := g.open(f, nil)
		for _, b := range append([][]byte{r.filter.own.b}, r.filter.ownParts...) {
			if len(b) > 0 && len(b) < 4096 {
				f.Add(append([]byte(nil), b...), []byte("key000000"))
			}
		}
		r.Close()
	}
	f.Fuzz(func(t *testing.T, filter, entry []byte) { filterMayMatch(filter, entry) })
}

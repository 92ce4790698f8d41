package hash

import (
	"testing"

	"github.com/zeebo/xxh3"
)

func TestXXPH3AndFinalXXH3Vectors(t *testing.T) {
	for _, v := range []struct {
		n             int
		frozen, final uint64
	}{
		{0, 0x5342c3010fe1dd04, 0x2d06800538d394c2},
		{1, 0xb71d295c7865c7e9, 0x4c5cca45d0f4811f},
		{2, 0x777096a9131e825d, 0x29c60963cbfa4e6e},
		{3, 0x8b93d65306b47960, 0x6e3e2670e61106ac},
		{4, 0x640dfa78d9602caa, 0x5c4c63133443d03f},
		{5, 0x407604ac2e18c141, 0x49f5eb3111280b63},
		{7, 0x238a82301009f53f, 0x46a5c724d51fe43f},
		{8, 0xe02bb0260ca2f426, 0xf9fd4dd0b04d78f5},
		{9, 0x82e27d91ecbde0e3, 0x7c20df9712c26edf},
		{15, 0x42742cff0156771e, 0xb345a7b2698ba575},
		{16, 0x808dc7f6a08e1828, 0x86abf6baccea0858},
		{17, 0x6216c07c87bfe5d1, 0xb58bf5dc5022d071},
		{20, 0x51a45bd1f8b6cb84, 0x67d45431cec6c464},
		{32, 0xf1baab985ecf232e, 0xe3712ed84c04a66e},
		{33, 0x48c3ee9be5231873, 0xa4dee99b093e1f73},
		{64, 0xec9764f4fa2586fd, 0x1291d2d4042330dd},
		{65, 0x070482c3b1bc6389, 0x97c6bf83217e5ec9},
		{96, 0x8bf55ea9f6da04e5, 0x81296929fc063365},
		{97, 0x682d0b1bfce2169d, 0xf145a45b658ab9dd},
		{128, 0xb885f0d2689835e1, 0x10d17f72c0ccba41},
		{129, 0xfe146eb2e99b1a68, 0x1648bdc3db49d1a2},
		{144, 0x9731b6d8c6e0d8c3, 0xb46dbfc6d9e31aba},
		{160, 0x090f530ba8a18786, 0x655c8dc33b4b4c4a},
		{200, 0xdc07fbe307a7cb37, 0xc0fbc0f4e181c826},
		{239, 0xc3cece2158c77b46, 0xf0d154819adb16cd},
		{240, 0xddce7abbd046abf1, 0xb6cfaf343fab81e6},
		{241, 0xb1e53475de84b071, 0x956cae592c67279e},
		{255, 0xdd49cac5ccf4b3d0, 0x64a6073025eb7929},
		{256, 0xd4e21b1ad9fad6c0, 0xb15e550733c5dfac},
		{257, 0x159beedf4d69fff8, 0x87b3bf2d941cf085},
		{512, 0xe48d39a8e36d4c18, 0xa0e9790eb93990d7},
		{1000, 0x79003f49f1dc1fce, 0x571d5cbfef44331b},
		{1023, 0x836424161aeef716, 0xa94ffcd2254368e4},
		{1024, 0x144aa676708da11c, 0x70bd377d9574f4bb},
		{1025, 0x621058c4914d5089, 0x66c4487c41e127a7},
		{1088, 0x28c9bdc58de042c5, 0xf43dc77e28a9acbc},
		{1089, 0x8dd3b5477ccd47cd, 0x313bc7ee32bbfa2e},
		{2048, 0xefa57a0132823302, 0x8b46caa67dab3a30},
		{2049, 0x5400141362550599, 0x581cd184fd9b76c5},
		{4096, 0xe2969cca527e6046, 0x9ddd66c14af0daff},
	} {
		in := vectorInput(v.n)
		if got := XXPH3(in); got != v.frozen {
			t.Errorf("XXPH3 of %d bytes: %016x, expected %016x", v.n, got, v.frozen)
		}
		if got := xxh3.Hash(in); got != v.final {
			t.Errorf("final XXH3 of %d bytes: %016x, expected %016x", v.n, got, v.final)
		}
	}
	for s, want := range map[string]uint64{
		"a": 0x88d868bf607681c7, "hello": 0xa0bbc238c97657b5,
		"key000000": 0xc42dc166a6dd1c90, "0123456789abcdef0": 0x2a46d2a5399b9114,
	} {
		if got := XXPH3([]byte(s)); got != want {
			t.Errorf("XXPH3 of %q: %016x, expected %016x", s, got, want)
		}
	}
}

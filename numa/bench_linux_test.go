//go:build !nonuma

package numa

import "testing"

func BenchmarkDiscover(b *testing.B) {
	for range b.N {
		machine(b)
	}
}

func BenchmarkPlacementPerPage(b *testing.B) {
	m := mapped(b, 64<<20, false)
	fill(m)
	pages := len(m) / 4096
	b.ResetTimer()
	for i := 0; i < b.N; i += pages {
		if _, err := PlacementOf(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBind(b *testing.B) {
	node := machine(b).MemoryNodes()[0]
	m := mapped(b, 1<<20, false)
	for range b.N {
		if err := Bind(m, Leave, node); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPin(b *testing.B) {
	cpu := machine(b).AllowedCPUs[0]
	for range b.N {
		release, err := Pin(cpu)
		if err != nil {
			b.Fatal(err)
		}
		if err := release(); err != nil {
			b.Fatal(err)
		}
	}
}

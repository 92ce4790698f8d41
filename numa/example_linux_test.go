//go:build !nonuma

package numa_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/flatrock-db/flatrock/numa"
	"golang.org/x/sys/unix"
)

func ExampleBind() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	arena, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		log.Fatal(err)
	}
	defer unix.Munmap(arena)
	node := t.MemoryNodes()[0]
	if err := numa.Bind(arena, numa.Leave, node); err != nil {
		log.Fatal(err)
	}
	for i := range arena {
		arena[i] = 1 // pages are allocated when they are touched
	}
	p, err := numa.PlacementOf(arena)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.BytesOn(node), "bytes on the node,", p.Elsewhere(node), "pages elsewhere")
	// Output: 1048576 bytes on the node, 0 pages elsewhere
}

// A mapping of an ordinary file does not follow a policy. Populate it from a thread
// on the node; what lies elsewhere already, Migrate moves.
func ExamplePopulate() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.CreateTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := f.Truncate(1 << 20); err != nil {
		log.Fatal(err)
	}
	table, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		log.Fatal(err)
	}
	defer unix.Munmap(table)

	node := t.MemoryNodes()[0]
	err = numa.Populate(table, numa.Policy{Mode: numa.BindTo, Nodes: []int{node}}, false)
	if errors.Is(err, numa.ErrMisplaced) {
		_, err = numa.Migrate(table, node)
	}
	fmt.Println(err)
	// Output: <nil>
}

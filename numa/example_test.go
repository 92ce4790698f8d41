package numa_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log"

	"github.com/flatrock-db/flatrock/numa"
)

func ExampleDiscover() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	// log.Print(t) writes the whole report.
	for _, node := range t.CPUNodes() {
		if len(t.AllowedOn(node)) == 0 {
			fmt.Println("no CPU on node", node)
		}
	}
	for _, node := range t.MemoryNodes() {
		if t.Distance(node, node) != 10 {
			fmt.Println("node", node, "is far from itself")
		}
	}
	fmt.Println("read")
	// Output: read
}

func ExamplePinNode() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() {
		release, err := numa.PinNode(t.CPUNodes()[0])
		if err != nil {
			done <- err
			return
		}
		// The goroutine's thread stays on the node's CPUs until release.
		done <- release()
	}()
	fmt.Println(<-done)
	// Output: <nil>
}

// Send each request to a worker on the node that holds its data.
func ExamplePool() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	pool, err := numa.NewPool(t, numa.PoolOptions{Workers: 1, Queue: 16})
	if err != nil {
		log.Fatal(err)
	}
	shards, err := numa.NewShards(pool.Nodes()...)
	if err != nil {
		log.Fatal(err)
	}
	stores := map[int]map[string]string{}
	for _, node := range shards.Nodes() {
		stores[node] = map[string]string{}
	}
	node := func(key string) int {
		h := fnv.New64a()
		h.Write([]byte(key[:4])) // the prefix decides, so that a prefix stays together
		return shards.Node(h.Sum64())
	}
	put := func(key, value string) error {
		n := node(key)
		return pool.Do(context.Background(), n, func() error {
			stores[n][key] = value // one worker a node: no lock
			return nil
		})
	}
	if err := put("user:17", "Ada"); err != nil {
		log.Fatal(err)
	}
	err = pool.Do(context.Background(), node("user:18"), func() error {
		fmt.Println(stores[node("user:18")]["user:17"])
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pool.Close())
	// Output:
	// Ada
	// <nil>
}

// Give each node its own copy of an index that is only read.
func ExampleReplicate() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	index := []byte("what every reader looks at first")
	replicas, err := numa.Replicate(t, index, t.MemoryNodes()...)
	if err != nil {
		log.Fatal(err)
	}
	defer replicas.Free()
	fmt.Println(string(replicas.Here())) // the copy of the caller's node
	// Output: what every reader looks at first
}

// A counter on each node, without false sharing between them.
func ExamplePerNode() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	counters, err := numa.NewPerNode(t, t.CPUNodes(), func(node int) (*[16]int64, error) {
		return new([16]int64), nil
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, node := range counters.Nodes() {
		counters.At(node)[0]++
	}
	var sum int64
	counters.Each(func(node int, c *[16]int64) { sum += c[0] })
	fmt.Println(sum == int64(len(t.CPUNodes())))
	// Output: true
}

func ExampleTopology_Spread() {
	t, err := numa.Discover()
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	readers := t.Spread(4)
	for _, node := range readers {
		go func() { done <- t.Run(node, func() error { return nil /* read */ }) }()
	}
	for range readers {
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("read by", len(readers))
	// Output: read by 4
}

func ExampleParsePolicy() {
	p, err := numa.ParsePolicy("interleave:0-3")
	fmt.Println(p.Mode, p.Nodes, err)
	_, err = numa.ParsePolicy("spread")
	fmt.Println(err)
	// Output:
	// interleave [0 1 2 3] <nil>
	// numa: policy "spread": expected one of default, preferred, bind, interleave, local, preferred-many
}

func ExampleReport() {
	var r numa.Report
	r.Add("resident tables", numa.Placement{PageSize: 4096, Pages: 768, ByNode: map[int]int64{0: 512, 1: 256}})
	r.AddCopies("indexes", numa.Placement{PageSize: 4096, Pages: 512, ByNode: map[int]int64{0: 256, 1: 256}})
	fmt.Print(r.Format([]int{0, 1}))
	// Output:
	// structure            node 0      node 1      absent    remote@0    remote@1
	// resident tables     2.0 MiB     1.0 MiB         0 B       33.3%       66.7%
	// indexes             1.0 MiB     1.0 MiB         0 B        0.0%        0.0%
	// total               3.0 MiB     2.0 MiB         0 B       25.0%       50.0%
}

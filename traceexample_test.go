package flatrock_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// A trace shows each access of a block; see `flatrock trace block-cache analyze`.
func ExampleDB_StartBlockCacheTrace() {
	db, err := flatrock.Open("/db", &flatrock.Options{CreateIfMissing: true, FS: mmapfs.NewMem(), ColumnFamily: &flatrock.ColumnFamilyOptions{}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	var trace bytes.Buffer // a file, most often
	if err := db.StartBlockCacheTrace(nil, &trace); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, err := db.Get(nil, []byte("key"), nil); err != nil {
			log.Fatal(err)
		}
	}
	s, err := db.EndBlockCacheTrace()
	fmt.Println(s.Records, "accesses,", s.Dropped, "dropped", err)
	// Output: 3 accesses, 0 dropped <nil>
}

// A trace of the operations is replayed on another database.
func ExampleDB_NewReplayer() {
	options := func() *flatrock.Options {
		return &flatrock.Options{CreateIfMissing: true, FS: mmapfs.NewMem(), ColumnFamily: &flatrock.ColumnFamilyOptions{}}
	}
	db, err := flatrock.Open("/db", options())
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var trace bytes.Buffer
	if err := db.StartTrace(nil, &trace); err != nil {
		log.Fatal(err)
	}
	if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	if _, err := db.EndTrace(); err != nil {
		log.Fatal(err)
	}

	other, err := flatrock.Open("/other", options())
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close()
	r, err := other.NewReplayer(&trace)
	if err != nil {
		log.Fatal(err)
	}
	stats, err := r.Replay(context.Background(), &flatrock.ReplayOptions{FastForward: 2})
	if err != nil {
		log.Fatal(err)
	}
	value, err := other.Get(nil, []byte("key"), nil)
	fmt.Printf("%d write, %s %v\n", stats.Ops[flatrock.TraceWrite], value, err)
	// Output: 1 write, value <nil>
}

package flatrock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Two databases share a budget of memory for memtables, and one of bytes a second for flushes and compactions.
func Example_sharedLimits() {
	memory := flatrock.NewWriteBufferManager(flatrock.WriteBufferManagerOptions{BufferSize: 256 << 20})
	disk := flatrock.NewRateLimiter(flatrock.RateLimiterOptions{BytesPerSec: 100 << 20, AutoTuned: true})
	fsys := mmapfs.NewMem()
	for _, dir := range []string{"/users", "/events"} {
		db, err := flatrock.Open(dir, &flatrock.Options{
			FS: fsys, CreateIfMissing: true,
			MaxBackgroundJobs: 4, MaxSubcompactions: 2,
			WriteBufferManager: memory, RateLimiter: disk,
		})
		if err != nil {
			log.Fatal(err)
		}
		defer db.Close()
	}
	fmt.Println(memory.MemoryUsage() < memory.BufferSize(), disk.BytesPerSec() == 50<<20) // tuned limits begin with half
	// Output: true true
}

// After a failure whose cause is gone, Resume makes the database writable again.
func ExampleDB_Resume() {
	disk := mmapfs.NewFault(mmapfs.NewMem())
	db, err := flatrock.Open("/db", &flatrock.Options{FS: disk, CreateIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	disk.FailNth(1, mmapfs.OpMutate, true) // the next change of a file fails
	err = db.Put(nil, []byte("key"), []byte("value"))
	fmt.Println(errors.Is(err, flatrock.ErrBackground))
	if err := db.Resume(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.Put(nil, []byte("key"), []byte("value")))
	// Output:
	// true
	// <nil>
}

package flatrock_test

import (
	"context"
	"fmt"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// A file that was made beside the database joins it without passing through the log
// and the memtables.
func ExampleDB_IngestExternalFile() {
	fsys := mmapfs.NewMem() // or nil for the operating system's
	db, err := flatrock.Open("/db", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	w, err := flatrock.NewSstFileWriter("/bulk.sst", &flatrock.SstFileWriterOptions{FS: fsys, Family: db.DefaultColumnFamily()})
	if err != nil {
		panic(err)
	}
	defer w.Close()
	for i := range 3 { // keys in order
		if err := w.Put(fmt.Appendf(nil, "key%d", i), []byte("bulk")); err != nil {
			panic(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		panic(err)
	}
	o := &flatrock.IngestExternalFileOptions{MoveFiles: true}
	if err := db.IngestExternalFile(context.Background(), []string{"/bulk.sst"}, o); err != nil {
		panic(err)
	}
	value, err := db.Get(nil, []byte("key1"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: bulk <nil>
}

// A replica applies the batches of the logs, from the number after its own newest.
func ExampleDB_GetUpdatesSince() {
	fsys := mmapfs.NewMem()
	open := func(dir string) *flatrock.DB {
		db, err := flatrock.Open(dir, &flatrock.Options{FS: fsys, CreateIfMissing: true, WALTTLSeconds: 3600})
		if err != nil {
			panic(err)
		}
		return db
	}
	primary, replica := open("/primary"), open("/replica")
	defer primary.Close()
	defer replica.Close()
	for _, key := range []string{"a", "b", "c"} {
		if err := primary.Put(nil, []byte(key), []byte("value of "+key)); err != nil {
			panic(err)
		}
	}
	it, err := primary.GetUpdatesSince(1)
	if err != nil {
		panic(err)
	}
	defer it.Close()
	for ok := it.Valid(); ok; ok = it.Next() {
		b, err := replica.LoadBatch(it.Batch().Data)
		if err == nil {
			err = replica.Write(nil, b)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := it.Err(); err != nil { // a gap: begin again from a checkpoint
		panic(err)
	}
	value, err := replica.Get(nil, []byte("b"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: value of b <nil>
}

// A checkpoint is a database of its own, made by hard links.
func ExampleDB_CreateCheckpoint() {
	fsys := mmapfs.NewMem()
	db, err := flatrock.Open("/db", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if err := db.Put(nil, []byte("key"), []byte("then")); err != nil {
		panic(err)
	}
	if _, err := db.CreateCheckpoint(context.Background(), "/copy", nil); err != nil {
		panic(err)
	}
	if err := db.Put(nil, []byte("key"), []byte("now")); err != nil {
		panic(err)
	}
	copied, err := flatrock.Open("/copy", &flatrock.Options{FS: fsys, ReadOnly: true})
	if err != nil {
		panic(err)
	}
	defer copied.Close()
	value, err := copied.Get(nil, []byte("key"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: then <nil>
}

// A secondary shows what another process writes.
func ExampleOpenAsSecondary() {
	fsys := mmapfs.NewMem()
	primary, err := flatrock.Open("/db", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer primary.Close()
	follower, err := flatrock.OpenAsSecondary("/db", &flatrock.Options{FS: fsys})
	if err != nil {
		panic(err)
	}
	defer follower.Close()
	if err := primary.Put(nil, []byte("key"), []byte("value")); err != nil {
		panic(err)
	}
	if err := follower.TryCatchUpWithPrimary(); err != nil {
		panic(err)
	}
	value, err := follower.Get(nil, []byte("key"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: value <nil>
}

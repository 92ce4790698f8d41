package flatrock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func ExampleDB_DeleteRange() {
	db, err := flatrock.Open("/db", &flatrock.Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for _, k := range []string{"log/1", "log/2", "log/3", "user/1"} {
		if err := db.Put(nil, []byte(k), []byte("v")); err != nil {
			panic(err)
		}
	}
	// From "log/" up to and without "log0", which is behind all keys that begin with "log/".
	if err := db.DeleteRange(nil, []byte("log/"), []byte("log0")); err != nil {
		panic(err)
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		panic(err)
	}
	for k := range it.All() {
		fmt.Printf("%s\n", k)
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		panic(err)
	}
	// Output: user/1
}

func ExampleDB_Merge() {
	add, err := flatrock.ParseMergeOperator("uint64add")
	if err != nil {
		panic(err)
	}
	db, err := flatrock.Open("/db", &flatrock.Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{MergeOperator: add}})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0} // little-endian
	for range 3 {
		if err := db.Merge(nil, []byte("visits"), one); err != nil { // no read before the write
			panic(err)
		}
	}
	v, err := db.Get(nil, []byte("visits"), nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(v[0])
	// Output: 3
}

func ExampleDB_PutEntity() {
	db, err := flatrock.Open("/db", &flatrock.Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	err = db.PutEntity(nil, []byte("user/1"), []flatrock.Column{{Value: []byte("a plain reader sees this")}, {Name: []byte("mail"), Value: []byte("ada@example.org")}})
	if err != nil {
		panic(err)
	}
	var e flatrock.Entity
	if err := db.GetEntity(nil, []byte("user/1"), &e); err != nil {
		panic(err)
	}
	for _, c := range e.Columns {
		fmt.Printf("%q: %s\n", c.Name, c.Value)
	}
	// Output:
	// "": a plain reader sees this
	// "mail": ada@example.org
}

func ExampleDB_ExportColumnFamily() {
	fsys := mmapfs.NewMem()
	from, err := flatrock.Open("/from", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer from.Close()
	to, err := flatrock.Open("/to", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer to.Close()
	if err := from.Put(nil, []byte("key"), []byte("value")); err != nil {
		panic(err)
	}
	ctx := context.Background()
	files, err := from.ExportColumnFamily(ctx, from.DefaultColumnFamily(), "/export") // hard links where they can be
	if err != nil {
		panic(err)
	}
	cf, err := to.CreateColumnFamilyWithImport(ctx, "imported", nil, &flatrock.ImportColumnFamilyOptions{MoveFiles: true}, files)
	if err != nil {
		panic(err)
	}
	v, err := cf.Get(nil, []byte("key"), nil)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", v)
	// Output: value
}

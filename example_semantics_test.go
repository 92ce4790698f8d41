package flatrock_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// bounded adds numbers in decimal, and refuses to go below zero.
type bounded struct{}

func (bounded) Name() string { return "example.Bounded" }

func (bounded) FullMerge(key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error) {
	sum := 0
	if hasExisting {
		operands = append([][]byte{existing}, operands...)
	}
	for _, o := range operands {
		n, err := strconv.Atoi(string(o))
		if err != nil {
			return nil, err
		}
		if sum += n; sum < 0 {
			return nil, fmt.Errorf("%s would be %d", key, sum)
		}
	}
	return strconv.AppendInt(nil, int64(sum), 10), nil
}

// A merge operator of the program's own. What it refuses is an error of the reads, until a Put or a Delete
// covers the operands.
func ExampleMergeOperator() {
	db, done := open(&flatrock.Options{ColumnFamily: &flatrock.ColumnFamilyOptions{MergeOperator: bounded{}}})
	defer done()
	stock := []byte("stock")
	for _, n := range []string{"10", "-3", "5"} {
		if err := db.Merge(nil, stock, []byte(n)); err != nil {
			log.Fatal(err)
		}
	}
	value, err := db.Get(nil, stock, nil)
	fmt.Printf("%s %v\n", value, err)
	if err := db.Merge(nil, stock, []byte("-20")); err != nil {
		log.Fatal(err)
	}
	_, err = db.Get(nil, stock, nil)
	fmt.Println(err)
	if err := db.Put(nil, stock, []byte("100")); err != nil {
		log.Fatal(err)
	}
	value, err = db.Get(nil, stock, nil)
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// 12 <nil>
	// column family "default": merge operator example.Bounded: key "stock": stock would be -8
	// 100 <nil>
}

// shortFirst sorts shorter keys before longer ones.
type shortFirst struct{}

func (shortFirst) Name() string { return "example.ShortFirst" }
func (shortFirst) Compare(a, b []byte) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b))
}
func (shortFirst) AppendSeparator(dst, a, _ []byte) []byte { return append(dst, a...) }
func (shortFirst) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

// An order of the program's own: numbers in decimal, without leading zeros, sort by value. The
// database remembers its name, and does not open with another.
func ExampleComparator() {
	fsys := mmapfs.NewMem()
	db, err := flatrock.Open("numbers", &flatrock.Options{FS: fsys, CreateIfMissing: true,
		ColumnFamily: &flatrock.ColumnFamilyOptions{Comparator: shortFirst{}}})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range []string{"100", "9", "20"} {
		if err := db.Put(nil, []byte(n), nil); err != nil {
			log.Fatal(err)
		}
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
	for key := range it.All() {
		fmt.Printf("%s\n", key)
	}
	if err := errors.Join(it.Close(), db.Close()); err != nil {
		log.Fatal(err)
	}
	_, err = flatrock.Open("numbers", &flatrock.Options{FS: fsys, ColumnFamily: &flatrock.ColumnFamilyOptions{Comparator: flatrock.Bytewise}})
	fmt.Println(errors.Is(err, flatrock.ErrInvalidArgument))
	// Output:
	// 9
	// 20
	// 100
	// true
}

// All keys with a prefix, whatever the family's PrefixExtractor takes.
func ExampleIterator_Prefix() {
	db, done := open(&flatrock.Options{ColumnFamily: &flatrock.ColumnFamilyOptions{PrefixExtractor: flatrock.FixedPrefix(6)}})
	defer done()
	for _, key := range []string{"users/ada", "users/bob", "userz/eve", "visits/1"} {
		if err := db.Put(nil, []byte(key), nil); err != nil {
			log.Fatal(err)
		}
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for _, prefix := range []string{"users/", "user", "users/b"} {
		fmt.Printf("%s:", prefix)
		for key := range it.Prefix([]byte(prefix)) {
			fmt.Printf(" %s", key)
		}
		if err := it.Err(); err != nil {
			log.Fatal(err)
		}
		fmt.Println()
	}
	// Output:
	// users/: users/ada users/bob
	// user: users/ada users/bob userz/eve
	// users/b: users/bob
}

// A tailing iterator sees what was written since it was made, once it seeks again.
func ExampleReadOptions_tailing() {
	db, done := open(&flatrock.Options{})
	defer done()
	it, err := db.NewIterator(&flatrock.ReadOptions{Tailing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for _, event := range []string{"event1", "event2"} {
		if err := db.Put(nil, []byte(event), nil); err != nil {
			log.Fatal(err)
		}
		if it.SeekGE([]byte(event)) {
			fmt.Printf("%s\n", it.Key())
		}
	}
	// Output:
	// event1
	// event2
}

// Iterators over several families that show the same moment, whatever is written meanwhile.
func ExampleDB_NewIterators() {
	db, done := open(&flatrock.Options{})
	defer done()
	index, err := db.CreateColumnFamily("index", nil)
	if err != nil {
		log.Fatal(err)
	}
	write := func(id, name string) {
		var b flatrock.Batch
		b.Put(nil, []byte(id), []byte(name))
		b.Put(index, []byte(name), []byte(id))
		if err := db.Write(nil, &b); err != nil {
			log.Fatal(err)
		}
	}
	write("1", "ada")
	its, err := db.NewIterators(nil, []*flatrock.ColumnFamily{db.DefaultColumnFamily(), index})
	if err != nil {
		log.Fatal(err)
	}
	write("2", "bob")
	for _, it := range its {
		for key, value := range it.All() {
			fmt.Printf("%s=%s\n", key, value)
		}
		if err := it.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1=ada
	// ada=1
}

// Part of a batch can be taken back before it is written.
func ExampleBatch_SetSavePoint() {
	db, done := open(&flatrock.Options{})
	defer done()
	var b flatrock.Batch
	b.Put(nil, []byte("kept"), []byte("1"))
	b.SetSavePoint()
	b.Put(nil, []byte("taken back"), []byte("2"))
	if err := b.RollbackToSavePoint(); err != nil {
		log.Fatal(err)
	}
	if err := db.Write(nil, &b); err != nil {
		log.Fatal(err)
	}
	_, err := db.Get(nil, []byte("taken back"), nil)
	fmt.Println(b.Count(), errors.Is(err, flatrock.ErrNotFound))
	// Output: 1 true
}

// A key that is written once and deleted once leaves nothing behind: the two vanish when they meet in
// a compaction, also in the middle of the tree.
func ExampleColumnFamily_SingleDelete() {
	db, done := open(&flatrock.Options{})
	defer done()
	if err := db.Put(nil, []byte("token"), []byte("x")); err != nil {
		log.Fatal(err)
	}
	if err := db.DefaultColumnFamily().SingleDelete(nil, []byte("token")); err != nil {
		log.Fatal(err)
	}
	_, err := db.Get(nil, []byte("token"), nil)
	fmt.Println(errors.Is(err, flatrock.ErrNotFound))
	// Output: true
}

// With AtomicFlush what is in files is a prefix of the writes over all families, also of those without a log.
func ExampleDB_FlushFamilies() {
	db, done := open(&flatrock.Options{AtomicFlush: flatrock.On})
	defer done()
	other, err := db.CreateColumnFamily("other", nil)
	if err != nil {
		log.Fatal(err)
	}
	var b flatrock.Batch
	b.Put(nil, []byte("a"), []byte("1"))
	b.Put(other, []byte("b"), []byte("2"))
	if err := db.Write(&flatrock.WriteOptions{DisableWAL: true}, &b); err != nil {
		log.Fatal(err)
	}
	if err := db.FlushFamilies(context.Background(), nil, db.DefaultColumnFamily(), other); err != nil {
		log.Fatal(err)
	}
	for _, cf := range db.ColumnFamilies() {
		m, err := cf.GetColumnFamilyMetaData()
		fmt.Println(cf.Name(), m.FileCount, err)
	}
	// Output:
	// default 1 <nil>
	// other 1 <nil>
}

// Whole table files go at once; keys in files that hold others too stay.
func ExampleDB_DeleteFilesInRanges() {
	db, done := open(&flatrock.Options{})
	defer done()
	ctx := context.Background()
	for _, day := range []string{"2026-01", "2026-02"} {
		for i := range 3 {
			if err := db.Put(nil, fmt.Appendf(nil, "%s/%d", day, i), nil); err != nil {
				log.Fatal(err)
			}
		}
		if err := db.CompactRange(ctx, nil, []byte(day), []byte(day+"~")); err != nil {
			log.Fatal(err)
		}
	}
	if err := db.DeleteFilesInRanges([]flatrock.KeyRange{{Start: []byte("2026-01"), End: []byte("2026-01~")}}, false); err != nil {
		log.Fatal(err)
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer it.Close()
	for key := range it.All() {
		fmt.Printf("%s\n", key)
	}
	// Output:
	// 2026-02/0
	// 2026-02/1
	// 2026-02/2
}

// A backup, and the database that it becomes again.
func ExampleBackupEngine() {
	fsys, ctx := mmapfs.NewMem(), context.Background()
	db, err := flatrock.Open("db", &flatrock.Options{FS: fsys, CreateIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Put(nil, []byte("fruit"), []byte("apple")); err != nil {
		log.Fatal(err)
	}
	backups, err := flatrock.OpenBackupEngine("backups", fsys)
	if err != nil {
		log.Fatal(err)
	}
	id, err := backups.CreateNewBackup(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(backups.VerifyBackup(ctx, id), db.Close(), backups.RestoreDBFromLatestBackup(ctx, "restored", "")); err != nil {
		log.Fatal(err)
	}
	if db, err = flatrock.Open("restored", &flatrock.Options{FS: fsys}); err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	value, err := db.Get(nil, []byte("fruit"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: apple <nil>
}

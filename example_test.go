package flatrock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/flatrock-db/flatrock"
)

// temp makes a directory for an example, and what removes it.
func temp() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "flatrock-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { os.RemoveAll(dir) }
}

// open opens a database for an example, and returns what closes and removes it.
func open(o *flatrock.Options) (*flatrock.DB, func()) {
	dir, remove := temp()
	o.CreateIfMissing = true
	db, err := flatrock.Open(dir, o)
	if err != nil {
		log.Fatal(err)
	}
	return db, func() {
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
		remove()
	}
}

func Example() {
	dir, remove := temp()
	defer remove()

	db, err := flatrock.Open(dir, &flatrock.Options{CreateIfMissing: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put(nil, []byte("fruit"), []byte("apple")); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get(nil, []byte("fruit"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output: apple <nil>
}

// Data that fits in RAM: plain tables, copied into huge pages, behind a hash of the
// first eight bytes of the key.
func ExamplePlainTableOptions() {
	db, done := open(&flatrock.Options{
		ColumnFamily: &flatrock.ColumnFamilyOptions{
			PrefixExtractor: flatrock.FixedPrefix(8),
			MemTable:        flatrock.MemTableOptions{Kind: flatrock.HashSkipList, BucketCount: 10_000},
			Table:           flatrock.PlainTableOptions{Memory: flatrock.MemoryResident},
			BloomLocality:   1,
		},
	})
	defer done()

	// The extractor's domain is what the family can hold.
	err := db.Put(nil, []byte("short"), nil)
	fmt.Println(errors.Is(err, flatrock.ErrInvalidArgument))

	if err := db.Put(nil, []byte("user0042/name"), []byte("Ada")); err != nil {
		log.Fatal(err)
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		log.Fatal(err)
	}
	value, err := db.Get(nil, []byte("user0042/name"), nil)
	fmt.Printf("%s %v\n", value, err)
	// Output:
	// true
	// Ada <nil>
}

func ExampleDB_Get() {
	db, done := open(&flatrock.Options{})
	defer done()
	if err := db.Put(nil, []byte("a"), []byte("1")); err != nil {
		log.Fatal(err)
	}

	var buf []byte // used again by every Get, which then allocates nothing
	for _, key := range []string{"a", "b"} {
		var err error
		buf, err = db.Get(nil, []byte(key), buf[:0])
		switch {
		case errors.Is(err, flatrock.ErrNotFound):
			fmt.Println(key, "has no value")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("%s is %s\n", key, buf)
		}
	}
	// Output:
	// a is 1
	// b has no value
}

func ExampleDB_GetPinned() {
	db, done := open(&flatrock.Options{})
	defer done()
	if err := db.Put(nil, []byte("picture"), make([]byte, 1<<20)); err != nil {
		log.Fatal(err)
	}

	var value flatrock.PinnedValue
	if err := db.GetPinned(nil, []byte("picture"), &value); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(value.Value()), "bytes, not copied")
	value.Release()
	// Output: 1048576 bytes, not copied
}

func ExampleBatch() {
	db, done := open(&flatrock.Options{})
	defer done()

	var b flatrock.Batch
	b.Put(nil, []byte("alice"), []byte("90"))
	b.Put(nil, []byte("bob"), []byte("110"))
	b.Delete(nil, []byte("pending"))
	// All of it or nothing, and on the disk before Write returns.
	if err := db.Write(&flatrock.WriteOptions{Sync: true}, &b); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Count(), "operations")
	// Output: 3 operations
}

func ExampleIterator() {
	db, done := open(&flatrock.Options{})
	defer done()
	for _, key := range []string{"ant", "bee", "cat", "dog"} {
		if err := db.Put(nil, []byte(key), []byte("?")); err != nil {
			log.Fatal(err)
		}
	}

	it, err := db.NewIterator(&flatrock.ReadOptions{UpperBound: []byte("d")})
	if err != nil {
		log.Fatal(err)
	}
	for key := range it.Range([]byte("b")) {
		fmt.Printf("%s\n", key)
	}
	it.SeekLT([]byte("bee"))
	fmt.Printf("before bee: %s\n", it.Key())
	// Close returns what went wrong on the way.
	if err := it.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// bee
	// cat
	// before bee: ant
}

func ExampleDB_NewSnapshot() {
	db, done := open(&flatrock.Options{})
	defer done()
	key := []byte("k")
	if err := db.Put(nil, key, []byte("then")); err != nil {
		log.Fatal(err)
	}

	snapshot, err := db.NewSnapshot()
	if err != nil {
		log.Fatal(err)
	}
	defer snapshot.Release()
	if err := db.Put(nil, key, []byte("now")); err != nil {
		log.Fatal(err)
	}
	then, _ := db.Get(&flatrock.ReadOptions{Snapshot: snapshot}, key, nil)
	now, _ := db.Get(nil, key, nil)
	fmt.Printf("%s, %s\n", then, now)
	// Output: then, now
}

func ExampleDB_MultiGet() {
	db, done := open(&flatrock.Options{})
	defer done()
	for i := range 3 {
		if err := db.Put(nil, fmt.Appendf(nil, "key%d", i), fmt.Appendf(nil, "value%d", i)); err != nil {
			log.Fatal(err)
		}
	}

	keys := [][]byte{[]byte("key2"), []byte("key7"), []byte("key0")}
	results, err := db.MultiGet(nil, keys, nil)
	if err != nil {
		log.Fatal(err)
	}
	for i, r := range results {
		fmt.Printf("%s: %s %v\n", keys[i], r.Value, r.Err)
	}
	// Output:
	// key2: value2 <nil>
	// key7:  flatrock: not found
	// key0: value0 <nil>
}

// Families of different formats in one database, one batch over both.
func ExampleColumnFamily() {
	add, err := flatrock.ParseMergeOperator("uint64add")
	if err != nil {
		log.Fatal(err)
	}
	db, done := open(&flatrock.Options{
		CreateMissingColumnFamilies: true,
		ColumnFamilies: []flatrock.ColumnFamilyDescriptor{
			{Name: "events", Options: &flatrock.ColumnFamilyOptions{
				Table: flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10)},
			}},
			{Name: "counts", Options: &flatrock.ColumnFamilyOptions{
				MergeOperator:   add,
				PrefixExtractor: flatrock.NoopPrefix(),
				MemTable:        flatrock.MemTableOptions{Kind: flatrock.HashLinkList, BucketCount: 1000},
				Table:           flatrock.PlainTableOptions{},
			}},
		},
	})
	defer done()
	events, counts := db.ColumnFamily("events"), db.ColumnFamily("counts")

	one := binary.LittleEndian.AppendUint64(nil, 1)
	for _, at := range []string{"09:00", "09:05"} {
		var b flatrock.Batch
		b.Put(events, []byte("login/"+at), []byte("ada"))
		b.Merge(counts, []byte("login"), one)
		if err := db.Write(nil, &b); err != nil {
			log.Fatal(err)
		}
	}
	n, err := counts.Get(nil, []byte("login"), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(binary.LittleEndian.Uint64(n), "logins")
	// Output: 2 logins
}

func ExampleDB_CreateColumnFamily() {
	db, done := open(&flatrock.Options{})
	defer done()

	cf, err := db.CreateColumnFamily("sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, cf := range db.ColumnFamilies() {
		fmt.Println(cf.ID(), cf.Name())
	}
	if err := db.DropColumnFamily(cf); err != nil {
		log.Fatal(err)
	}
	err = cf.Put(nil, []byte("k"), []byte("v"))
	fmt.Println(errors.Is(err, flatrock.ErrColumnFamilyDropped))
	// Output:
	// 0 default
	// 1 sessions
	// true
}

// The memory of a database is dealt over the NUMA nodes, or left alone where there is
// one node, and the report says where it is.
func ExampleDB_Placement() {
	dir, remove := temp()
	defer remove()
	db, err := flatrock.Open(dir, &flatrock.Options{
		CreateIfMissing: true,
		Placement:       flatrock.PlaceAll(flatrock.PlaceInterleave),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := db.Put(nil, []byte("fruit"), []byte("apple")); err != nil {
		log.Fatal(err)
	}
	report, err := db.Placement()
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range report.Rows { // or print the report: a table of bytes per node
		if row.Name == "memtables" {
			fmt.Println(row.Name, row.Present() > 0)
		}
	}
	// Output:
	// memtables true
}

// What was written without Close, and the options, are found again.
func ExampleOpen() {
	dir, remove := temp()
	defer remove()
	_, err := flatrock.Open(dir, nil)
	fmt.Println(errors.Is(err, flatrock.ErrNoDatabase))

	for _, o := range []*flatrock.Options{
		{CreateIfMissing: true, ColumnFamily: &flatrock.ColumnFamilyOptions{WriteBufferSize: 1 << 20}},
		nil, // as it was
	} {
		db, err := flatrock.Open(dir, o)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(db.DefaultColumnFamily().Options().WriteBufferSize)
		if err := db.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// true
	// 1048576
	// 1048576
}

// expired removes values whose first 8 bytes are a time that has passed.
type expired struct{ now uint64 }

func (expired) Name() string { return "expired" }

func (f expired) Filter(e *flatrock.FilterEntry) flatrock.FilterDecision {
	if e.Kind == flatrock.FilterValue && len(e.Value) >= 8 && binary.BigEndian.Uint64(e.Value) < f.now {
		return flatrock.FilterRemove
	}
	return flatrock.FilterKeep
}

func ExampleCompactionFilter() {
	db, done := open(&flatrock.Options{
		CreateIfMissing: true,
		ColumnFamily:    &flatrock.ColumnFamilyOptions{CompactionFilter: expired{now: 1000}},
	})
	defer done()
	for key, until := range map[string]uint64{"a": 999, "b": 2000} {
		if err := db.Put(nil, []byte(key), binary.BigEndian.AppendUint64(nil, until)); err != nil {
			log.Fatal(err)
		}
	}
	// A flush keeps all; compactions remove what has expired.
	if err := db.CompactRange(context.Background(), &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil); err != nil {
		log.Fatal(err)
	}
	_, err := db.Get(nil, []byte("a"), nil)
	fmt.Println(errors.Is(err, flatrock.ErrNotFound))
	// Output: true
}

func ExampleDB_SetOptions() {
	db, done := open(&flatrock.Options{CreateIfMissing: true})
	defer done()
	if err := db.SetOptions(map[string]string{"write_buffer_size": "128M", "level0_file_num_compaction_trigger": "8"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(db.DefaultColumnFamily().Options().WriteBufferSize)
	fmt.Println(errors.Is(db.SetOptions(map[string]string{"num_levels": "5"}), flatrock.ErrInvalidArgument))
	// Output:
	// 134217728
	// true
}

func ExampleEventListener() {
	db, done := open(&flatrock.Options{CreateIfMissing: true, Listeners: []*flatrock.EventListener{{
		FlushCompleted: func(i flatrock.FlushInfo) {
			fmt.Println(i.ColumnFamily, i.Properties.NumEntries, i.Err)
		},
	}}})
	defer done()
	if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	if err := db.Flush(context.Background(), nil); err != nil {
		log.Fatal(err)
	}
	if files, ok := db.GetProperty("rocksdb.num-files-at-level0"); ok {
		fmt.Println(files)
	}
	// Output:
	// default 1 <nil>
	// 1
}

func ExamplePerfContext() {
	db, done := open(&flatrock.Options{CreateIfMissing: true})
	defer done()
	if err := db.Put(nil, []byte("key"), []byte("value")); err != nil {
		log.Fatal(err)
	}
	perf := new(flatrock.PerfContext)
	if _, err := db.Get(&flatrock.ReadOptions{Perf: perf}, []byte("key"), nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(perf.GetFromMemtableCount, perf.GetReadBytes)
	// Output: 1 5
}

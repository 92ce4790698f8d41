package flatrock_test

import (
	"fmt"
	"log"
	"path/filepath"

	"github.com/flatrock-db/flatrock"
)

// A table file made offline: keys in ascending order, no database.
func ExampleSstFileWriter() {
	dir, remove := temp()
	defer remove()

	w, err := flatrock.NewSstFileWriter(filepath.Join(dir, "fruit.sst"), &flatrock.SstFileWriterOptions{
		ColumnFamily: &flatrock.ColumnFamilyOptions{
			Compression: flatrock.ZSTDCompression,
			Table:       flatrock.BlockBasedTableOptions{FilterPolicy: flatrock.BloomFilter(10)},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close() // removes the file unless it was finished
	for _, fruit := range []string{"apple", "banana", "cherry"} {
		if err := w.Put([]byte(fruit), []byte("ripe")); err != nil {
			log.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d entries from %s to %s\n", info.NumEntries, info.SmallestKey, info.LargestKey)
	// Output: 3 entries from apple to cherry
}

// A table file by itself: what a user would see, what is stored, and whether it is whole.
func ExampleSstFileReader() {
	dir, remove := temp()
	defer remove()
	path := filepath.Join(dir, "stock.sst")

	w, err := flatrock.NewSstFileWriter(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	w.Put([]byte("apple"), []byte("3"))
	w.Delete([]byte("banana"))
	w.Put([]byte("cherry"), []byte("5"))
	if _, err := w.Finish(); err != nil {
		log.Fatal(err)
	}

	r, err := flatrock.OpenSstFile(path, nil) // block-based or plain: the file says
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	it, err := r.NewIterator(nil)
	if err != nil {
		log.Fatal(err)
	}
	for key, value := range it.All() {
		fmt.Printf("%s=%s\n", key, value)
	}
	if err := it.Close(); err != nil {
		log.Fatal(err)
	}
	for e, err := range r.Entries() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(e.Key), e.Kind)
	}
	fmt.Println(r.Properties().NumEntries, r.Properties().CompressionName, r.VerifyChecksums())
	// Output:
	// apple=3
	// cherry=5
	// apple Value
	// banana Deletion
	// cherry Value
	// 3 LZ4 <nil>
}

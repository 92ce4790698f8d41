package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// hostileOptions are those of the databases that get damaged: a family of each format.
func hostileOptions(fsys mmapfs.FS) *Options {
	return &Options{
		FS: fsys, CreateIfMissing: true, CreateMissingColumnFamilies: true,
		ColumnFamily: &ColumnFamilyOptions{Compression: ZSTDCompression,
			Table: BlockBasedTableOptions{BlockSize: 300, FilterPolicy: BloomFilter(8), IndexType: TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 64}},
		ColumnFamilies: []ColumnFamilyDescriptor{
			{"plain", &ColumnFamilyOptions{PrefixExtractor: FixedPrefix(3), Table: PlainTableOptions{}}},
			{"snappy", &ColumnFamilyOptions{Compression: SnappyCompression}},
			{"zlib", &ColumnFamilyOptions{Compression: ZlibCompression, Table: BlockBasedTableOptions{FormatVersion: 2, Checksum: CRC32C}}},
		},
	}
}

// hostileDatabase makes a small database that has a file of every kind, a log with
// writes in it among them.
func hostileDatabase(t *testing.T) *mmapfs.MemFS {
	t.Helper()
	mem := mmapfs.NewMem()
	db, err := Open("/db", hostileOptions(mem))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for _, cf := range db.ColumnFamilies() {
			for i := range 40 {
				if err := cf.Put(nil, hostileKey(i), hostileValue(i)); err != nil {
					t.Fatal(err)
				}
			}
			if cf.Name() != "plain" {
				if err := cf.DeleteRange(nil, []byte("x"), []byte("y")); err != nil {
					t.Fatal(err)
				}
			}
			if round < 2 {
				if err := cf.Flush(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	image := mem.Kill()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return image
}

func hostileKey(i int) []byte   { return fmt.Appendf(nil, "key%03d", i) }
func hostileValue(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "value %03d ", i), 8) }

// spoiling is a way to spoil a file, given a second one of the same kind.
type spoiling struct {
	name string
	do   func(rng *rand.Rand, b, other []byte) []byte
}

var spoilings = []spoiling{
	{"truncated", func(rng *rand.Rand, b, _ []byte) []byte { return b[:rng.IntN(len(b)+1)] }},
	{"empty", func(*rand.Rand, []byte, []byte) []byte { return nil }},
	{"bit flipped", func(rng *rand.Rand, b, _ []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b }},
	{"huge lengths", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		copy(b[at:min(len(b), at+9)], "\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
		return b
	}},
	{"zeroed", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		clear(b[at:min(len(b), at+1+rng.IntN(200))])
		return b
	}},
	{"random tail", func(rng *rand.Rand, b, _ []byte) []byte {
		at := len(b) - min(len(b), 1+rng.IntN(80))
		for i := range b[at:] {
			b[at+i] = byte(rng.Uint32())
		}
		return b
	}},
	{"swapped", func(_ *rand.Rand, _, other []byte) []byte { return other }},
	{"doubled", func(_ *rand.Rand, b, _ []byte) []byte { return append(b, b...) }},
	{"shifted", func(rng *rand.Rand, b, _ []byte) []byte {
		at := rng.IntN(len(b))
		return append(b[:at:at], append([]byte{byte(rng.Uint32())}, b[at:]...)...)
	}},
	{"a piece twice", func(rng *rand.Rand, b, _ []byte) []byte {
		from, to := rng.IntN(len(b)), rng.IntN(len(b))
		n := min(len(b)-from, len(b)-to, 1+rng.IntN(100))
		copy(b[to:to+n], b[from:from+n])
		return b
	}},
}

// TestHostileFiles spoils one file after the other, of every kind and in every way, and opens
// and reads what is left: an error or what was written, in bounded memory, never a
// panic, and from families with checksums never anything else.
func TestHostileFiles(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	image := hostileDatabase(t)
	names, err := image.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	byKind := map[manifest.FileKind][]string{}
	for _, n := range names {
		kind, _, _ := manifest.ParseName(n)
		byKind[kind] = append(byKind[kind], n)
	}
	for kind, files := range byKind {
		if kind == manifest.KindLock {
			continue
		}
		for _, d := range spoilings {
			for round := range rounds {
				name := files[rng.IntN(len(files))]
				mem := image.Kill()
				other := readDamaged(t, mem, files[rng.IntN(len(files))])
				b := readDamaged(t, mem, name)
				if len(b) == 0 {
					continue
				}
				writeDamaged(t, mem, name, d.do(rng, b, other))
				surviveHostile(t, fmt.Sprintf("%s %s, %d", name, d.name, round), mem, round%2 == 0)
			}
		}
	}
}

func readDamaged(t *testing.T, mem *mmapfs.MemFS, name string) []byte {
	t.Helper()
	f, err := mem.Open("/db/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeDamaged(t *testing.T, mem *mmapfs.MemFS, name string, b []byte) {
	t.Helper()
	f, err := mem.Create("/db/" + name)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hostileMemory is how many bytes opening and reading a small damaged database may allocate.
const hostileMemory = 300 << 20

// surviveHostile opens and reads a damaged database. A hang shows as all goroutines' stacks.
func surviveHostile(t *testing.T, what string, mem *mmapfs.MemFS, given bool) {
	t.Helper()
	done := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- readHostile(mem, given)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		stacks := make([]byte, 64<<10)
		t.Fatalf("%s: hangs\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > hostileMemory {
		t.Errorf("%s: %d bytes allocated", what, n)
	}
}

// readHostile reads all that there is. Its error is a wrong answer.
func readHostile(mem *mmapfs.MemFS, given bool) error {
	o := &Options{FS: mem}
	if given {
		o = hostileOptions(mem)
		o.CreateIfMissing = false
	}
	db, err := Open("/db", o)
	if err != nil {
		return nil
	}
	defer db.Close()
	for _, cf := range db.ColumnFamilies() {
		if _, plain := cf.Options().Table.(PlainTableOptions); plain {
			cf.verify(context.Background()) // rows are checked there only
			continue
		}
		for i := range 40 {
			v, err := cf.Get(nil, hostileKey(i), nil)
			if err == nil && !bytes.Equal(v, hostileValue(i)) {
				return fmt.Errorf("family %s, key %d: %.40q", cf.Name(), i, v)
			}
		}
		it, err := cf.NewIterator(nil)
		if err != nil {
			continue
		}
		for range 2 {
			n := 0
			for k, v := range it.All() {
				var i int
				if _, err := fmt.Sscanf(string(k), "key%03d", &i); err != nil || !bytes.Equal(v, hostileValue(i)) {
					return errors.Join(fmt.Errorf("family %s, iterator: %q = %.40q", cf.Name(), k, v), it.Close())
				}
				if n++; n > 40 {
					return errors.Join(fmt.Errorf("family %s: the iterator does not end", cf.Name()), it.Close())
				}
			}
			for ok := it.Last(); ok; ok = it.Prev() {
				n--
			}
		}
		it.Close()
	}
	db.VerifyChecksum(context.Background())
	db.CompactRange(context.Background(), nil, nil, nil)
	return nil
}

package flatrock

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/hostile"
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
func hostileDatabase(t testing.TB) *mmapfs.MemFS {
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

// hostileRun is how a damaged database is opened and read.
type hostileRun struct {
	name string
	run  func(mem *mmapfs.MemFS, sealed bool) error // its error is a wrong answer, or a leak
}

var hostileRuns = []hostileRun{
	{"stored options", func(mem *mmapfs.MemFS, sealed bool) error {
		return readHostile(Open, mem, &Options{FS: mem}, sealed)
	}},
	{"given options", func(mem *mmapfs.MemFS, sealed bool) error {
		o := hostileOptions(mem)
		o.CreateIfMissing = false
		return readHostile(Open, mem, o, sealed)
	}},
	{"read-only", func(mem *mmapfs.MemFS, sealed bool) error {
		return readHostile(Open, mem, &Options{FS: mem, ReadOnly: true}, sealed)
	}},
	{"secondary", func(mem *mmapfs.MemFS, sealed bool) error {
		return readHostile(OpenAsSecondary, mem, &Options{FS: mem}, sealed)
	}},
	{"no repair", func(mem *mmapfs.MemFS, _ bool) error {
		Repair(context.Background(), "/db", &RepairOptions{DryRun: true, Options: &Options{FS: mem, MaxDecompressedSize: hostileBlock}})
		return nil
	}},
	{"repaired", func(mem *mmapfs.MemFS, _ bool) error {
		if _, err := Repair(context.Background(), "/db", &RepairOptions{Options: &Options{FS: mem, MaxDecompressedSize: hostileBlock}}); err != nil {
			return nil
		}
		// What repair makes of damage may lack something, and is not held to the values.
		return readHostile(Open, mem, &Options{FS: mem}, true)
	}},
}

// TestHostileFiles spoils one file after the other, of every kind and in every way, with checksums that are wrong
// then or made right again, and opens and reads what is left: an error or what was written, in bounded
// memory, never a panic, and from families with checksums that are wrong never anything else.
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
	kinds := slices.Sorted(maps.Keys(byKind)) // a fixed order: the same damage each time
	turn := 0
	for _, kind := range kinds {
		files := byKind[kind]
		if kind == manifest.KindLock {
			continue
		}
		for _, way := range hostile.Ways {
			for round := range rounds {
				name := files[rng.IntN(len(files))]
				mem := image.Kill()
				other := readDamaged(t, mem, files[rng.IntN(len(files))])
				pristine := readDamaged(t, mem, name)
				if len(pristine) == 0 {
					continue
				}
				spoiled := way.Spoil(rng, bytes.Clone(pristine), other)
				sealed := round%2 == 1
				if sealed {
					hostile.Seal(name, pristine, spoiled)
				}
				writeDamaged(t, mem, name, spoiled)
				how := hostileRuns[turn%len(hostileRuns)]
				turn++
				surviveHostile(t, fmt.Sprintf("%s %s, sealed %v, %s, %d", name, way.Name, sealed, how.name, round), func() error { return how.run(mem, sealed) })
			}
		}
	}
}

func readDamaged(t testing.TB, mem *mmapfs.MemFS, name string) []byte {
	t.Helper()
	return readFrom(t, mem, "/db/"+name)
}

func writeDamaged(t testing.TB, mem *mmapfs.MemFS, name string, b []byte) {
	t.Helper()
	writeFile(t, mem, "/db/"+name, b)
}

func readFrom(t testing.TB, fsys mmapfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
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

func writeFile(t testing.TB, fsys mmapfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fsys.Create(path)
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

// flipByte changes a byte of a file.
func flipByte(t testing.TB, fsys mmapfs.FS, path string, at int64) {
	t.Helper()
	b := readFrom(t, fsys, path)
	b[at] ^= 1
	writeFile(t, fsys, path, b)
}

// hostileMemory is how many bytes opening and reading a small damaged database may allocate, and
// hostileBlock what a block of it may hold.
const (
	hostileMemory = 300 << 20
	hostileBlock  = 8 << 20
)

// surviveHostile runs what opens and reads a damaged database. A hang shows as all goroutines' stacks.
func surviveHostile(t *testing.T, what string, run func() error) {
	t.Helper()
	done := make(chan error, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	held := mmapfs.OffHeap()
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- run()
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
	if now := mmapfs.OffHeap(); now.Mapped != held.Mapped || now.ArenaReserved != held.ArenaReserved {
		t.Errorf("%s: off the heap %d bytes mapped and %d reserved afterwards, %d and %d before", what, now.Mapped, now.ArenaReserved, held.Mapped, held.ArenaReserved)
	}
}

// readHostile opens the database and reads all that there is. Its error is a wrong answer: values that
// nobody wrote, unless the damage is sealed.
func readHostile(open func(string, *Options) (*DB, error), mem *mmapfs.MemFS, o *Options, sealed bool) (err error) {
	o.MaxDecompressedSize = hostileBlock
	db, err := open("/db", o)
	if err != nil {
		return nil
	}
	defer db.Close()
	for _, cf := range db.ColumnFamilies() {
		_, plain := cf.Options().Table.(PlainTableOptions)
		if plain && !o.ReadOnly {
			cf.verify(context.Background()) // rows are checked there only
		}
		trusted := !plain && !sealed
		for i := range 40 {
			v, err := cf.Get(nil, hostileKey(i), nil)
			if err == nil && trusted && !bytes.Equal(v, hostileValue(i)) {
				return fmt.Errorf("family %s, key %d: %.40q", cf.Name(), i, v)
			}
		}
		if err := walkHostile(cf, trusted); err != nil {
			return err
		}
	}
	db.VerifyChecksum(context.Background())
	db.CompactRange(context.Background(), nil, nil, nil)
	return nil
}

// hostileEntries bounds how many entries a damaged database of forty keys may show: each comes from bytes
// of a file.
const hostileEntries = 100_000

func walkHostile(cf *ColumnFamily, trusted bool) error {
	it, err := cf.NewIterator(nil)
	if err != nil {
		return nil
	}
	defer it.Close()
	for range 2 {
		n := 0
		for k, v := range it.All() {
			var i int
			_, err := fmt.Sscanf(string(k), "key%03d", &i)
			if trusted && (err != nil || !bytes.Equal(v, hostileValue(i))) {
				return fmt.Errorf("family %s, iterator: %q = %.40q", cf.Name(), k, v)
			}
			if n++; trusted && n > 40 || n > hostileEntries {
				return fmt.Errorf("family %s: the iterator does not end", cf.Name())
			}
		}
		n = 0
		for ok := it.Last(); ok; ok = it.Prev() {
			if n++; n > hostileEntries {
				return fmt.Errorf("family %s: the iterator does not end backward", cf.Name())
			}
		}
	}
	return nil
}

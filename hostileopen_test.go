package flatrock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/hostile"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// FuzzOpen spoils one file of a small database, at a place, and opens and reads what is left in one of
// the ways there are. Half of the time the checksums are made right.
func FuzzOpen(f *testing.F) {
	image := hostileDatabase(f)
	names, err := image.List("/db")
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range names {
		kind, _, _ := manifest.ParseName(name)
		for how := range hostileRuns {
			at := uint32(7 * i * (how + 1))
			f.Add(uint8(i), at, uint8(how), kind != manifest.KindOptions, false, []byte("\xff\xff\xff\xff\x07"))
		}
		f.Add(uint8(i), uint32(3), uint8(i), true, true, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint32, how uint8, sealed, cut bool, patch []byte) {
		name := names[int(file)%len(names)]
		mem := image.Kill()
		pristine := readDamaged(t, mem, name)
		b := bytes.Clone(pristine)
		pos := int(at) % (len(b) + 1)
		if cut { // what follows moves
			b = append(append(b[:pos:pos], patch...), b[min(len(b), pos+1):]...)
		} else if n := pos + len(patch); n <= len(b) {
			copy(b[pos:], patch)
		} else {
			b = append(b[:pos:pos], patch...)
		}
		if sealed {
			hostile.Seal(name, pristine, b)
		}
		writeDamaged(t, mem, name, b)
		run := hostileRuns[int(how)%len(hostileRuns)]
		surviveHostile(t, name+", "+run.name, func() error { return run.run(mem, sealed) })
	})
}

// TestHostileBlobs does to blob files, which RocksDB wrote, what TestHostileFiles does to the others.
func TestHostileBlobs(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	image := memCopy(t, goldenDB(t, "d08_blob"))
	names, err := image.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	var blobs []string
	for _, n := range names {
		if strings.HasSuffix(n, ".blob") {
			blobs = append(blobs, n)
		}
	}
	values := map[string]string{}
	read := func(mem *mmapfs.MemFS, each func(key, value string) error) error {
		db, err := Open("/db", &Options{FS: mem, MaxDecompressedSize: hostileBlock})
		if err != nil {
			return nil
		}
		defer db.Close()
		for _, cf := range db.ColumnFamilies() {
			it, err := cf.NewIterator(nil)
			if err != nil {
				continue
			}
			for ok := it.First(); ok; ok = it.Next() {
				if err := each(cf.Name()+"/"+string(it.Key()), string(it.Value())); err != nil {
					return errors.Join(err, it.Close())
				}
			}
			it.Close()
		}
		db.CompactRange(context.Background(), nil, nil, nil)
		return nil
	}
	if err := read(image.Kill(), func(k, v string) error { values[k] = v; return nil }); err != nil || len(values) < 50 {
		t.Fatalf("%d values, %v", len(values), err)
	}
	rng := rand.New(rand.NewPCG(10, 10))
	for _, way := range hostile.Ways {
		for round := range rounds {
			mem := image.Kill()
			name := blobs[rng.IntN(len(blobs))]
			pristine, other := readDamaged(t, mem, name), readDamaged(t, mem, blobs[rng.IntN(len(blobs))])
			b := way.Spoil(rng, bytes.Clone(pristine), other)
			sealed := round%2 == 1
			if sealed {
				hostile.Seal(name, pristine, b)
			}
			writeDamaged(t, mem, name, b)
			surviveHostile(t, fmt.Sprintf("%s %s, sealed %v, %d", name, way.Name, sealed, round), func() error {
				return read(mem, func(k, v string) error {
					if !sealed && v != values[k] {
						return fmt.Errorf("key %q: %.40q", k, v)
					}
					return nil
				})
			})
		}
	}
}

// memCopy is a copy of a directory, as /db in memory.
func memCopy(t testing.TB, dir string) *mmapfs.MemFS {
	t.Helper()
	mem := mmapfs.NewMem()
	if err := mem.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	names, err := mmapfs.OS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		writeFile(t, mem, "/db/"+n, readFrom(t, mmapfs.OS, filepath.Join(dir, n)))
	}
	return mem
}

// TestHostileBackups spoils the files of a backup: opening the engine, verifying and restoring give an
// error, or what was backed up, and write nowhere else.
func TestHostileBackups(t *testing.T) {
	rounds := 6
	if testing.Short() {
		rounds = 1
	}
	ctx := context.Background()
	image := hostileDatabase(t)
	db, err := Open("/db", hostileOptions(image))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := OpenBackupEngine("/backups", image)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.CreateNewBackup(ctx, db, &CreateBackupOptions{AppMetadata: "hello"}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, sub := range []string{"/backups/meta", "/backups/private/1", "/backups/shared_checksum"} {
		names, err := image.List(sub)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if len(readFrom(t, image, sub+"/"+n)) > 0 {
				files = append(files, sub+"/"+n)
			}
		}
	}
	rng := rand.New(rand.NewPCG(11, 11))
	for i, way := range hostile.Ways {
		for round := range rounds {
			mem := image.Kill()
			name := files[0] // what says which files there are
			if round%2 == 1 {
				name = files[rng.IntN(len(files))]
			}
			b := way.Spoil(rng, readFrom(t, mem, name), readFrom(t, mem, files[(i+round)%len(files)]))
			writeFile(t, mem, name, b)
			surviveHostile(t, fmt.Sprintf("%s %s, %d", name, way.Name, round), func() error {
				e, err := OpenBackupEngine("/backups", mem)
				if err != nil {
					return nil
				}
				for _, info := range e.GetBackupInfo() {
					e.VerifyBackup(ctx, info.BackupID)
					if e.RestoreDBFromBackup(ctx, info.BackupID, "/restored", "") != nil {
						continue
					}
					db, err := Open("/restored", &Options{FS: mem})
					if err != nil {
						continue
					}
					err = walkHostile(db.DefaultColumnFamily(), true)
					db.Close()
					if err != nil {
						return err
					}
				}
				return nil
			})
			if top, err := mem.List("/"); err != nil || len(top) > 3 {
				t.Fatalf("%s: %v, %v", way.Name, top, err)
			}
		}
	}
}

// TestDirectoriesInThePlaceOfFiles: each file in turn is a directory, with a file in it.
func TestDirectoriesInThePlaceOfFiles(t *testing.T) {
	image := hostileDatabase(t)
	names, err := image.List("/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, run := range hostileRuns {
			mem := image.Kill()
			if err := mem.Remove("/db/" + name); err != nil {
				t.Fatal(err)
			}
			if err := mem.MkdirAll("/db/" + name); err != nil {
				t.Fatal(err)
			}
			writeFile(t, mem, "/db/"+name+"/precious", []byte("precious"))
			surviveHostile(t, name+" is a directory, "+run.name, func() error {
				return run.run(mem, true)
			})
		}
	}
}

// TestBombsAreRefused: values that compress to almost nothing are read under a limit that they keep, and refused
// under a lower one, in tables of every compression, at the cost of the limit.
func TestBombsAreRefused(t *testing.T) {
	const size, limit = 24 << 20, 1 << 20
	mem := mmapfs.NewMem()
	o := &Options{FS: mem, CreateIfMissing: true, CreateMissingColumnFamilies: true}
	kinds := []Compression{SnappyCompression, ZlibCompression, LZ4Compression, LZ4HCCompression, ZSTDCompression}
	for _, c := range kinds {
		o.ColumnFamilies = append(o.ColumnFamilies, ColumnFamilyDescriptor{fmt.Sprint("c", c), &ColumnFamilyOptions{Compression: c, WriteBufferSize: 128 << 20}})
	}
	db, err := Open("/db", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, cf := range db.ColumnFamilies()[1:] {
		if err := cf.Put(&WriteOptions{DisableWAL: true}, []byte("bomb"), make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := cf.Put(nil, []byte("small"), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if err := cf.Flush(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{limit, 2 * size} {
		surviveHostile(t, fmt.Sprintf("limit %d", most), func() error {
			db, err := Open("/db", &Options{FS: mem, MaxDecompressedSize: most})
			if err != nil {
				return err
			}
			defer db.Close()
			for _, cf := range db.ColumnFamilies()[1:] {
				if _, err := cf.Get(nil, []byte("small"), nil); err != nil {
					return fmt.Errorf("%s: %w", cf.Name(), err)
				}
				pin := new(PinnedValue)
				err := cf.GetPinned(nil, []byte("bomb"), pin)
				n := len(pin.Value())
				pin.Release()
				if most < size && !errors.Is(err, ErrCorruption) || most > size && (err != nil || n != size) {
					return fmt.Errorf("%s, limit %d: %d bytes, %v", cf.Name(), most, n, err)
				}
			}
			return nil
		})
	}
}

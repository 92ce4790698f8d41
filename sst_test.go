package flatrock

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// listedEntry is a line of the listing of a golden table.
type listedEntry struct {
	K, V          string
	Seq           uint64
	Type          uint8
	VSha256       string // of a long value, in the listings of block-based tables
	PlainSha      string `json:"v_sha256"`
	key, sum, val []byte
}

func readSstListing(t *testing.T, path string) (list []listedEntry) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e listedEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		var errs [3]error
		e.key, errs[0] = hex.DecodeString(e.K)
		e.val, errs[1] = hex.DecodeString(e.V)
		e.sum, errs[2] = hex.DecodeString(e.VSha256 + e.PlainSha)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func (l *listedEntry) matches(e SstEntry) bool {
	same := bytes.Equal(l.val, e.Value)
	if len(l.sum) > 0 {
		s := sha256.Sum256(e.Value)
		same = bytes.Equal(l.sum, s[:])
	}
	return same && bytes.Equal(l.key, e.Key) && l.Type == uint8(e.Kind)
}

// TestSstFileReaderReadsGoldenTables opens every table that RocksDB wrote, of both
// formats, without being told anything about it: entries are those of its listing, and
// the keys that a user sees follow from them.
func TestSstFileReaderReadsGoldenTables(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/*/*.sst")
	if err != nil || len(paths) < 200 {
		t.Fatalf("%d golden tables, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(path, "testdata/golden/"), ".sst"), func(t *testing.T) {
			listing := strings.TrimSuffix(path, ".sst") + ".jsonl"
			if strings.Contains(path, "/plain/") {
				listing = strings.TrimSuffix(path, ".sst") + ".expected.jsonl"
			}
			want := readSstListing(t, listing)
			if strings.Contains(path, "timestamps") || strings.HasSuffix(path, "_ts.sst") {
				if _, err := OpenSstFile(path, nil); !errors.Is(err, ErrInvalidArgument) {
					t.Fatalf("a file with an unknown comparator: %v", err)
				}
				return
			}
			alone := &SstFileReaderOptions{}
			if strings.Contains(path, "plain/p29_reverse") { // plain tables do not name their comparator
				alone.ColumnFamily = &ColumnFamilyOptions{Comparator: ReverseBytewise}
			}
			mapped := &SstFileReaderOptions{ColumnFamily: alone.ColumnFamily, BlockCacheSize: 1 << 20, AllowMmapReads: true}
			for name, o := range map[string]*SstFileReaderOptions{"alone": alone, "cached and mapped": mapped} {
				r, err := OpenSstFile(path, o)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				compareSst(t, r, want, strings.Contains(path, "ingested"))
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func compareSst(t *testing.T, r *SstFileReader, want []listedEntry, ingested bool) {
	t.Helper()
	i := 0
	visible, plain := map[string][]byte{}, true
	seen := map[string]bool{}
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		// The number that an ingested file got may stand in the MANIFEST alone.
		if i >= len(want) || !want[i].matches(e) || want[i].Seq != e.Seq && !ingested {
			t.Fatalf("entry %d is %q seq %d %v, the listing has %d: %+v", i, e.Key, e.Seq, e.Kind, len(want), want[min(i, len(want)-1)])
		}
		i++
		plain = plain && (e.Kind == EntryPut || e.Kind == EntryDelete || e.Kind == EntrySingleDelete)
		if k := string(e.Key); !seen[k] {
			seen[k] = true
			if e.Kind == EntryPut {
				visible[k] = bytes.Clone(e.Value)
			}
		}
	}
	if i != len(want) {
		t.Fatalf("%d entries, want %d", i, len(want))
	}
	if err := r.VerifyChecksums(); err != nil {
		t.Fatal(err)
	}
	if p := r.Properties(); p.NumEntries > uint64(len(want)) || r.Size() == 0 {
		t.Fatalf("%d entries by the properties, %d in the listing", p.NumEntries, len(want))
	}
	if !plain {
		return // what a user sees takes operators, snapshots or files elsewhere
	}
	it, err := r.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	sorted := slices.SortedFunc(maps.Keys(visible), func(a, b string) int { return r.order.Compare([]byte(a), []byte(b)) })
	i = 0
	for k, v := range it.All() {
		if i >= len(sorted) || string(k) != sorted[i] || !bytes.Equal(v, visible[sorted[i]]) {
			t.Fatalf("key %d is %q", i, k)
		}
		i++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i < 0 || string(it.Key()) != sorted[i] {
			t.Fatalf("backward, key %d is %q", i, it.Key())
		}
	}
	if err := it.Close(); err != nil || i != 0 {
		t.Fatalf("%d of %d keys missing: %v", i, len(sorted), err)
	}
	for k := range seen {
		v, err := r.Get(nil, []byte(k), nil)
		want, ok := visible[k]
		if ok && (err != nil || !bytes.Equal(v, want)) || !ok && !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get %q: %q, %v", k, v, err)
		}
	}
	if _, err := r.Get(nil, []byte("\x00no such key"), nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("Get of a missing key: %v", err)
	}
}

// sstFamilies are options of files to write, by name.
func sstFamilies() map[string]*ColumnFamilyOptions {
	return map[string]*ColumnFamilyOptions{
		"block": {MergeOperator: mustOperator("stringappend"), Table: BlockBasedTableOptions{FilterPolicy: BloomFilter(10)}},
		"block/partitioned": {
			MergeOperator: mustOperator("stringappend"),
			Compression:   NoCompression, BottommostCompression: ZSTDCompression,
			CompressionOptions: CompressionOptions{WindowBits: -14, Level: 3, MaxDictBytes: 1 << 14, ZstdMaxTrainBytes: 1 << 17, UseZstdDictTrainer: true, ParallelThreads: 2},
			Table:              BlockBasedTableOptions{IndexType: TwoLevelIndexSearch, PartitionFilters: true, FilterPolicy: RibbonFilter(10), BlockSize: 512},
		},
		"block/reverse": {Comparator: ReverseBytewise, MergeOperator: mustOperator("stringappend")},
		"plain": {
			PrefixExtractor: FixedPrefix(4), MergeOperator: mustOperator("stringappend"), Table: PlainTableOptions{EncodingType: PrefixEncoding},
		},
		"plain/total order": {MergeOperator: mustOperator("stringappend"), Table: PlainTableOptions{HashTableRatio: TotalOrder}},
	}
}

func mustOperator(name string) MergeOperator {
	op, err := ParseMergeOperator(name)
	if err != nil {
		panic(err)
	}
	return op
}

// TestSstFileWriter: what is written is read back, by a reader that knows the
// options and one that does not.
func TestSstFileWriter(t *testing.T) {
	for name, o := range sstFamilies() {
		t.Run(name, func(t *testing.T) {
			fsys := mmapfs.NewMem()
			w, err := NewSstFileWriter("/out.sst", &SstFileWriterOptions{ColumnFamily: o, FS: fsys})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			n := 3000
			key := func(i int) []byte {
				if o.Comparator == ReverseBytewise {
					i = n - 1 - i
				}
				return fmt.Appendf(nil, "key%07d", i)
			}
			for i := range n {
				switch i % 10 {
				case 3:
					err = w.Delete(key(i))
				case 7:
					err = w.Merge(key(i), []byte("operand"))
				default:
					err = w.Put(key(i), fmt.Appendf(nil, "value %d", i))
				}
				if err != nil {
					t.Fatal(err)
				}
				if i == 10 {
					if err := w.Put(key(10), nil); !errors.Is(err, ErrInvalidArgument) {
						t.Fatalf("the same key again: %v", err)
					}
					if err := w.Delete(key(4)); !errors.Is(err, ErrInvalidArgument) {
						t.Fatalf("an older key: %v", err)
					}
				}
			}
			_, isPlain := o.Table.(PlainTableOptions)
			ranges := 0
			for _, b := range [][2]int{{40, 50}, {2, 5}} {
				err := w.DeleteRange(key(b[0]), key(b[1]))
				if isPlain && !errors.Is(err, ErrNotSupported) || !isPlain && err != nil {
					t.Fatalf("DeleteRange: %v", err)
				}
				if !isPlain {
					ranges++
				}
			}
			if err := w.DeleteRange(key(9), key(8)); !errors.Is(err, ErrInvalidArgument) {
				t.Fatalf("a backward range: %v", err)
			}
			info, err := w.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(info.SmallestKey, key(0)) || !bytes.Equal(info.LargestKey, key(n-1)) || info.NumEntries != uint64(n) || int(info.NumRangeDeletes) != ranges || info.Version != 2 {
				t.Fatalf("%+v", info)
			}
			if ranges > 0 && (!bytes.Equal(info.SmallestRangeDelKey, key(2)) || !bytes.Equal(info.LargestRangeDelKey, key(50))) {
				t.Fatalf("%+v", info)
			}
			if stat, err := fsys.Stat("/out.sst"); err != nil || stat.Size() != info.FileSize {
				t.Fatalf("%+v, %v", stat, err)
			}
			if err := w.Put([]byte("x"), nil); !errors.Is(err, ErrClosed) {
				t.Fatalf("Put after Finish: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}

			for _, ro := range []*SstFileReaderOptions{{FS: fsys}, {FS: fsys, ColumnFamily: o, BlockCacheSize: 1 << 20}} {
				r, err := OpenSstFile("/out.sst", ro)
				if err != nil {
					t.Fatal(err)
				}
				p := r.Properties()
				if p.DBID != externalIdentity || p.OriginalFileNumber != 1 || string(p.User["rocksdb.external_sst_file.version"]) != "\x02\x00\x00\x00" ||
					string(p.User["rocksdb.external_sst_file.global_seqno"]) != strings.Repeat("\x00", 8) {
					t.Fatalf("%+v", p)
				}
				if err := r.VerifyChecksums(); err != nil {
					t.Fatal(err)
				}
				i := 0
				for e, err := range r.Entries() {
					if err != nil {
						t.Fatal(err)
					}
					if i < n && !bytes.Equal(e.Key, key(i)) || e.Seq != 0 || (i >= n) != (e.Kind == EntryRangeDelete) {
						t.Fatalf("entry %d: %+v", i, e)
					}
					i++
				}
				if i != n+ranges {
					t.Fatalf("%d entries", i)
				}
				for i := range n {
					v, err := r.Get(nil, key(i), nil)
					want := fmt.Sprintf("value %d", i)
					switch {
					case i%10 == 3:
						want = ""
						if !errors.Is(err, ErrNotFound) {
							t.Fatalf("deleted key %d: %v", i, err)
						}
					case i%10 == 7 && ro.ColumnFamily == nil:
						want = ""
						if !errors.Is(err, ErrInvalidArgument) {
							t.Fatalf("operand without operator: %v", err)
						}
					case i%10 == 7:
						want = "operand"
						fallthrough
					default:
						if err != nil {
							t.Fatalf("key %d: %v", i, err)
						}
					}
					if string(v) != want {
						t.Fatalf("key %d: %q, want %q", i, v, want)
					}
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestSstFileWriterRefuses: an empty file, options that cannot work, and a file
// that was given up leave nothing behind.
func TestSstFileWriterRefuses(t *testing.T) {
	fsys := mmapfs.NewMem()
	w, err := NewSstFileWriter("/a.sst", &SstFileWriterOptions{FS: fsys})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Merge([]byte("k"), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("Merge without operator: %v", err)
	}
	if _, err := w.Finish(); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an empty file: %v", err)
	}
	for _, cf := range []*ColumnFamilyOptions{
		{Table: PlainTableOptions{}},
		{Table: BlockBasedTableOptions{IndexType: HashSearch}},
	} {
		if _, err := NewSstFileWriter("/a.sst", &SstFileWriterOptions{FS: fsys, ColumnFamily: cf}); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%+v: %v", cf, err)
		}
	}
	if w, err = NewSstFileWriter("/a.sst", &SstFileWriterOptions{FS: fsys, ColumnFamily: &ColumnFamilyOptions{
		PrefixExtractor: FixedPrefix(4), Table: PlainTableOptions{UserKeyLen: 8},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Put([]byte("short"), nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("a key of the wrong length: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if names, err := fsys.List("/"); err != nil || len(names) != 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
}

// TestSstFileReaderRefuses: what is no table gives errors that name the file.
func TestSstFileReaderRefuses(t *testing.T) {
	fsys := mmapfs.NewMem()
	for name, content := range map[string]string{"/empty.sst": "", "/short.sst": "short", "/noise.sst": strings.Repeat("noise", 100)} {
		f, err := fsys.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if _, err := OpenSstFile(name, &SstFileReaderOptions{FS: fsys}); !errors.Is(err, ErrCorruption) || !strings.Contains(err.Error(), filepath.Base(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenSstFile("/missing.sst", &SstFileReaderOptions{FS: fsys}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

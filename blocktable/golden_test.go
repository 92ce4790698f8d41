package blocktable

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

const goldenDir = "../testdata/golden"

// golden is a table that RocksDB wrote, and what is in it.
type golden struct {
	name    string // such as "block/fv5_xxh3"
	path    string
	entries []entry
	tombs   []table.Tombstone
	recipe  map[string]string
}

type entry struct {
	key     []byte
	trailer uint64
	value   []byte
	sum     string // of the value, if value is nil
	vlen    int
}

func (e *entry) equal(value []byte) bool {
	if e.sum == "" {
		return bytes.Equal(e.value, value)
	}
	s := sha256.Sum256(value)
	return len(value) == e.vlen && hex.EncodeToString(s[:]) == e.sum
}

func goldens(t testing.TB) []golden {
	t.Helper()
	var all []golden
	for _, dir := range []string{"block", "block11"} {
		recipes := readRecipes(t, filepath.Join(goldenDir, dir, "recipes.txt"))
		names, err := filepath.Glob(filepath.Join(goldenDir, dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			base := strings.TrimSuffix(filepath.Base(n), ".sst")
			all = append(all, golden{name: dir + "/" + base, path: n, recipe: recipes[base]})
		}
	}
	if len(all) != 175 {
		t.Fatalf("expected 175 golden tables, found %d", len(all))
	}
	return all
}

func readRecipes(t testing.TB, path string) map[string]map[string]string {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	recipes := make(map[string]map[string]string)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		m := make(map[string]string)
		for _, kv := range f[1:] {
			k, v, _ := strings.Cut(kv, "=")
			m[k] = v
		}
		recipes[f[0]] = m
	}
	return recipes
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eachLine decodes the lines of a .jsonl file; false if there is no such file.
func eachLine[T any](t testing.TB, path string, do func(T)) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var v T
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		do(v)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	return true
}

// load reads the listing.
func (g *golden) load(t testing.TB) {
	type line struct {
		K       string
		Seq     uint64
		Type    uint8
		V       string
		VLen    int
		VSha256 string
	}
	if !eachLine(t, strings.TrimSuffix(g.path, ".sst")+".jsonl", func(l line) {
		e := entry{key: unhex(t, l.K), trailer: keys.Pack(l.Seq, keys.Kind(l.Type)), value: unhex(t, l.V), sum: l.VSha256, vlen: l.VLen}
		if keys.Kind(l.Type) == keys.KindRangeDelete {
			g.tombs = append(g.tombs, table.Tombstone{Start: e.key, End: e.value, Seq: l.Seq})
			return
		}
		g.entries = append(g.entries, e)
	}) {
		t.Fatalf("%s has no listing", g.name)
	}
}

// u64ts is RocksDB's bytewise comparator with 64-bit timestamps, newest first.
type u64ts struct{ keys.Comparator }

func (u64ts) Name() string       { return "leveldb.BytewiseComparator.u64ts" }
func (u64ts) TimestampSize() int { return 8 }
func (u64ts) Compare(a, b []byte) int {
	n, m := len(a)-8, len(b)-8
	if n < 0 || m < 0 {
		return bytes.Compare(a, b)
	}
	if c := bytes.Compare(a[:n], b[:m]); c != 0 {
		return c
	}
	x, y := binary.LittleEndian.Uint64(a[n:]), binary.LittleEndian.Uint64(b[m:])
	switch {
	case x > y:
		return -1
	case x < y:
		return 1
	}
	return 0
}
func (u64ts) AppendSeparator(dst, a, b []byte) []byte { return append(dst, a...) }
func (u64ts) AppendSuccessor(dst, a []byte) []byte    { return append(dst, a...) }

func (g *golden) order() keys.Order {
	switch g.recipe["cmp"] {
	case "reverse":
		return keys.NewOrder(keys.ReverseBytewise)
	case "u64ts":
		return keys.NewOrder(u64ts{keys.Bytewise})
	}
	return keys.NewOrder(nil)
}

func (g *golden) extractor(t testing.TB) *prefixhash.Extractor {
	e, err := prefixhash.Parse(strings.TrimPrefix(g.recipe["pe"], "none"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func openFile(t testing.TB, path string) mmapfs.File {
	t.Helper()
	f, err := mmapfs.OS.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (g *golden) open(t testing.TB, change func(*ReaderOptions)) *Reader {
	t.Helper()
	o := ReaderOptions{Order: g.order(), Extractor: g.extractor(t), VerifyChecksums: true}
	if change != nil {
		change(&o)
	}
	open := openFile
	if o.CopyFromMapping {
		open = inMemory
	}
	r, err := Open(open(t, g.path), o)
	if err != nil {
		t.Fatalf("%s: %v", g.name, err)
	}
	return r
}

// readerVariants are the ways in which a table may be read.
func readerVariants(t testing.TB) map[string]func(*ReaderOptions) {
	c, err := blockcache.New(blockcache.Options{Capacity: 64 << 20, EstimatedEntryCharge: 512})
	if err != nil {
		t.Fatal(err)
	}
	tiny, err := blockcache.New(blockcache.Options{Capacity: 128 << 10, EstimatedEntryCharge: 512, StrictCapacityLimit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []*blockcache.Cache{c, tiny} {
			if p := c.Stats().PinnedUsage; p != 0 {
				t.Errorf("%d bytes are still pinned in a cache", p)
			}
			c.Close()
		}
	})
	return map[string]func(*ReaderOptions){
		"no cache":        nil,
		"cache":           func(o *ReaderOptions) { o.Cache = c },
		"tiny cache":      func(o *ReaderOptions) { o.Cache = tiny },
		"mmap":            func(o *ReaderOptions) { o.Mmap = true },
		"mmap, cache":     func(o *ReaderOptions) { o.Mmap, o.Cache = true, c },
		"memory":          func(o *ReaderOptions) { o.CopyFromMapping = true },
		"memory, tiny":    func(o *ReaderOptions) { o.CopyFromMapping, o.Cache, o.Protection = true, tiny, 1 },
		"protected":       func(o *ReaderOptions) { o.Cache, o.Protection = c, 1 },
		"protected, tiny": func(o *ReaderOptions) { o.Cache, o.Protection, o.CacheIndexAndFilterBlocks = tiny, 8, true },
		"protected, mmap": func(o *ReaderOptions) { o.Mmap, o.Protection = true, 4 },
		"cached index":    func(o *ReaderOptions) { o.Cache, o.CacheIndexAndFilterBlocks = c, true },
		"pinned index": func(o *ReaderOptions) {
			o.Cache, o.CacheIndexAndFilterBlocks, o.PinIndexAndFilterBlocks = c, true, true
		},
	}
}

func TestGoldenTablesHoldExactlyTheListedEntries(t *testing.T) {
	variants := readerVariants(t)
	for _, g := range goldens(t) {
		g.load(t)
		for how, change := range variants {
			r := g.open(t, change)
			if err := r.VerifyChecksums(context.Background()); err != nil {
				t.Errorf("%s, %s: %v", g.name, how, err)
			}
			for _, o := range []table.IterOptions{{}, {NoFill: true, ReadaheadSize: 16 << 10}} {
				checkScan(t, fmt.Sprintf("%s, %s, %+v", g.name, how, o), r, g.entries, o)
			}
			checkTombstones(t, g.name, r.Tombstones(), g.tombs)
			if r.UnknownFilters() != 0 {
				t.Errorf("%s: %d unknown filters", g.name, r.UnknownFilters())
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func checkScan(t *testing.T, what string, r *Reader, want []entry, o table.IterOptions) {
	t.Helper()
	it := r.NewIterator(o)
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		if i < len(want) && (!bytes.Equal(it.UserKey(), want[i].key) || it.Trailer() != want[i].trailer || !want[i].equal(it.Value())) {
			t.Errorf("%s: entry %d is %x #%x, expected %x #%x, or its value differs", what, i, it.UserKey(), it.Trailer(), want[i].key, want[i].trailer)
			break
		}
		i++
	}
	if it.Err() != nil || i != len(want) {
		t.Errorf("%s: %d of %d entries forward, %v", what, i, len(want), it.Err())
	}
	i = len(want)
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; i >= 0 && (!bytes.Equal(it.UserKey(), want[i].key) || it.Trailer() != want[i].trailer || !want[i].equal(it.Value())) {
			t.Errorf("%s: entry %d backward is %x #%x, expected %x #%x, or its value differs", what, i, it.UserKey(), it.Trailer(), want[i].key, want[i].trailer)
			break
		}
	}
	if it.Err() != nil || i != 0 {
		t.Errorf("%s: %d entries not reached backward, %v", what, i, it.Err())
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
}

func checkTombstones(t *testing.T, what string, got, want []table.Tombstone) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tombstones, expected %d", what, len(got), len(want))
		return
	}
	// The listing has them as issued; a database stores them fragmented and sorted.
	count := make(map[string]int)
	for i := range got {
		count[fmt.Sprintf("%x-%x-%d", got[i].Start, got[i].End, got[i].Seq)]++
		count[fmt.Sprintf("%x-%x-%d", want[i].Start, want[i].End, want[i].Seq)]--
	}
	for k, n := range count {
		if n != 0 {
			t.Errorf("%s: tombstone %s: %+d", what, k, n)
		}
	}
}

func TestGoldenTablesFindEveryVersionOfEveryKey(t *testing.T) {
	variants := readerVariants(t)
	for _, g := range goldens(t) {
		g.load(t)
		for how, change := range variants {
			r := g.open(t, change)
			for i := range g.entries {
				e := &g.entries[i]
				look := keys.Lookup{UserKey: e.key, Seq: keys.Seq(e.trailer)}
				r.opts.Extractor.Prepare(&look)
				var pin table.Pin
				value, trailer, ok, err := r.Get(&look, &pin)
				if err != nil || !ok || trailer != e.trailer || !e.equal(value) {
					t.Errorf("%s, %s: get %x #%d: #%x, %v, %v; expected #%x", g.name, how, e.key, look.Seq, trailer, ok, err, e.trailer)
				}
				pin.Release()
				// One older: the next version of the key, or nothing.
				if look.Seq == 0 {
					continue
				}
				look.Seq--
				_, trailer, ok, err = r.Get(&look, &pin)
				older := i+1 < len(g.entries) && bytes.Equal(g.entries[i+1].key, e.key)
				if err != nil || ok != older || ok && trailer != g.entries[i+1].trailer {
					t.Errorf("%s, %s: get %x #%d: #%x, %v, %v", g.name, how, e.key, look.Seq, trailer, ok, err)
				}
				pin.Release()
			}
			r.Close()
		}
	}
}

func TestSeeksLandWhereTheListingSays(t *testing.T) {
	for _, g := range goldens(t) {
		g.load(t)
		order := g.order()
		for how, change := range readerVariants(t) {
			r := g.open(t, change)
			it := r.Iterate(table.IterOptions{})
			seek := func(key []byte, trailer uint64) {
				want := 0
				for want < len(g.entries) && order.CompareInternal(g.entries[want].key, g.entries[want].trailer, key, trailer) < 0 {
					want++
				}
				ok := it.SeekGE(key, trailer)
				if ok != (want < len(g.entries)) || ok && (!bytes.Equal(it.UserKey(), g.entries[want].key) || it.Trailer() != g.entries[want].trailer) {
					t.Fatalf("%s, %s: SeekGE %x #%x: %v, expected entry %d of %d", g.name, how, key, trailer, ok, want, len(g.entries))
				}
				if ok && want > 0 {
					if !it.Prev() || !bytes.Equal(it.UserKey(), g.entries[want-1].key) || it.Trailer() != g.entries[want-1].trailer || !g.entries[want-1].equal(it.Value()) {
						t.Fatalf("%s, %s: Prev after SeekGE %x #%x", g.name, how, key, trailer)
					}
					if !it.Next() || !bytes.Equal(it.UserKey(), g.entries[want].key) || !g.entries[want].equal(it.Value()) {
						t.Fatalf("%s, %s: Next after Prev at %x", g.name, how, key)
					}
				}
				ok = it.SeekLT(key, trailer)
				if ok != (want > 0) || ok && (!bytes.Equal(it.UserKey(), g.entries[want-1].key) || it.Trailer() != g.entries[want-1].trailer) {
					t.Fatalf("%s, %s: SeekLT %x #%x: %v, expected entry %d of %d", g.name, how, key, trailer, ok, want-1, len(g.entries))
				}
				if it.Err() != nil {
					t.Fatal(it.Err())
				}
			}
			targets := 60
			if testing.Short() {
				targets = 6
			}
			for i := 0; i < len(g.entries); i += 1 + len(g.entries)/targets {
				e := g.entries[i]
				seek(e.key, e.trailer)
				seek(e.key, keys.Pack(keys.MaxSeq, keys.KindSeek))
				seek(e.key, 0)
				if g.recipe["cmp"] != "u64ts" {
					seek(append(bytes.Clone(e.key), 0), 7)
					seek(e.key[:len(e.key)/2], 7)
				}
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
			r.Close()
		}
	}
}

func TestGoldenPropertiesAreReadAsRocksDBReadsThem(t *testing.T) {
	for _, g := range goldens(t) {
		b, err := os.ReadFile(strings.TrimSuffix(g.path, ".sst") + ".props.json")
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		r := g.open(t, nil)
		p := r.Properties()
		got := map[string]any{
			"orig_file_number": p.OriginalFileNumber, "data_size": p.DataSize, "index_size": p.IndexSize,
			"index_partitions": p.IndexPartitions, "top_level_index_size": p.TopLevelIndexSize,
			"index_key_is_user_key": p.IndexKeyIsUserKey, "index_value_is_delta_encoded": p.IndexValueIsDelta,
			"filter_size": p.FilterSize, "raw_key_size": p.RawKeySize, "raw_value_size": p.RawValueSize,
			"num_data_blocks": p.NumDataBlocks, "num_entries": p.NumEntries, "num_filter_entries": p.NumFilterEntries,
			"num_deletions": p.NumDeletions, "num_merge_operands": p.NumMergeOperands, "num_range_deletions": p.NumRangeDeletions,
			"format_version": p.FormatVersion, "fixed_key_len": p.FixedKeyLen, "column_family_id": p.ColumnFamilyID,
			"creation_time": p.CreationTime, "oldest_key_time": p.OldestKeyTime, "file_creation_time": p.FileCreationTime,
			"db_id": p.DBID, "db_session_id": p.DBSessionID, "db_host_id": p.DBHostID, "column_family_name": p.ColumnFamilyName,
			"filter_policy_name": p.FilterPolicyName, "comparator_name": p.ComparatorName, "merge_operator_name": p.MergeOperatorName,
			"prefix_extractor_name": p.PrefixExtractorName, "property_collectors_names": p.PropertyCollectorNames,
			"compression_name": p.CompressionName, "compression_options": p.CompressionOptions,
		}
		for name, w := range want {
			if name == "user_collected_hex" {
				for k, v := range w.(map[string]any) {
					// RocksDB lists two counters among these as well.
					if have, ok := p.User[k]; k != "rocksdb.deleted.keys" && k != "rocksdb.merge.operands" && (!ok || hex.EncodeToString(have) != v) {
						t.Errorf("%s: property %s is %x, expected %v", g.name, k, have, v)
					}
				}
				continue
			}
			if fmt.Sprint(got[name]) != fmt.Sprint(w) {
				t.Errorf("%s: %s is %v, expected %v", g.name, name, got[name], w)
			}
		}
		r.Close()
	}
}

func TestFiltersAgreeWithRocksDBOnEveryListedKey(t *testing.T) {
	asked := 0
	for _, g := range goldens(t) {
		path := strings.TrimSuffix(g.path, ".sst") + ".filter.jsonl"
		if _, err := os.Stat(path); err != nil {
			continue
		}
		for how, change := range readerVariants(t) {
			r := g.open(t, change)
			type line struct {
				K        string
				MayMatch bool
			}
			eachLine(t, path, func(l line) {
				asked++
				look := keys.Lookup{UserKey: unhex(t, l.K), Seq: keys.MaxSeq}
				r.opts.Extractor.Prepare(&look)
				if may, err := r.mayContain(&look); err != nil || may != l.MayMatch {
					t.Errorf("%s, %s: key %s: may match %v, %v; RocksDB says %v", g.name, how, l.K, may, err, l.MayMatch)
				}
			})
			r.Close()
		}
	}
	if asked < 5*13000 {
		t.Errorf("only %d verdicts were compared", asked)
	}
}

func TestPrefixSeeksFindEveryPrefixOfTheFile(t *testing.T) {
	for _, g := range goldens(t) {
		ex := g.extractor(t)
		if ex == nil {
			continue
		}
		g.load(t)
		for how, change := range readerVariants(t) {
			r := g.open(t, change)
			it := r.Iterate(table.IterOptions{})
			denied := 0
			for i := range g.entries {
				look := keys.Lookup{UserKey: g.entries[i].key, Seq: keys.MaxSeq}
				if ex.Prepare(&look); look.PrefixLen < 0 {
					continue
				}
				look.UserKey = look.UserKey[:look.PrefixLen]
				if !it.SeekPrefixGE(&look, look.Trailer()) || !bytes.HasPrefix(it.UserKey(), look.UserKey) {
					t.Errorf("%s, %s: prefix %x is not found: %v", g.name, how, look.UserKey, it.Err())
				}
				absent := append([]byte("~"), look.UserKey[:len(look.UserKey)-1]...)
				look.UserKey = absent
				if it.SeekPrefixGE(&look, look.Trailer()) {
					t.Errorf("%s: prefix %x is found", g.name, absent)
				}
				if may, _ := r.mayContainPrefix(absent, len(absent)); !may {
					denied++
				}
			}
			if r.filter.kind != filterNone && denied == 0 {
				t.Errorf("%s: the filter denied no prefix", g.name)
			}
			it.Close()
			r.Close()
		}
	}
}

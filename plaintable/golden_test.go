package plaintable

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

const goldenDir = "../testdata/golden/plain"

// golden is a file that RocksDB wrote, with the options that it was written with.
type golden struct {
	File       string
	Encoding   string
	UserKeyLen uint32  `json:"user_key_len"`
	Bloom      int     `json:"bloom_bits_per_key"`
	Stored     bool    `json:"store_index_in_file"`
	Ratio      float64 `json:"hash_table_ratio"`
	Sparseness int     `json:"index_sparseness"`
	Prefix     string  `json:"prefix_extractor"`
	Locality   uint32  `json:"bloom_locality"`
	Comparator string
	Content    string

	bytes []byte
	rows  []goldenRow
}

type goldenRow struct {
	K, V  string
	Seq   uint64
	Type  uint8
	Sha   string `json:"v_sha256"`
	Len   int    `json:"v_len"`
	key   []byte
	value []byte // nil if only its hash is known
}

func loadGolden(t testing.TB) []*golden {
	t.Helper()
	var list []*golden
	for _, line := range strings.Split(strings.TrimSpace(string(readFile(t, filepath.Join(goldenDir, "matrix.jsonl")))), "\n") {
		g := new(golden)
		if err := json.Unmarshal([]byte(line), g); err != nil {
			t.Fatal(err)
		}
		g.bytes = readFile(t, filepath.Join(goldenDir, g.File))
		listing := readFile(t, filepath.Join(goldenDir, strings.TrimSuffix(g.File, ".sst")+".expected.jsonl"))
		for _, line := range strings.Split(strings.TrimSpace(string(listing)), "\n") {
			var r goldenRow
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			r.key = unhex(t, r.K)
			if r.Sha == "" {
				r.value = unhex(t, r.V)
			}
			g.rows = append(g.rows, r)
		}
		list = append(list, g)
	}
	if len(list) != 30 {
		t.Fatalf("expected 30 golden files, found %d", len(list))
	}
	return list
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (g *golden) extractor(t testing.TB) *prefixhash.Extractor {
	t.Helper()
	e, err := prefixhash.Parse(g.Prefix)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (g *golden) order(t testing.TB) keys.Order {
	t.Helper()
	switch g.Comparator {
	case keys.Bytewise.Name():
		return keys.NewOrder(keys.Bytewise)
	case keys.ReverseBytewise.Name():
		return keys.NewOrder(keys.ReverseBytewise)
	}
	t.Fatalf("unknown comparator %q", g.Comparator)
	return keys.Order{}
}

func (g *golden) options() Options {
	o := Options{
		UserKeyLen: g.UserKeyLen, BloomBitsPerKey: g.Bloom, HashTableRatio: g.Ratio,
		IndexSparseness: g.Sparseness, StoreIndexInFile: g.Stored,
	}
	if g.Encoding == "kPrefix" {
		o.EncodingType = Prefix
	}
	return o
}

func (g *golden) readerOptions(t testing.TB) ReaderOptions {
	return ReaderOptions{Options: g.options(), Order: g.order(t), Extractor: g.extractor(t), BloomLocality: g.Locality, Memory: mmapfs.MemoryResident}
}

// writeFile puts b in a file and opens it.
func openBytes(t testing.TB, name string, b []byte) mmapfs.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := mmapfs.OS.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func openReader(t testing.TB, name string, b []byte, o ReaderOptions) *Reader {
	t.Helper()
	r, err := Open(openBytes(t, name, b), o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// entry is a row that a test knows.
type entry struct {
	key     []byte
	trailer uint64
	value   []byte
}

// collect walks r forward.
func collect(t testing.TB, r *Reader) []entry {
	t.Helper()
	var list []entry
	it := r.NewIterator(table.IterOptions{})
	for ok := it.First(); ok; ok = it.Next() {
		list = append(list, entry{bytes.Clone(it.UserKey()), it.Trailer(), bytes.Clone(it.Value())})
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestGoldenRowsAreTheListings(t *testing.T) {
	for _, g := range loadGolden(t) {
		for _, memory := range []mmapfs.Memory{mmapfs.MemoryResident, mmapfs.MemoryPopulate, mmapfs.MemoryNone} {
			o := g.readerOptions(t)
			o.Memory = memory
			o.Verify = VerifyAtOpen
			r := openReader(t, g.File, g.bytes, o)
			rows := collect(t, r)
			if len(rows) != len(g.rows) {
				t.Fatalf("%s: expected %d rows, found %d", g.File, len(g.rows), len(rows))
			}
			for i, want := range g.rows {
				got := rows[i]
				if !bytes.Equal(got.key, want.key) || got.trailer != keys.Pack(want.Seq, keys.Kind(want.Type)) {
					t.Fatalf("%s row %d: expected %x seq %d type %d, found %x %x", g.File, i, want.key, want.Seq, want.Type, got.key, got.trailer)
				}
				if want.Sha == "" && !bytes.Equal(got.value, want.value) {
					t.Fatalf("%s row %d: expected value %x, found %x", g.File, i, want.value, got.value)
				}
				if sum := sha256.Sum256(got.value); want.Sha != "" && (hex.EncodeToString(sum[:]) != want.Sha || len(got.value) != want.Len) {
					t.Fatalf("%s row %d: expected value of %d bytes, sha256 %s, found %d bytes, %x", g.File, i, want.Len, want.Sha, len(got.value), sum)
				}
			}
		}
	}
}

// identityOf is what a writer must be told to write the properties of p.
func identityOf(p *table.Properties) table.Identity {
	_, external := p.User[block.PropExternalVersion]
	return table.Identity{
		ColumnFamilyID: uint32(p.ColumnFamilyID), ColumnFamilyName: p.ColumnFamilyName,
		DBID: p.DBID, DBSessionID: p.DBSessionID, DBHostID: p.DBHostID, FileNumber: p.OriginalFileNumber,
		CreationTime: p.CreationTime, OldestKeyTime: p.OldestKeyTime, FileCreationTime: p.FileCreationTime, ExternalFile: external,
	}
}

func writeTable(t testing.TB, o WriterOptions, rows []entry) ([]byte, table.Summary) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "000007.sst")
	f, err := mmapfs.OS.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Add(r.key, r.trailer, r.value); err != nil {
			t.Fatal(err)
		}
	}
	bound := w.EstimatedSize()
	sum, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	b := readFile(t, path)
	if sum.Size != int64(len(b)) || sum.Size > bound {
		t.Fatalf("expected the file's %d bytes, at most the estimate %d, found %d in the summary", len(b), bound, sum.Size)
	}
	return b, sum
}

func TestGoldenFilesComeOutByteEqual(t *testing.T) {
	for _, g := range loadGolden(t) {
		r := openReader(t, g.File, g.bytes, g.readerOptions(t))
		rows := collect(t, r)
		b, _ := writeTable(t, WriterOptions{
			Options: g.options(), Order: g.order(t), Extractor: g.extractor(t), BloomLocality: g.Locality,
			Identity: identityOf(r.Properties()), RocksDBLayout: true,
		}, rows)
		if !bytes.Equal(b, g.bytes) {
			i := 0
			for i < min(len(b), len(g.bytes)) && b[i] == g.bytes[i] {
				i++
			}
			t.Errorf("%s: expected %d bytes, found %d that differ from %d on (rows end at %d)", g.File, len(g.bytes), len(b), i, r.layout.rows)
		}
	}
}

// versions finds what a Get must find, by the definition: the first row of the
// user key, in file order, that the sequence number may see.
type versions map[string][]entry

func versionsOf(rows []entry) versions {
	v := make(versions)
	for _, r := range rows {
		v[string(r.key)] = append(v[string(r.key)], r)
	}
	return v
}

func (v versions) get(key []byte, seq uint64) (entry, bool) {
	for _, r := range v[string(key)] {
		if keys.Seq(r.trailer) <= seq {
			return r, true
		}
	}
	return entry{}, false
}

// lookups are keys that are there, near others, and absent, at several sequence numbers.
func lookups(rng *rand.Rand, rows []entry) (list []keys.Lookup) {
	add := func(key []byte, seqs ...uint64) {
		for _, s := range seqs {
			list = append(list, keys.Lookup{UserKey: key, Seq: s})
		}
	}
	for _, r := range rows {
		seq := keys.Seq(r.trailer)
		add(r.key, keys.MaxSeq, seq, seq+1)
		if seq > 0 {
			add(r.key, seq-1)
		}
		near := bytes.Clone(r.key)
		switch rng.IntN(4) {
		case 0:
			near = append(near, byte(rng.IntN(256)))
		case 1:
			if len(near) > 0 {
				near = near[:len(near)-1]
			}
		case 2:
			if len(near) > 0 {
				near[len(near)-1] ^= byte(1 + rng.IntN(255))
			}
		case 3:
			if len(near) > 0 {
				near[rng.IntN(len(near))] += byte(rng.IntN(3)) - 1
			}
		}
		add(near, keys.MaxSeq, seq)
	}
	add([]byte{}, keys.MaxSeq)
	add([]byte("zzzzzzzzzzzzzzzz"), keys.MaxSeq)
	add(bytes.Repeat([]byte{0xff}, 20), keys.MaxSeq)
	return list
}

// checkGets compares Get and the staged Get of every lookup with the definition.
func checkGets(t *testing.T, name string, r *Reader, rows []entry, list []keys.Lookup) {
	t.Helper()
	all := versionsOf(rows)
	var c Cursor
	for i := range list {
		look := &list[i]
		r.o.Extractor.Prepare(look)
		want, found := all.get(look.UserKey, look.Seq)
		value, trailer, ok, err := r.Get(look, nil)
		if err != nil || ok != found || ok && (trailer != want.trailer || !bytes.Equal(value, want.value)) {
			t.Fatalf("%s: Get(%x, %d): expected %t %x %x, found %t %x %x %v", name, look.UserKey, look.Seq, found, want.trailer, want.value, ok, trailer, value, err)
		}
		r.StageBucket(look, &c)
		for r.StageRow(&c) {
		}
		value, trailer, ok, err = r.Finish(look, &c)
		if err != nil || ok != found || ok && (trailer != want.trailer || !bytes.Equal(value, want.value)) {
			t.Fatalf("%s: staged Get(%x, %d): expected %t %x %x, found %t %x %x %v", name, look.UserKey, look.Seq, found, want.trailer, want.value, ok, trailer, value, err)
		}
	}
}

// TestGoldenGetsAgreeWithTheDefinition also opens files with a reader's
// index_sparseness other than the writer's, which RocksDB answers wrongly.
func TestGoldenGetsAgreeWithTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	total := 0
	for _, g := range loadGolden(t) {
		for _, change := range []func(*ReaderOptions){
			func(o *ReaderOptions) {},
			func(o *ReaderOptions) { o.IndexSparseness = 4; o.Memory = mmapfs.MemoryPopulate },
			func(o *ReaderOptions) { o.IndexSparseness = 0; o.Memory = mmapfs.MemoryNone; o.BloomLocality = 1 },
			func(o *ReaderOptions) {
				o.IndexSparseness = 1000
				o.BloomBitsPerKey = 3
				o.Index = IndexCopy
				o.Memory = mmapfs.MemoryNone
			},
		} {
			o := g.readerOptions(t)
			change(&o)
			r := openReader(t, g.File, g.bytes, o)
			rows := collect(t, r)
			list := lookups(rng, rows)
			checkGets(t, g.File, r, rows, list)
			total += len(list)
		}
	}
	t.Logf("%d lookups", total)
}

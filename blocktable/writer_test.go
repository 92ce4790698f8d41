package blocktable

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// goldenCollector is the generator's user property collector.
type goldenCollector struct {
	n       int
	longest []byte
}

func (*goldenCollector) Name() string { return "GoldenCollectorFactory" }
func (c *goldenCollector) Add(userKey []byte, _ uint64, _ []byte) {
	c.n++
	if len(c.longest) < len(userKey) {
		c.longest = bytes.Clone(userKey)
	}
}
func (c *goldenCollector) Finish() map[string][]byte {
	return map[string][]byte{
		"golden.count": []byte(strconv.Itoa(c.n)), "golden.longest.key": c.longest,
		"aaa.sorts.before.rocksdb": {0, 0xff, 1}, "zzz.empty": {},
	}
}

// writerOptions are the options by which the generator made the file, with the
// identity that is in it.
func (g *golden) writerOptions(t testing.TB, p *table.Properties) WriterOptions {
	get := func(name, def string) string {
		if v, ok := g.recipe[name]; ok {
			return v
		}
		return def
	}
	num := func(name string, def int) int {
		n, err := strconv.Atoi(get(name, strconv.Itoa(def)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	o := WriterOptions{Options: DefaultOptions(), Order: g.order(), Extractor: g.extractor(t), CompressionOptions: DefaultCompressionOptions()}
	o.FormatVersion = num("fv", 5)
	o.Checksum = map[string]hash.ChecksumType{"none": 0, "crc32c": 1, "xxhash": 2, "xxhash64": 3, "xxh3": 4}[get("cks", "xxh3")]
	o.IndexType = map[string]IndexType{"binary": BinarySearch, "hash": HashSearch, "twolevel": TwoLevelIndexSearch, "firstkey": BinarySearchWithFirstKey}[get("idx", "binary")]
	o.BlockSize, o.MetadataBlockSize = num("bs", 1024), num("mbs", 256)
	o.BlockRestartInterval, o.IndexBlockRestartInterval = num("ri", 16), num("iri", 1)
	if get("dbi", "binary") == "hash" {
		o.DataBlockIndexType = DataBlockBinaryAndHash
	}
	var err error
	if o.DataBlockHashTableUtilRatio, err = strconv.ParseFloat(get("util", "0.75"), 64); err != nil {
		t.Fatal(err)
	}
	if o.FilterPolicy, err = ParseFilterPolicy(strings.Replace(get("filter", "none"), "none", "nullptr", 1)); err != nil {
		t.Fatal(err)
	}
	o.PartitionFilters, o.WholeKeyFiltering = num("pf", 0) == 1, num("wkf", 1) == 1
	o.BlockAlign, o.UseDeltaEncoding, o.EnableIndexCompression = num("align", 0) == 1, num("delta", 1) == 1, num("idxcomp", 1) == 1
	o.IndexShortening = map[string]IndexShortening{"none": NoShortening, "sep": ShortenSeparators, "succ": ShortenSeparatorsAndSuccessor}[get("short", "sep")]
	name := get("comp", "none")
	if name == "zstdnf" {
		name = "zstdnotfinal"
	}
	var ok bool
	if o.Compression, ok = compress.ParseType(name); !ok {
		t.Fatalf("compression %q", name)
	}
	o.CompressionOptions.Level = num("lvl", compress.DefaultLevel)
	o.CompressionOptions.MaxDictBytes, o.CompressionOptions.ZstdMaxTrainBytes = num("dict", 0), num("train", 0)
	if num("uprop", 0) == 1 {
		o.Collectors = []PropertyCollector{&goldenCollector{}}
	}
	o.Identity = table.Identity{
		ColumnFamilyID: uint32(p.ColumnFamilyID), ColumnFamilyName: p.ColumnFamilyName,
		DBID: p.DBID, DBSessionID: p.DBSessionID, DBHostID: p.DBHostID, FileNumber: p.OriginalFileNumber,
		CreationTime: p.CreationTime, OldestKeyTime: p.OldestKeyTime, NewestKeyTime: p.NewestKeyTime, FileCreationTime: p.FileCreationTime,
		MergeOperator: p.MergeOperatorName, ExternalFile: p.User[block.PropExternalVersion] != nil,
	}
	return o
}

// rewrite writes the entries of an open table to a new file.
func rewrite(t testing.TB, r *Reader, o WriterOptions) (mmapfs.File, table.Summary, *Writer) {
	t.Helper()
	fs := mmapfs.NewMem()
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("d/000001.sst")
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	gseq := r.gseq
	it := r.Iterate(table.IterOptions{})
	for ok := it.First(); ok; ok = it.Next() {
		trailer := it.Trailer()
		if gseq != 0 {
			trailer &= 0xff // as it is stored
		}
		if err := w.Add(it.UserKey(), trailer, it.Value()); err != nil {
			t.Fatal(err)
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ts := range r.Tombstones() {
		if err := w.AddTombstone(ts); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if f, err = fs.Open("d/000001.sst"); err != nil {
		t.Fatal(err)
	}
	return f, s, w
}

func contents(t testing.TB, f mmapfs.File) []byte {
	n, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// mayDiffer says why a golden file cannot be made again byte for byte; empty if it can.
func (g *golden) mayDiffer() string {
	newer := strings.HasPrefix(g.name, "block11/")
	switch c := g.recipe["comp"]; {
	case g.recipe["fv"] == "0" || g.recipe["fv"] == "1":
		return "format versions 0 and 1 are not written"
	case c != "" && c != "none":
		return "compressors of the same format choose different matches"
	case g.recipe["mode"] == "db:gseq":
		return "the global sequence number was changed in place"
	case newer && g.recipe["pf"] == "1" && g.recipe["dpf"] != "0":
		return "RocksDB 11 cuts filter partitions apart from the index's"
	case g.recipe["sepkv"] == "1":
		return "blocks with keys and values apart are read, not written"
	case g.recipe["sba"] != "":
		return "super block alignment is read, not written"
	}
	return ""
}

func TestGoldenTablesAreWrittenAgainByteForByte(t *testing.T) {
	equal := 0
	for _, g := range goldens(t) {
		if g.recipe["fv"] == "0" || g.recipe["fv"] == "1" || g.recipe["comp"] == "bzip2" {
			continue
		}
		r := g.open(t, nil)
		o := g.writerOptions(t, r.Properties())
		o.baseContext = r.footer.BaseContextChecksum // random otherwise
		f, _, _ := rewrite(t, r, o)
		got := contents(t, f)
		want, err := os.ReadFile(g.path)
		if err != nil {
			t.Fatal(err)
		}
		if g.mayDiffer() == "" {
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s", g.name, firstDifference(t, f, r, got, want))
			} else {
				equal++
			}
		}
		// In any case it reads back the same.
		back, err := Open(f, ReaderOptions{Order: g.order(), Extractor: g.extractor(t), VerifyChecksums: true, ManifestLargestSeq: r.gseq})
		if err != nil {
			t.Errorf("%s: our file: %v", g.name, err)
			r.Close()
			continue
		}
		if err := back.VerifyChecksums(context.Background()); err != nil {
			t.Errorf("%s: our file: %v", g.name, err)
		}
		g.load(t)
		checkScan(t, g.name+", our file", back, g.entries, table.IterOptions{})
		checkTombstones(t, g.name+", our file", back.Tombstones(), r.Tombstones())
		back.Close()
		r.Close()
	}
	if equal != 120 {
		t.Errorf("%d files came out equal, expected 120", equal)
	}
}

// firstDifference says in which block two files first differ.
func firstDifference(t testing.TB, f mmapfs.File, r *Reader, got, want []byte) string {
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	where := "data"
	for _, m := range r.metas {
		if uint64(at) >= m.Handle.Offset && uint64(at) < m.Handle.Offset+m.Handle.Size+5 {
			where = m.Name
		}
	}
	if h := r.footer.Index; uint64(at) >= h.Offset && uint64(at) < h.Offset+h.Size+5 {
		where = "index"
	}
	a, b := max(0, at-20), at+40
	return fmt.Sprintf("lengths %d and %d, first difference at %d (%s):\n% x\n% x\nRocksDB filter size %d, %d entries; data size %d",
		len(got), len(want), at, where, got[min(a, len(got)):min(b, len(got))], want[min(a, len(want)):min(b, len(want))],
		r.props.FilterSize, r.props.NumFilterEntries, r.props.DataSize)
}

//go:build oracle

package blocktable

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// These tests need Debian's rocksdb-tools, librocksdb-dev and g++:
//
//	go test -tags oracle -run Oracle ./blocktable

// oracleDir is a scratch directory in memory where there is one.
func oracleDir(t *testing.T) string {
	base := ""
	if _, err := os.Stat("/dev/shm"); err == nil {
		base = "/dev/shm"
	}
	dir, err := os.MkdirTemp(base, "blocktable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func sstDump(t *testing.T, args ...string) string {
	out, err := exec.Command("sst_dump", args...).CombinedOutput()
	if err != nil {
		t.Errorf("sst_dump %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestOracleSstDumpAcceptsTheGoldenTablesThatWeWriteAgain(t *testing.T) {
	dir := oracleDir(t)
	files := 0
	for _, g := range goldens(t) {
		fv := g.recipe["fv"]
		if fv == "0" || fv == "1" || fv == "6" || fv == "7" || g.recipe["comp"] == "bzip2" {
			continue
		}
		r := g.open(t, nil)
		f, _, _ := rewrite(t, r, g.writerOptions(t, r.Properties()))
		path := filepath.Join(dir, fmt.Sprintf("%06d.sst", files+1))
		if err := os.WriteFile(path, contents(t, f), 0o644); err != nil {
			t.Fatal(err)
		}
		files++
		g.load(t)
		if out := sstDump(t, "--file="+path, "--command=verify"); !strings.Contains(out, "The file is ok") && strings.Contains(strings.ToLower(out), "corrupt") {
			t.Errorf("%s: verify: %s", g.name, out)
		}
		scan := sstDump(t, "--file="+path, "--command=scan", "--output_hex")
		if n := strings.Count(scan, " => "); n != len(g.entries) {
			t.Errorf("%s: sst_dump lists %d of %d entries:\n%.500s", g.name, n, len(g.entries), scan)
		}
		props := sstDump(t, "--file="+path, "--command=check", "--show_properties")
		if !strings.Contains(props, fmt.Sprintf("# entries: %d", len(g.entries)+len(r.Tombstones()))) {
			t.Errorf("%s: sst_dump's properties do not count %d entries:\n%.800s", g.name, len(g.entries), props)
		}
		os.Remove(path)
		r.Close()
	}
	if files < 100 {
		t.Errorf("only %d files were tried", files)
	}
}

func TestOracleRocksDBReadsWhatWeWrite(t *testing.T) {
	dir := oracleDir(t)
	oracle := filepath.Join(dir, "oracle")
	if out, err := exec.Command("g++", "-std=c++17", "-O1", "testdata/oracle.cc", "-o", oracle, "-lrocksdb").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type variant struct {
		name    string
		reverse bool
		change  func(*WriterOptions)
	}
	variants := []variant{
		{"defaults", false, func(*WriterOptions) {}},
		{"bloom", false, func(o *WriterOptions) { o.FilterPolicy = Bloom(10) }},
		{"ribbon", false, func(o *WriterOptions) { o.FilterPolicy = Ribbon(10) }},
		{"two-level, partitioned", false, func(o *WriterOptions) {
			o.IndexType, o.PartitionFilters, o.FilterPolicy, o.MetadataBlockSize = TwoLevelIndexSearch, true, Bloom(10), 512
		}},
		{"two-level, partitioned ribbon, reverse", true, func(o *WriterOptions) {
			o.IndexType, o.PartitionFilters, o.FilterPolicy, o.MetadataBlockSize = TwoLevelIndexSearch, true, Ribbon(10), 1024
		}},
		{"first key, interval 4", false, func(o *WriterOptions) { o.IndexType, o.IndexBlockRestartInterval = BinarySearchWithFirstKey, 4 }},
		{"hash", false, func(o *WriterOptions) { o.IndexType, o.FilterPolicy = HashSearch, Bloom(8) }},
		{"data hash", false, func(o *WriterOptions) { o.DataBlockIndexType = DataBlockBinaryAndHash }},
		{"aligned", false, func(o *WriterOptions) { o.BlockAlign = true }},
		{"prefix filter only", false, func(o *WriterOptions) { o.WholeKeyFiltering, o.FilterPolicy = false, Bloom(12) }},
	}
	for _, c := range []compress.Type{compress.Snappy, compress.Zlib, compress.LZ4, compress.LZ4HC, compress.ZSTD} {
		for _, dict := range []int{0, 4096} {
			for _, train := range []int{0, 10 * dict} {
				variants = append(variants, variant{fmt.Sprintf("%v, dictionary %d, trained on %d", c, dict, train), false, func(o *WriterOptions) {
					o.Compression, o.CompressionOptions = c, DefaultCompressionOptions()
					o.CompressionOptions.MaxDictBytes, o.CompressionOptions.ZstdMaxTrainBytes = dict, train
					o.CompressionOptions.ParallelThreads = 1 + train%3
				}})
			}
		}
	}
	var jobs bytes.Buffer
	names := make(map[string]string)
	for version := 2; version <= 5; version++ {
		for _, v := range variants {
			o := WriterOptions{Options: DefaultOptions(), Extractor: prefixhash.Fixed(4), Identity: table.Identity{ExternalFile: true, DBID: "SST Writer", FileNumber: 1}}
			o.FormatVersion, o.BlockSize = version, 1024
			if v.reverse {
				o.Order = keys.NewOrder(keys.ReverseBytewise)
			}
			v.change(&o)
			path := filepath.Join(dir, fmt.Sprintf("%06d.sst", len(names)+1))
			names[path] = fmt.Sprintf("version %d, %s", version, v.name)
			writeForOracle(t, dir, path, o)
			cmp := "bytewise"
			if v.reverse {
				cmp = "reverse"
			}
			fmt.Fprintf(&jobs, "%s %s.want %s %d %s\n", path, path, cmp, 4, filepath.Join(dir, "db"))
		}
	}
	cmd := exec.Command(oracle)
	cmd.Stdin = &jobs
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%.2000s", err, out)
	}
	ok := 0
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, verdict, _ := strings.Cut(line, " ")
		if verdict == "OK" {
			ok++
		} else {
			t.Errorf("%s: %s", names[path], line)
		}
	}
	if ok != len(names) {
		t.Errorf("RocksDB read %d of %d files", ok, len(names))
	}
}

// writeForOracle writes 1500 entries, and beside the table what it holds.
func writeForOracle(t *testing.T, dir, path string, o WriterOptions) {
	f := memFile(t, nil)
	w, err := NewWriter(f, o)
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	const n = 1500
	for i := range n {
		k := i
		if !o.Order.Bytewise() {
			k = n - 1 - i
		}
		key := fmt.Appendf(nil, "%06d-key", k*13)
		value := bytes.Repeat(fmt.Appendf(nil, "value %d of many;", k%100), k%9)
		want = binary.LittleEndian.AppendUint32(want, uint32(len(key)))
		want = append(want, key...)
		want = binary.LittleEndian.AppendUint32(want, uint32(len(value)))
		want = append(want, value...)
		if err := w.Add(key, keys.Pack(0, keys.KindValue), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, contents(t, f), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".want", want, 0o644); err != nil {
		t.Fatal(err)
	}
}

//go:build oracle

package oracle_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/blocktable"
)

// spec describes a column family to both engines. Zero means RocksDB's default,
// unless said otherwise.
type spec struct {
	Name      string
	Block     bool   // block-based table; the fields from KeyLen to Memory are of plain tables
	Reverse   bool   // comparator
	Merge     string // operator, as in option strings
	Extractor string // as in option strings; plain tables without one are in total order
	Memtable  string // skip_list, prefix_hash, hash_linkedlist, vector
	Buckets   int
	Buffer    int64 // write_buffer_size

	KeyLen   int // user_key_len
	Prefix   bool
	Bloom    int     // -1: none
	Ratio    float64 // of the hash index; ignored in total order
	Sparse   int     // -1: every row has an index record
	NoStore  bool    // the index is not stored in the file
	Locality uint32
	Memory   string // how Flatrock keeps the files in RAM

	Table       map[string]string // options of block-based tables, by RocksDB's names
	Compression string
	Style       string // universal or fifo; "": leveled
	Pri         string // compaction_pri by RocksDB's name
	Dynamic     bool   // level_compaction_dynamic_level_bytes
}

// fixedSpecs name the corners of the plain table's options, one family each.
var fixedSpecs = []spec{
	{Name: "default", Extractor: "fixed:4", Memtable: "prefix_hash"},
	{Name: "fixed length", Extractor: "fixed:4", Memtable: "hash_linkedlist", KeyLen: 12, Locality: 1},
	{Name: "shared prefixes", Extractor: "fixed:3", Memtable: "prefix_hash", Prefix: true, Sparse: 3},
	{Name: "shared prefixes, fixed length", Extractor: "fixed:4", Memtable: "skip_list", Prefix: true, KeyLen: 10, Locality: 1},
	{Name: "shared prefixes, index built at open", Extractor: "capped:6", Memtable: "skip_list", Prefix: true, NoStore: true},
	{Name: "total order", Memtable: "skip_list", NoStore: true},
	{Name: "total order, index in the file", Memtable: "vector", Locality: 1, Sparse: 4},
	{Name: "total order, reverse", Memtable: "skip_list", Reverse: true, Merge: "stringappend"},
	{Name: "reverse", Extractor: "fixed:4", Memtable: "prefix_hash", Reverse: true, Sparse: -1},
	{Name: "whole key", Extractor: "rocksdb.Noop", Memtable: "hash_linkedlist", Buckets: 3},
	{Name: "one bucket", Extractor: "capped:2", Memtable: "prefix_hash", Buckets: 1, Ratio: 1000},
	{Name: "no bloom", Extractor: "fixed:2", Memtable: "skip_list", Bloom: -1, Ratio: 4, NoStore: true},
	{Name: "resident", Extractor: "fixed:4", Memtable: "prefix_hash", Memory: "resident", Merge: "stringappend"},
	{Name: "counters", Extractor: "fixed:4", Memtable: "prefix_hash", Merge: "uint64add"},
	{Name: "largest", Extractor: "capped:4", Memtable: "vector", Merge: "max"},
	{Name: "newest", Extractor: "fixed:1", Memtable: "skip_list", Merge: "put", Prefix: true},
	{Name: "xor", Memtable: "skip_list", Merge: "bytesxor"},
}

// blockSpecs name those of block-based tables.
var blockSpecs = []spec{
	{Name: "block", Block: true, Memtable: "skip_list", Merge: "stringappend"},
	{Name: "block, vector", Block: true, Memtable: "vector", Compression: "kZSTD"},
	{Name: "block, reverse", Block: true, Memtable: "skip_list", Reverse: true, Compression: "kSnappyCompression"},
	{Name: "block, bloom", Block: true, Memtable: "skip_list", Table: map[string]string{"filter_policy": "bloomfilter:10:false"}, Compression: "kZlibCompression"},
	{Name: "block, bloom of prefixes", Block: true, Memtable: "prefix_hash", Extractor: "fixed:4", Table: map[string]string{"filter_policy": "bloomfilter:10:false", "whole_key_filtering": "false"}},
	{Name: "block, ribbon", Block: true, Memtable: "skip_list", Merge: "uint64add", Table: map[string]string{"filter_policy": "ribbonfilter:10"}, Compression: "kLZ4HCCompression"},
	{Name: "block, two-level index", Block: true, Memtable: "skip_list", Table: map[string]string{"index_type": "kTwoLevelIndexSearch", "partition_filters": "true", "filter_policy": "bloomfilter:10:false", "metadata_block_size": "512", "block_size": "500"}},
	{Name: "block, hash index", Block: true, Memtable: "hash_linkedlist", Extractor: "fixed:4", Table: map[string]string{"index_type": "kHashSearch", "data_block_index_type": "kDataBlockBinaryAndHash"}},
	{Name: "block, first keys", Block: true, Memtable: "skip_list", Table: map[string]string{"index_type": "kBinarySearchWithFirstKey", "checksum": "kxxHash64", "block_size": "700", "format_version": "4"}},
	{Name: "block, aligned", Block: true, Memtable: "skip_list", Table: map[string]string{"block_align": "true", "checksum": "kCRC32c", "format_version": "2", "use_delta_encoding": "false"}, Compression: "kNoCompression"},
}

// styleSpecs name those of the styles and priorities of compaction.
var styleSpecs = []spec{
	{Name: "universal", Block: true, Memtable: "skip_list", Merge: "stringappend", Style: "universal"},
	{Name: "universal, plain", Extractor: "fixed:4", Memtable: "prefix_hash", Style: "universal", Prefix: true},
	{Name: "fifo", Block: true, Memtable: "skip_list", Style: "fifo"},
	{Name: "fifo, plain", Memtable: "skip_list", Merge: "uint64add", Style: "fifo"},
	{Name: "round robin", Block: true, Memtable: "skip_list", Pri: "kRoundRobin"},
	{Name: "round robin, plain", Extractor: "capped:3", Memtable: "hash_linkedlist", Pri: "kRoundRobin", Dynamic: true},
	{Name: "oldest largest", Block: true, Memtable: "vector", Pri: "kOldestLargestSeqFirst", Dynamic: true, Reverse: true},
	{Name: "oldest smallest", Memtable: "skip_list", Pri: "kOldestSmallestSeqFirst", Merge: "stringappend"},
	{Name: "compensated", Block: true, Memtable: "skip_list", Pri: "kByCompensatedSize"},
}

// theirStyle and myStyle are the compaction of s as either engine's options.
func (s spec) theirStyle() string {
	text := "compaction_pri=" + cmp.Or(s.Pri, "kMinOverlappingRatio") + ";"
	switch s.Style {
	case "universal":
		text += "compaction_style=kCompactionStyleUniversal;compaction_options_universal={size_ratio=20;max_size_amplification_percent=120;allow_trivial_move=true;};"
	case "fifo":
		text += "compaction_style=kCompactionStyleFIFO;compaction_options_fifo={max_table_files_size=1099511627776;allow_compaction=true;};"
	}
	return text + fmt.Sprintf("level_compaction_dynamic_level_bytes=%v;", s.Dynamic && s.Style == "")
}

func (s spec) myStyle(o *flatrock.ColumnFamilyOptions) {
	o.CompactionPri = map[string]flatrock.CompactionPri{"kRoundRobin": flatrock.RoundRobin, "kOldestLargestSeqFirst": flatrock.OldestLargestSeqFirst,
		"kOldestSmallestSeqFirst": flatrock.OldestSmallestSeqFirst, "kByCompensatedSize": flatrock.ByCompensatedSize}[s.Pri]
	o.LevelCompactionDynamicLevelBytes = flatrock.Off
	if s.Dynamic {
		o.LevelCompactionDynamicLevelBytes = flatrock.On
	}
	switch s.Style {
	case "universal":
		o.CompactionStyle = flatrock.CompactionStyleUniversal
		o.CompactionOptionsUniversal = flatrock.DefaultUniversalOptions()
		o.CompactionOptionsUniversal.SizeRatio, o.CompactionOptionsUniversal.MaxSizeAmplificationPercent = 20, 120
		o.CompactionOptionsUniversal.AllowTrivialMove = true
	case "fifo":
		o.CompactionStyle = flatrock.CompactionStyleFIFO
		o.CompactionOptionsFIFO = flatrock.FIFOOptions{MaxTableFilesSize: 1 << 40, AllowCompaction: true}
	}
}

// randomSpec draws the options of a family.
func randomSpec(rng *rand.Rand, name string) spec {
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	s := spec{
		Name:     name,
		Reverse:  rng.IntN(4) == 0,
		Merge:    pick("", "", "stringappend", "uint64add", "max", "put", "bytesxor"),
		Buckets:  1 + rng.IntN(200),
		Buffer:   64 << 10 << rng.IntN(4),
		Prefix:   rng.IntN(2) == 0,
		Bloom:    rng.IntN(14) - 1,
		Sparse:   rng.IntN(20) - 1,
		NoStore:  rng.IntN(2) == 0,
		Locality: rng.Uint32N(2),
		Memory:   pick("", "none", "willneed", "resident"),
		Style:    pick("", "", "universal", "fifo"),
		Pri:      pick("", "kRoundRobin", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kByCompensatedSize"),
		Dynamic:  rng.IntN(2) == 0,
	}
	if rng.IntN(3) == 0 {
		return randomBlockSpec(rng, s)
	}
	if rng.IntN(2) == 0 {
		s.KeyLen = 8 + rng.IntN(8)
	}
	if rng.IntN(4) == 0 { // total order
		s.Prefix = false
		s.Memtable = pick("skip_list", "vector")
	} else {
		s.Extractor = pick("fixed:1", "fixed:3", "fixed:4", "fixed:7", "capped:2", "capped:5", "rocksdb.Noop")
		s.Memtable = pick("skip_list", "vector", "prefix_hash", "hash_linkedlist")
		s.Ratio = []float64{0, 0.1, 0.5, 1, 4}[rng.IntN(5)]
	}
	return s
}

// randomBlockSpec makes a block-based family of s.
func randomBlockSpec(rng *rand.Rand, s spec) spec {
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	s.Block = true
	s.Extractor = pick("", "", "fixed:1", "fixed:4", "capped:3", "rocksdb.Noop")
	s.Memtable = pick("skip_list", "vector")
	index := pick("kBinarySearch", "kBinarySearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey")
	if s.Extractor != "" {
		s.Memtable = pick("skip_list", "vector", "prefix_hash", "hash_linkedlist")
		index = pick(index, "kHashSearch")
	}
	s.Compression = pick("kNoCompression", "kLZ4Compression", "kLZ4HCCompression", "kSnappyCompression", "kZlibCompression", "kZSTD")
	s.Table = map[string]string{
		"index_type":                    index,
		"block_size":                    pick("256", "1000", "4096", "16384"),
		"block_restart_interval":        pick("1", "3", "16"),
		"index_block_restart_interval":  pick("1", "1", "4"),
		"format_version":                pick("2", "3", "4", "5"),
		"checksum":                      pick("kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"),
		"filter_policy":                 pick("nullptr", "bloomfilter:7:false", "bloomfilter:12.5:false", "ribbonfilter:10"),
		"whole_key_filtering":           pick("true", "true", "false"),
		"data_block_index_type":         pick("kDataBlockBinarySearch", "kDataBlockBinaryAndHash"),
		"index_shortening":              pick("kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"),
		"use_delta_encoding":            pick("true", "true", "false"),
		"enable_index_compression":      pick("true", "false"),
		"cache_index_and_filter_blocks": pick("true", "false"),
		"metadata_block_size":           pick("256", "4096"),
	}
	if index == "kHashSearch" {
		s.Table["index_block_restart_interval"] = "1"
	}
	if index == "kTwoLevelIndexSearch" {
		s.Table["partition_filters"] = pick("true", "false")
	}
	if s.Compression == "kNoCompression" {
		if s.Table["block_align"] = pick("true", "false"); s.Table["block_align"] == "true" {
			s.Table["block_size"] = pick("256", "4096") // a power of two
		}
	}
	return s
}

// withDefaults fills in what both engines must agree on.
func (s spec) withDefaults() spec {
	if s.Buckets == 0 {
		s.Buckets = 64
	}
	if s.Buffer == 0 {
		s.Buffer = 128 << 10
	}
	if s.Ratio == 0 {
		s.Ratio = 0.75
	}
	if s.Bloom == 0 {
		s.Bloom = 10
	}
	if s.Sparse == 0 {
		s.Sparse = 16
	}
	return s
}

// theirs is the family as RocksDB's option string.
func (s spec) theirs() string {
	s = s.withDefaults()
	var b strings.Builder
	set := func(k, v string) { fmt.Fprintf(&b, "%s=%s;", k, v) }
	if s.Reverse {
		set("comparator", "rocksdb.ReverseBytewiseComparator")
	}
	if s.Merge != "" {
		set("merge_operator", s.Merge)
	}
	if s.Extractor != "" {
		set("prefix_extractor", s.Extractor)
	}
	memtable := s.Memtable
	if memtable == "prefix_hash" || memtable == "hash_linkedlist" {
		memtable += fmt.Sprintf(":%d", s.Buckets)
	}
	set("memtable_factory", memtable)
	set("write_buffer_size", fmt.Sprint(s.Buffer))
	set("target_file_size_base", fmt.Sprint(s.Buffer/2))
	set("max_bytes_for_level_base", fmt.Sprint(2*s.Buffer))
	set("max_bytes_for_level_multiplier", "4")
	set("bloom_locality", fmt.Sprint(s.Locality))
	b.WriteString(s.theirStyle())
	if s.Block {
		table := "id=BlockBasedTable;"
		for _, k := range slices.Sorted(maps.Keys(s.Table)) {
			if k != "use_delta_encoding" { // has no text in 7.8.3
				table += k + "=" + s.Table[k] + ";"
			}
		}
		set("table_factory", "{"+table+"}")
		set("compression", cmp.Or(s.Compression, "kLZ4Compression"))
		return b.String()
	}
	ratio, encoding := s.Ratio, "kPlain"
	if s.Extractor == "" {
		ratio = 0
	}
	if s.Prefix {
		encoding = "kPrefix"
	}
	set("table_factory", fmt.Sprintf("{id=PlainTable;user_key_len=%d;bloom_bits_per_key=%d;hash_table_ratio=%g;index_sparseness=%d;encoding_type=%s;store_index_in_file=%v;}",
		s.KeyLen, max(s.Bloom, 0), ratio, max(s.Sparse, 0), encoding, !s.NoStore))
	set("compression", "kNoCompression")
	if ratio != 0 {
		// As Flatrock writes it; see ColumnFamily.writeOptions.
		set("max_sequential_skip_in_iterations", "18446744073709551615")
	}
	return b.String()
}

// mine is the family as Flatrock's options.
func (s spec) mine() (*flatrock.ColumnFamilyOptions, error) {
	s = s.withDefaults()
	o := &flatrock.ColumnFamilyOptions{
		WriteBufferSize:            s.Buffer,
		TargetFileSizeBase:         s.Buffer / 2,
		MaxBytesForLevelBase:       2 * s.Buffer,
		MaxBytesForLevelMultiplier: 4,
		BloomLocality:              s.Locality,
	}
	s.myStyle(o)
	if s.Reverse {
		o.Comparator = flatrock.ReverseBytewise
	}
	var err error
	if s.Merge != "" {
		if o.MergeOperator, err = flatrock.ParseMergeOperator(s.Merge); err != nil {
			return nil, err
		}
	}
	var n int
	switch {
	case s.Extractor == "rocksdb.Noop":
		o.PrefixExtractor = flatrock.NoopPrefix()
	case strings.HasPrefix(s.Extractor, "fixed:"):
		fmt.Sscanf(s.Extractor, "fixed:%d", &n)
		o.PrefixExtractor = flatrock.FixedPrefix(n)
	case strings.HasPrefix(s.Extractor, "capped:"):
		fmt.Sscanf(s.Extractor, "capped:%d", &n)
		o.PrefixExtractor = flatrock.CappedPrefix(n)
	}
	kinds := map[string]flatrock.MemTableKind{
		"skip_list": flatrock.SkipList, "prefix_hash": flatrock.HashSkipList,
		"hash_linkedlist": flatrock.HashLinkList, "vector": flatrock.Vector,
	}
	kind, ok := kinds[s.Memtable]
	if !ok {
		return nil, fmt.Errorf("spec %q: memtable %q", s.Name, s.Memtable)
	}
	o.MemTable = flatrock.MemTableOptions{Kind: kind, BucketCount: s.Buckets, Threshold: 8}
	if s.Block {
		if s.Compression != "" {
			if o.Compression, err = flatrock.ParseCompression(s.Compression); err != nil {
				return nil, err
			}
		}
		o.Table, err = blockTable(s.Table)
		return o, err
	}
	t := flatrock.PlainTableOptions{
		UserKeyLen: uint32(s.KeyLen), BloomBitsPerKey: s.Bloom, HashTableRatio: s.Ratio,
		IndexSparseness: s.Sparse, StoreIndexInFile: flatrock.On,
	}
	if s.Extractor == "" {
		t.HashTableRatio = flatrock.TotalOrder
	}
	if s.Prefix {
		t.EncodingType = flatrock.PrefixEncoding
	}
	if s.NoStore {
		t.StoreIndexInFile = flatrock.Off
	}
	if s.Memory != "" {
		if t.Memory, err = flatrock.ParsePlainTableMemory(s.Memory); err != nil {
			return nil, err
		}
	}
	o.Table = t
	return o, nil
}

// blockTable turns RocksDB's names into Flatrock's options.
func blockTable(text map[string]string) (o flatrock.BlockBasedTableOptions, err error) {
	toggle := map[string]flatrock.Toggle{"true": flatrock.On, "false": flatrock.Off}
	for k, v := range text {
		number := func(to *int) {
			if *to, err = strconv.Atoi(v); err != nil {
				panic(err)
			}
		}
		switch k {
		case "block_size":
			number(&o.BlockSize)
		case "block_restart_interval":
			number(&o.BlockRestartInterval)
		case "index_block_restart_interval":
			number(&o.IndexBlockRestartInterval)
		case "metadata_block_size":
			number(&o.MetadataBlockSize)
		case "format_version":
			number(&o.FormatVersion)
		case "index_type":
			o.IndexType = map[string]blocktable.IndexType{
				"kBinarySearch": flatrock.BinarySearch, "kHashSearch": flatrock.HashSearch,
				"kTwoLevelIndexSearch": flatrock.TwoLevelIndexSearch, "kBinarySearchWithFirstKey": flatrock.BinarySearchWithFirstKey,
			}[v]
		case "data_block_index_type":
			if v == "kDataBlockBinaryAndHash" {
				o.DataBlockIndexType = flatrock.DataBlockBinaryAndHash
			}
		case "index_shortening":
			o.IndexShortening = map[string]flatrock.IndexShortening{
				"kNoShortening": flatrock.NoShortening, "kShortenSeparators": flatrock.ShortenSeparators,
				"kShortenSeparatorsAndSuccessor": flatrock.ShortenSeparatorsAndSuccessor,
			}[v]
		case "checksum":
			o.Checksum = map[string]flatrock.Checksum{
				"kNoChecksum": flatrock.NoChecksum, "kCRC32c": flatrock.CRC32C, "kxxHash": flatrock.XXHash,
				"kxxHash64": flatrock.XXHash64, "kXXH3": flatrock.XXH3,
			}[v]
		case "filter_policy":
			var bits float64
			if n, _ := fmt.Sscanf(v, "bloomfilter:%g", &bits); n == 1 {
				o.FilterPolicy = flatrock.BloomFilter(bits)
			} else if n, _ := fmt.Sscanf(v, "ribbonfilter:%g", &bits); n == 1 {
				o.FilterPolicy = flatrock.RibbonFilter(bits)
			}
		case "whole_key_filtering":
			o.WholeKeyFiltering = toggle[v]
		case "use_delta_encoding":
			o.UseDeltaEncoding = toggle[v]
		case "enable_index_compression":
			o.EnableIndexCompression = toggle[v]
		case "partition_filters":
			o.PartitionFilters = v == "true"
		case "block_align":
			o.BlockAlign = v == "true"
		case "cache_index_and_filter_blocks":
			o.CacheIndexAndFilterBlocks = v == "true"
		default:
			return o, fmt.Errorf("block table option %q", k)
		}
	}
	return o, nil
}

// text is the family for the script of an engine.
func (s spec) text(rocks bool) string {
	if rocks {
		return s.theirs()
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// minKeyLen keeps keys inside the domain of the extractor.
func (s spec) minKeyLen() int {
	n := 1
	fmt.Sscanf(s.Extractor, "fixed:%d", &n)
	return max(n, 1)
}

// key draws a key: few enough that they meet again, with shared prefixes, and with
// bytes above 127, which RocksDB's hash treats as negative.
func (s spec) key(rng *rand.Rand) string {
	k := []byte{'a' + byte(rng.IntN(3)), byte(0xfe + rng.IntN(2)), byte('0' + rng.IntN(4)), 'x', byte('0' + rng.IntN(10))}
	n := s.minKeyLen() + rng.IntN(8)
	if s.KeyLen > 0 {
		n = s.KeyLen
	}
	for len(k) < n {
		k = append(k, byte(rng.IntN(4)))
	}
	return string(k[:n])
}

// value draws a value that the family's merge operator takes.
func (s spec) value(rng *rand.Rand) string {
	n := rng.IntN(60)
	switch {
	case s.Merge == "uint64add":
		n = 8
	case rng.IntN(100) == 0:
		n = rng.IntN(9000)
	case rng.IntN(1000) == 0:
		n = 60_000 + rng.IntN(20_000) // over two blocks of the log
	}
	v := make([]byte, n)
	for i := range v {
		v[i] = byte('A' + rng.IntN(26))
	}
	return string(v)
}

// merged is what an operand makes of a value: the rule of each operator, written
// here again so that Flatrock's own is not its judge.
func (s spec) merged(old string, exists bool, operand string) string {
	if !exists {
		return operand
	}
	switch s.Merge {
	case "stringappend":
		return old + "," + operand
	case "max":
		return max(old, operand)
	case "put":
		return operand
	case "bytesxor":
		a, b := []byte(old), []byte(operand)
		if len(a) < len(b) {
			a, b = b, a
		}
		a = slices.Clone(a)
		for i := range b {
			a[i] ^= b[i]
		}
		return string(a)
	case "uint64add":
		var sum [8]byte
		carry := 0
		for i := range sum {
			carry += int(old[i]) + int(operand[i])
			sum[i] = byte(carry)
			carry >>= 8
		}
		return string(sum[:])
	}
	panic("no merge operator")
}

package house

// mayImport says what each package may import of this module and of others; the
// standard library is free, but see systemPackages. Names of ours are relative to
// the module, others are module paths. Imports point down: from deciding, over
// tables and memory, to the ground. Tests may import more, except what is in
// nobodyImports.
var mayImport = map[string]string{
	// The ground.
	"internal/keys":      "internal/perf", // a lookup carries its perf context
	"internal/coding":    "",
	"internal/hash":      "github.com/cespare/xxhash/v2 github.com/zeebo/xxh3",
	"internal/compress":  "internal/coding github.com/klauspost/compress github.com/pierrec/lz4/v4",
	"internal/merge":     "",
	"internal/script":    "",
	"internal/killpoint": "",
	"internal/mutation":  "",
	"internal/invariant": "",
	"numa":               "golang.org/x/sys",
	"ratelimit":          "",
	"internal/stripe":    "",
	"internal/perf":      "",
	"statistics":         "internal/stripe",

	// Files and structures.
	"mmapfs":               "internal/keys golang.org/x/sys github.com/edsrzf/mmap-go", // keys for the corruption error
	"prefixhash":           "internal/hash internal/keys",
	"internal/table":       "internal/perf internal/keys",
	"internal/entity":      "internal/coding internal/keys",
	"internal/blob":        "mmapfs internal/compress internal/coding internal/hash internal/keys",
	"internal/rangedel":    "internal/table internal/hash internal/keys", // table defines the tombstone; hash: checksums of fragments in memory
	"internal/record":      "internal/hash internal/keys",
	"internal/wal":         "internal/record mmapfs internal/coding internal/keys github.com/klauspost/compress", // zstd: one stream over all records of a log
	"internal/manifest":    "internal/record mmapfs internal/coding internal/keys github.com/zeebo/xxh3",         // xxh3: unique file ids
	"internal/optionsfile": "mmapfs",
	"internal/infolog":     "mmapfs",
	"internal/tracefile":   "internal/table internal/coding internal/keys", // table names the callers
	"internal/tracebuf":    "mmapfs",
	"blockcache":           "internal/stripe mmapfs internal/tracefile internal/tracebuf internal/table", // the tracer

	// Tables and memory. The two formats never import each other.
	"internal/block": "internal/table internal/coding internal/hash internal/keys",
	"memtable":       "prefixhash mmapfs internal/table internal/hash internal/keys", // hash: the kinds of buckets hash as RocksDB's do
	"plaintable":     "prefixhash mmapfs internal/table internal/block internal/coding internal/hash internal/keys github.com/bits-and-blooms/bloom/v3 github.com/zeebo/xxh3",
	"blocktable":     "statistics internal/perf blockcache prefixhash mmapfs internal/tracefile internal/table internal/block internal/compress internal/coding internal/hash internal/keys github.com/klauspost/compress", // compress: building dictionaries

	// Deciding.
	"internal/iterator":          "internal/rangedel internal/merge internal/entity internal/table internal/keys",
	"internal/iterator/itertest": "internal/entity internal/table internal/keys",
	"compaction":                 "internal/manifest internal/blob internal/table internal/rangedel internal/iterator internal/merge internal/entity internal/keys",
	"": "internal/infolog statistics internal/blob internal/stripe internal/perf compaction ratelimit memtable plaintable blocktable blockcache prefixhash mmapfs numa internal/iterator internal/manifest internal/wal internal/rangedel " +
		"internal/optionsfile internal/tracefile internal/tracebuf internal/merge internal/entity internal/table internal/block internal/compress internal/hash internal/coding internal/keys",

	// What tools make of traces.
	"internal/cachesim":      "",
	"internal/traceanalysis": "internal/cachesim internal/tracefile internal/table internal/keys",

	// At the top: they may import anything, and only the entries here do.
	"bench":               anything,
	"bench/compare":       anything,
	"bench/experiment":    anything,
	"cmd/flatrock":        anything,
	"internal/stress":     anything, // the harnesses behind flatrock stress: they start processes, and draw every option
	"oracle":              anything,
	"internal/house":      anything,
	"internal/house/fuzz": anything,
	"numa/vmtest":         anything,
	"numa/vmtest/guest":   anything,
}

const anything = "*"

// everywhere are packages that anybody may import: without the build tags of tests
// they are nothing.
var everywhere = []string{"internal/killpoint", "internal/mutation", "internal/invariant"}

// nobodyImports are packages for people and tests; no package imports them, and
// tests only those that are marked.
var nobodyImports = map[string]bool{
	"bench": false, "bench/compare": false, "bench/experiment": false, "cmd/flatrock": false, "oracle": false, "numa/vmtest": false,
	"internal/house":  false,
	"internal/script": true, "internal/iterator/itertest": true,
}

// systemPackages are the parts of the standard library that reach the operating
// system, and who may use them besides tests and the top: mmapfs is the only door
// to files and memory, numa the only one to threads.
var systemPackages = map[string]string{
	"os":            "mmapfs numa internal/script internal/killpoint internal/mutation <root>", // the root asks for the host's name, kill points kill, the environment names a bug
	"os/exec":       "",
	"syscall":       "mmapfs numa",
	"net":           "",
	"runtime/debug": "mmapfs numa", // the fault guard
}

// unsafePackages may import unsafe, in files named *_unsafe.go.
var unsafePackages = map[string]bool{
	"mmapfs": true, "memtable": true, "blockcache": true, "plaintable": true,
	"numa":            true, // system calls that x/sys lacks take pointers
	"internal/stripe": true, // which stripe a goroutine counts in
	"":                true, // readslot_unsafe.go: ordinary stores announce readers
}

// badNames are names of packages that say nothing.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "lib"}

// maxLines is when a file has grown a second subject.
const maxLines = 900

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
	"internal/prefetch":  "",
	"internal/spin":      "",
	"internal/hash":      "github.com/cespare/xxhash/v2 github.com/zeebo/xxh3",
	"internal/compress":  "internal/coding github.com/klauspost/compress github.com/pierrec/lz4/v4",
	"internal/merge":     "",
	"internal/script":    "",
	"internal/killpoint": "",
	"internal/mutation":  "",
	"internal/invariant": "",
	"internal/race":      "",
	"numa":               "golang.org/x/sys",
	"ratelimit":          "",
	"internal/stripe":    "",
	"internal/perf":      "",
	"statistics":         "internal/stripe internal/perf", // perf: a point read is counted by its tally

	// Files and structures.
	"mmapfs":               "internal/keys golang.org/x/sys github.com/edsrzf/mmap-go", // keys for the corruption error
	"prefixhash":           "internal/hash internal/keys",
	"internal/table":       "internal/perf internal/keys",
	"internal/entity":      "internal/coding internal/keys",
	"internal/blob":        "mmapfs internal/compress internal/coding internal/hash internal/keys",
	"internal/rangedel":    "internal/table internal/hash internal/keys", // table defines the tombstone; hash: checksums of fragments in memory
	"internal/record":      "internal/hash internal/keys",
	"internal/wal":         "internal/record mmapfs internal/compress internal/coding internal/keys github.com/klauspost/compress", // zstd: a frame for each record of a log; compress: what a frame can hold
	"internal/manifest":    "internal/record mmapfs internal/coding internal/keys github.com/zeebo/xxh3",                           // xxh3: unique file ids
	"internal/optionsfile": "mmapfs",
	"internal/infolog":     "mmapfs",
	"internal/tracefile":   "mmapfs internal/table internal/coding internal/keys",                                                        // table names the callers
	"internal/tracebuf":    "mmapfs internal/prefetch internal/race",                                                                     // a list instead of a pool, where the detector makes pools forget
	"blockcache":           "internal/stripe internal/spin internal/prefetch mmapfs internal/tracefile internal/tracebuf internal/table", // the tracer

	// Tables and memory. The two formats never import each other.
	"internal/block": "internal/table internal/coding internal/hash internal/keys",
	"memtable":       "prefixhash mmapfs internal/prefetch github.com/zeebo/xxh3 internal/table internal/hash internal/keys", // hash: the kinds of buckets hash as RocksDB's do
	"plaintable":     "prefixhash mmapfs internal/table internal/block internal/coding internal/hash internal/keys internal/prefetch github.com/bits-and-blooms/bloom/v3 github.com/zeebo/xxh3",
	"blocktable":     "statistics internal/prefetch internal/perf blockcache prefixhash mmapfs internal/tracefile internal/table internal/block internal/compress internal/coding internal/hash internal/keys github.com/klauspost/compress", // compress: building dictionaries

	// Deciding.
	"internal/iterator":          "internal/rangedel internal/merge internal/entity internal/table internal/keys",
	"internal/iterator/itertest": "internal/entity internal/table internal/keys",
	"compaction":                 "internal/manifest internal/blob internal/table internal/rangedel internal/iterator internal/merge internal/entity internal/keys",
	"": "internal/infolog statistics internal/blob internal/stripe internal/perf compaction ratelimit memtable plaintable blocktable blockcache prefixhash mmapfs numa internal/iterator internal/manifest internal/wal internal/rangedel " +
		"internal/optionsfile internal/tracefile internal/tracebuf internal/merge internal/entity internal/table internal/block internal/compress internal/hash internal/coding internal/keys internal/spin",

	// What tools make of traces.
	"internal/cachesim":      "",
	"internal/traceanalysis": "internal/cachesim internal/tracefile internal/table internal/keys",

	"internal/progress": "", // of tools, on terminals

	// At the top: they may import anything, and only the entries here do.
	"bench":                   anything,
	"internal/dbbench":        anything, // what bench and flatrock db_bench run
	"bench/compare":           anything,
	"bench/peers":             anything,           // a module of its own: rivals stay out of go.mod
	"bench/program":           "golang.org/x/sys", // runs db_bench, RocksDB's or ours, and reads its lines
	"bench/report":            "",                 // what bench/compare and bench/peers show: data in, text and HTML out; it asks what machine this is
	"bench/experiment":        anything,
	"cmd/flatrock":            anything,
	"internal/leaks":          "mmapfs",
	"internal/leaks/leaktest": "internal/leaks",
	"internal/stress":         anything,                                                         // the harnesses behind flatrock stress: they start processes, and draw every option
	"internal/hostile":        "internal/manifest internal/record internal/block internal/hash", // spoils files for tests
	"oracle":                  anything,
	"internal/house":          anything,
	"internal/house/fuzz":     anything,
	"numa/vmtest":             anything,
	"numa/vmtest/guest":       anything,
}

const anything = "*"

// nestedModules have a go.mod of their own, which make test builds, vets and tests; the
// rules here are theirs, too.
var nestedModules = map[string]bool{"bench/peers": true}

// everywhere are packages that anybody may import: without the build tags of tests
// they are nothing.
var everywhere = []string{"internal/killpoint", "internal/mutation", "internal/invariant"}

// nobodyImports are packages for people and tests; no package imports them, and
// tests only those that are marked.
var nobodyImports = map[string]bool{
	"bench": false, "bench/compare": false, "bench/peers": false, "bench/experiment": false, "cmd/flatrock": false, "oracle": false, "numa/vmtest": false,
	"internal/house":  false,
	"internal/script": true, "internal/iterator/itertest": true, "internal/hostile": true, "internal/race": true,
}

// systemPackages are the parts of the standard library that reach the operating
// system, and who may use them besides tests and the top: mmapfs is the only door
// to files and memory, numa the only one to threads.
var systemPackages = map[string]string{
	"os":            "bench/program bench/report mmapfs numa internal/progress internal/script internal/killpoint internal/mutation internal/leaks internal/leaks/leaktest <root>", // the root asks for the host's name, progress whether a file is a terminal, kill points kill, the environment names a bug, /proc says which files are open
	"os/exec":       "bench/program bench/report",
	"syscall":       "bench/program mmapfs numa", // bench/program: what a process took
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

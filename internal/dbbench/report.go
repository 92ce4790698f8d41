package dbbench

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// compressionNames are RocksDB's names of the values of --compression_type.
var compressionNames = map[string]string{
	"none": "NoCompression", "snappy": "Snappy", "zlib": "Zlib", "bzip2": "BZip2", "lz4": "LZ4", "lz4hc": "LZ4HC", "zstd": "ZSTD",
}

// printHeader writes db_bench's header: the machine to the log, the workload to the output.
func (b *bench) printHeader() {
	c := b.c
	fmt.Fprintf(b.log, "Flatrock:   version %s\n", version())
	fmt.Fprintf(b.log, "CPU:        %d * %s, %s/%s, %s\n", runtime.NumCPU(), cpuName(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if b.c.seed == 0 {
		fmt.Fprintf(b.log, "Set seed to %d because --seed was 0\n", b.seed)
	}
	valueSize, ratio := float64(c.valueSize), c.compressionRatio
	if c.valueSizeDistribution != "fixed" {
		valueSize = float64(c.valueSizeMin+c.valueSizeMax) / 2
	}
	raw := (float64(c.keySize) + valueSize) * float64(c.num) / (1 << 20)
	file := (float64(c.keySize) + valueSize*ratio) * float64(c.num) / (1 << 20)
	compression := compressionNames[c.compressionType]
	if c.usePlainTable {
		compression = "NoCompression" // plain tables have none
	}
	fmt.Fprintf(b.out, "Keys:       %d bytes each (+ 0 bytes user-defined timestamp)\n", c.keySize)
	fmt.Fprintf(b.out, "Values:     %d bytes each (%d bytes after compression)\n", int64(valueSize), int64(valueSize*ratio+0.5))
	fmt.Fprintf(b.out, "Entries:    %d\n", c.num)
	fmt.Fprintf(b.out, "Prefix:    %d bytes\n", c.prefixSize)
	fmt.Fprintf(b.out, "Keys per prefix:    %d\n", c.keysPerPrefix)
	fmt.Fprintf(b.out, "RawSize:    %.1f MB (estimated)\n", raw)
	fmt.Fprintf(b.out, "FileSize:   %.1f MB (estimated)\n", file)
	fmt.Fprintf(b.out, "Write rate: %d bytes/second\n", c.writeRateLimit)
	fmt.Fprintf(b.out, "Read rate: %d ops/second\n", c.readRateLimit)
	fmt.Fprintf(b.out, "Compression: %s\n", compression)
	fmt.Fprintf(b.out, "Memtablerep: %s\n", memtableKinds[c.memtablerep].name)
	fmt.Fprintf(b.out, "Perf Level: %d\n", c.perfLevel)
	if c.usePlainTable {
		fmt.Fprintf(b.out, "Plain table memory: %s\n", b.memory)
	}
	fmt.Fprintln(b.out, "------------------------------------------------")
}

// printMemory says what the memory policy of plain tables cost.
func (b *bench) printMemory() {
	if !b.c.usePlainTable || b.db == nil {
		return
	}
	fmt.Fprintf(b.out, "Plain table memory: %s; in memory: %s; RSS %.1f MB\n",
		b.memory.policy, describeOffHeap(b.db.Metrics().OffHeap), mb(residentSize()))
}

// version is the module's version, or the commit of a build from its repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	if v == "" {
		return "(devel)"
	}
	return v
}

func cpuName() string {
	text, _ := readFileString("/proc/cpuinfo") // elsewhere the architecture says it
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "CPU"
}

package table

import "fmt"

// Caller says on whose behalf a block is read, for block cache traces. The numbers are
// those of trace files (fact sheet: trace-files, section 2).
type Caller uint8

// The callers. Zero is what says nothing, and is traced as CallerUncategorized.
const (
	CallerUnknown Caller = iota
	CallerGet
	CallerMultiGet
	CallerIterator
	CallerApproximateSize
	CallerVerifyChecksum
	CallerSSTDumpTool
	CallerExternalIngestion
	CallerRepair
	CallerPrefetch // opening a table reads index and filter ahead of their use
	CallerCompaction
	CallerCompactionRefill // opening what a compaction wrote
	CallerFlush            // opening what a flush wrote
	CallerSSTFileReader
	CallerUncategorized
	NumCallers
)

var callerNames = [...]string{"Unknown", "Get", "MultiGet", "Iterator", "ApproximateSize", "VerifyChecksum", "SSTDumpTool",
	"ExternalSSTIngestion", "Repair", "Prefetch", "Compaction", "CompactionRefill", "Flush", "SSTFileReader", "Uncategorized"}

// String is RocksDB's word for c.
func (c Caller) String() string {
	if int(c) < len(callerNames) {
		return callerNames[c]
	}
	return fmt.Sprintf("Caller(%d)", uint8(c))
}

// PointRead reports whether c reads single keys: records of its accesses name the key.
func (c Caller) PointRead() bool { return c == CallerGet || c == CallerMultiGet }

package table

// Properties is the decoded properties block of a table file: RocksDB's
// TableProperties. A name missing from the file leaves its field zero.
type Properties struct {
	OriginalFileNumber     uint64
	DataSize               uint64
	IndexSize              uint64
	IndexPartitions        uint64
	TopLevelIndexSize      uint64
	IndexKeyIsUserKey      uint64
	IndexValueIsDelta      uint64
	FilterSize             uint64
	RawKeySize             uint64
	RawValueSize           uint64
	NumDataBlocks          uint64
	NumEntries             uint64
	NumFilterEntries       uint64
	NumDeletions           uint64
	NumMergeOperands       uint64
	NumRangeDeletions      uint64
	FormatVersion          uint64
	FixedKeyLen            uint64
	ColumnFamilyID         uint64
	CreationTime           uint64
	OldestKeyTime          uint64
	NewestKeyTime          uint64
	FileCreationTime       uint64
	SlowCompressionSize    uint64
	FastCompressionSize    uint64
	TailStartOffset        uint64
	KeyLargestSeqno        uint64
	KeySmallestSeqno       uint64
	DBID                   string
	DBSessionID            string
	DBHostID               string
	ColumnFamilyName       string
	FilterPolicyName       string
	ComparatorName         string
	MergeOperatorName      string
	PrefixExtractorName    string
	PropertyCollectorNames string
	CompressionName        string
	CompressionOptions     string
	SeqnoToTimeMapping     string

	// User holds every other property by name, format-specific ones
	// (rocksdb.plain.table.…, rocksdb.block.based.table.…) included, as stored.
	User map[string][]byte
	// Present lists the names that were in the file.
	Present map[string]bool
}

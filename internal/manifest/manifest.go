// Package manifest keeps the set of live files of a database: file metadata,
// version edits, versions, the MANIFEST file that logs the edits, and CURRENT,
// which names it. It opens no table; it knows a file by number, size and bounds.
//
// A MANIFEST is a log file (package record, types 1 to 4) with one version edit
// a record. An edit is a sequence of fields in any order:
//
//	edit   := field*
//	field  := varint32 tag, then by tag
//	  1 comparator        str              2 log number       varint64
//	  3 next file number  varint64         4 last sequence    varint64
//	  5 compact cursor    level, str key   6 deleted file     level, varint64
//	  9 prev log number   varint64        10 min log to keep  varint64
//	  7, 100, 102, 103    new file, by age of the format
//	200 column family     varint32       201 family add       str
//	202 family drop       -              203 max family       varint32
//	300 atomic group      varint32 edits that follow in the group
//	400, 401              blob file addition, garbage
//	4242 features         varint64, ours: what the family has that RocksDB lacks, a bit each
//	8192 and above        safe to ignore: str each (8193 db id, 8198 full_history_ts_low,
//	                      8199, 8200 WAL addition, deletion, 8201 persist timestamps,
//	                      8202 subcompaction progress, 8203 last compacted manifest size)
//	str    := varint32 length, bytes
//	level  := varint32
//
// Bounds are internal keys: user key, then the trailer in 8 bytes little-endian.
// Fields that are not known but safe to ignore are kept and written on.
//
// Fact sheet: manifest. Proved by the golden MANIFEST files of RocksDB 7.8 and
// 11.9, decoded and encoded again byte for byte, and by the text that RocksDB's
// ldb made of them.
package manifest

// MaxLevels bounds the levels of a column family, so that a damaged level
// number cannot ask for memory.
const MaxLevels = 1024

// DefaultNumLevels is RocksDB's default of num_levels.
const DefaultNumLevels = 7

// Optional is a field that an edit may leave out.
type Optional[T any] struct {
	Value T
	Set   bool
}

// Some is a field that is there.
func Some[T any](v T) Optional[T] { return Optional[T]{Value: v, Set: true} }

// Field is a field of an edit, a file or a blob that this package does not
// know: kept as it was found and written again. Value is owned.
type Field struct {
	Tag   uint32
	Value []byte
}

// Package plaintable writes and reads RocksDB's plain tables: rows one after the
// other, read in place through a mapping, found through a hash of the key's prefix.
//
//	file   := rows ‖ [bloom] ‖ [index] ‖ ... ‖ properties ‖ metaindex ‖ footer
//	row    := key ‖ trailer ‖ varint32 value length ‖ value
//	key    := user key                               Plain, fixed length
//	        | varint32 length ‖ user key             Plain, any length
//	        | flag full ‖ user key                   Prefix: first row of a run
//	        | flag prefix ‖ flag suffix ‖ rest       Prefix: second row of a run
//	        | flag suffix ‖ rest                     Prefix: the others
//	trailer := fixed64 seq<<8|kind  | ff             ff: a value of sequence number 0
//	flag   := kind<<6 | size, size 63 meaning 63 + the varint32 that follows
//
// Integers are little-endian. There is no padding between rows, no block
// trailer, and no checksum but our own. Rows lie in internal key order; offsets have 31 bits.
// The index maps hash(prefix) mod buckets to a row or to a record of several
// (index.go); the bloom filter is over the same hashes (bloom.go). Without an
// extractor the table is in total order: one bucket, bisected, and a filter of whole keys.
//
// What Flatrock adds, in meta blocks that RocksDB ignores (meta.go, lines.go, series.go, checksum.go;
// doc/formats-flatrock.md): a row index for seeks in total order and steps back,
// indexes that answer with one cache miss or none, checksums of every byte, and range
// deletes under an option. Files of RocksDB
// do the same, by a scan the first time.
//
// # Reading
//
// A Reader maps the file. When the mapping can fault (every policy but resident), its methods
// read under mmapfs.Guard and return a *mmapfs.FaultError that names the file; but keys and
// values are borrowed from the mapping, so whoever reads them needs the guard
// too, as do the stages of MultiGet. Get (get.go) is the path to read first: view.go
// holds what it touches. Every length from the file is checked before it is used:
// damage is a keys.CorruptionError with file and offset.
//
// On machines with several NUMA nodes a file, or its index and bloom filter, may have
// a replica on each node (replica.go): a view of its own, behind the published one.
//
// Fact sheet: plain-table. Proved by the golden files of RocksDB 7.8.3, which
// decode to their listings and come out byte for byte.
package plaintable

// Package flatrock is an embedded key-value store: RocksDB's storage engine in pure
// Go, on RocksDB's own files. A directory that RocksDB wrote opens in Flatrock, and
// the other way round.
//
// A [DB] maps keys to values, both byte slices, in the order of the keys. It is divided
// into column families ([ColumnFamily]), key spaces with options of their own; every
// database has one named "default", to which the methods of DB go. Writes, single or
// in a [Batch] over any families, are atomic, and logged before they are
// acknowledged. Reads see one moment: the newest, or that of a [Snapshot].
//
// # Where the data lives
//
// Each family picks the table format that suits its data:
//
//   - [PlainTableOptions], with a PrefixExtractor and a hash memtable: data in
//     RAM, read in place through mmap. A read costs a hash and two or three cache
//     misses.
//   - [BlockBasedTableOptions], the default, with a skip list: data on flash, read
//     through a block cache.
//
// Memtables, cached blocks and tables lie outside of the Go heap, so that the
// garbage collector has nothing to do with them. [Options].Placement says on which
// NUMA nodes, on machines that have several; [DB.Placement] shows where they are.
//
// # Durability
//
// A write that returned nil survives the death of the process (kill -9, a panic);
// with [WriteOptions].Sync it survives the death of the machine too. Without Sync, a
// death of the machine may take the newest writes, but never one that is older than another
// that survived. [WriteOptions].DisableWAL gives the log up: such writes survive once
// they are flushed.
//
// # Prefixes and order
//
// RocksDB leaves undefined what an iterator finds beyond the prefix of its seek, and
// plain tables there have neither Prev nor SeekForPrev. Here every
// iterator walks in total order in both directions, over all formats; prefixes only
// make seeks cheaper. [ReadOptions].PrefixSameAsStart ends a walk with its prefix.
//
// # Concurrency
//
// DB, ColumnFamily and Snapshot are safe for concurrent use. Batch, Iterator and
// PinnedValue belong to one goroutine at a time. Readers take no lock and never wait
// for writers, flushes or compactions. Close waits for background work; iterators and pinned values must
// be closed before.
//
// # Who owns the bytes
//
// Keys and values given to a write are copied. Get and MultiGet copy values into memory of the
// caller. GetPinned lends a value until its Release; an iterator lends key and value
// until it moves.
//
// # Errors
//
// Errors match the Err variables of this package with [errors.Is]. A missing
// key is [ErrNotFound]. Damage matches [ErrCorruption], and [errors.As] with a
// *[CorruptionError] says which file, where, and what was expected there. When the
// write side fails, a full disk for instance, the write returns the error, and from
// then on every write fails with [ErrBackground] until the database is opened again;
// reads go on.
//
// # How it works
//
// A Get crosses db.go, get.go (the order of the search), readstate.go (what a reader
// pins, without a lock), memstate.go, fileset.go (the files of a version) and
// tablecache.go (the one file that names both formats); below them the packages
// memtable, and plaintable or blocktable.
//
// A Put crosses db.go, batch.go, write.go (the commit queue: one writer leads a
// group), switch.go (a full memtable becomes immutable; write stalls), logs.go and
// internal/wal (the log), and memtable. In the background, flush.go writes memtables to
// level 0, compact.go merges levels with package compaction, and install.go makes the
// results count, in the MANIFEST first. open.go and recover.go begin it all.
//
// doc/architecture.md has the whole picture on one page.
package flatrock

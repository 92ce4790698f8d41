// Package blocktable reads and writes RocksDB's block-based tables: sorted files
// for data on flash, read block by block through a block cache.
//
//	file := data block* ‖ filter ‖ index ‖ [compression dictionary] ‖
//	        [range tombstones] ‖ properties ‖ metaindex ‖ footer
//
// Every block is contents ‖ compression type, 1 byte ‖ fixed32 checksum, and is
// found by its handle, never by walking. Package block has the blocks' entry
// format, the metaindex, the properties and the footer; here are
//
//   - data blocks (datablock.go): internal keys, with an optional hash index or
//     with keys and values apart;
//   - the index (indexblock.go, index.go): one entry a data block, a separator and
//     a handle; in one block, or in partitions under a top-level block;
//   - filters (filter.go, bloom.go, ribbon.go): full or partitioned; FastLocalBloom,
//     the legacy Bloom of format versions below 5, and Ribbon.
//
// Format versions 0 to 7 are read, 2 to 7 written.
//
// Fact sheet: block-table. Proved by golden/block (RocksDB 7.8.3) and
// golden/block11 (11.9): every entry, property and filter verdict read, and
// files written byte for byte where RocksDB's choice is deterministic.
package blocktable

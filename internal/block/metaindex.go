package block

import (
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Names of meta blocks (keys of the metaindex).
const (
	MetaProperties         = "rocksdb.properties"
	MetaPropertiesOld      = "rocksdb.stats"
	MetaRangeDel           = "rocksdb.range_del"
	MetaCompressionDict    = "rocksdb.compression_dict"
	MetaIndexBlock         = "rocksdb.index"
	MetaHashIndexPrefixes  = "rocksdb.hashindex.prefixes"
	MetaHashIndexMetadata  = "rocksdb.hashindex.metadata"
	MetaFullFilter         = "fullfilter."
	MetaPartitionedFilter  = "partitionedfilter."
	MetaObsoleteFilter     = "filter."
	MetaPlainTableIndex    = "PlainTableIndexBlock"
	MetaPlainTableBloom    = "kBloomBlock"
	MetaFilterName         = "rocksdb.BuiltinBloomFilter"
	MetaUserDefinedIndex   = "rocksdb.user_defined_index."
	metaIndexRestartPeriod = 1
)

// MetaEntry names a meta block.
type MetaEntry struct {
	Name   string
	Handle Handle
}

// EncodeMetaIndex returns the metaindex block of the entries, sorted by name.
// The names must differ.
func EncodeMetaIndex(entries []MetaEntry) []byte {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b MetaEntry) int { return strings.Compare(a.Name, b.Name) })
	b := NewBuilder(metaIndexRestartPeriod)
	for _, e := range sorted {
		b.Add([]byte(e.Name), AppendHandle(nil, e.Handle))
	}
	return b.Finish()
}

// DecodeMetaIndex decodes the metaindex block b, which starts at offset off of
// file. Unknown names are returned like known ones. Handles are not checked
// against the file's size.
func DecodeMetaIndex(file string, off int64, b []byte) ([]MetaEntry, error) {
	var entries []MetaEntry
	it := NewIter(file, off, b)
	for it.Next() {
		h, _, ok := DecodeHandle(it.Value())
		if !ok {
			return nil, keys.Corruptf(file, off+int64(it.ValueOffset()), "expected the handle of meta block %q, found % x", it.Key(), it.Value())
		}
		entries = append(entries, MetaEntry{string(it.Key()), h})
	}
	return entries, it.Err()
}

// FindMeta returns the handle of the meta block called name.
func FindMeta(entries []MetaEntry, name string) (Handle, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e.Handle, true
		}
	}
	return Handle{}, false
}

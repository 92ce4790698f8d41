package block

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Names of properties that have no field of their own in table.Properties, and
// lie in its User map as stored.
const (
	PropIndexType         = "rocksdb.block.based.table.index.type"                    // fixed32
	PropWholeKeyFiltering = "rocksdb.block.based.table.whole.key.filtering"           // "0" or "1"
	PropPrefixFiltering   = "rocksdb.block.based.table.prefix.filtering"              // "0" or "1"
	PropDecoupledFilters  = "rocksdb.block.based.table.decoupled.partitioned.filters" // "1"
	PropExternalVersion   = "rocksdb.external_sst_file.version"                       // fixed32
	PropGlobalSeqno       = "rocksdb.external_sst_file.global_seqno"                  // fixed64
	PropPlainEncoding     = "rocksdb.plain.table.encoding.type"                       // fixed32
	PropPlainBloomVersion = "rocksdb.plain.table.bloom.version"                       // "1"
	PropPlainBloomBlocks  = "rocksdb.plain.table.bloom.numblocks"                     // varint32
	PropDataRestart       = "rocksdb.data.block.restart.interval"                     // varint64
	PropIndexRestart      = "rocksdb.index.block.restart.interval"                    // varint64
	PropUniformBlocks     = "rocksdb.num.uniform.blocks"                              // varint64
	PropSeparatedKV       = "rocksdb.separate.key.value.in.data.block"                // varint64
	PropTimestampsKept    = "rocksdb.user.defined.timestamps.persisted"               // varint64
	PropTimestampMin      = "rocksdb.timestamp_min"                                   // bytes
	PropTimestampMax      = "rocksdb.timestamp_max"                                   // bytes
	PropEmbeddedBlobs     = "rocksdb.embedded.blob.stats"                             // bytes
	PropBlocksRejected    = "rocksdb.num.data.blocks.compression.rejected"            // varint64
	PropBlocksBypassed    = "rocksdb.num.data.blocks.compression.bypassed"            // varint64
)

// when says in which case RocksDB writes a property.
type when uint8

const (
	always      when = iota
	nonzero          // only if not zero
	partitioned      // only if the file has index partitions
	newer            // newer than RocksDB 7.8: if not zero, or if named in Present
)

// uintProp binds the name of a varint64 property to its field.
type uintProp struct {
	name  string
	when  when
	field func(*table.Properties) *uint64
}

var uintProps = []uintProp{
	{"rocksdb.original.file.number", always, func(p *table.Properties) *uint64 { return &p.OriginalFileNumber }},
	{"rocksdb.data.size", always, func(p *table.Properties) *uint64 { return &p.DataSize }},
	{"rocksdb.index.size", always, func(p *table.Properties) *uint64 { return &p.IndexSize }},
	{"rocksdb.index.partitions", partitioned, func(p *table.Properties) *uint64 { return &p.IndexPartitions }},
	{"rocksdb.top-level.index.size", partitioned, func(p *table.Properties) *uint64 { return &p.TopLevelIndexSize }},
	{"rocksdb.index.key.is.user.key", always, func(p *table.Properties) *uint64 { return &p.IndexKeyIsUserKey }},
	{"rocksdb.index.value.is.delta.encoded", always, func(p *table.Properties) *uint64 { return &p.IndexValueIsDelta }},
	{"rocksdb.filter.size", always, func(p *table.Properties) *uint64 { return &p.FilterSize }},
	{"rocksdb.raw.key.size", always, func(p *table.Properties) *uint64 { return &p.RawKeySize }},
	{"rocksdb.raw.value.size", always, func(p *table.Properties) *uint64 { return &p.RawValueSize }},
	{"rocksdb.num.data.blocks", always, func(p *table.Properties) *uint64 { return &p.NumDataBlocks }},
	{"rocksdb.num.entries", always, func(p *table.Properties) *uint64 { return &p.NumEntries }},
	{"rocksdb.num.filter_entries", always, func(p *table.Properties) *uint64 { return &p.NumFilterEntries }},
	{"rocksdb.deleted.keys", always, func(p *table.Properties) *uint64 { return &p.NumDeletions }},
	{"rocksdb.merge.operands", always, func(p *table.Properties) *uint64 { return &p.NumMergeOperands }},
	{"rocksdb.num.range-deletions", always, func(p *table.Properties) *uint64 { return &p.NumRangeDeletions }},
	{"rocksdb.format.version", always, func(p *table.Properties) *uint64 { return &p.FormatVersion }},
	{"rocksdb.fixed.key.length", always, func(p *table.Properties) *uint64 { return &p.FixedKeyLen }},
	{"rocksdb.column.family.id", always, func(p *table.Properties) *uint64 { return &p.ColumnFamilyID }},
	{"rocksdb.creation.time", always, func(p *table.Properties) *uint64 { return &p.CreationTime }},
	{"rocksdb.oldest.key.time", always, func(p *table.Properties) *uint64 { return &p.OldestKeyTime }},
	{"rocksdb.newest.key.time", newer, func(p *table.Properties) *uint64 { return &p.NewestKeyTime }},
	{"rocksdb.file.creation.time", nonzero, func(p *table.Properties) *uint64 { return &p.FileCreationTime }},
	{"rocksdb.sample_for_compression.slow.data.size", nonzero, func(p *table.Properties) *uint64 { return &p.SlowCompressionSize }},
	{"rocksdb.sample_for_compression.fast.data.size", nonzero, func(p *table.Properties) *uint64 { return &p.FastCompressionSize }},
	{"rocksdb.tail.start.offset", newer, func(p *table.Properties) *uint64 { return &p.TailStartOffset }},
	{"rocksdb.key.largest.seqno", newer, func(p *table.Properties) *uint64 { return &p.KeyLargestSeqno }},
	{"rocksdb.key.smallest.seqno", newer, func(p *table.Properties) *uint64 { return &p.KeySmallestSeqno }},
}

// stringProps are left out when empty.
var stringProps = []struct {
	name  string
	field func(*table.Properties) *string
}{
	{"rocksdb.creating.db.identity", func(p *table.Properties) *string { return &p.DBID }},
	{"rocksdb.creating.session.identity", func(p *table.Properties) *string { return &p.DBSessionID }},
	{"rocksdb.creating.host.identity", func(p *table.Properties) *string { return &p.DBHostID }},
	{"rocksdb.column.family.name", func(p *table.Properties) *string { return &p.ColumnFamilyName }},
	{"rocksdb.filter.policy", func(p *table.Properties) *string { return &p.FilterPolicyName }},
	{"rocksdb.comparator", func(p *table.Properties) *string { return &p.ComparatorName }},
	{"rocksdb.merge.operator", func(p *table.Properties) *string { return &p.MergeOperatorName }},
	{"rocksdb.prefix.extractor.name", func(p *table.Properties) *string { return &p.PrefixExtractorName }},
	{"rocksdb.property.collectors", func(p *table.Properties) *string { return &p.PropertyCollectorNames }},
	{"rocksdb.compression", func(p *table.Properties) *string { return &p.CompressionName }},
	{"rocksdb.compression_options", func(p *table.Properties) *string { return &p.CompressionOptions }},
	{"rocksdb.seqno.time.map", func(p *table.Properties) *string { return &p.SeqnoToTimeMapping }},
}

// Property is one name and its value as stored.
type Property struct {
	Name  string
	Value []byte
}

// ListProperties returns the properties as RocksDB stores them, sorted by name:
// the counters of RocksDB 7.8 always, strings when they are not empty, names
// newer than 7.8 when not zero or listed in Present, and every entry of User.
func ListProperties(p *table.Properties) []Property {
	all := make(map[string][]byte, 48)
	for _, u := range uintProps {
		v := *u.field(p)
		write := v != 0
		switch u.when {
		case always:
			write = true
		case partitioned:
			write = p.IndexPartitions != 0
		case newer:
			write = write || p.Present[u.name]
		}
		if write {
			all[u.name] = coding.AppendUvarint(nil, v)
		}
	}
	for _, s := range stringProps {
		if v := *s.field(p); v != "" {
			all[s.name] = []byte(v)
		}
	}
	for name, v := range p.User {
		if all[name] == nil {
			all[name] = v
		}
	}
	list := make([]Property, 0, len(all))
	for _, name := range slices.SortedFunc(maps.Keys(all), strings.Compare) {
		list = append(list, Property{name, all[name]})
	}
	return list
}

// EncodeProperties returns the properties block of ListProperties(p): sorted
// names, a single restart point, no trailer.
func EncodeProperties(p *table.Properties) []byte {
	b := NewBuilder(OneRestart)
	for _, e := range ListProperties(p) {
		b.Add([]byte(e.Name), e.Value)
	}
	return b.Finish()
}

// DecodeProperties decodes the properties block b, which starts at offset off
// of file. Names out of order are damage; a known number that does not decode
// stays zero, and its bytes are kept in User, as unknown names are.
func DecodeProperties(file string, off int64, b []byte) (*table.Properties, error) {
	p := &table.Properties{User: make(map[string][]byte), Present: make(map[string]bool)}
	it := NewIter(file, off, b)
	var last []byte
	for n := 0; it.Next(); n++ {
		if n > 0 && bytes.Compare(last, it.Key()) >= 0 {
			return nil, keys.Corruptf(file, off+int64(it.ValueOffset()), "expected property names in ascending order, found %q after %q", it.Key(), last)
		}
		last = append(last[:0], it.Key()...)
		name := string(last)
		p.Present[name] = true
		if !setKnown(p, name, it.Value()) {
			p.User[name] = bytes.Clone(it.Value())
		}
	}
	if it.Err() != nil {
		return nil, it.Err()
	}
	return p, nil
}

func setKnown(p *table.Properties, name string, value []byte) bool {
	for i := range uintProps {
		if uintProps[i].name == name {
			v, rest, ok := coding.Uvarint64(value)
			if !ok || len(rest) != 0 {
				return false
			}
			*uintProps[i].field(p) = v
			return true
		}
	}
	for i := range stringProps {
		if stringProps[i].name == name {
			*stringProps[i].field(p) = string(value)
			return true
		}
	}
	return false
}

// PropertyOffset returns where the value of the property called name starts in
// the block b, and its length; ok is false if it is not there. The global
// sequence number of an ingested file is changed in place.
func PropertyOffset(b []byte, name string) (off, n int, ok bool) {
	it := NewIter("", 0, b)
	for it.Next() {
		if string(it.Key()) == name {
			return it.ValueOffset(), len(it.Value()), true
		}
	}
	return 0, 0, false
}

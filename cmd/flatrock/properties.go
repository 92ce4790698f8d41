package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// unknownFamily is the id that files written outside of a database carry.
const unknownFamily = math.MaxInt32

// familyID is the column family of a file, unknownFamily if it does not say.
func familyID(p *table.Properties) uint64 {
	if !p.Present["rocksdb.column.family.id"] {
		return unknownFamily
	}
	return p.ColumnFamilyID
}

// propertiesText is RocksDB's TableProperties::ToString(between, is).
func propertiesText(p *table.Properties, between, is string) string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprint(&b, name, is, value, between) }
	average := func(sum, n uint64) string {
		if n == 0 {
			return "0.000000"
		}
		return fmt.Sprintf("%.6f", float64(sum)/float64(n))
	}
	text := func(name, value string) {
		if value == "" {
			value = "N/A"
		}
		line(name, value)
	}
	line("# data blocks", p.NumDataBlocks)
	line("# entries", p.NumEntries)
	line("# deletions", p.NumDeletions)
	line("# merge operands", p.NumMergeOperands)
	line("# range deletions", p.NumRangeDeletions)
	line("raw key size", p.RawKeySize)
	line("raw average key size", average(p.RawKeySize, p.NumEntries))
	line("raw value size", p.RawValueSize)
	line("raw average value size", average(p.RawValueSize, p.NumEntries))
	line("data block size", p.DataSize)
	line(fmt.Sprintf("index block size (user-key? %d, delta-value? %d)", p.IndexKeyIsUserKey, p.IndexValueIsDelta), p.IndexSize)
	if p.IndexPartitions != 0 {
		line("# index partitions", p.IndexPartitions)
		line("top-level index size", p.TopLevelIndexSize)
	}
	line("filter block size", p.FilterSize)
	line("# entries for filter", p.NumFilterEntries)
	line("(estimated) table size", p.DataSize+p.IndexSize+p.FilterSize)
	text("filter policy name", p.FilterPolicyName)
	text("prefix extractor name", p.PrefixExtractorName)
	if id := familyID(p); id == unknownFamily {
		text("column family ID", "")
	} else {
		line("column family ID", id)
	}
	text("column family name", p.ColumnFamilyName)
	text("comparator name", p.ComparatorName)
	text("merge operator name", p.MergeOperatorName)
	text("property collectors names", p.PropertyCollectorNames)
	text("SST file compression algo", p.CompressionName)
	text("SST file compression options", p.CompressionOptions)
	line("creation time", p.CreationTime)
	line("time stamp of earliest key", p.OldestKeyTime)
	line("file creation time", p.FileCreationTime)
	line("slow compression estimated data size", p.SlowCompressionSize)
	line("fast compression estimated data size", p.FastCompressionSize)
	line("DB identity", p.DBID)
	line("DB session identity", p.DBSessionID)
	line("DB host id", p.DBHostID)
	line("original file number", p.OriginalFileNumber)
	text("unique ID", publicUniqueID(p))
	line("Sequence number to time mapping", seqnoTimes(p.SeqnoToTimeMapping))
	return b.String()
}

// publicUniqueID is the unique id of a file as RocksDB's tools show it; "" if it has none.
func publicUniqueID(p *table.Properties) string {
	id, ok := manifest.UniqueID(p.DBID, p.DBSessionID, p.OriginalFileNumber)
	if !ok {
		return ""
	}
	return manifest.PublicUniqueID(id[:])
}

// seqnoTimes decodes rocksdb.seqno.time.map: varint64 count, then pairs of sequence
// number and unix time, each as the difference from the pair before.
func seqnoTimes(encoded string) string {
	if encoded == "" {
		return ""
	}
	n, rest, ok := coding.Uvarint64([]byte(encoded))
	var list []string
	var seq, at uint64
	for ; ok && n > 0; n-- {
		var d, e uint64
		if d, rest, ok = coding.Uvarint64(rest); !ok {
			break
		}
		if e, rest, ok = coding.Uvarint64(rest); !ok {
			break
		}
		seq, at = seq+d, at+e
		list = append(list, fmt.Sprintf("%d->%d", seq, at))
	}
	if !ok {
		return "0x" + upperHex([]byte(encoded))
	}
	return strings.Join(list, ", ")
}

// collected are the properties that RocksDB reports as user-collected, by name:
// all but those with a field of their own, and two that have both.
func collected(p *table.Properties) (list []block.Property) {
	for _, q := range block.ListProperties(p) {
		_, user := p.User[q.Name]
		switch q.Name {
		case "rocksdb.deleted.keys", "rocksdb.merge.operands":
			user = p.Present[q.Name]
		}
		if user {
			list = append(list, q)
		}
	}
	return list
}

// propertiesJSON has the names of RocksDB's struct TableProperties.
func propertiesJSON(p *table.Properties) map[string]any {
	user := map[string]string{}
	for _, q := range collected(p) {
		user[q.Name] = hex.EncodeToString(q.Value)
	}
	m := map[string]any{
		"orig_file_number": p.OriginalFileNumber, "data_size": p.DataSize, "index_size": p.IndexSize,
		"index_partitions": p.IndexPartitions, "top_level_index_size": p.TopLevelIndexSize,
		"index_key_is_user_key": p.IndexKeyIsUserKey, "index_value_is_delta_encoded": p.IndexValueIsDelta,
		"filter_size": p.FilterSize, "raw_key_size": p.RawKeySize, "raw_value_size": p.RawValueSize,
		"num_data_blocks": p.NumDataBlocks, "num_entries": p.NumEntries, "num_filter_entries": p.NumFilterEntries,
		"num_deletions": p.NumDeletions, "num_merge_operands": p.NumMergeOperands, "num_range_deletions": p.NumRangeDeletions,
		"format_version": p.FormatVersion, "fixed_key_len": p.FixedKeyLen, "column_family_id": familyID(p),
		"creation_time": p.CreationTime, "oldest_key_time": p.OldestKeyTime, "file_creation_time": p.FileCreationTime,
		"db_id": p.DBID, "db_session_id": p.DBSessionID, "db_host_id": p.DBHostID,
		"column_family_name": p.ColumnFamilyName, "filter_policy_name": p.FilterPolicyName,
		"comparator_name": p.ComparatorName, "merge_operator_name": p.MergeOperatorName,
		"prefix_extractor_name": p.PrefixExtractorName, "property_collectors_names": p.PropertyCollectorNames,
		"compression_name": p.CompressionName, "compression_options": p.CompressionOptions,
		"user_collected_hex": user,
	}
	for name, n := range map[string]uint64{
		"newest_key_time": p.NewestKeyTime, "tail_start_offset": p.TailStartOffset,
		"key_largest_seqno": p.KeyLargestSeqno, "key_smallest_seqno": p.KeySmallestSeqno,
		"slow_compression_estimated_data_size": p.SlowCompressionSize, "fast_compression_estimated_data_size": p.FastCompressionSize,
	} {
		if n != 0 {
			m[name] = n
		}
	}
	return m
}

package flatrock

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Properties: figures and texts about a family or the database, by RocksDB's names.

// GetProperty is ColumnFamily.GetProperty for the default column family.
func (db *DB) GetProperty(name string) (string, bool) { return db.defaultCF.GetProperty(name) }

// GetIntProperty is ColumnFamily.GetIntProperty for the default column family.
func (db *DB) GetIntProperty(name string) (uint64, bool) { return db.defaultCF.GetIntProperty(name) }

// GetMapProperty is ColumnFamily.GetMapProperty for the default column family.
func (db *DB) GetMapProperty(name string) (map[string]string, bool) {
	return db.defaultCF.GetMapProperty(name)
}

// GetAggregatedIntProperty adds an integer property up over all families.
func (db *DB) GetAggregatedIntProperty(name string) (uint64, bool) {
	var sum uint64
	for _, cf := range db.ColumnFamilies() {
		n, ok := cf.GetIntProperty(name)
		if !ok {
			return 0, false
		}
		sum += n
	}
	return sum, true
}

// GetProperty returns a property by RocksDB's name, such as "rocksdb.stats" or
// "rocksdb.num-files-at-level2", and whether there is one of the name. PropertyNames lists them.
// Integers come as text. RocksDB: GetProperty.
func (cf *ColumnFamily) GetProperty(name string) (string, bool) {
	if f := textProperties[name]; f != nil {
		return f(cf), true
	}
	if base, level, ok := cf.levelProperty(name); ok {
		return levelProperties[base](cf, level), true
	}
	if n, ok := cf.GetIntProperty(name); ok {
		return strconv.FormatUint(n, 10), true
	}
	if m, ok := cf.GetMapProperty(name); ok {
		return mapText(m), true
	}
	return "", false
}

// GetIntProperty returns a property that is a number. RocksDB: GetIntProperty.
func (cf *ColumnFamily) GetIntProperty(name string) (uint64, bool) {
	f := intProperties[name]
	if f == nil {
		return 0, false
	}
	s, stripe, err := cf.enter() // keeps files open, and a closed database from being asked
	if err != nil {
		return 0, false
	}
	defer s.release(stripe)
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	return f(cf), true
}

// GetMapProperty returns a property that is several figures. RocksDB: GetMapProperty.
func (cf *ColumnFamily) GetMapProperty(name string) (map[string]string, bool) {
	f := mapProperties[name]
	if f == nil {
		return nil, false
	}
	return f(cf), true
}

// PropertyNames lists the properties in the order of kinds: texts, those of a level
// (append its number), integers, maps.
func PropertyNames() (names []string) {
	names = append(names, sortedKeys(textProperties)...)
	names = append(names, sortedKeys(levelProperties)...)
	names = append(names, sortedKeys(intProperties)...)
	for _, name := range sortedKeys(mapProperties) {
		if textProperties[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// levelProperty cuts the number of a level off a name.
func (cf *ColumnFamily) levelProperty(name string) (base string, level int, ok bool) {
	base = strings.TrimRight(name, "0123456789")
	if levelProperties[base] == nil || base == name {
		return "", 0, false
	}
	n, err := strconv.ParseUint(name[len(base):], 10, 16)
	return base, int(n), err == nil && int(n) < cf.opts.NumLevels
}

var levelProperties = map[string]func(cf *ColumnFamily, level int) string{
	"rocksdb.num-files-at-level": func(cf *ColumnFamily, level int) string {
		return strconv.Itoa(len(cf.currentVersion().Levels[level]))
	},
	"rocksdb.compression-ratio-at-level": func(cf *ColumnFamily, level int) string {
		var raw, stored uint64
		for _, p := range cf.propertiesAt(level) {
			raw += p.RawKeySize + p.RawValueSize
			stored += p.DataSize
		}
		if stored == 0 {
			return "-1.000000"
		}
		return fmt.Sprintf("%f", float64(raw)/float64(stored))
	},
	"rocksdb.aggregated-table-properties-at-level": func(cf *ColumnFamily, level int) string {
		return aggregate(cf.propertiesAt(level)).text()
	},
}

// intProperties are called under db.mu, with a read state held.
var intProperties = map[string]func(cf *ColumnFamily) uint64{
	"rocksdb.num-immutable-mem-table":         func(cf *ColumnFamily) uint64 { return uint64(len(cf.immutables)) },
	"rocksdb.num-immutable-mem-table-flushed": func(*ColumnFamily) uint64 { return 0 }, // they go when they are flushed
	"rocksdb.mem-table-flush-pending": func(cf *ColumnFamily) uint64 {
		n := len(cf.immutables)
		return flag(n > 0 && (n >= cf.opts.MinWriteBufferNumberToMerge || cf.immutables[n-1].id <= cf.flushBelow))
	},
	"rocksdb.num-running-flushes": func(cf *ColumnFamily) uint64 { return uint64(cf.db.sched.flushes) },
	"rocksdb.compaction-pending": func(cf *ColumnFamily) uint64 {
		return flag(!cf.mutable().DisableAutoCompactions && cf.needsCompactionLocked())
	},
	"rocksdb.num-running-compactions":   func(cf *ColumnFamily) uint64 { return uint64(cf.db.sched.compactions) },
	"rocksdb.background-errors":         func(cf *ColumnFamily) uint64 { return uint64(cf.db.errorCount.Load()) },
	"rocksdb.cur-size-active-mem-table": func(cf *ColumnFamily) uint64 { return uint64(cf.active.usedBytes()) },
	"rocksdb.cur-size-all-mem-tables":   func(cf *ColumnFamily) uint64 { return cf.memtableBytesLocked() },
	"rocksdb.size-all-mem-tables":       func(cf *ColumnFamily) uint64 { return cf.memtableBytesLocked() },
	"rocksdb.num-entries-active-mem-table": func(cf *ColumnFamily) uint64 {
		return uint64(cf.active.mem.Entries()) + uint64(cf.active.tombs.Count())
	},
	"rocksdb.num-entries-imm-mem-tables": func(cf *ColumnFamily) (n uint64) {
		for _, m := range cf.immutables {
			n += uint64(m.mem.Entries()) + uint64(m.tombs.Count())
		}
		return n
	},
	"rocksdb.num-deletes-active-mem-table": func(cf *ColumnFamily) uint64 { return uint64(cf.active.mem.Deletes()) },
	"rocksdb.num-deletes-imm-mem-tables": func(cf *ColumnFamily) (n uint64) {
		for _, m := range cf.immutables {
			n += uint64(m.mem.Deletes())
		}
		return n
	},
	"rocksdb.estimate-num-keys": func(cf *ColumnFamily) uint64 { return cf.estimateKeysLocked() },
	"rocksdb.estimate-table-readers-mem": func(cf *ColumnFamily) (n uint64) {
		for _, h := range cf.tables {
			n += uint64(h.reader().MemoryUsage())
		}
		return n
	},
	"rocksdb.is-file-deletions-enabled":    func(cf *ColumnFamily) uint64 { return flag(!cf.db.deletions.areHeld()) },
	"rocksdb.num-snapshots":                func(cf *ColumnFamily) uint64 { return cf.db.snapshots.count() },
	"rocksdb.oldest-snapshot-sequence":     func(cf *ColumnFamily) uint64 { return first(cf.db.snapshots.list()) },
	"rocksdb.oldest-snapshot-time":         func(cf *ColumnFamily) uint64 { return cf.db.snapshots.oldestTime() },
	"rocksdb.num-live-versions":            func(cf *ColumnFamily) uint64 { return uint64(cf.versions) },
	"rocksdb.current-super-version-number": func(cf *ColumnFamily) uint64 { return cf.published },
	"rocksdb.estimate-live-data-size":      func(cf *ColumnFamily) uint64 { return cf.liveDataLocked() },
	"rocksdb.min-log-number-to-keep": func(cf *ColumnFamily) uint64 {
		if len(cf.db.logs) == 0 {
			return 0
		}
		return cf.db.minLogLocked()
	},
	"rocksdb.min-obsolete-sst-number-to-keep": func(cf *ColumnFamily) uint64 {
		least := uint64(math.MaxUint64)
		for _, h := range cf.tables {
			if h.obsolete {
				least = min(least, h.meta.Number)
			}
		}
		return least
	},
	"rocksdb.total-sst-files-size": func(cf *ColumnFamily) (n uint64) {
		for _, h := range cf.tables {
			n += h.meta.Size
		}
		return n
	},
	"rocksdb.live-sst-files-size": func(cf *ColumnFamily) uint64 { return cf.files.version.TotalBytes() },
	"rocksdb.base-level": func(cf *ColumnFamily) uint64 {
		return uint64(compaction.Shape(cf.files.version, cf.compactionOptions()).BaseLevel)
	},
	"rocksdb.estimate-pending-compaction-bytes": func(cf *ColumnFamily) uint64 { return cf.stall.pending },
	"rocksdb.actual-delayed-write-rate": func(cf *ColumnFamily) uint64 {
		if _, delays := cf.db.stallsLocked(); delays != nil {
			return uint64(cf.db.delays.rate)
		}
		return 0
	},
	"rocksdb.is-write-stopped": func(cf *ColumnFamily) uint64 {
		stops, _ := cf.db.stallsLocked()
		return flag(stops != nil)
	},
	"rocksdb.block-cache-capacity": func(cf *ColumnFamily) uint64 { return uint64(cf.db.blockCacheMetrics().Capacity) },
	"rocksdb.block-cache-usage":    func(cf *ColumnFamily) uint64 { m := cf.db.blockCacheMetrics(); return uint64(m.Usage + m.Charged) },
	"rocksdb.block-cache-pinned-usage": func(cf *ColumnFamily) uint64 {
		m := cf.db.blockCacheMetrics()
		return uint64(m.PinnedUsage + m.Charged)
	},
	"rocksdb.estimate-oldest-key-time": func(cf *ColumnFamily) uint64 {
		least := uint64(math.MaxUint64)
		for _, level := range cf.files.version.Levels {
			for _, f := range level {
				if f.OldestAncestorTime > 0 {
					least = min(least, f.OldestAncestorTime)
				}
			}
		}
		if least == math.MaxUint64 {
			return 0
		}
		return least
	},
	"rocksdb.num-blob-files":              func(cf *ColumnFamily) uint64 { return uint64(len(cf.files.version.Blobs)) },
	"rocksdb.total-blob-file-size":        func(cf *ColumnFamily) uint64 { n, _ := cf.files.version.BlobBytes(); return n },
	"rocksdb.live-blob-file-size":         func(cf *ColumnFamily) uint64 { n, _ := cf.files.version.BlobBytes(); return n },
	"rocksdb.live-blob-file-garbage-size": func(cf *ColumnFamily) uint64 { _, n := cf.files.version.BlobBytes(); return n },
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func first(list []uint64) uint64 {
	if len(list) == 0 {
		return 0
	}
	return list[0]
}

func (cf *ColumnFamily) memtableBytesLocked() uint64 {
	n := cf.active.usedBytes()
	for _, m := range cf.immutables {
		n += m.usedBytes()
	}
	return uint64(n)
}

// estimateKeysLocked is entries less deletes, twice: once for the delete, once for what it hides.
// RocksDB: estimate-num-keys.
func (cf *ColumnFamily) estimateKeysLocked() uint64 {
	var entries, deletes int64
	add := func(m *memState) {
		entries += m.mem.Entries()
		deletes += m.mem.Deletes()
	}
	add(cf.active)
	for _, m := range cf.immutables {
		add(m)
	}
	for _, level := range cf.files.levels {
		for _, r := range level {
			p := r.handle.reader().Properties()
			entries += int64(p.NumEntries)
			deletes += int64(p.NumDeletions)
		}
	}
	return uint64(max(entries-2*deletes, 0))
}

// liveDataLocked is the size of the largest sorted run, and of files above that do not
// overlap what is counted already, as RocksDB estimates live data.
func (cf *ColumnFamily) liveDataLocked() (n uint64) {
	v, order := cf.files.version, cf.order
	var taken [][2][]byte
	for level := v.NumLevels() - 1; level >= 0; level-- {
		before := len(taken)
	files:
		for _, f := range v.Levels[level] {
			known := taken
			if level > 0 {
				known = taken[:before] // files of one level do not overlap
			}
			for _, r := range known {
				if order.Compare(f.SmallestKey, r[1]) <= 0 && order.Compare(f.LargestKey, r[0]) >= 0 {
					continue files
				}
			}
			taken = append(taken, [2][]byte{f.SmallestKey, f.LargestKey})
			n += f.Size
		}
	}
	return n
}

// needsCompactionLocked reports whether some level is due.
func (cf *ColumnFamily) needsCompactionLocked() bool {
	in := cf.pickerInputLocked()
	for _, s := range compaction.Scores(in, compaction.Shape(in.Version, in.Options)) {
		if s.Score >= 1 {
			return true
		}
	}
	return false
}

// propertiesAt are the properties of the open files of a level, or of all for -1.
func (cf *ColumnFamily) propertiesAt(level int) (list []*TableProperties) {
	s, stripe, err := cf.enter()
	if err != nil {
		return nil
	}
	defer s.release(stripe)
	for l, files := range s.files.levels {
		if l == level || level < 0 {
			for _, r := range files {
				list = append(list, r.handle.reader().Properties())
			}
		}
	}
	return list
}

// sstables is RocksDB's text of the files of each level.
func (cf *ColumnFamily) sstables() string {
	var b strings.Builder
	cf.db.mu.Lock()
	v, version := cf.files.version, cf.published
	cf.db.mu.Unlock()
	for level, files := range v.Levels {
		fmt.Fprintf(&b, "--- level %d --- version# %d ---\n", level, version)
		for _, f := range files {
			fmt.Fprintf(&b, " %d:%d[%d .. %d]['%X' seq:%d, type:%d .. '%X' seq:%d, type:%d](%d)\n", f.Number, f.Size, f.SmallestSeq, f.LargestSeq,
				f.SmallestKey, keys.Seq(f.SmallestTrailer), keys.KindOf(f.SmallestTrailer),
				f.LargestKey, keys.Seq(f.LargestTrailer), keys.KindOf(f.LargestTrailer), f.OldestBlobNumber)
		}
	}
	return b.String()
}

// aggregated are sums of properties.
type aggregated struct {
	dataSize, indexSize, filterSize, rawKeys, rawValues       uint64
	blocks, entries, filterEntries, deletions, merges, ranges uint64
	partitions, topIndexSize                                  uint64
}

func aggregate(list []*TableProperties) (a aggregated) {
	for _, p := range list {
		a.dataSize += p.DataSize
		a.indexSize += p.IndexSize
		a.partitions += p.IndexPartitions
		a.topIndexSize += p.TopLevelIndexSize
		a.filterSize += p.FilterSize
		a.rawKeys += p.RawKeySize
		a.rawValues += p.RawValueSize
		a.blocks += p.NumDataBlocks
		a.entries += p.NumEntries
		a.filterEntries += p.NumFilterEntries
		a.deletions += p.NumDeletions
		a.merges += p.NumMergeOperands
		a.ranges += p.NumRangeDeletions
	}
	return a
}

func (a aggregated) values() map[string]string {
	m := map[string]string{}
	for name, n := range map[string]uint64{
		"data_size": a.dataSize, "index_size": a.indexSize, "index_partitions": a.partitions, "top_level_index_size": a.topIndexSize,
		"filter_size": a.filterSize, "raw_key_size": a.rawKeys, "raw_value_size": a.rawValues, "num_data_blocks": a.blocks,
		"num_entries": a.entries, "num_filter_entries": a.filterEntries, "num_deletions": a.deletions, "num_merge_operands": a.merges,
		"num_range_deletions": a.ranges,
	} {
		m[name] = strconv.FormatUint(n, 10)
	}
	return m
}

// text is RocksDB's TableProperties::ToString of the sums.
func (a aggregated) text() string {
	per := func(n uint64) float64 {
		if a.entries == 0 {
			return 0
		}
		return float64(n) / float64(a.entries)
	}
	return fmt.Sprintf("# data blocks=%d; # entries=%d; # deletions=%d; # merge operands=%d; # range deletions=%d; raw key size=%d; raw average key size=%f; raw value size=%d; raw average value size=%f; data block size=%d; index block size (user-key? 0, delta-value? 0)=%d; filter block size=%d; # entries for filter=%d; (estimated) table size=%d; ",
		a.blocks, a.entries, a.deletions, a.merges, a.ranges, a.rawKeys, per(a.rawKeys), a.rawValues, per(a.rawValues),
		a.dataSize, a.indexSize, a.filterSize, a.filterEntries, a.dataSize+a.indexSize+a.filterSize)
}

package flatrock

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// The properties that are texts and maps, laid out as RocksDB 7.8 prints them.

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

var textProperties = map[string]func(cf *ColumnFamily) string{
	"rocksdb.stats":                     (*ColumnFamily).statsText,
	"rocksdb.cfstats":                   func(cf *ColumnFamily) string { return cf.statsTable() + fileLatencies(cf.name) },
	"rocksdb.cfstats-no-file-histogram": (*ColumnFamily).statsTable,
	"rocksdb.cf-file-histogram":         func(cf *ColumnFamily) string { return fileLatencies(cf.name) },
	"rocksdb.dbstats":                   func(cf *ColumnFamily) string { return cf.db.statsTable() },
	"rocksdb.levelstats":                (*ColumnFamily).levelStats,
	"rocksdb.sstables":                  (*ColumnFamily).sstables,
	"rocksdb.options-statistics": func(cf *ColumnFamily) string {
		if cf.db.stats == nil {
			return ""
		}
		return cf.db.stats.String()
	},
	"rocksdb.aggregated-table-properties": func(cf *ColumnFamily) string { return aggregate(cf.propertiesAt(-1)).text() },
	"rocksdb.blob-stats": func(cf *ColumnFamily) string {
		v := cf.currentVersion()
		total, garbage := v.BlobBytes()
		amp := 0.0
		if total > garbage {
			amp = float64(total) / float64(total-garbage)
		}
		return fmt.Sprintf("Number of blob files: %d\nTotal size of blob files: %d\nTotal size of garbage in blob files: %d\nBlob file space amplification: %g\n", len(v.Blobs), total, garbage, amp)
	},
}

var mapProperties = map[string]func(cf *ColumnFamily) map[string]string{
	"rocksdb.cfstats":                      (*ColumnFamily).statsMap,
	"rocksdb.dbstats":                      func(cf *ColumnFamily) map[string]string { return cf.db.statsMap() },
	"rocksdb.aggregated-table-properties":  func(cf *ColumnFamily) map[string]string { return aggregate(cf.propertiesAt(-1)).values() },
	"rocksdb.block-cache-entry-stats":      func(cf *ColumnFamily) map[string]string { return cf.db.cacheEntries() },
	"rocksdb.fast-block-cache-entry-stats": func(cf *ColumnFamily) map[string]string { return cf.db.cacheEntries() },
}

func mapText(m map[string]string) string {
	var b strings.Builder
	for _, name := range sortedKeys(m) {
		fmt.Fprintf(&b, "%s: %s\n", name, m[name])
	}
	return b.String()
}

func (cf *ColumnFamily) currentVersion() *manifest.Version {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	return cf.files.version
}

// levelStats is the table of rocksdb.levelstats.
func (cf *ColumnFamily) levelStats() string {
	var b strings.Builder
	b.WriteString("Level Files Size(MB)\n--------------------\n")
	v := cf.currentVersion()
	for l, files := range v.Levels {
		fmt.Fprintf(&b, "%3d %8d %8.0f\n", l, len(files), float64(v.LevelBytes(l))/(1<<20))
	}
	return b.String()
}

// statsText is rocksdb.stats: the tables of all families, then that of the database.
func (cf *ColumnFamily) statsText() string {
	var b strings.Builder
	for _, f := range cf.db.ColumnFamilies() {
		b.WriteString(f.statsTable())
		b.WriteString(fileLatencies(f.name))
	}
	b.WriteString(cf.db.statsTable())
	return b.String()
}

func fileLatencies(family string) string {
	return fmt.Sprintf("\n** File Read Latency Histogram By Level [%s] **\n", family)
}

// levelRow is a line of the table of compaction stats.
type levelRow struct {
	name        string
	files, busy int
	size        uint64
	score, wAmp float64
	levelWork
}

const (
	kilo = 1 << 10
	mega = 1 << 20
	giga = 1 << 30
)

func (r *levelRow) print(b *strings.Builder) {
	gb := func(n uint64) float64 { return float64(n) / giga }
	seconds := r.time.Seconds()
	rate := func(n uint64) float64 { return float64(n) / mega / max(seconds, 1e-6) }
	average := 0.0
	if r.count > 0 {
		average = seconds / float64(r.count)
	}
	fmt.Fprintf(b, "%4s %6d/%-3d %8s %5.1f %8.1f %7.1f %8.1f %9.1f %8.1f %9.1f %5.1f %8.1f %8.1f %9.2f %17.2f %9d %8.3f %7s %6s %9.1f %9.1f\n",
		r.name, r.files, r.busy, humanBytes(r.size), r.score, gb(r.read+r.readBelow), gb(r.read), gb(r.readBelow), gb(r.written),
		gb(r.written)-gb(r.readBelow), gb(r.moved), r.wAmp, rate(r.read+r.readBelow), rate(r.written), seconds, r.cpu.Seconds(), r.count, average,
		humanCount(r.keysIn), humanCount(r.keysDropped), 0.0, 0.0)
}

// values are the figures of the row by RocksDB's names.
func (r *levelRow) values(add func(name string, v float64)) {
	seconds := r.time.Seconds()
	for name, v := range map[string]float64{
		"NumFiles": float64(r.files), "CompactedFiles": float64(r.busy), "SizeBytes": float64(r.size), "Score": r.score,
		"ReadGB": float64(r.read+r.readBelow) / giga, "RnGB": float64(r.read) / giga, "Rnp1GB": float64(r.readBelow) / giga,
		"WriteGB": float64(r.written) / giga, "WnewGB": (float64(r.written) - float64(r.readBelow)) / giga, "MovedGB": float64(r.moved) / giga,
		"WriteAmp": r.wAmp, "ReadMBps": float64(r.read+r.readBelow) / mega / max(seconds, 1e-6), "WriteMBps": float64(r.written) / mega / max(seconds, 1e-6),
		"CompSec": seconds, "CompMergeCPU": r.cpu.Seconds(), "CompCount": float64(r.count), "AvgSec": seconds / float64(max(r.count, 1)),
		"KeyIn": float64(r.keysIn), "KeyDrop": float64(r.keysDropped), "RblobGB": 0, "WblobGB": 0,
	} {
		add(name, v)
	}
}

// humanBytes is RocksDB's BytesToHumanString.
func humanBytes(n uint64) string {
	units := []string{"KB", "MB", "GB", "TB"}
	v := float64(n) / kilo
	i := 0
	for v >= kilo && i < len(units)-1 {
		v /= kilo
		i++
	}
	return fmt.Sprintf("%.2f %s", v, units[i])
}

// humanCount is RocksDB's NumberToHumanString.
func humanCount(n uint64) string {
	switch {
	case n < 10_000:
		return strconv.FormatUint(n, 10)
	case n < 10_000_000:
		return strconv.FormatUint(n/1000, 10) + "K"
	case n < 10_000_000_000:
		return strconv.FormatUint(n/1_000_000, 10) + "M"
	}
	return strconv.FormatUint(n/1_000_000_000, 10) + "G"
}

const statsHeader = "    Files   Size     Score Read(GB)  Rn(GB) Rnp1(GB) Write(GB) Wnew(GB) Moved(GB) W-Amp Rd(MB/s) Wr(MB/s) Comp(sec) CompMergeCPU(sec) Comp(cnt) Avg(sec) KeyIn KeyDrop Rblob(GB) Wblob(GB)"

func printStatsHeader(b *strings.Builder, family, by string) {
	fmt.Fprintf(b, "\n** Compaction Stats [%s] **\n%s%s\n%s\n", family, by, statsHeader, strings.Repeat("-", len(by)+len(statsHeader)+1))
}

// levelRows are the lines of the levels that have something to tell, and their sum.
func (cf *ColumnFamily) levelRowsLocked() (rows []levelRow, sum levelRow) {
	v := cf.files.version
	scores := map[int]float64{}
	in := cf.pickerInputLocked()
	for _, s := range compaction.Scores(in, compaction.Shape(in.Version, in.Options)) {
		scores[s.Level] = s.Score
	}
	ingest := cf.work.flushed + cf.work.ingested
	sum.name = "Sum"
	for l := range v.Levels {
		r := levelRow{name: "L" + strconv.Itoa(l), files: len(v.Levels[l]), size: v.LevelBytes(l), score: scores[l], levelWork: cf.work.levels[l]}
		for _, f := range v.Levels[l] {
			if cf.running.Busy(f) {
				r.busy++
			}
		}
		sum.files, sum.size, sum.busy = sum.files+r.files, sum.size+r.size, sum.busy+r.busy
		if r.time == 0 && r.moved == 0 && r.files == 0 {
			continue
		}
		sum.levelWork.add(&r.levelWork)
		from := r.read
		if l == 0 {
			from = ingest
		}
		r.wAmp = amplification(r.written, from)
		rows = append(rows, r)
	}
	sum.wAmp = amplification(sum.written, ingest)
	return rows, sum
}

func amplification(written, from uint64) float64 {
	if from == 0 {
		return 0
	}
	return float64(written) / float64(from)
}

// ioStalls are the stalls of the family by RocksDB's names, in its order.
func (cf *ColumnFamily) ioStallsLocked() (list []field, total int64) {
	c := &cf.stall.counts
	list = []field{
		{Key: "level0_slowdown", Value: c[stallLevel0Slowdown]},
		{Key: "level0_slowdown_with_compaction", Value: int64(0)}, // not told apart
		{Key: "level0_numfiles", Value: c[stallLevel0]},
		{Key: "level0_numfiles_with_compaction", Value: int64(0)},
		{Key: "stop for pending_compaction_bytes", Value: c[stallPending]},
		{Key: "slowdown for pending_compaction_bytes", Value: c[stallPendingSlowdown]},
		{Key: "memtable_compaction", Value: c[stallMemtables]},
		{Key: "memtable_slowdown", Value: c[stallMemtablesSlowdown]},
	}
	for _, f := range list {
		total += f.Value.(int64)
	}
	return list, total
}

// statsTable is the text of rocksdb.cfstats. Figures of the interval are those since
// somebody last asked for it.
func (cf *ColumnFamily) statsTable() string {
	var b strings.Builder
	db := cf.db
	db.mu.Lock()
	defer db.mu.Unlock()
	now, w := time.Now(), &cf.work
	rows, sum := cf.levelRowsLocked()
	printStatsHeader(&b, cf.name, "Level")
	for i := range rows {
		rows[i].print(&b)
	}
	sum.print(&b)
	last := &w.lastTold
	if last.at.IsZero() {
		last.at = db.statsSince
	}
	interval := levelRow{name: "Int", levelWork: sum.levelWork.since(last.sum)}
	ingest := w.flushed - last.flushed + w.ingested - last.ingested
	interval.wAmp = amplification(interval.written, ingest)
	interval.print(&b)

	printStatsHeader(&b, cf.name, "Priority")
	for _, r := range []levelRow{{name: "Low", levelWork: w.compactions}, {name: "High", levelWork: w.flushes}} {
		if r.time > 0 {
			r.print(&b)
		}
	}
	blobs, garbage := cf.files.version.BlobBytes()
	spaceAmp := 0.0
	if blobs > garbage {
		spaceAmp = float64(blobs) / float64(blobs-garbage)
	}
	fmt.Fprintf(&b, "\nBlob file count: %d, total size: %.1f GB, garbage size: %.1f GB, space amp: %.1f\n\n",
		len(cf.files.version.Blobs), float64(blobs)/giga, float64(garbage)/giga, spaceAmp)

	up, since := now.Sub(db.statsSince).Seconds(), now.Sub(last.at).Seconds()
	fmt.Fprintf(&b, "Uptime(secs): %.1f total, %.1f interval\n", up, since)
	fmt.Fprintf(&b, "Flush(GB): cumulative %.3f, interval %.3f\n", float64(w.flushed)/giga, float64(w.flushed-last.flushed)/giga)
	fmt.Fprintf(&b, "AddFile(GB): cumulative %.3f, interval %.3f\n", float64(w.ingested)/giga, float64(w.ingested-last.ingested)/giga)
	fmt.Fprintf(&b, "AddFile(Total Files): cumulative %d, interval %d\n", w.ingestedFiles, w.ingestedFiles-last.ingestedFiles)
	fmt.Fprintf(&b, "AddFile(L0 Files): cumulative %d, interval %d\n", w.ingestedL0, w.ingestedL0-last.ingestedL0)
	fmt.Fprintf(&b, "AddFile(Keys): cumulative %d, interval %d\n", w.ingestedKeys, w.ingestedKeys-last.ingestedKeys)
	moved := func(title string, w *levelWork, seconds float64) {
		read := w.read + w.readBelow
		seconds = max(seconds, 1e-6)
		fmt.Fprintf(&b, "%s compaction: %.2f GB write, %.2f MB/s write, %.2f GB read, %.2f MB/s read, %.1f seconds\n", title,
			float64(w.written)/giga, float64(w.written)/mega/seconds, float64(read)/giga, float64(read)/mega/seconds, w.time.Seconds())
	}
	moved("Cumulative", &sum.levelWork, up)
	moved("Interval", &interval.levelWork, since)
	stalls, total := cf.ioStallsLocked()
	b.WriteString("Stalls(count): ")
	for _, s := range stalls {
		fmt.Fprintf(&b, "%d %s, ", s.Value, s.Key)
	}
	fmt.Fprintf(&b, "interval %d total count\n", total-last.stalls)
	*last = lastTold{at: now, sum: sum.levelWork, flushed: w.flushed, ingested: w.ingested, ingestedFiles: w.ingestedFiles,
		ingestedL0: w.ingestedL0, ingestedKeys: w.ingestedKeys, stalls: total}
	return b.String()
}

// statsMap is rocksdb.cfstats as a map.
func (cf *ColumnFamily) statsMap() map[string]string {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	m := map[string]string{}
	rows, sum := cf.levelRowsLocked()
	for _, r := range append(rows, sum) {
		r.values(func(name string, v float64) {
			m["compaction."+r.name+"."+name] = fmt.Sprintf("%f", v)
		})
	}
	stalls, _ := cf.ioStallsLocked()
	for _, s := range stalls {
		m["io_stalls."+strings.ReplaceAll(s.Key, " ", "_")] = fmt.Sprint(s.Value)
	}
	c := &cf.stall.counts
	m["io_stalls.total_slowdown"] = fmt.Sprint(c[stallLevel0Slowdown] + c[stallPendingSlowdown] + c[stallMemtablesSlowdown])
	m["io_stalls.total_stop"] = fmt.Sprint(c[stallLevel0] + c[stallPending] + c[stallMemtables])
	return m
}

// dbFigures are the counters of rocksdb.dbstats.
type dbFigures struct {
	at                             time.Time
	keys, batches, groups, bytes   int64
	walBatches, walSyncs, walBytes int64
	stalled                        time.Duration
}

// figures are what was counted since Open or ResetStats.
func (db *DB) figures() dbFigures {
	f, base := db.countedFigures(), db.baseFigures.Load()
	if base != nil {
		f.keys, f.batches, f.groups, f.bytes = f.keys-base.keys, f.batches-base.batches, f.groups-base.groups, f.bytes-base.bytes
		f.walBatches, f.walSyncs, f.walBytes, f.stalled = f.walBatches-base.walBatches, f.walSyncs-base.walSyncs, f.walBytes-base.walBytes, f.stalled-base.stalled
	}
	return f
}

// ResetStats makes the figures of rocksdb.stats, and of the properties that are parts of
// it, count from zero. RocksDB: ResetStats.
func (db *DB) ResetStats() {
	now := db.countedFigures()
	db.baseFigures.Store(&now)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.statsSince, db.lastFigures = time.Now(), dbFigures{}
	for _, cf := range db.families {
		cf.work = familyWork{levels: make([]levelWork, len(cf.work.levels))}
		clear(cf.stall.counts[:])
		clear(cf.stall.times[:])
	}
}

func (db *DB) countedFigures() dbFigures {
	m := &db.metrics
	f := dbFigures{at: time.Now(), keys: m.writes.Load(), batches: m.batches.Load(), groups: m.groups.Load(), bytes: m.ingested.Load(),
		walBatches: m.walBatches.Load(), walSyncs: m.walSyncs.Load(), walBytes: m.walBytes.Load()}
	for c := range m.stallNanos {
		f.stalled += time.Duration(m.stallNanos[c].Load())
	}
	return f
}

// statsTable is the text of rocksdb.dbstats.
func (db *DB) statsTable() string {
	now := db.figures()
	db.mu.Lock()
	last := db.lastFigures
	db.lastFigures = now
	opened := db.statsSince
	db.mu.Unlock()
	if last.at.IsZero() {
		last.at = opened
	}
	var b strings.Builder
	up, since := now.at.Sub(opened).Seconds(), now.at.Sub(last.at).Seconds()
	fmt.Fprintf(&b, "\n** DB Stats **\nUptime(secs): %.1f total, %.1f interval\n", up, since)
	count := func(n int64) string { return humanCount(uint64(n)) }
	writes := func(title string, batches, keysWritten, groups int64, ingest string, bytes int64, seconds float64) {
		fmt.Fprintf(&b, "%s writes: %s writes, %s keys, %s commit groups, %.1f writes per commit group, ingest: %s, %.2f MB/s\n", title,
			count(batches), count(keysWritten), count(groups), float64(batches)/float64(max(groups, 1)), ingest, float64(bytes)/mega/max(seconds, 1e-6))
	}
	logs := func(title string, batches, syncs, bytes int64, seconds float64) {
		fmt.Fprintf(&b, "%s WAL: %s writes, %s syncs, %.2f writes per sync, written: %.2f GB, %.2f MB/s\n", title,
			count(batches), count(syncs), float64(batches)/float64(max(syncs, 1)), float64(bytes)/giga, float64(bytes)/mega/max(seconds, 1e-6))
	}
	stalls := func(title string, d time.Duration, seconds float64) {
		ms := d.Milliseconds()
		fmt.Fprintf(&b, "%s stall: %02d:%02d:%d.%03d H:M:S, %.1f percent\n", title, ms/3600000, ms/60000%60, ms/1000%60, ms%1000, 100*d.Seconds()/max(seconds, 1e-6))
	}
	gb := func(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/giga) }
	writes("Cumulative", now.batches, now.keys, now.groups, gb(now.bytes), now.bytes, up)
	logs("Cumulative", now.walBatches, now.walSyncs, now.walBytes, up)
	stalls("Cumulative", now.stalled, up)
	bytes := now.bytes - last.bytes
	writes("Interval", now.batches-last.batches, now.keys-last.keys, now.groups-last.groups, fmt.Sprintf("%.2f MB", float64(bytes)/mega), bytes, since)
	logs("Interval", now.walBatches-last.walBatches, now.walSyncs-last.walSyncs, now.walBytes-last.walBytes, since)
	stalls("Interval", now.stalled-last.stalled, since)
	return b.String()
}

// statsMap is rocksdb.dbstats as a map.
func (db *DB) statsMap() map[string]string {
	f := db.figures()
	db.mu.Lock()
	since := db.statsSince
	db.mu.Unlock()
	m := map[string]string{"db.uptime": fmt.Sprintf("%f", f.at.Sub(since).Seconds())}
	for name, n := range map[string]int64{
		"db.user_bytes_written": f.bytes, "db.user_keys_written": f.keys, "db.user_writes_by_self": f.groups,
		"db.user_writes_by_other": f.batches - f.groups, "db.user_writes_with_wal": f.walBatches,
		"db.user_write_stall_micros": f.stalled.Microseconds(), "db.wal_bytes_written": f.walBytes, "db.wal_syncs": f.walSyncs,
	} {
		m[name] = strconv.FormatInt(n, 10)
	}
	return m
}

// cacheEntries is rocksdb.block-cache-entry-stats for the roles that there are.
func (db *DB) cacheEntries() map[string]string {
	m := db.blockCacheMetrics()
	out := map[string]string{
		"capacity": strconv.FormatInt(m.Capacity, 10), "bytes.total": strconv.FormatInt(m.Usage, 10), "count.total": strconv.FormatInt(m.Blocks, 10),
		"bytes.charged": strconv.FormatInt(m.Charged, 10), "bytes.pinned": strconv.FormatInt(m.PinnedUsage, 10),
		"id": "flatrock.blockcache",
	}
	return out
}

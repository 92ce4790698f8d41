package flatrock

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/statistics"
)

// Flushes and compactions, for those who watch: listeners, statistics, the figures
// of levels, and the events of the LOG file.

// watchedFlush is a flush under way.
type watchedFlush struct {
	db    *DB
	cf    *ColumnFamily
	start time.Time
	cpu   func() time.Duration
	info  FlushInfo
}

// beginFlush tells that mems are about to be written.
func (db *DB) beginFlush(cf *ColumnFamily, mems []*memState) *watchedFlush {
	w := &watchedFlush{db: db, cf: cf, start: time.Now(), info: FlushInfo{
		ColumnFamily: cf.name, ColumnFamilyID: cf.id, JobID: db.newJobID(), MemTables: len(mems)}}
	for _, m := range mems {
		w.info.Entries += m.mem.Entries()
		w.info.MemoryBytes += m.usedBytes()
	}
	db.mu.Lock()
	cause := cf.stall.cause
	db.mu.Unlock()
	w.info.TriggeredWritesStop = cause.stops()
	w.info.TriggeredWritesSlowdown = cause != stallNone && !cause.stops()
	db.event("flush_started", w.info.JobID, "", member("num_memtables", w.info.MemTables), member("num_entries", w.info.Entries),
		member("memory_usage", w.info.MemoryBytes))
	tell(db, func(l *EventListener) func(FlushInfo) { return l.FlushBegin }, w.info)
	w.cpu = startCPU()
	return w
}

// end tells what became of the flush.
func (w *watchedFlush) end(files []*manifest.FileMetadata, err error) {
	db, cf := w.db, w.cf
	w.info.Duration, w.info.Err = time.Since(w.start), err
	cpu := w.cpu()
	var written uint64
	for _, f := range files {
		written += f.Size
	}
	if err == nil {
		db.mu.Lock()
		work := levelWork{time: w.info.Duration, cpu: cpu, written: written, outputs: len(files), count: 1}
		cf.work.levels[0].add(&work)
		cf.work.flushes.add(&work)
		cf.work.flushed += written
		db.mu.Unlock()
		stripe := statistics.Stripe()
		db.stats.Add(stripe, statistics.FlushWriteBytes, written)
		db.stats.Time(stripe, statistics.FlushTime, w.start)
		db.tablesCreated(cf, w.info.JobID, FilterAtFlush, files)
		if len(files) > 0 {
			f := files[0]
			w.info.FileNumber, w.info.FilePath, w.info.FileSize = f.Number, manifest.TableName(db.dir, f.Number), f.Size
			w.info.SmallestSeqno, w.info.LargestSeqno = f.SmallestSeq, f.LargestSeq
			w.info.Properties = cf.propertiesOf(f.Number)
		}
	}
	state, immutables := cf.lsmState()
	db.event("flush_finished", w.info.JobID, "", member("output_compression", cf.compressionName(0)), member("lsm_state", state), member("immutable_memtables", immutables))
	tell(db, func(l *EventListener) func(FlushInfo) { return l.FlushCompleted }, w.info)
}

// watchedCompaction is a compaction under way.
type watchedCompaction struct {
	db     *DB
	cf     *ColumnFamily
	choice *compaction.Choice
	start  time.Time
	info   CompactionInfo
	files  []*manifest.FileMetadata // what it wrote
	stats  compaction.Stats
	parts  int // that shared the work
	cpu    time.Duration
}

// reasonNames are RocksDB's names of the reasons (CompactionReason).
var reasonNames = map[compaction.Reason]string{
	compaction.ReasonL0Files: "LevelL0FilesNum", compaction.ReasonLevelSize: "LevelMaxLevelSize", compaction.ReasonManual: "ManualCompaction",
	compaction.ReasonFiles: "ManualCompaction", compaction.ReasonRefit: "RefitLevel", compaction.ReasonMarked: "FilesMarkedForCompaction",
	compaction.ReasonBottommost: "BottommostFiles", compaction.ReasonTTL: "Ttl", compaction.ReasonPeriodic: "PeriodicCompaction",
	compaction.ReasonUniversalSizeAmp: "UniversalSizeAmplification", compaction.ReasonUniversalSizeRatio: "UniversalSizeRatio",
	compaction.ReasonUniversalRuns: "UniversalSortedRunNum", compaction.ReasonFIFOSize: "FIFOMaxSize", compaction.ReasonFIFOTTL: "FIFOTtl",
	compaction.ReasonFIFOFiles: "FIFOReduceNumFiles", compaction.ReasonTemperature: "ChangeTemperature",
}

func reasonName(r compaction.Reason) string {
	if name := reasonNames[r]; name != "" {
		return name
	}
	return "Unknown"
}

// beginCompaction tells that a choice is about to be run.
func (db *DB) beginCompaction(cf *ColumnFamily, choice *compaction.Choice) *watchedCompaction {
	w := &watchedCompaction{db: db, cf: cf, choice: choice, start: time.Now(), info: CompactionInfo{
		ColumnFamily: cf.name, ColumnFamilyID: cf.id, JobID: db.newJobID(), Reason: reasonName(choice.Reason),
		InputLevel: choice.Inputs[0].Level, OutputLevel: choice.OutputLevel, TrivialMove: choice.TrivialMove, InputBytes: choice.InputBytes()}}
	for _, f := range choice.Files() {
		w.info.InputFiles = append(w.info.InputFiles, f.Number)
	}
	fields := []field{member("compaction_reason", w.info.Reason)}
	for _, in := range choice.Inputs {
		var numbers []uint64
		for _, f := range in.Files {
			numbers = append(numbers, f.Number)
		}
		fields = append(fields, member(fmt.Sprintf("files_L%d", in.Level), numbers))
	}
	fields = append(fields, member("score", max(choice.Score, 0)), member("input_data_size", w.info.InputBytes))
	if !choice.TrivialMove {
		db.event("compaction_started", w.info.JobID, "", fields...)
	}
	tell(db, func(l *EventListener) func(CompactionInfo) { return l.CompactionBegin }, w.info)
	return w
}

// wrote takes the result of a compaction that is not a move.
func (w *watchedCompaction) wrote(r *compaction.Result) {
	info, stats := &w.info, &r.Stats
	w.files, w.stats, w.cpu = r.Files, r.Stats, r.CPU
	for _, f := range r.Files {
		info.OutputFiles = append(info.OutputFiles, f.Number)
		info.OutputBytes += f.Size
	}
	info.InputRecords, info.OutputRecords = stats.InputEntries, stats.OutputEntries
	info.Dropped = CompactionDrops{Newer: stats.Obsolete, Obsolete: stats.DeletesDropped, RangeDel: stats.Covered, User: stats.Filtered, SinglePair: stats.SinglePairs}
}

// runPart runs one part of a compaction, or all of it.
func (db *DB) runPart(ctx context.Context, cf *ColumnFamily, choice *compaction.Choice, index int, job *compaction.Job) (*compaction.Result, error) {
	info := SubcompactionInfo{ColumnFamily: cf.name, Index: index, InputLevel: choice.Inputs[0].Level, OutputLevel: choice.OutputLevel}
	tell(db, func(l *EventListener) func(SubcompactionInfo) { return l.SubcompactionBegin }, info)
	cpu := startCPU()
	result, err := db.runJob(ctx, cf, job, choice.OutputLevel)
	if took := cpu(); result != nil {
		result.CPU = took
	}
	if info.Err = err; result != nil {
		info.InputRecords, info.OutputRecords = result.Stats.InputEntries, result.Stats.OutputEntries
	}
	tell(db, func(l *EventListener) func(SubcompactionInfo) { return l.SubcompactionCompleted }, info)
	return result, err
}

// end tells what became of the compaction.
func (w *watchedCompaction) end(err error) {
	db, cf, info, files := w.db, w.cf, &w.info, w.files
	info.Duration, info.Err = time.Since(w.start), err
	if err == nil {
		w.count()
	}
	if info.TrivialMove {
		tell(db, func(l *EventListener) func(CompactionInfo) { return l.CompactionCompleted }, *info)
		return
	}
	if err == nil {
		db.tablesCreated(cf, info.JobID, FilterAtCompaction, files)
	}
	state, _ := cf.lsmState()
	fields := []field{member("compaction_time_micros", info.Duration.Microseconds()), member("output_level", info.OutputLevel),
		member("num_output_files", len(files)), member("total_output_size", info.OutputBytes), member("num_input_records", info.InputRecords),
		member("num_output_records", info.OutputRecords), member("num_subcompactions", max(w.parts, 1)), member("output_compression", cf.compressionName(w.choice.CompressionLevel)),
		member("lsm_state", state)}
	if err != nil {
		fields = append(fields, member("status", err.Error()))
	}
	db.event("compaction_finished", info.JobID, "", fields...)
	tell(db, func(l *EventListener) func(CompactionInfo) { return l.CompactionCompleted }, *info)
}

// count adds the compaction to the figures of its level and to the statistics.
func (w *watchedCompaction) count() {
	db, cf, info := w.db, w.cf, &w.info
	var inputs, below uint64
	filesIn, filesBelow := 0, 0
	for _, in := range w.choice.Inputs {
		for _, f := range in.Files {
			if in.Level == info.OutputLevel {
				below += f.Size
				filesBelow++
			} else {
				inputs += f.Size
				filesIn++
			}
		}
	}
	work := levelWork{time: info.Duration, cpu: w.cpu, count: 1}
	if info.TrivialMove {
		work = levelWork{moved: info.InputBytes}
	} else {
		work.read, work.readBelow, work.written = inputs, below, info.OutputBytes
		work.inputs, work.inputsBelow, work.outputs = filesIn, filesBelow, len(w.files)
		work.keysIn, work.keysDropped = info.InputRecords, info.InputRecords-min(info.OutputRecords, info.InputRecords)
	}
	db.mu.Lock()
	if l := info.OutputLevel; l >= 0 && l < len(cf.work.levels) {
		cf.work.levels[l].add(&work)
	}
	cf.work.compactions.add(&work)
	db.mu.Unlock()
	st, stripe := db.stats, statistics.Stripe()
	if info.TrivialMove || st == nil {
		return
	}
	st.Add(stripe, statistics.CompactReadBytes, info.InputBytes)
	st.Add(stripe, statistics.CompactWriteBytes, info.OutputBytes)
	st.Add(stripe, statistics.CompactionKeyDropNewerEntry, info.Dropped.Newer)
	st.Add(stripe, statistics.CompactionKeyDropObsolete, info.Dropped.Obsolete)
	st.Add(stripe, statistics.CompactionKeyDropRangeDel, info.Dropped.RangeDel)
	st.Add(stripe, statistics.CompactionKeyDropUser, info.Dropped.User)
	st.Time(stripe, statistics.CompactionTime, w.start)
	st.TimeOf(stripe, statistics.CompactionCPUTime, w.cpu)
	st.Record(stripe, statistics.NumFilesInSingleCompaction, uint64(filesIn))
}

// newJobID numbers flushes and compactions in the LOG.
func (db *DB) newJobID() int { return int(db.lastJobID.Add(1)) }

// tablesCreated tells of finished files, which are open.
func (db *DB) tablesCreated(cf *ColumnFamily, job int, reason FilterReason, files []*manifest.FileMetadata) {
	if len(db.opts.Listeners) == 0 && !db.logsEvents() {
		return
	}
	for _, f := range files {
		p := cf.propertiesOf(f.Number)
		info := TableFileCreatedInfo{ColumnFamily: cf.name, JobID: job, Reason: reason, FileNumber: f.Number,
			FilePath: manifest.TableName(db.dir, f.Number), FileSize: f.Size, Properties: p}
		fields := []field{member("file_number", f.Number), member("file_size", f.Size), member("file_checksum", fmt.Sprintf("%x", f.Checksum)),
			member("file_checksum_func_name", orUnknown(f.ChecksumFunc)), member("smallest_seqno", f.SmallestSeq), member("largest_seqno", f.LargestSeq)}
		if p != nil {
			fields = append(fields, member("table_properties", propertyFields(p)))
		}
		db.event("table_file_creation", job, cf.name, fields...)
		tell(db, func(l *EventListener) func(TableFileCreatedInfo) { return l.TableFileCreated }, info)
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "Unknown"
	}
	return s
}

// fileRemoved tells of a file that went, or could not be removed, if it is a table.
func (db *DB) fileRemoved(path string, err error) {
	kind, number, ok := manifest.ParseName(filepath.Base(path))
	if !ok || kind != manifest.KindTable {
		return
	}
	fields := []field{member("file_number", number)}
	if err != nil {
		fields = append(fields, member("status", err.Error()))
	}
	db.event("table_file_deletion", 0, "", fields...)
	tell(db, func(l *EventListener) func(TableFileDeletedInfo) { return l.TableFileDeleted },
		TableFileDeletedInfo{FileNumber: number, FilePath: path, Err: err})
}

// propertiesOf are those of an open file, nil if it is not open any more.
func (cf *ColumnFamily) propertiesOf(number uint64) *TableProperties {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	if h := cf.tables[number]; h != nil {
		return h.reader().Properties()
	}
	return nil
}

// propertyFields are the properties as the LOG has them.
func propertyFields(p *TableProperties) []field {
	average := func(sum uint64) uint64 { return sum / max(p.NumEntries, 1) }
	return []field{
		member("data_size", p.DataSize), member("index_size", p.IndexSize), member("index_partitions", p.IndexPartitions),
		member("top_level_index_size", p.TopLevelIndexSize), member("index_key_is_user_key", p.IndexKeyIsUserKey),
		member("index_value_is_delta_encoded", p.IndexValueIsDelta), member("filter_size", p.FilterSize),
		member("raw_key_size", p.RawKeySize), member("raw_average_key_size", average(p.RawKeySize)),
		member("raw_value_size", p.RawValueSize), member("raw_average_value_size", average(p.RawValueSize)),
		member("num_data_blocks", p.NumDataBlocks), member("num_entries", p.NumEntries), member("num_filter_entries", p.NumFilterEntries),
		member("num_deletions", p.NumDeletions), member("num_merge_operands", p.NumMergeOperands), member("num_range_deletions", p.NumRangeDeletions),
		member("format_version", p.FormatVersion), member("fixed_key_len", p.FixedKeyLen), member("filter_policy", p.FilterPolicyName),
		member("column_family_name", p.ColumnFamilyName), member("column_family_id", p.ColumnFamilyID), member("comparator", p.ComparatorName),
		member("merge_operator", p.MergeOperatorName), member("prefix_extractor_name", p.PrefixExtractorName),
		member("property_collectors", p.PropertyCollectorNames), member("compression", p.CompressionName), member("compression_options", p.CompressionOptions),
		member("creation_time", p.CreationTime), member("oldest_key_time", p.OldestKeyTime), member("file_creation_time", p.FileCreationTime),
		member("db_id", p.DBID), member("db_session_id", p.DBSessionID), member("orig_file_number", p.OriginalFileNumber),
	}
}

// lsmState is how many files each level has, and how many immutable memtables there are.
func (cf *ColumnFamily) lsmState() (files []int, immutables int) {
	cf.db.mu.Lock()
	defer cf.db.mu.Unlock()
	for _, level := range cf.files.version.Levels {
		files = append(files, len(level))
	}
	return files, len(cf.immutables)
}

// compressionName is how files of a level, as CompressionPerLevel counts them, are compressed.
func (cf *ColumnFamily) compressionName(level int) string {
	o := cf.mutable()
	if _, ok := o.Table.(BlockBasedTableOptions); !ok {
		return "NoCompression"
	}
	c := o.Compression
	if n := len(o.CompressionPerLevel); n > 0 {
		c = o.CompressionPerLevel[min(max(level, 0), n-1)]
	}
	return c.typ().String()
}

// levelWork is what flushes and compactions into a level did. RocksDB:
// InternalStats::CompactionStats.
type levelWork struct {
	time, cpu                    time.Duration
	read, readBelow              uint64 // bytes from the levels above, and from the output level
	written, moved               uint64
	inputs, inputsBelow, outputs int // files
	keysIn, keysDropped          uint64
	count                        int
}

func (w *levelWork) add(o *levelWork) {
	w.time += o.time
	w.cpu += o.cpu
	w.read, w.readBelow = w.read+o.read, w.readBelow+o.readBelow
	w.written, w.moved = w.written+o.written, w.moved+o.moved
	w.inputs, w.inputsBelow, w.outputs = w.inputs+o.inputs, w.inputsBelow+o.inputsBelow, w.outputs+o.outputs
	w.keysIn, w.keysDropped = w.keysIn+o.keysIn, w.keysDropped+o.keysDropped
	w.count += o.count
}

// since is w without o, which is an earlier w.
func (w levelWork) since(o levelWork) levelWork {
	w.time -= o.time
	w.cpu -= o.cpu
	w.read, w.readBelow = w.read-o.read, w.readBelow-o.readBelow
	w.written, w.moved = w.written-o.written, w.moved-o.moved
	w.inputs, w.inputsBelow, w.outputs = w.inputs-o.inputs, w.inputsBelow-o.inputsBelow, w.outputs-o.outputs
	w.keysIn, w.keysDropped = w.keysIn-o.keysIn, w.keysDropped-o.keysDropped
	w.count -= o.count
	return w
}

// familyWork is what a family's flushes and compactions did since Open. Guarded by db.mu.
type familyWork struct {
	levels               []levelWork // by output level
	flushes, compactions levelWork
	flushed              uint64 // bytes of files that flushes made
	ingested             uint64 // bytes of external files
	ingestedFiles        int
	ingestedL0           int
	ingestedKeys         uint64

	lastTold lastTold
}

// lastTold is what the text of rocksdb.cfstats told last, for its figures of the interval.
type lastTold struct {
	at                        time.Time
	sum                       levelWork
	flushed, ingested         uint64
	ingestedFiles, ingestedL0 int
	ingestedKeys              uint64
	stalls                    int64
}

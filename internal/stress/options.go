package stress

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/ratelimit"
	"github.com/flatrock-db/flatrock/statistics"
)

// Config says what a run does. The zero value of a field means its default.
type Config struct {
	// Seed decides options and operations.
	Seed uint64
	// Dir is the directory that the run works in; it is made, and its content replaced.
	Dir string
	// Workers is how many goroutines work on the database. Default 4.
	Workers int
	// Families is how many column families it has. Default 4.
	Families int
	// Keys is how many keys a family has. Default 300.
	Keys int
	// Ops is how many operations a worker does in a round. Default 2000.
	Ops int
	// Rounds ends the run, and so does the context. Default: no end.
	Rounds int
	// Sync, from 0 to 100, is how many of a hundred writes are synced. Default 10; negative: none.
	Sync int
	// RoundsPerDB is how many rounds a database lives, with one set of formats. Default 8.
	RoundsPerDB int
	// Database is the number of the database that the run begins with.
	Database uint64
	// Verbose, if not nil, is called with what goes on.
	Log func(format string, args ...any)
}

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Workers, 4)
	def(&c.Families, 4)
	def(&c.Keys, 300)
	def(&c.Ops, 2000)
	def(&c.Sync, 10)
	def(&c.RoundsPerDB, 8)
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	return c
}

// rng draws for a purpose, so that one purpose's draws do not move another's.
func (c Config) rng(purpose string, at ...uint64) *rand.Rand {
	h := mix(c.Seed)
	for _, b := range []byte(purpose) {
		h = mix(h ^ uint64(b))
	}
	for _, a := range at {
		h = mix(h ^ a)
	}
	return rand.New(rand.NewPCG(h, 0x666c6174726f636b))
}

// familySpec is what stays the same for the life of a database.
type familySpec struct {
	name      string
	keys      keyspace
	plain     bool
	reverse   bool
	extractor *flatrock.PrefixExtractor // nil: none
	plainOpts flatrock.PlainTableOptions
	style     flatrock.CompactionStyle
	levels    int // 0: the default
}

// drawFamilies draws the formats of database number db.
func (c Config) drawFamilies(db uint64) []familySpec {
	rng := c.rng("families", db)
	var specs []familySpec
	for i := range c.Families {
		s := familySpec{name: flatrock.DefaultColumnFamilyName}
		if i > 0 {
			s.name = fmt.Sprintf("family%d", i)
		}
		s.keys = keyspace{n: c.Keys, prefixes: 1 + rng.IntN(min(60, c.Keys)), fixed: rng.IntN(4) == 0}
		s.plain = i%2 == int(db%2)
		s.reverse = rng.IntN(5) == 0
		switch rng.IntN(5) {
		case 0:
		case 1:
			s.extractor = flatrock.FixedPrefix(2)
		case 2:
			s.extractor = flatrock.FixedPrefix(1 + rng.IntN(8))
		case 3:
			s.extractor = flatrock.CappedPrefix(1 + rng.IntN(12))
		case 4:
			s.extractor = flatrock.NoopPrefix()
		}
		if s.plain {
			p := flatrock.PlainTableOptions{}
			if s.extractor == nil {
				p.HashTableRatio = flatrock.TotalOrder
			} else {
				p.HashTableRatio = pick(rng, 0, 0.5, 2, flatrock.TotalOrder)
				p.EncodingType = pick(rng, flatrock.PlainEncoding, flatrock.PrefixEncoding)
			}
			if s.keys.fixed {
				p.UserKeyLen = 8
			}
			p.RangeDeletes = pick(rng, flatrock.On, flatrock.Default)
			s.plainOpts = p
		}
		s.style = pick(rng, flatrock.CompactionStyleLevel, flatrock.CompactionStyleLevel, flatrock.CompactionStyleUniversal)
		s.levels = pick(rng, 0, 0, 4)
		specs = append(specs, s)
	}
	return specs
}

// allowsRanges reports whether the family takes DeleteRange.
func (s *familySpec) allowsRanges() bool {
	return !s.plain || s.plainOpts.RangeDeletes == flatrock.On
}

func shapeOf(c Config, specs []familySpec) shape {
	s := shape{Workers: c.Workers}
	for _, f := range specs {
		s.Families = append(s.Families, f.keys)
	}
	return s
}

func pick[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// roundOptions is what is drawn for each round.
type roundOptions struct {
	db     flatrock.Options
	noWAL  bool // every write of the round goes without a log
	noSync bool
	// protect is WriteOptions.ProtectionBytesPerKey.
	protect int
	told    *tellings // nil: no listener
}

// drawRound draws the options of a round.
func (c Config) drawRound(specs []familySpec, fsys mmapfs.FS, db, round uint64, h harness) roundOptions {
	rng := c.rng("round", db, round)
	var r roundOptions
	o := &r.db
	o.FS = fsys
	o.CreateIfMissing, o.CreateMissingColumnFamilies = true, true
	o.WALWriteMode = pick(rng, flatrock.WALAuto, flatrock.WALWrite)
	if h.mapped {
		o.WALWriteMode = pick(rng, flatrock.WALMapped, flatrock.WALWrite)
	}
	o.MaxManifestFileSize = pick[int64](rng, 0, 1000, 5000)
	o.AvoidFlushDuringRecovery = rng.IntN(3) == 0
	o.MaxTotalWALSize = pick[int64](rng, 0, 0, 100<<10, 400<<10)
	o.MaxWriteBatchGroupSize = pick[int64](rng, 0, 0, 1000)
	o.BlockCacheSize = pick[int64](rng, 64<<10, 256<<10, 4<<20)
	o.ChargeMemtables = rng.IntN(4) == 0
	o.ChargeTableReaders = rng.IntN(4) == 0
	switch rng.IntN(4) {
	case 0:
		o.AllowMmapReads = !h.flips // a mapped block that is not compressed is not verified again
	case 1:
		o.UseDirectReads = h.direct
	}
	o.MaxBackgroundJobs = pick(rng, 1, 2, 4)
	o.MaxSubcompactions = pick(rng, 1, 1, 3)
	o.DelayedWriteRate = pick[int64](rng, 16<<20, 1<<30) // a slow machine must not make a round last minutes
	c.drawNewer(rng, o, h)
	c.drawOutputs(rng, &r)
	r.protect = pick(rng, 0, 0, 8)
	r.noWAL = rng.IntN(8) == 0
	r.noSync = rng.IntN(4) == 0
	for i := range specs {
		f := &specs[i]
		cfo := c.drawFamilyRound(rng, f, h)
		if i == 0 {
			o.ColumnFamily = cfo
			continue
		}
		o.ColumnFamilies = append(o.ColumnFamilies, flatrock.ColumnFamilyDescriptor{Name: f.name, Options: cfo})
	}
	return r
}

// drawOptions draws the options of a round of the session. Where logs are a database keeps.
func (s *session) drawOptions(fsys mmapfs.FS, round uint64) roundOptions {
	r := s.cfg.drawRound(s.specs, fsys, s.number, round, s.harness)
	if s.cfg.rng("log directory", s.number).IntN(3) == 0 {
		r.db.WALDir = s.dir + logsSuffix
	}
	if s.cfg.rng("messages", s.number, round).IntN(4) == 0 {
		r.db.DBLogDir = s.dir + messagesSuffix
	}
	redrawLevels(s.cfg.rng("levels", s.number, round), fsys, s.dir, &r.db)
	return r
}

// Directories beside that of the database.
const (
	logsSuffix     = "-logs"
	messagesSuffix = "-messages"
)

// removeDB removes a database with what lies beside it.
func removeDB(fsys mmapfs.FS, dir string) error {
	return errors.Join(fsys.RemoveAll(dir), fsys.RemoveAll(dir+logsSuffix), fsys.RemoveAll(dir+messagesSuffix))
}

// drawNewer draws what else a database can be told.
func (c Config) drawNewer(rng *rand.Rand, o *flatrock.Options, h harness) {
	switch {
	case h.whole:
		o.WALRecoveryMode = pick(rng, flatrock.PointInTimeRecovery, flatrock.TolerateCorruptedTailRecords, flatrock.AbsoluteConsistency, flatrock.SkipAnyCorruptedRecords)
	case h.tails:
		o.WALRecoveryMode = pick(rng, flatrock.PointInTimeRecovery, flatrock.TolerateCorruptedTailRecords, flatrock.SkipAnyCorruptedRecords)
	}
	o.AtomicFlush = pick(rng, flatrock.On, flatrock.Off, flatrock.Off, flatrock.Off)
	if rng.IntN(5) == 0 {
		o.ManualWALFlush = true
		o.WALWriteMode = pick(rng, flatrock.WALAuto, flatrock.WALWrite)
	}
	o.AvoidFlushDuringShutdown = rng.IntN(4) == 0
	o.WALTTLSeconds, o.WALSizeLimitMB = -1, -1
	if rng.IntN(4) == 0 {
		o.WALTTLSeconds, o.WALSizeLimitMB = pick[int64](rng, -1, 1, 3600), pick[int64](rng, -1, 1)
	}
	o.MaxDecompressedSize = pick[int64](rng, 0, 1<<20)
	switch rng.IntN(6) {
	case 0:
		o.DBWriteBufferSize = pick[int64](rng, 100<<10, 1<<20)
	case 1:
		o.WriteBufferManager = flatrock.NewWriteBufferManager(flatrock.WriteBufferManagerOptions{
			BufferSize: pick[int64](rng, 200<<10, 1<<20), AllowStall: rng.IntN(2) == 0, CostToCache: rng.IntN(2) == 0})
	}
	if rng.IntN(5) == 0 {
		o.RateLimiter = flatrock.NewRateLimiter(flatrock.RateLimiterOptions{
			BytesPerSec: pick[int64](rng, 20<<20, 1<<30), RefillPeriod: 5 * time.Millisecond, Mode: pick(rng, ratelimit.WritesOnly, ratelimit.ReadsOnly, ratelimit.AllIO), AutoTuned: rng.IntN(2) == 0})
	}
	if rng.IntN(4) == 0 {
		o.BytesPerSync, o.StrictBytesPerSync = 4096, rng.IntN(2) == 0
	}
	if rng.IntN(4) == 0 {
		o.WALBytesPerSync = 4096
	}
	if rng.IntN(4) == 0 {
		o.MaxBackgroundJobs, o.MaxBackgroundCompactions, o.MaxBackgroundFlushes = 0, 1+rng.IntN(3), 1+rng.IntN(2)
	}
	o.FileChecksumGenFactory = flatrock.NoFileChecksums
	if rng.IntN(3) == 0 && !(h.flips && h.ingest) { // an ingested file's is of what was read
		o.FileChecksumGenFactory = flatrock.FileChecksumGenCrc32c
	}
	if rng.IntN(4) == 0 {
		o.Statistics = statistics.New()
	}
	o.CompactionReadaheadSize = pick[int64](rng, 0, 4096, 100<<10)
	o.AllowConcurrentMemtableWrite = pick(rng, flatrock.Default, flatrock.Off)
	o.EnablePipelinedWrite = o.AtomicFlush != flatrock.On && rng.IntN(2) == 0
	if h.modes {
		o.FileMode = pick[fs.FileMode](rng, 0, 0o600, 0o640)
	}
	o.AllowIngestBehind = rng.IntN(5) == 0
	o.MapMemoryFiles = pick(rng, flatrock.Default, flatrock.Off)
	o.BottomPriorityCompactions = pick(rng, 0, 0, 1)
	if rng.IntN(8) == 0 {
		o.Placement = flatrock.PlaceAll(pick(rng, flatrock.PlaceInterleave, flatrock.PlaceReplicate))
	}
	o.BgErrorResumeRetryInterval = pick(rng, 0, time.Millisecond)
	o.MaxBgErrorResumeCount = pick(rng, 0, -1)
}

// drawOutputs draws what the database tells about itself.
func (c Config) drawOutputs(rng *rand.Rand, r *roundOptions) {
	o := &r.db
	switch rng.IntN(3) {
	case 0:
		o.Logger = slog.New(slog.DiscardHandler)
	case 1:
		o.InfoLogLevel = pick(rng, slog.LevelDebug, slog.LevelInfo, slog.LevelError)
		o.KeepLogFileNum, o.MaxLogFileSize, o.LogFileTimeToRoll = pick(rng, 0, 1, 3), pick[int64](rng, 0, 2000), pick[int64](rng, 0, 1)
	}
	o.StatsDumpPeriodSec = pick(rng, 0, -1, 1)
	o.DBHostID = pick(rng, "", "stress")
	if rng.IntN(4) == 0 {
		r.told = new(tellings)
		o.Listeners = []*flatrock.EventListener{r.told.listener()}
	}
}

// harness is what the surroundings of a round allow.
type harness struct {
	mapped bool // the log can be mapped
	direct bool // direct reads work
	flips  bool // bits of what is read flip
	tails  bool // a crash damages at most the end of the last log
	whole  bool // every round ends in good order
	modes  bool // files have modes
	ingest bool // files may be ingested: they are durable at once, so they may outlive writes before them
}

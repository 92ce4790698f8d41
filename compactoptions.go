package flatrock

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
)

// CompactionStyle is how a column family's files are kept in shape.
type CompactionStyle = compaction.Style

// The styles: kCompactionStyleLevel, …Universal, …FIFO and …None, in which only
// CompactRange and CompactFiles compact.
const (
	CompactionStyleLevel     = compaction.Leveled
	CompactionStyleUniversal = compaction.Universal
	CompactionStyleFIFO      = compaction.FIFO
	CompactionStyleNone      = compaction.NoStyle
)

var styleNames = []string{"kCompactionStyleLevel", "kCompactionStyleUniversal", "kCompactionStyleFIFO", "kCompactionStyleNone"}

// CompactionPri orders the files of a level: which moves down first.
type CompactionPri = compaction.Priority

// The priorities: kMinOverlappingRatio (the default), kByCompensatedSize, and so on.
const (
	MinOverlappingRatio    = compaction.MinOverlappingRatio
	ByCompensatedSize      = compaction.ByCompensatedSize
	OldestLargestSeqFirst  = compaction.OldestLargestSeqFirst
	OldestSmallestSeqFirst = compaction.OldestSmallestSeqFirst
	RoundRobin             = compaction.RoundRobin
)

var priNames = []string{"kMinOverlappingRatio", "kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kRoundRobin"}

// UniversalOptions tune the universal style, FIFOOptions the FIFO style. A TemperatureAge is the
// temperature of files from an age on.
type (
	UniversalOptions = compaction.UniversalOptions
	FIFOOptions      = compaction.FIFOOptions
	TemperatureAge   = compaction.TemperatureAge
)

// The stop styles of the universal style.
const (
	StopTotalSize   = compaction.StopTotalSize
	StopSimilarSize = compaction.StopSimilarSize
)

var stopNames = []string{"kCompactionStopStyleTotalSize", "kCompactionStopStyleSimilarSize"}

// DefaultUniversalOptions are RocksDB's: to start from when one of them is to be changed.
func DefaultUniversalOptions() UniversalOptions { return compaction.DefaultUniversalOptions() }

// CompactOnDeletion says which files have so many deletes that they are compacted soon.
type CompactOnDeletion = compaction.DeletionDensity

// NoTTL turns an age off where zero means a default.
const NoTTL = -1

const thirtyDays = 30 * 24 * 60 * 60

// Temperatures of files, RocksDB's: recorded with a file, for who places files by them.
const (
	TemperatureUnknown = 0x00
	TemperatureHot     = 0x04
	TemperatureWarm    = 0x08
	TemperatureCool    = 0x0A
	TemperatureCold    = 0x0C
	TemperatureIce     = 0x10
)

var temperatureNames = map[uint8]string{TemperatureUnknown: "kUnknown", TemperatureHot: "kHot", TemperatureWarm: "kWarm",
	TemperatureCool: "kCool", TemperatureCold: "kCold", TemperatureIce: "kIce"}

// fillCompaction replaces the zeros of the options of this file.
func (o *ColumnFamilyOptions) fillCompaction() {
	if o.CompactionOptionsUniversal == (UniversalOptions{}) {
		o.CompactionOptionsUniversal = DefaultUniversalOptions()
	}
	if o.CompactionOptionsFIFO.MaxTableFilesSize == 0 {
		o.CompactionOptionsFIFO.MaxTableFilesSize = compaction.DefaultFIFOOptions().MaxTableFilesSize
	}
	_, blocks := o.Table.(BlockBasedTableOptions)
	orDefaultAge(&o.TTL, blocks)
	orDefaultAge(&o.PeriodicCompactionSeconds, blocks && (o.CompactionStyle == CompactionStyleUniversal ||
		o.CompactionStyle == CompactionStyleLevel && (o.CompactionFilter != nil || o.CompactionFilterFactory != nil)))
	if o.CompactionStyle != CompactionStyleLevel {
		o.LevelCompactionDynamicLevelBytes = Off
	}
	if o.CompactionStyle == CompactionStyleFIFO { // level 0 is all there is
		o.Level0SlowdownWritesTrigger, o.Level0StopWritesTrigger = math.MaxInt32, math.MaxInt32
	}
}

func orDefaultAge(age *int64, has bool) {
	if *age == 0 {
		*age = NoTTL
		if has {
			*age = thirtyDays
		}
	}
}

func (o *ColumnFamilyOptions) validateCompaction() error {
	u := &o.CompactionOptionsUniversal
	switch {
	case int(o.CompactionStyle) >= len(styleNames):
		return fmt.Errorf("unknown CompactionStyle %d", o.CompactionStyle)
	case int(o.CompactionPri) >= len(priNames):
		return fmt.Errorf("unknown CompactionPri %d", o.CompactionPri)
	case o.MaxCompactionBytes < 0:
		return fmt.Errorf("MaxCompactionBytes %d: want a positive number, or zero", o.MaxCompactionBytes)
	case o.TTL < NoTTL || o.PeriodicCompactionSeconds < NoTTL || o.BottommostFileCompactionDelay < 0:
		return fmt.Errorf("TTL %d, PeriodicCompactionSeconds %d, BottommostFileCompactionDelay %d: want seconds", o.TTL, o.PeriodicCompactionSeconds, o.BottommostFileCompactionDelay)
	case u.SizeRatio < 0 || u.MinMergeWidth < 0 || u.MaxMergeWidth < 2 || u.MaxMergeWidth < u.MinMergeWidth || u.MaxSizeAmplificationPercent < 0:
		return fmt.Errorf("CompactionOptionsUniversal %+v: want no negative number and a MaxMergeWidth of 2 or more, not below MinMergeWidth", *u)
	case u.MaxReadAmp < -1 || int(u.StopStyle) >= len(stopNames):
		return fmt.Errorf("CompactionOptionsUniversal %+v: want a MaxReadAmp of -1 or more and a known StopStyle", *u)
	}
	for _, n := range o.MaxBytesForLevelMultiplierAdditional {
		if n < 1 {
			return fmt.Errorf("MaxBytesForLevelMultiplierAdditional %v: want positive numbers", o.MaxBytesForLevelMultiplierAdditional)
		}
	}
	for i, a := range o.CompactionOptionsFIFO.Ages {
		if _, known := temperatureNames[a.Temperature]; !known || i > 0 && a.Age <= o.CompactionOptionsFIFO.Ages[i-1].Age {
			return fmt.Errorf("CompactionOptionsFIFO.Ages %v: want known temperatures, by growing age", o.CompactionOptionsFIFO.Ages)
		}
	}
	if d := o.CompactOnDeletion; d != nil && (d.Window < 0 || d.Trigger < 0 || d.Window > 0 && d.Trigger == 0 || math.IsNaN(d.Ratio)) {
		return fmt.Errorf("CompactOnDeletion %+v: want a Trigger with a Window, and no negative number", *d)
	}
	return nil
}

// picking turns the options in force into those of pickers.
func (o *ColumnFamilyOptions) picking(maxOutput int64) *compaction.Options {
	p := &compaction.Options{
		Style: o.CompactionStyle, Priority: o.CompactionPri,
		L0Trigger:                o.Level0FileNumCompactionTrigger,
		L0StopTrigger:            o.Level0StopWritesTrigger,
		MaxBytesForLevelBase:     uint64(o.MaxBytesForLevelBase),
		MaxBytesForLevelMultiply: o.MaxBytesForLevelMultiplier,
		LevelMultiplyAdditional:  o.MaxBytesForLevelMultiplierAdditional,
		DynamicLevelBytes:        o.LevelCompactionDynamicLevelBytes.or(true),
		TargetFileSizeBase:       uint64(o.TargetFileSizeBase),
		TargetFileSizeMultiply:   o.TargetFileSizeMultiplier,
		MaxCompactionBytes:       uint64(o.MaxCompactionBytes),
		TTL:                      uint64(max(o.TTL, 0)),
		PeriodicSeconds:          uint64(max(o.PeriodicCompactionSeconds, 0)),
		BottommostDelay:          uint64(o.BottommostFileCompactionDelay),
		WriteBufferSize:          uint64(o.WriteBufferSize),
		Universal:                o.CompactionOptionsUniversal,
		FIFO:                     o.CompactionOptionsFIFO,
		MoveOne:                  len(o.CompressionPerLevel) > 0,
	}
	if maxOutput < math.MaxInt64 {
		p.MaxL0Output = uint64(maxOutput)
	}
	if _, ok := o.Table.(BlockBasedTableOptions); ok && len(o.CompressionPerLevel) > 0 {
		// A file that moves keeps its compression.
		of := func(level int) Compression {
			return cmpDefault(o.CompressionPerLevel[min(level, len(o.CompressionPerLevel)-1)])
		}
		p.MayMove = func(_ *manifest.FileMetadata, from, to int) bool { return of(from) == of(to) }
	}
	return p
}

// unstored takes out of a section what RocksDB refuses beside plain tables.
func (o *ColumnFamilyOptions) unstored(s *optionsfile.Section) {
	if _, ok := o.Table.(PlainTableOptions); ok {
		s.Set("ttl", "0")
		s.Set("periodic_compaction_seconds", "0")
	}
}

// nameSetting is an option whose value is one of names.
func nameSetting[T any, E ~uint8](name string, names []string, field func(*T) *E) setting[T] {
	return setting[T]{name,
		func(o *T) string { return names[*field(o)] },
		func(o *T, v optionsfile.Option) error {
			i := slices.Index(names, v.Text())
			if i < 0 {
				return fmt.Errorf("%w: want one of %s", ErrInvalidArgument, strings.Join(names, ", "))
			}
			*field(o) = E(i)
			return nil
		}}
}

// ageSetting is an age in seconds: RocksDB's zero is NoTTL, and its two largest
// numbers stand for the default.
func ageSetting(name string, field func(*ColumnFamilyOptions) *int64) setting[ColumnFamilyOptions] {
	return setting[ColumnFamilyOptions]{name,
		func(o *ColumnFamilyOptions) string { return strconv.FormatInt(max(*field(o), 0), 10) },
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			n, err := v.Uint64()
			switch {
			case n == 0:
				*field(o) = NoTTL
			case n >= math.MaxUint64-1:
				*field(o) = 0
			case n > math.MaxInt64:
				return fmt.Errorf("%w: want a number of seconds", ErrInvalidArgument)
			default:
				*field(o) = int64(n)
			}
			return err
		}}
}

// formatObject and readObject are an option that is an object with fields of its own. Fields that
// are not in the table are RocksDB's without meaning here.
func formatObject[O any](table []setting[O], o *O) string {
	var fields []optionsfile.Option
	for _, t := range table {
		if t.get != nil {
			fields = append(fields, optionsfile.Option{Key: t.name, Value: t.get(o)})
		}
	}
	return optionsfile.FormatObject(fields...)
}

func readObject[O any](table []setting[O], o *O, v optionsfile.Option) error {
	fields, err := v.Object()
	if err != nil {
		return err
	}
	for _, f := range fields {
		if s := settingNamed(table, f.Key); s != nil {
			if err := s.set(o, f); err != nil {
				return fmt.Errorf("%s=%s: %w", f.Key, f.Value, err)
			}
		}
	}
	return nil
}

// widthSetting is an int that RocksDB keeps in 32 bits without sign: its largest
// number is our largest.
func widthSetting[T any](name string, field func(*T) *int) setting[T] {
	return setting[T]{name,
		func(o *T) string {
			if *field(o) == math.MaxInt32 {
				return strconv.FormatUint(math.MaxUint32, 10)
			}
			return strconv.Itoa(*field(o))
		},
		func(o *T, v optionsfile.Option) error {
			n, err := v.Int64()
			*field(o) = int(min(n, math.MaxInt32))
			return err
		}}
}

var universalSettings = []setting[UniversalOptions]{
	boolSetting("allow_trivial_move", func(o *UniversalOptions) bool { return o.AllowTrivialMove }, func(o *UniversalOptions, b bool) { o.AllowTrivialMove = b }),
	nameSetting("stop_style", stopNames, func(o *UniversalOptions) *compaction.StopStyle { return &o.StopStyle }),
	widthSetting("min_merge_width", func(o *UniversalOptions) *int { return &o.MinMergeWidth }),
	intSetting("compression_size_percent", func(o *UniversalOptions) *int { return &o.CompressionSizePercent }),
	widthSetting("max_size_amplification_percent", func(o *UniversalOptions) *int { return &o.MaxSizeAmplificationPercent }),
	boolSetting("incremental", func(o *UniversalOptions) bool { return o.Incremental }, func(o *UniversalOptions, b bool) { o.Incremental = b }),
	widthSetting("max_merge_width", func(o *UniversalOptions) *int { return &o.MaxMergeWidth }),
	widthSetting("size_ratio", func(o *UniversalOptions) *int { return &o.SizeRatio }),
	notWritten(intSetting("max_read_amp", func(o *UniversalOptions) *int { return &o.MaxReadAmp })),
}

var fifoSettings = []setting[FIFOOptions]{
	{"age_for_warm", // the one age that the version of our OPTIONS files knows
		func(o *FIFOOptions) string {
			for _, a := range o.Ages {
				if a.Temperature == TemperatureWarm {
					return strconv.FormatUint(a.Age, 10)
				}
			}
			return "0"
		},
		func(o *FIFOOptions, v optionsfile.Option) error {
			n, err := v.Uint64()
			if n > 0 && err == nil {
				o.Ages = []TemperatureAge{{Temperature: TemperatureWarm, Age: n}}
			}
			return err
		}},
	boolSetting("allow_compaction", func(o *FIFOOptions) bool { return o.AllowCompaction }, func(o *FIFOOptions, b bool) { o.AllowCompaction = b }),
	{"max_table_files_size",
		func(o *FIFOOptions) string { return strconv.FormatUint(o.MaxTableFilesSize, 10) },
		func(o *FIFOOptions, v optionsfile.Option) (err error) {
			o.MaxTableFilesSize, err = v.Uint64()
			return err
		}},
	notWritten(setting[FIFOOptions]{name: "file_temperature_age_thresholds", set: readAges}),
}

// readAges reads {{temperature=kWarm;age=86400;}:{…}}.
func readAges(o *FIFOOptions, v optionsfile.Option) error {
	if s := v.Value; strings.HasPrefix(s, "{{") && strings.HasSuffix(s, "}}") {
		v.Value = s[1 : len(s)-1]
	}
	list, err := v.List()
	if err != nil {
		return err
	}
	o.Ages = nil
	for _, e := range list {
		fields, err := e.Object()
		if err != nil {
			return err
		}
		var a TemperatureAge
		for _, f := range fields {
			switch f.Key {
			case "age":
				if a.Age, err = f.Uint64(); err != nil {
					return err
				}
			case "temperature":
				found := false
				for t, name := range temperatureNames {
					if name == f.Text() {
						a.Temperature, found = t, true
					}
				}
				if !found {
					return fmt.Errorf("%w: unknown temperature %q", ErrInvalidArgument, f.Text())
				}
			}
		}
		o.Ages = append(o.Ages, a)
	}
	return nil
}

// compactionSettings are the options of this file, as OPTIONS files have them.
var compactionSettings = []setting[ColumnFamilyOptions]{
	nameSetting("compaction_style", styleNames, func(o *ColumnFamilyOptions) *CompactionStyle { return &o.CompactionStyle }),
	nameSetting("compaction_pri", priNames, func(o *ColumnFamilyOptions) *CompactionPri { return &o.CompactionPri }),
	{"compaction_options_universal",
		func(o *ColumnFamilyOptions) string {
			return formatObject(universalSettings, &o.CompactionOptionsUniversal)
		},
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			if o.CompactionOptionsUniversal == (UniversalOptions{}) {
				o.CompactionOptionsUniversal = DefaultUniversalOptions()
			}
			return readObject(universalSettings, &o.CompactionOptionsUniversal, v)
		}},
	{"compaction_options_fifo",
		func(o *ColumnFamilyOptions) string { return formatObject(fifoSettings, &o.CompactionOptionsFIFO) },
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			return readObject(fifoSettings, &o.CompactionOptionsFIFO, v)
		}},
	intSetting("max_compaction_bytes", func(o *ColumnFamilyOptions) *int64 { return &o.MaxCompactionBytes }),
	ageSetting("ttl", func(o *ColumnFamilyOptions) *int64 { return &o.TTL }),
	ageSetting("periodic_compaction_seconds", func(o *ColumnFamilyOptions) *int64 { return &o.PeriodicCompactionSeconds }),
	notWritten(intSetting("bottommost_file_compaction_delay", func(o *ColumnFamilyOptions) *int64 { return &o.BottommostFileCompactionDelay })),
	{"max_bytes_for_level_multiplier_additional",
		func(o *ColumnFamilyOptions) string {
			var ns []string
			for _, n := range o.MaxBytesForLevelMultiplierAdditional {
				ns = append(ns, strconv.Itoa(n))
			}
			if len(ns) == 0 { // RocksDB's default, which says the same
				ns = slices.Repeat([]string{"1"}, 7)
			}
			return optionsfile.FormatList(ns...)
		},
		func(o *ColumnFamilyOptions, v optionsfile.Option) error {
			list, err := v.List()
			if err != nil {
				return err
			}
			o.MaxBytesForLevelMultiplierAdditional = nil
			for _, e := range list {
				n, err := e.Int()
				if err != nil {
					return err
				}
				o.MaxBytesForLevelMultiplierAdditional = append(o.MaxBytesForLevelMultiplierAdditional, n)
			}
			if !slices.ContainsFunc(o.MaxBytesForLevelMultiplierAdditional, func(n int) bool { return n != 1 }) {
				o.MaxBytesForLevelMultiplierAdditional = nil
			}
			return nil
		}},
}

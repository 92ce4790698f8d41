package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// styled gives the options of a family another style, priority and the like, by a
// seed. No data may go away by itself.
func styled(o ColumnFamilyOptions, seed int) *ColumnFamilyOptions {
	rng := rand.New(rand.NewPCG(uint64(seed), 11))
	o.CompactionStyle = CompactionStyle([]int{0, 1, 1, 0, 2}[seed%5])
	o.CompactionPri = CompactionPri(rng.IntN(5))
	o.MaxCompactionBytes = int64(rng.IntN(3)) * 100 << 10
	o.LevelCompactionDynamicLevelBytes = Toggle(rng.IntN(3))
	u := DefaultUniversalOptions()
	u.SizeRatio, u.MaxSizeAmplificationPercent = 1+rng.IntN(50), 50+rng.IntN(200)
	u.AllowTrivialMove, u.Incremental = rng.IntN(2) == 0, rng.IntN(2) == 0
	u.CompressionSizePercent = rng.IntN(120) - 20
	u.CompressionSizePercent = max(u.CompressionSizePercent, -1)
	o.CompactionOptionsUniversal = u
	o.CompactionOptionsFIFO = FIFOOptions{MaxTableFilesSize: 1 << 40, AllowCompaction: true}
	o.CompactOnDeletion = &CompactOnDeletion{Window: 64, Trigger: 40}
	if o.CompactionStyle != CompactionStyleFIFO && rng.IntN(2) == 0 {
		o.TTL, o.PeriodicCompactionSeconds = 3600, 7200
	} else {
		o.TTL = NoTTL
	}
	if o.CompactionStyle == CompactionStyleUniversal && rng.IntN(4) == 0 {
		o.NumLevels = 1
	}
	return &o
}

// styleTest is a database in memory with a clock of its own.
type styleTest struct {
	*testing.T
	fs  *mmapfs.MemFS
	now atomic.Int64 // unix seconds
	db  *DB
	o   *ColumnFamilyOptions
}

func newStyleTest(t *testing.T, o *ColumnFamilyOptions) *styleTest {
	s := &styleTest{T: t, fs: mmapfs.NewMem(), o: o}
	s.now.Store(1_000_000)
	s.open()
	t.Cleanup(func() { s.db.Close() })
	return s
}

func (s *styleTest) open() {
	s.Helper()
	db, err := Open("db", &Options{FS: s.fs, CreateIfMissing: true, ColumnFamily: s.o, MaxBackgroundJobs: 4, clock: func() time.Time { return time.Unix(s.now.Load(), 0) }})
	s.must(err)
	s.db = db
}

func (s *styleTest) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// file writes keys from to to (not included) into a file of level 0.
func (s *styleTest) file(from, to int, value string) {
	s.Helper()
	for i := from; i < to; i++ {
		s.must(s.db.Put(nil, fmt.Appendf(nil, "k%05d", i), []byte(value)))
	}
	s.must(s.db.Flush(context.Background(), nil))
}

func (s *styleTest) settle() {
	s.Helper()
	s.must(s.db.WaitForCompact(context.Background(), nil))
}

// levels is the number of files by level, without trailing zeros.
func (s *styleTest) levels() string {
	s.Helper()
	m, err := s.db.GetColumnFamilyMetaData()
	s.must(err)
	var n []string
	last := 0
	for i, l := range m.Levels {
		n = append(n, fmt.Sprint(len(l.Files)))
		if len(l.Files) > 0 {
			last = i + 1
		}
	}
	return strings.Join(n[:last], " ")
}

func (s *styleTest) names(level int) (names []string) {
	s.Helper()
	m, err := s.db.GetColumnFamilyMetaData()
	s.must(err)
	for _, f := range m.Levels[level].Files {
		names = append(names, f.Name)
	}
	return names
}

func (s *styleTest) want(what, levels string) {
	s.Helper()
	if got := s.levels(); got != levels {
		s.Errorf("%s: files by level %q, want %q", what, got, levels)
	}
}

func (s *styleTest) get(key string) string {
	s.Helper()
	v, err := s.db.Get(nil, []byte(key), nil)
	if errors.Is(err, ErrNotFound) {
		return "-"
	}
	s.must(err)
	return string(v)
}

func TestDataOlderThanItsTTLMovesDown(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{TTL: 1000, LevelCompactionDynamicLevelBytes: Off})
	s.file(0, 10, "old")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	s.must(s.db.CompactRange(context.Background(), &CompactRangeOptions{ChangeLevel: true, TargetLevel: 3}, nil, nil))
	s.file(5, 15, "new")
	s.settle()
	s.want("young", "1 0 0 1")
	s.now.Add(2000)
	s.db.mu.Lock()
	s.db.work.Broadcast() // as the clock does once a minute
	s.db.mu.Unlock()
	s.settle()
	s.want("old", "0 0 0 1")
	if s.get("k00007") != "new" || s.get("k00001") != "old" {
		t.Error("the values changed")
	}
}

func TestFilesAreRewrittenPeriodically(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{PeriodicCompactionSeconds: 1000, TTL: NoTTL})
	s.file(0, 10, "v")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	s.want("first", "0 0 0 0 0 0 1")
	before := s.names(6)
	s.settle()
	if after := s.names(6); !slices.Equal(before, after) {
		t.Fatalf("%v became %v at once", before, after)
	}
	s.now.Add(1500)
	s.db.mu.Lock()
	s.db.work.Broadcast()
	s.db.mu.Unlock()
	s.settle()
	if after := s.names(6); slices.Equal(before, after) {
		t.Errorf("%v are still there", before)
	}
	s.want("then", "0 0 0 0 0 0 1")
}

func TestAReleasedSnapshotFreesTheBottom(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{TTL: NoTTL})
	s.file(0, 100, "first")
	snap, err := s.db.NewSnapshot()
	s.must(err)
	s.file(0, 100, "second")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	entries := func() (n uint64) {
		m, err := s.db.GetColumnFamilyMetaData()
		s.must(err)
		for _, f := range m.Levels[6].Files {
			n += f.NumEntries
		}
		return n
	}
	s.settle()
	if n := entries(); n != 200 {
		t.Fatalf("%d entries at the bottom beside a snapshot, want 200", n)
	}
	s.must(s.db.Put(nil, []byte("z"), nil)) // the newest write is newer than the files
	snap.Release()
	s.settle()
	if n := entries(); n != 100 {
		t.Errorf("%d entries at the bottom after the snapshot, want 100", n)
	}
	// Nothing is left to be freed: further releases rewrite nothing.
	before := s.names(6)
	snap, err = s.db.NewSnapshot()
	s.must(err)
	snap.Release()
	s.settle()
	if after := s.names(6); !slices.Equal(before, after) {
		t.Errorf("%v were rewritten to %v for nothing", before, after)
	}
}

func TestFilesWithManyDeletesComeDown(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{TTL: NoTTL, CompactOnDeletion: &CompactOnDeletion{Window: 100, Trigger: 50}})
	s.file(0, 200, "v")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	for i := range 40 {
		s.must(s.db.Delete(nil, fmt.Appendf(nil, "k%05d", i)))
	}
	s.must(s.db.Flush(context.Background(), nil))
	s.settle()
	s.want("few deletes", "1 0 0 0 0 0 1")
	for i := range 60 {
		s.must(s.db.Delete(nil, fmt.Appendf(nil, "k%05d", i)))
	}
	s.must(s.db.Flush(context.Background(), nil))
	s.settle()
	s.want("many deletes", "0 0 0 0 0 0 1")
}

func TestFIFODropsTheOldestFiles(t *testing.T) {
	for name, table := range map[string]TableFactory{"block": BlockBasedTableOptions{}, "plain": PlainTableOptions{HashTableRatio: TotalOrder}} {
		t.Run(name, func(t *testing.T) {
			s := newStyleTest(t, &ColumnFamilyOptions{Table: table, CompactionStyle: CompactionStyleFIFO, NumLevels: 1, Compression: NoCompression,
				TTL: 1000, CompactionOptionsFIFO: FIFOOptions{MaxTableFilesSize: 100 << 10}})
			for i := range 6 {
				s.now.Add(100)
				s.file(i*100, i*100+100, strings.Repeat("x", 200)) // about 21 KB
			}
			s.settle()
			s.want("over the size", "4")
			if s.get("k00000") != "-" || s.get("k00199") != "-" || s.get("k00200") == "-" {
				t.Error("others than the oldest went")
			}
			s.now.Add(850)
			s.db.mu.Lock()
			s.db.work.Broadcast()
			s.db.mu.Unlock()
			s.settle()
			s.want("over the age", "2")
			s.must(s.db.Close())
			s.open()
			s.want("reopened", "2")
			if s.get("k00399") != "-" || s.get("k00400") == "-" {
				t.Error("others than the old ones went")
			}
		})
	}
}

func TestUniversalKeepsFewRuns(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{CompactionStyle: CompactionStyleUniversal, TTL: NoTTL, TargetFileSizeBase: 32 << 10, Compression: NoCompression})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		from := rng.IntN(2000)
		s.file(from, from+100+rng.IntN(200), strings.Repeat("y", 50))
		s.settle()
		m, err := s.db.GetColumnFamilyMetaData()
		s.must(err)
		runs := len(m.Levels[0].Files)
		var sizes []uint64
		for _, l := range m.Levels[1:] {
			if len(l.Files) > 0 {
				runs++
				sizes = append(sizes, l.Size)
			}
		}
		if runs > 4 {
			t.Fatalf("%d sorted runs, and 4 start a compaction: %s", runs, s.levels())
		}
		if n := len(sizes); n > 1 && runs >= 4 && (m.Size-sizes[n-1])*100 >= 200*sizes[n-1] {
			t.Fatalf("%d bytes over an oldest run of %d", m.Size-sizes[n-1], sizes[n-1])
		}
	}
}

func TestRoundRobinGoesOnAfterReopening(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{CompactionPri: RoundRobin, LevelCompactionDynamicLevelBytes: Off, TTL: NoTTL, Compression: NoCompression,
		TargetFileSizeBase: 4 << 10, MaxBytesForLevelBase: 16 << 10, MaxCompactionBytes: 16 << 10, Level0FileNumCompactionTrigger: 1})
	rng := rand.New(rand.NewPCG(1, 1))
	cursors := func() map[int][]byte { return s.db.manifest.State().Family(0).CompactCursors }
	for range 10 {
		for range 10 {
			from := rng.IntN(1000)
			s.file(from, from+60, strings.Repeat("z", 40))
		}
		s.settle()
		before := cursors()
		s.must(s.db.Close())
		s.open()
		after := cursors()
		for level, key := range before {
			if string(after[level]) != string(key) {
				t.Fatalf("the cursor of level %d was %q, and is %q after reopening", level, key, after[level])
			}
		}
	}
	if len(cursors()) == 0 {
		t.Fatal("no compaction left a cursor")
	}
	for i := 0; i < 1000; i += 7 {
		s.get(fmt.Sprintf("k%05d", i))
	}
	s.must(s.db.VerifyChecksum(context.Background()))
}

func TestCompactRangePolicies(t *testing.T) {
	ctx := context.Background()
	s := newStyleTest(t, &ColumnFamilyOptions{DisableAutoCompactions: true, TTL: NoTTL})
	s.file(0, 10, "a")
	s.must(s.db.CompactRange(ctx, nil, nil, nil))
	s.want("to the bottom", "0 0 0 0 0 0 1")
	before := s.names(6)
	for policy, rewritten := range map[BottommostLevelCompaction]bool{BottommostIfHaveCompactionFilter: false, BottommostSkip: false, BottommostForce: true, BottommostForceOptimized: true} {
		s.must(s.db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: policy, ExclusiveManualCompaction: Off}, nil, nil))
		if after := s.names(6); slices.Equal(before, after) == rewritten {
			t.Errorf("policy %d: %v, then %v", policy, before, after)
		}
		before = s.names(6)
	}
	s.must(s.db.CompactRange(ctx, &CompactRangeOptions{ChangeLevel: true, TargetLevel: -1}, nil, nil))
	s.want("the highest level", "0 1")
	s.must(s.db.CompactRange(ctx, &CompactRangeOptions{ChangeLevel: true, TargetLevel: 0}, nil, nil))
	s.want("level 0", "1")
	if err := s.db.CompactRange(ctx, &CompactRangeOptions{ChangeLevel: true, TargetLevel: 7}, nil, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("level 7 of 7: %v", err)
	}
	s.must(s.db.Close())
	s.open()
	s.want("reopened", "1")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.db.CompactRange(canceled, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestFewerLevelsThanThereWere: after all is moved up, the database opens with fewer levels, and
// compactions stay within them.
func TestFewerLevelsThanThereWere(t *testing.T) {
	ctx := context.Background()
	s := newStyleTest(t, &ColumnFamilyOptions{TTL: NoTTL, MaxBytesForLevelBase: 1000, MaxBytesForLevelMultiplier: 2, DisableAutoCompactions: true})
	s.file(0, 10, "a")
	s.must(s.db.CompactRange(ctx, &CompactRangeOptions{ChangeLevel: true, TargetLevel: 1}, nil, nil))
	s.must(s.db.Close())
	s.o.NumLevels, s.o.DisableAutoCompactions = 2, false
	s.open()
	s.settle()
	s.want("with two levels", "0 1")
	for i := range 4 {
		s.file(i, 300, "b")
	}
	s.settle()
	s.must(s.db.CompactRange(ctx, nil, nil, nil))
	s.want("compacted", "0 1")
	s.must(s.db.Close())
	s.open()
}

// TestMoreLevelsThanOptionsSay: the OPTIONS file may be older than the families. What the caller says
// counts; else a family has the levels that its files are in.
func TestMoreLevelsThanOptionsSay(t *testing.T) {
	s := newStyleTest(t, &ColumnFamilyOptions{NumLevels: 9})
	s.file(0, 10, "a")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	s.want("compacted", "0 0 0 0 0 0 0 0 1")
	follower, err := OpenAsSecondary("db", &Options{FS: s.fs, ColumnFamily: &ColumnFamilyOptions{NumLevels: 8}})
	if err == nil || !strings.Contains(err.Error(), "more levels than options.num_levels") {
		t.Fatalf("%v: %v", follower, err)
	}
	names, err := s.fs.List("db")
	s.must(err)
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS") {
			s.must(s.fs.Remove("db/" + name))
		}
	}
	follower, err = OpenAsSecondary("db", &Options{FS: s.fs})
	s.must(err)
	s.must(follower.Close())
	s.must(s.db.Close())
	s.o = nil
	s.open()
	s.want("without options", "0 0 0 0 0 0 0 0 1")
	s.file(0, 10, "b")
	s.must(s.db.CompactRange(context.Background(), nil, nil, nil))
	if s.get("k00001") != "b" || s.db.DefaultColumnFamily().Options().NumLevels != 9 {
		t.Errorf("%q in %d levels", s.get("k00001"), s.db.DefaultColumnFamily().Options().NumLevels)
	}
}

func TestCompactFiles(t *testing.T) {
	ctx := context.Background()
	s := newStyleTest(t, &ColumnFamilyOptions{DisableAutoCompactions: true, TTL: NoTTL, Compression: NoCompression})
	for i := range 4 {
		s.file(i*5, i*5+10, fmt.Sprint(i))
	}
	l0 := s.names(0)
	out, err := s.db.CompactFiles(ctx, nil, l0[1:3], 0)
	s.must(err)
	if len(out) != 1 {
		t.Errorf("outputs %v", out)
	}
	s.want("two files of level 0 in it", "3")
	out, err = s.db.CompactFiles(ctx, &CompactionOptions{OutputFileSizeLimit: 1}, []string{out[0]}, 4)
	s.must(err)
	s.want("one of level 0, and what is older, to level 4", fmt.Sprintf("1 0 0 0 %d", len(out)))
	if len(out) < 15 {
		t.Errorf("%d outputs of a key each, want 15 or more", len(out))
	}
	for _, bad := range []struct {
		files []string
		level int
	}{{nil, 1}, {[]string{"000999.sst"}, 1}, {[]string{"MANIFEST-000001"}, 1}, {out[:1], 3}, {out[:1], 7}, {out[:1], -1}} {
		if _, err := s.db.CompactFiles(ctx, nil, bad.files, bad.level); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("files %v to level %d: %v", bad.files, bad.level, err)
		}
	}
	for i := range 25 {
		if got, want := s.get(fmt.Sprintf("k%05d", i)), fmt.Sprint(min(i/5, 3)); got != want {
			t.Errorf("key %d is %s, want %s", i, got, want)
		}
	}
}

func TestDisableManualCompaction(t *testing.T) {
	ctx := context.Background()
	s := newStyleTest(t, &ColumnFamilyOptions{DisableAutoCompactions: true, TTL: NoTTL})
	s.file(0, 10, "a")
	s.must(s.db.PauseBackgroundWork(ctx)) // a CompactRange waits
	s.db.DisableManualCompaction()
	s.db.DisableManualCompaction()
	s.db.EnableManualCompaction()
	if _, err := s.db.CompactFiles(ctx, nil, s.names(0), 6); !errors.Is(err, ErrPaused) {
		t.Errorf("CompactFiles while disabled: %v", err)
	}
	s.db.EnableManualCompaction()
	outcome := make(chan error)
	go func() { outcome <- s.db.CompactRange(ctx, nil, nil, nil) }()
	s.must(s.db.waitUntil(ctx, func() (bool, error) { return len(s.db.sched.manuals) == 1, nil }))
	s.must(s.db.ContinueBackgroundWork())
	s.db.DisableManualCompaction()
	if err := <-outcome; err != nil && !errors.Is(err, ErrPaused) { // it may have been faster
		t.Errorf("a CompactRange that was disabled: %v", err)
	}
	if len(s.db.sched.manuals) > 0 {
		t.Error("one is still under way")
	}
	s.db.EnableManualCompaction()
	s.must(s.db.CompactRange(ctx, &CompactRangeOptions{MaxSubcompactions: 3}, nil, nil))
	s.want("enabled", "0 0 0 0 0 0 1")
}

func TestWaitForCompact(t *testing.T) {
	ctx := context.Background()
	s := newStyleTest(t, &ColumnFamilyOptions{TTL: NoTTL, Level0FileNumCompactionTrigger: 2})
	s.must(s.db.PauseBackgroundWork(ctx))
	s.must(s.db.Put(nil, []byte("k00001"), nil))
	if err := s.db.WaitForCompact(ctx, &WaitForCompactOptions{AbortOnPause: true}); !errors.Is(err, ErrPaused) {
		t.Errorf("paused: %v", err)
	}
	s.must(s.db.ContinueBackgroundWork())
	s.must(s.db.WaitForCompact(ctx, &WaitForCompactOptions{Flush: true}))
	s.want("flushed", "1")
	s.file(0, 3, "x")
	s.must(s.db.WaitForCompact(ctx, &WaitForCompactOptions{CloseDB: true}))
	if err := s.db.Put(nil, []byte("a"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after CloseDB: %v", err)
	}
	s.open()
	s.want("compacted", "0 0 0 0 0 0 1")
}

func TestCompactionOptionsAreStored(t *testing.T) {
	u := DefaultUniversalOptions()
	u.SizeRatio, u.MinMergeWidth, u.MaxMergeWidth, u.MaxSizeAmplificationPercent, u.CompressionSizePercent = 0, 3, 9, 77, 60
	u.StopStyle, u.AllowTrivialMove, u.Incremental = StopSimilarSize, true, true
	o := &ColumnFamilyOptions{
		CompactionStyle: CompactionStyleUniversal, CompactionPri: OldestSmallestSeqFirst, CompactionOptionsUniversal: u,
		CompactionOptionsFIFO: FIFOOptions{MaxTableFilesSize: 12345, AllowCompaction: true, Ages: []TemperatureAge{{Temperature: TemperatureWarm, Age: 99}}},
		MaxCompactionBytes:    77777, TTL: 1234, PeriodicCompactionSeconds: NoTTL, MaxBytesForLevelMultiplierAdditional: []int{1, 2, 3},
	}
	s := newStyleTest(t, o)
	want := s.db.DefaultColumnFamily().Options()
	s.must(s.db.Close())
	s.o = nil
	s.open()
	got := s.db.DefaultColumnFamily().Options()
	if got.CompactionStyle != want.CompactionStyle || got.CompactionPri != want.CompactionPri || got.CompactionOptionsUniversal != want.CompactionOptionsUniversal ||
		got.CompactionOptionsFIFO.MaxTableFilesSize != 12345 || !got.CompactionOptionsFIFO.AllowCompaction || !slices.Equal(got.CompactionOptionsFIFO.Ages, want.CompactionOptionsFIFO.Ages) ||
		got.MaxCompactionBytes != 77777 || got.TTL != 1234 || got.PeriodicCompactionSeconds != NoTTL || !slices.Equal(got.MaxBytesForLevelMultiplierAdditional, []int{1, 2, 3}) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	var read ColumnFamilyOptions
	s.must(settingNamed(compactionSettings, "compaction_options_fifo").set(&read, optionsfile.Option{Key: "x",
		Value: "{file_temperature_age_thresholds={{temperature=kWarm;age=10;}:{temperature=kCold;age=20;}};max_table_files_size=1M;}"}))
	if f := read.CompactionOptionsFIFO; !slices.Equal(f.Ages, []TemperatureAge{{Temperature: TemperatureWarm, Age: 10}, {Temperature: TemperatureCold, Age: 20}}) || f.MaxTableFilesSize != 1<<20 {
		t.Errorf("read %+v", f)
	}
	s.must(s.db.SetOptions(map[string]string{"ttl": "0", "max_compaction_bytes": "5000", "compaction_options_universal": "{size_ratio=5;}"}))
	if now := s.db.defaultCF.mutable(); now.TTL != NoTTL || now.MaxCompactionBytes != 5000 || now.CompactionOptionsUniversal.SizeRatio != 5 || now.CompactionOptionsUniversal.MinMergeWidth != 3 {
		t.Errorf("after SetOptions: %+v", now)
	}
}

func TestCompactionOptionsThatCannotBe(t *testing.T) {
	for _, o := range []ColumnFamilyOptions{
		{CompactionStyle: 4}, {CompactionPri: 5}, {MaxCompactionBytes: -1}, {TTL: -2}, {PeriodicCompactionSeconds: -2}, {BottommostFileCompactionDelay: -1},
		{CompactionOptionsUniversal: UniversalOptions{MaxMergeWidth: 1}}, {CompactionOptionsUniversal: UniversalOptions{MinMergeWidth: 5, MaxMergeWidth: 4}},
		{MaxBytesForLevelMultiplierAdditional: []int{0}},
		{CompactionOptionsFIFO: FIFOOptions{Ages: []TemperatureAge{{Temperature: 3, Age: 1}}}}, {CompactionOptionsFIFO: FIFOOptions{Ages: []TemperatureAge{{Temperature: 8, Age: 5}, {Temperature: 12, Age: 5}}}},
		{CompactOnDeletion: &CompactOnDeletion{Window: 5}},
	} {
		if db, err := Open("db", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &o}); !errors.Is(err, ErrInvalidArgument) {
			if err == nil {
				db.Close()
			}
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Files that changed level, or were dropped, leave nothing behind.
func TestNoFileIsLeftAfterCompactions(t *testing.T) {
	for seed := range 5 {
		s := newStyleTest(t, styled(ColumnFamilyOptions{TargetFileSizeBase: 8 << 10, MaxBytesForLevelBase: 24 << 10}, seed))
		for i := range 30 {
			s.file(i*10%170, i*10%170+60, fmt.Sprint(i))
		}
		s.settle()
		s.must(s.db.Close())
		s.open()
		m, err := s.db.GetColumnFamilyMetaData()
		s.must(err)
		live := map[uint64]bool{}
		for _, l := range m.Levels {
			for _, f := range l.Files {
				live[f.FileNumber] = true
			}
		}
		entries, err := s.fs.List("db")
		s.must(err)
		for _, name := range entries {
			if kind, n, ok := manifest.ParseName(name); ok && kind == manifest.KindTable && !live[n] {
				t.Errorf("seed %d: %s is left", seed, name)
			}
		}
	}
}

// A queue of events that keeps the last gigabyte, and nothing older than a day.
func ExampleFIFOOptions() {
	db, err := Open("events", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		CompactionStyle:       CompactionStyleFIFO,
		CompactionOptionsFIFO: FIFOOptions{MaxTableFilesSize: 1 << 30},
		TTL:                   24 * 60 * 60,
	}})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	fmt.Println(db.Put(nil, []byte("2026-11-30T22:33:49Z"), []byte("started")))
	// Output: <nil>
}

// Sorted runs that may differ by a fifth, and take at most half as much space again.
func ExampleUniversalOptions() {
	u := DefaultUniversalOptions()
	u.SizeRatio, u.MaxSizeAmplificationPercent = 20, 50
	db, err := Open("writes", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true, ColumnFamily: &ColumnFamilyOptions{
		CompactionStyle: CompactionStyleUniversal, CompactionOptionsUniversal: u,
	}})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	fmt.Println(db.DefaultColumnFamily().Options().CompactionOptionsUniversal.SizeRatio)
	// Output: 20
}

// The files of level 0 are merged into the last level, and nothing else is touched.
func ExampleColumnFamily_CompactFiles() {
	ctx := context.Background()
	db, err := Open("files", &Options{FS: mmapfs.NewMem(), CreateIfMissing: true})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	for _, key := range []string{"a", "b"} {
		if err := db.Put(nil, []byte(key), []byte("1")); err != nil {
			panic(err)
		}
		if err := db.Flush(ctx, nil); err != nil {
			panic(err)
		}
	}
	m, err := db.GetColumnFamilyMetaData()
	if err != nil {
		panic(err)
	}
	var names []string
	for _, f := range m.Levels[0].Files {
		names = append(names, f.Name)
	}
	out, err := db.CompactFiles(ctx, nil, names, 6)
	fmt.Println(len(names), "files into", len(out), err)
	// Output: 2 files into 1 <nil>
}

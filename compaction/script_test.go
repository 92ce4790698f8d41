package compaction_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/iterator/itertest"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/script"
	"github.com/flatrock-db/flatrock/internal/table"
)

// scripted holds what the define commands of a script set up.
type scripted struct {
	t    *testing.T
	runs []itertest.Run
	v    *manifest.Version
	busy *compaction.Running
	info map[uint64]compaction.FileStats
}

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(*script.Command) string {
		s := &scripted{t: t}
		return s.execute
	})
}

func (s *scripted) execute(c *script.Command) string {
	switch c.Name {
	case "define":
		return s.define(c)
	case "run":
		return s.run(c)
	case "version":
		return s.version(c)
	case "pick":
		return s.describe(compaction.Pick(s.input(c)), nil)
	case "full":
		return s.full(c)
	case "files":
		var numbers []uint64
		for _, n := range strings.Split(c.Arg("numbers", ""), ",") {
			numbers = append(numbers, s.number(c, n))
		}
		return s.describe(compaction.PickFiles(s.input(c), numbers, int(s.number(c, c.Arg("to", "1")))))
	case "scores":
		return s.scores(c)
	}
	s.t.Fatalf("%s: unknown command %s", c.Where, c.Name)
	return ""
}

func (s *scripted) number(c *script.Command, text string) uint64 {
	mul := uint64(1)
	for suffix, m := range map[string]uint64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if t, ok := strings.CutSuffix(text, suffix); ok {
			text, mul = t, m
		}
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		s.t.Fatalf("%s: %v", c.Where, err)
	}
	return n * mul
}

// full prints the steps of a manual compaction; each leaves what it merged as one
// file in the output level.
func (s *scripted) full(c *script.Command) string {
	m := &compaction.Manual{ChangeLevel: c.Has("change"), TargetLevel: -1, NextFile: s.number(c, c.Arg("next", "100")), Filter: c.Has("filter")}
	for i, name := range []string{"if-filter", "skip", "force", "optimized"} {
		if c.Has(name) {
			m.Bottommost = compaction.BottommostPolicy(i)
		}
	}
	if v := c.Arg("start", ""); v != "" {
		m.Start = []byte(v)
	}
	if v := c.Arg("end", ""); v != "" {
		m.End = []byte(v)
	}
	if v := c.Arg("to", ""); v != "" {
		m.ChangeLevel, m.TargetLevel = true, int(s.number(c, v))
	}
	before := s.v
	defer func() { s.v = before }()
	var out strings.Builder
	for file := uint64(1000); ; file++ {
		choice, err := m.Next(s.input(c))
		if choice == nil && out.Len() > 0 && err == nil {
			return out.String()
		}
		fmt.Fprintln(&out, s.describe(choice, err))
		if choice == nil {
			return out.String()
		}
		s.apply(choice, file)
		m.Done()
	}
}

// apply puts one file in the place of the inputs of a choice, or moves them.
func (s *scripted) apply(c *compaction.Choice, file uint64) {
	e := &manifest.VersionEdit{DeletedFiles: c.Deletions()}
	if c.Drop {
		// Nothing takes their place.
	} else if c.TrivialMove {
		for _, f := range c.Files() {
			e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: c.OutputLevel, Meta: f})
		}
	} else {
		e.NewFiles = append(e.NewFiles, manifest.NewFile{Level: c.OutputLevel, Meta: &manifest.FileMetadata{Number: file, Size: c.InputBytes(),
			SmallestKey: c.Smallest, LargestKey: c.Largest, SmallestTrailer: keys.Pack(9, keys.KindValue), LargestTrailer: keys.Pack(9, keys.KindValue),
			EpochNumber: manifest.MinEpoch(c.Files()), SmallestSeq: 9, LargestSeq: 9}})
	}
	b := manifest.NewBuilder(s.v)
	err := b.Apply(e)
	if err == nil {
		s.v, err = b.Build()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// define reads a run a line, newest first: entries and [start,end)#seq.
func (s *scripted) define(c *script.Command) string {
	s.runs = nil
	for _, line := range c.Input {
		var r itertest.Run
		for _, w := range strings.Fields(line) {
			if !strings.HasPrefix(w, "[") {
				r.Entries = append(r.Entries, itertest.ParseEntry(w))
				continue
			}
			bounds, seq, _ := strings.Cut(w[1:], ")#")
			start, end, _ := strings.Cut(bounds, ",")
			r.Tombstones = append(r.Tombstones, table.Tombstone{Start: []byte(start), End: []byte(end), Seq: s.number(c, seq)})
		}
		s.runs = append(s.runs, r)
	}
	return ""
}

// run merges the defined runs and prints the outputs. Its input lines list the
// keys of deeper runs.
func (s *scripted) run(c *script.Command) string {
	var order keys.Order
	tables := newFakeTables(order)
	job := &compaction.Job{Order: order, Bottommost: c.Has("bottommost"), KeepSeq: c.Has("keep-seq"), NewOutput: tables.newOutput,
		TargetFileSize: int64(s.number(c, c.Arg("target", "0"))), MaxFileSize: int64(s.number(c, c.Arg("max", "0")))}
	if v := c.Arg("aged", ""); v != "" { // a..b,c..d
		for _, r := range strings.Split(v, ",") {
			lo, hi, _ := strings.Cut(r, "..")
			job.Aged = append(job.Aged, &manifest.FileMetadata{SmallestKey: []byte(lo), LargestKey: []byte(hi)})
		}
	}
	if v := c.Arg("lower", ""); v != "" {
		job.Lower = []byte(v)
	}
	if v := c.Arg("upper", ""); v != "" {
		job.Upper = []byte(v)
	}
	if v := c.Arg("snapshots", ""); v != "" {
		for _, n := range strings.Split(v, ",") {
			job.Snapshots = append(job.Snapshots, s.number(c, n))
		}
	}
	if !c.Has("no-operator") {
		job.Operator = merge.StringAppend(",")
	}
	if len(c.Input) > 0 {
		var deeper itertest.Run
		for _, k := range strings.Fields(strings.Join(c.Input, " ")) {
			deeper.Entries = append(deeper.Entries, itertest.Entry{Key: []byte(k)})
		}
		job.Beyond = deeperRuns{order, []itertest.Run{deeper}}
	}
	for i, r := range s.runs {
		job.Sources = append(job.Sources, source(order, fmt.Sprintf("%06d.sst", 10+i), r))
		job.Tombstones = append(job.Tombstones, r.Tombstones...)
	}
	res, err := compaction.Run(context.Background(), job)
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	var out strings.Builder
	for _, f := range res.Files {
		w := tables.files[f.Number]
		for _, e := range w.entries {
			fmt.Fprintf(&out, "%v ", e)
		}
		if len(w.tombstones) > 0 {
			fmt.Fprintf(&out, "%s ", tombstonesText(w.tombstones))
		}
		fmt.Fprintf(&out, "(%s)\n", boundsOf(f))
	}
	if len(res.Files) == 0 {
		out.WriteString("nothing left\n")
	}
	if c.Has("stats") {
		fmt.Fprintf(&out, "%+v\n", res.Stats)
	}
	return out.String()
}

func boundsOf(f *manifest.FileMetadata) string {
	end := "]"
	if f.LargestIsExclusive() {
		end = ")"
	}
	return fmt.Sprintf("[%s..%s%s", f.SmallestKey, f.LargestKey, end)
}

// version reads a level a line: "L1 4[a..c]10M 5[d..f)10M! ..." with ! for busy
// files. An end of ) makes the largest key the end of a range tombstone. What
// follows colons are properties: "4[a..c]10M:seq=3-9:marked".
func (s *scripted) version(c *script.Command) string {
	v := manifest.NewVersion(keys.Order{}, int(s.number(c, c.Arg("levels", "7"))))
	b := manifest.NewBuilder(v)
	busy := map[int][]*manifest.FileMetadata{}
	s.info = map[uint64]compaction.FileStats{}
	for _, line := range c.Input {
		w := strings.Fields(line)
		level := int(s.number(c, w[0][1:]))
		for i, word := range w[1:] {
			f, isBusy := s.file(c, word)
			f.EpochNumber = uint64(100 - i)
			if isBusy {
				busy[level] = append(busy[level], f)
			}
			if err := b.Apply(&manifest.VersionEdit{NewFiles: []manifest.NewFile{{Level: level, Meta: f}}}); err != nil {
				s.t.Fatalf("%s: %v", c.Where, err)
			}
		}
	}
	built, err := b.Build()
	if err != nil {
		s.t.Fatalf("%s: %v", c.Where, err)
	}
	s.v, s.busy = built, new(compaction.Running)
	for level, files := range busy {
		s.busy.Add(&compaction.Choice{Inputs: []compaction.LevelInputs{{Level: level, Files: files}}, OutputLevel: level,
			Smallest: files[0].SmallestKey, Largest: files[len(files)-1].LargestKey})
	}
	return ""
}

func (s *scripted) file(c *script.Command, word string) (f *manifest.FileMetadata, isBusy bool) {
	word, isBusy = strings.CutSuffix(word, "!")
	word, properties, _ := strings.Cut(word, ":")
	num, rest, _ := strings.Cut(word, "[")
	exclusive := strings.Contains(rest, ")")
	bounds, size, _ := strings.Cut(strings.Replace(rest, ")", "]", 1), "]")
	small, large, _ := strings.Cut(bounds, "..")
	f = &manifest.FileMetadata{Number: s.number(c, num), Size: s.number(c, size), SmallestKey: []byte(small), LargestKey: []byte(large),
		SmallestTrailer: keys.Pack(9, keys.KindValue), LargestTrailer: keys.Pack(9, keys.KindValue), SmallestSeq: 9, LargestSeq: 9}
	if exclusive {
		f.LargestTrailer = keys.Pack(keys.MaxSeq, keys.KindRangeDelete)
	}
	info := compaction.FileStats{RawKeySize: f.Size / 2, RawValueSize: f.Size / 2}
	for p := range strings.SplitSeq(properties, ":") {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "seq":
			from, to, _ := strings.Cut(value, "-")
			f.SmallestSeq, f.LargestSeq = s.number(c, from), s.number(c, to)
		case "marked":
			f.MarkedForCompaction = true
		case "old": // the oldest data
			f.OldestAncestorTime = s.number(c, value)
			info.CreationTime = f.OldestAncestorTime
		case "made":
			f.FileCreationTime = s.number(c, value)
		case "prop-old": // only the properties know
			info.CreationTime = s.number(c, value)
		case "prop-made":
			info.FileCreationTime = s.number(c, value)
		case "mtime":
			info.ModTime = s.number(c, value)
		case "entries":
			info.Entries = s.number(c, value)
		case "deletes":
			info.Deletions = s.number(c, value)
		case "":
		default:
			s.t.Fatalf("%s: unknown property %s", c.Where, p)
		}
	}
	s.info[f.Number] = info
	return f, isBusy
}

func (s *scripted) input(c *script.Command) *compaction.Input {
	in := &compaction.Input{Version: s.v, Options: s.options(c), Running: s.busy, Now: s.number(c, c.Arg("now", "0")),
		Stats: func(f *manifest.FileMetadata) compaction.FileStats { return s.info[f.Number] }}
	if v := c.Arg("cursor", ""); v != "" { // level:key
		level, key, _ := strings.Cut(v, ":")
		in.Cursors = map[int][]byte{int(s.number(c, level)): append([]byte(key), 1, 9, 0, 0, 0, 0, 0, 0)}
	}
	if v := c.Arg("released", ""); v != "" { // snapshot:files
		snapshot, files, _ := strings.Cut(v, ":")
		in.Released = compaction.Released{Snapshot: s.number(c, snapshot), Files: s.number(c, files)}
	}
	return in
}

func (s *scripted) options(c *script.Command) *compaction.Options {
	o := compaction.DefaultOptions()
	number := func(name, fallback string) uint64 { return s.number(c, c.Arg(name, fallback)) }
	choose := func(name string, names ...string) int {
		v := c.Arg(name, names[0])
		i := slices.Index(names, v)
		if i < 0 {
			s.t.Fatalf("%s: %s=%s: want one of %v", c.Where, name, v, names)
		}
		return i
	}
	o.DynamicLevelBytes = c.Has("dynamic")
	o.MaxBytesForLevelBase = number("base", "100M")
	o.L0Trigger = int(number("trigger", "4"))
	o.TargetFileSizeBase = number("target", "10M")
	o.MaxCompactionBytes = number("max-compaction", "0")
	o.Style = compaction.Style(choose("style", "leveled", "universal", "fifo", "none"))
	o.Priority = compaction.Priority(choose("pri", "min-overlap", "size", "oldest-largest", "oldest-smallest", "round-robin"))
	o.TTL, o.PeriodicSeconds = number("ttl", "0"), number("periodic", "0")
	o.L0StopTrigger, o.WriteBufferSize = int(number("stop", "36")), number("memtable", "64M")
	o.MaxL0Output = number("max-l0", "0")
	o.MoveOne = c.Has("move-one")
	u := &o.Universal
	u.SizeRatio, u.MinMergeWidth = int(number("ratio", "1")), int(number("min-width", "2"))
	u.MaxMergeWidth, u.MaxSizeAmplificationPercent = int(number("max-width", "1000")), int(number("amp", "200"))
	u.StopStyle = compaction.StopStyle(choose("stop-style", "total", "similar"))
	u.AllowTrivialMove, u.Incremental = c.Has("move"), c.Has("incremental")
	if v := c.Arg("compress", ""); v != "" {
		u.CompressionSizePercent = int(s.number(c, v))
	}
	if v := c.Arg("read-amp", ""); v != "" {
		u.MaxReadAmp = int(s.number(c, v))
	}
	o.FIFO = compaction.FIFOOptions{MaxTableFilesSize: number("fifo-max", "100M"), AllowCompaction: c.Has("merge")}
	if v := c.Arg("warm-after", ""); v != "" {
		o.FIFO.Ages = append(o.FIFO.Ages, compaction.TemperatureAge{Temperature: 8, Age: s.number(c, v)})
	}
	if v := c.Arg("cold-after", ""); v != "" {
		o.FIFO.Ages = append(o.FIFO.Ages, compaction.TemperatureAge{Temperature: 12, Age: s.number(c, v)})
	}
	return &o
}

func (s *scripted) scores(c *script.Command) string {
	in := s.input(c)
	o := in.Options
	shape := compaction.Shape(s.v, o)
	var out strings.Builder
	fmt.Fprintf(&out, "base L%d", shape.BaseLevel)
	for level, n := range shape.MaxBytes {
		if n < 1<<62 {
			fmt.Fprintf(&out, " L%d<=%.1fM", level, float64(n)/(1<<20))
		}
	}
	out.WriteString("\n")
	for _, sc := range compaction.Scores(in, shape) {
		if sc.Score > 0 {
			fmt.Fprintf(&out, "L%d %.2f\n", sc.Level, sc.Score)
		}
	}
	if n := compaction.DelayRuns(s.v, o); n != len(s.v.Levels[0]) {
		fmt.Fprintf(&out, "runs %d\n", n)
	}
	fmt.Fprintf(&out, "pending %.1fM\n", float64(compaction.PendingBytes(s.v, o, shape))/(1<<20))
	return out.String()
}

func (s *scripted) describe(c *compaction.Choice, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	if c == nil {
		return "nothing to do"
	}
	var out strings.Builder
	numbers := func(files []*manifest.FileMetadata) string {
		var n []string
		for _, f := range files {
			n = append(n, fmt.Sprint(f.Number))
		}
		slices.Sort(n)
		return strings.Join(n, ",")
	}
	for _, in := range c.Inputs {
		fmt.Fprintf(&out, "L%d:%s ", in.Level, numbers(in.Files))
	}
	fmt.Fprintf(&out, "-> L%d %s [%s..%s]", c.OutputLevel, c.Reason, c.Smallest, c.Largest)
	if c.TrivialMove {
		out.WriteString(" move")
	}
	if c.Drop {
		return strings.Replace(out.String(), "-> L-1", "-> dropped", 1)
	}
	if c.SplitKey != nil {
		fmt.Fprintf(&out, " split=%s", c.SplitKey)
	}
	if c.Cursor != nil {
		fmt.Fprintf(&out, " cursor=%s", c.Cursor.Key[:len(c.Cursor.Key)-8])
	}
	if c.Uncompressed {
		out.WriteString(" uncompressed")
	}
	if c.Temperature != 0 {
		fmt.Fprintf(&out, " temperature=%d", c.Temperature)
	}
	if c.Bottommost {
		out.WriteString(" bottommost")
	}
	if len(c.Grandparents) > 0 {
		fmt.Fprintf(&out, " grandparents=%s", numbers(c.Grandparents))
	}
	if c.Splits() && c.Inputs[0].Level > 0 && c.Reason != compaction.ReasonManual {
		out.WriteString(" splits")
	}
	if len(c.Aged) > 0 {
		fmt.Fprintf(&out, " aged=%s", numbers(c.Aged))
	}
	if c.CompressionLevel != c.OutputLevel && !c.TrivialMove {
		fmt.Fprintf(&out, " compression-level=%d", c.CompressionLevel)
	}
	fmt.Fprintf(&out, " target=%dM", c.TargetFileSize>>20)
	return out.String()
}

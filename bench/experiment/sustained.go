package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/flatrock-db/flatrock/bench/report"
)

// Sustained load, which is no published experiment: fillrandom and overwrite of 20 million entries
// with E1's level options, of 20+100 bytes in plain tables and of 16+400 bytes in
// block-based ones. Both engines say once a second how their levels look; at the end, when
// nothing is left to compact, it is counted what they wrote and what they hold.

const (
	sustainedKeys = 20_000_000
	sustainedStop = 24 // files in level 0, where writers are held
)

// sustainedLevels are E1's options of levels and memtables. RocksDB took level sizes from the top
// at the time, as --level_compaction_dynamic_level_bytes=0 still tells it to.
const sustainedLevels = `--num_levels=6 --write_buffer_size=134217728 --max_write_buffer_number=2
	--level0_file_num_compaction_trigger=8 --target_file_size_base=134217728 --max_bytes_for_level_base=1073741824
	--level_compaction_dynamic_level_bytes=0 --compression_type=none --max_background_compactions=4
	--level0_slowdown_writes_trigger=16 --level0_stop_writes_trigger=24 --disable_wal=0 --sync=0 --open_files=-1
	--bloom_bits=10 --threads=1 --stats_per_interval=1 --stats_interval_seconds=1 `

// sustainedLayouts are what is written.
var sustainedLayouts = [...]struct {
	name, flags string
	rocks       []string
	entry       int64
}{
	{"20+100 bytes, plain tables", "--key_size=20 --value_size=100 --prefix_size=20 --use_plain_table=1 --mmap_read=1 --memtablerep=prefix_hash --bloom_locality=1",
		[]string{"--allow_concurrent_memtable_write=0"}, 120},
	{"16+400 bytes, block-based tables", "--key_size=16 --value_size=400", nil, 416},
}

// sustainedSample is what a load came to.
type sustainedSample struct {
	fill, overwrite float64 // operations a second
	written         float64 // bytes of files written for each that was flushed
	bytes           float64 // of table files, when nothing is left to compact
	space           float64 // those for each byte of live entries
	level0          float64 // most files that level 0 had
	stalled         float64 // seconds
}

func runSustained(l *lab) error {
	engines := l.engines()
	samples := make([][]sustainedSample, len(sustainedLayouts)*len(engines))
	err := l.turns(len(samples), func(i int) error {
		s, err := l.sustain(engines[i%len(engines)], i/len(engines))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", engines[i%len(engines)].name, sustainedLayouts[i/len(engines)].name, err)
		}
		samples[i] = append(samples[i], s)
		for _, x := range []struct {
			workload, metric string
			v                float64
		}{{"fillrandom", "throughput", s.fill}, {"overwrite", "throughput", s.overwrite}, {"fillrandom, overwrite", "write amplification", s.written}, {"fillrandom, overwrite", "size", s.bytes}} {
			l.add(engines[i%len(engines)].rocks, sustainedLayouts[i/len(engines)].name, "sustained "+x.workload,
				"random writes with E1's level options until nothing is left to compact; bytes of table files for each that was flushed", x.metric, 1, x.v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.printSustained(engines, samples)
	return nil
}

// sustain fills a database, counts what is in it, and removes it.
func (l *lab) sustain(e engine, layout int) (s sustainedSample, err error) {
	at := sustainedLayouts[layout]
	num := fmt.Sprintf("--num=%d", l.num)
	line := sustainedLevels + at.flags
	lines, err := l.run(e, line, at.rocks, "--benchmarks=fillrandom,overwrite,flush,waitforcompaction,stats", num)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(l.databaseOf(e))) }()
	for _, part := range []struct {
		name string
		ops  *float64
	}{{"fillrandom", &s.fill}, {"overwrite", &s.overwrite}} {
		r, err := lines.Last(part.name)
		if err != nil {
			return s, err
		}
		if *part.ops = r.OpsPerSecond; r.Operations != l.num {
			return s, fmt.Errorf("%s wrote %d entries, expected %d", part.name, r.Operations, l.num)
		}
	}
	if err := s.readStats(lines); err != nil {
		return s, err
	}
	if s.level0 > sustainedStop {
		return s, fmt.Errorf("level 0 had %.0f files, though writers are held at %d", s.level0, sustainedStop)
	}
	if s.bytes, err = tableBytes(l.databaseOf(e)); err != nil {
		return s, err
	}
	lines, err = l.run(e, line, at.rocks, "--benchmarks=readseq", "--use_existing_db=1", "--readonly=1", "--stats_interval_seconds=0", "--stats_per_interval=0", num)
	if err != nil {
		return s, err
	}
	r, err := lines.Last("readseq")
	if err != nil {
		return s, err
	}
	if r.Operations > l.num || r.Operations < l.num/2 {
		return s, fmt.Errorf("%d keys are there after 2 × %d random writes among as many", r.Operations, l.num)
	}
	s.space = s.bytes / float64(r.Operations*at.entry)
	return s, nil
}

// What the lines of rocksdb.stats say.
var (
	statsLevel0  = regexp.MustCompile(`^\s*L0\s+(\d+)/`)
	statsFlushed = regexp.MustCompile(`^Flush\(GB\): cumulative ([\d.]+)`)
	statsWritten = regexp.MustCompile(`^Cumulative compaction: ([\d.]+) GB write`)
	statsStalled = regexp.MustCompile(`^Cumulative stall: (\d+):(\d+):([\d.]+) H:M:S`)
)

// readStats takes the largest level 0, and the last of the rest.
func (s *sustainedSample) readStats(lines []string) error {
	var flushed, written float64
	levels, stalls := 0, 0
	for _, line := range lines {
		number := func(m []string, i int) float64 {
			v, _ := strconv.ParseFloat(m[i], 64) // the expressions take digits only
			return v
		}
		if m := statsLevel0.FindStringSubmatch(line); m != nil {
			s.level0 = max(s.level0, number(m, 1))
			levels++
		} else if m := statsFlushed.FindStringSubmatch(line); m != nil {
			flushed = number(m, 1)
		} else if m := statsWritten.FindStringSubmatch(line); m != nil {
			written = number(m, 1)
		} else if m := statsStalled.FindStringSubmatch(line); m != nil {
			s.stalled = 3600*number(m, 1) + 60*number(m, 2) + number(m, 3)
			stalls++
		}
	}
	if levels == 0 || stalls == 0 || flushed == 0 || written == 0 {
		return fmt.Errorf("expected statistics with levels, flushed and written bytes and stalls, got:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	s.written = written / flushed
	return nil
}

// tableBytes is how large all table files of a directory are.
func tableBytes(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sst" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	return sum, err
}

func (l *lab) printSustained(engines []engine, samples [][]sustainedSample) {
	fmt.Fprintf(l.out, "Sustained load: fillrandom, then overwrite of %d entries by one thread with E1's level options, not compressed, WAL on; medians of %d runs\n", l.num, l.rounds)
	for layout, at := range sustainedLayouts {
		fmt.Fprintf(l.out, "\n%s\n%-18s %12s %12s %10s %10s %8s %10s\n", at.name, "", "fillrandom", "overwrite", "write amp", "space amp", "max L0", "stalled s")
		value := func(e int, f func(*sustainedSample) float64) float64 {
			var v []float64
			for i := range samples[layout*len(engines)+e] {
				v = append(v, f(&samples[layout*len(engines)+e][i]))
			}
			return report.Median(v)
		}
		columns := []func(*sustainedSample) float64{
			func(s *sustainedSample) float64 { return s.fill }, func(s *sustainedSample) float64 { return s.overwrite },
			func(s *sustainedSample) float64 { return s.written }, func(s *sustainedSample) float64 { return s.space },
			func(s *sustainedSample) float64 { return s.level0 }, func(s *sustainedSample) float64 { return s.stalled },
		}
		for e := len(engines) - 1; e >= 0; e-- {
			fmt.Fprintf(l.out, "%-18s %12.0f %12.0f %10.2f %10.3f %8.0f %10.3f\n", engines[e].name, value(e, columns[0]), value(e, columns[1]),
				value(e, columns[2]), value(e, columns[3]), value(e, columns[4]), value(e, columns[5]))
		}
		if len(engines) > 1 {
			fmt.Fprintf(l.out, "%-18s", "Flatrock/RocksDB")
			for c, width := range []int{12, 12, 10, 10} {
				fmt.Fprintf(l.out, " %*s", width, ratio(value(0, columns[c]), value(1, columns[c])))
			}
			fmt.Fprintln(l.out)
		}
	}
	fmt.Fprintf(l.out, "\nWrite amplification is bytes of table files written for each byte flushed, space amplification bytes of table files for each of live\nentries when nothing is left to compact. Level 0 is looked at once a second; writers are held at %d files.\nAim: twice RocksDB's writes, write amplification within 10 %% of its, space amplification at most its.\n", sustainedStop)
}

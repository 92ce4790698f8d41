package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// compactBody rewrites files of the deepest level too, as db_bench's compact does.
func compactBody(t *thread) error {
	if err := t.cf.CompactRange(t.ctx, &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil); err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}

func (b *bench) compactAll() error { return b.cf.CompactRange(b.ctx, nil, nil, nil) }

func (b *bench) compact0() error { return b.compactLevel(0) }
func (b *bench) compact1() error { return b.compactLevel(1) }

// compactLevel merges a level into the next one that has files. Level 1 stands for
// the first below level 0 that has files.
func (b *bench) compactLevel(asked int) error {
	for {
		m, err := b.cf.GetColumnFamilyMetaData()
		if err != nil {
			return err
		}
		next := func(level int) int {
			for level < len(m.Levels) && len(m.Levels[level].Files) == 0 {
				level++
			}
			return level
		}
		from := asked
		if asked > 0 {
			from = next(1)
		}
		var names []string
		if from < len(m.Levels) {
			for _, f := range m.Levels[from].Files {
				names = append(names, f.Name)
			}
		}
		if len(names) == 0 {
			fmt.Fprintf(b.out, "compact%d found 0 files to compact\n", asked)
			return nil
		}
		to := next(from + 1)
		if to == len(m.Levels) {
			fmt.Fprintf(b.out, "compact%d found no data beyond L%d\n", asked, from)
			return nil
		}
		fmt.Fprintf(b.out, "compact%d found %d files to compact from L%d to L%d\n", asked, len(names), from, to)
		o := &flatrock.CompactionOptions{OutputFileSizeLimit: b.c.targetFileSizeBase}
		_, err = b.cf.CompactFiles(b.ctx, o, names, to)
		if err == nil || b.ctx.Err() != nil || !errors.Is(err, flatrock.ErrBusy) && !errors.Is(err, flatrock.ErrInvalidArgument) {
			return err
		}
		// Other compactions have the files, or had them first.
		fmt.Fprintf(b.out, "compact%d CompactFiles failed: %v\n", asked, err)
		if err := b.waitForCompaction(); err != nil {
			return err
		}
	}
}

func (b *bench) waitForCompaction() error {
	fmt.Fprintf(b.out, "waitforcompaction(%s): started\n", b.dir)
	if err := b.db.WaitForCompact(b.ctx, nil); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "waitforcompaction(%s): finished\n", b.dir)
	return nil
}

func (b *bench) flush() error {
	if err := b.cf.Flush(b.ctx, nil); err != nil {
		return err
	}
	fmt.Fprintln(b.out, "flush memtable")
	return nil
}

func (b *bench) family() flatrock.FamilyMetrics {
	return b.db.Metrics().Families[flatrock.DefaultColumnFamilyName]
}

func (b *bench) resetStats() error {
	b.base, b.baseAt = b.db.Metrics(), time.Now()
	return nil
}

// printLevels writes db_bench's table of levelstats.
func (b *bench) printLevels() error {
	var s strings.Builder
	s.WriteString("\nLevel Files Size(MB)\n--------------------\n")
	for l, level := range b.family().Levels {
		fmt.Fprintf(&s, "%3d %8d %8.0f\n", l, level.Files, mb(level.Bytes))
	}
	fmt.Fprintln(b.out, s.String())
	return nil
}

func (b *bench) printMemtables() error {
	f := b.family()
	fmt.Fprintf(b.out, "rocksdb.num-immutable-mem-table: %d\nrocksdb.cur-size-all-mem-tables: %d\nrocksdb.num-entries-all-mem-tables: %d\n",
		max(f.MemTables-1, 0), f.MemTableBytes, f.MemTableCount)
	return nil
}

func (b *bench) printStats() error {
	b.writeStats(b.out)
	return nil
}

// writeStats says what the database did since it was opened or resetStats.
func (b *bench) writeStats(w io.Writer) {
	m, base := b.db.Metrics(), b.base
	var s strings.Builder
	seconds := time.Since(b.baseAt).Seconds()
	s.WriteString("\n** DB Stats **\n")
	fmt.Fprintf(&s, "Uptime(secs): %.1f\n", seconds)
	rate := func(n int64) string {
		return fmt.Sprintf("%.3f GB, %.2f MB/s", float64(n)/(1<<30), perSecond(mb(n), seconds))
	}
	fmt.Fprintf(&s, "Writes: %d keys, WAL: %s\n", m.Writes-base.Writes, rate(m.WALBytes-base.WALBytes))
	fmt.Fprintf(&s, "Flushes: %d, written: %s\n", m.Flushes-base.Flushes, rate(m.FlushedBytes-base.FlushedBytes))
	fmt.Fprintf(&s, "Compactions: %d, read: %s, written: %s\n", m.Compactions-base.Compactions,
		rate(m.CompactedIn-base.CompactedIn), rate(m.CompactedOut-base.CompactedOut))
	s.WriteString("Stalls:")
	for _, cause := range slices.Sorted(maps.Keys(m.Stalls)) {
		fmt.Fprintf(&s, " %s %d times %.3f s", cause, m.Stalls[cause]-base.Stalls[cause], (m.StallTime[cause] - base.StallTime[cause]).Seconds())
	}
	s.WriteString("\n")
	for _, name := range slices.Sorted(maps.Keys(m.Families)) {
		f := m.Families[name]
		fmt.Fprintf(&s, "\n** Level Stats [%s] **\nLevel    Files   Size(MB)\n------------------------\n", name)
		for l, level := range f.Levels {
			if level.Files > 0 {
				fmt.Fprintf(&s, "  L%-3d %7d %10.2f\n", l, level.Files, mb(level.Bytes))
			}
		}
		fmt.Fprintf(&s, "Memtables: %d, %.2f MB, %d entries; table memory: %.2f MB; estimated keys: %d\n",
			f.MemTables, mb(f.MemTableBytes), f.MemTableCount, mb(f.TableMemory), f.EstimatedCount)
	}
	fmt.Fprintf(&s, "Off the Go heap: %s\n", describeOffHeap(m.OffHeap))
	fmt.Fprintln(w, s.String())
}

// printHeap measures what the collector has to do with.
func (b *bench) printHeap() error {
	now := readGC()
	share := now.since(b.gc)
	heap := readHeap()
	fmt.Fprintf(b.out, "heap         : Go heap %.1f MB (%.1f MB from the system); off the heap %s; RSS %.1f MB; GC %s\n",
		mb(int64(heap.live)), mb(int64(heap.system)), describeOffHeap(b.db.Metrics().OffHeap), mb(residentSize()), share)
	b.gc = readGC()
	return nil
}

// printStatistics writes the counters that we share with RocksDB, under its names,
// and the latencies that --histogram measured.
func (b *bench) printStatistics() {
	m := b.db.Metrics()
	stall := time.Duration(0)
	for _, d := range m.StallTime {
		stall += d
	}
	fmt.Fprintln(b.out, "STATISTICS:")
	for _, counter := range []struct {
		name string
		n    int64
	}{
		{"rocksdb.number.keys.written", m.Writes},
		{"rocksdb.wal.bytes", m.WALBytes},
		{"rocksdb.stall.micros", stall.Microseconds()},
		{"rocksdb.compact.read.bytes", m.CompactedIn},
		{"rocksdb.compact.write.bytes", m.CompactedOut},
		{"rocksdb.flush.write.bytes", m.FlushedBytes},
	} {
		fmt.Fprintf(b.out, "%s COUNT : %d\n", counter.name, counter.n)
	}
	for _, h := range []struct {
		name string
		kind opKind
	}{{"rocksdb.db.get.micros", opRead}, {"rocksdb.db.write.micros", opWrite}, {"rocksdb.db.seek.micros", opSeek}} {
		if t := &b.totals[h.kind]; t.count > 0 {
			fmt.Fprintf(b.out, "%s P50 : %.6f P95 : %.6f P99 : %.6f P100 : %.6f COUNT : %d SUM : %d\n", h.name,
				t.percentile(50), t.percentile(95), t.percentile(99), float64(t.top)/1e3, t.count, t.sum/1000)
		}
	}
}

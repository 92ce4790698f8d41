package main

import (
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

// compact0 moves level 0 into the levels below. The database has no compaction of
// single levels for callers, so it is a whole one, if there is anything to do.
func (b *bench) compact0() error {
	files := 0
	if levels := b.family().Levels; len(levels) > 0 {
		files = levels[0].Files
	}
	fmt.Fprintf(b.out, "compact0 found %d files to compact\n", files)
	if files == 0 {
		return nil
	}
	return b.compactAll()
}

// waitForCompaction waits until flushes and compactions have come to rest: none
// finished for a while, and no level 0 or memtable waits for one.
func (b *bench) waitForCompaction() error {
	const look, rest = 20 * time.Millisecond, 500 * time.Millisecond
	fmt.Fprintf(b.out, "waitforcompaction(%s): started\n", b.dir)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	last, since := b.db.Metrics(), time.Now()
	for {
		select {
		case <-ticker.C:
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
		m := b.db.Metrics()
		f := m.Families[flatrock.DefaultColumnFamilyName]
		waiting := f.MemTables > 1 ||
			(!b.c.disableAutoCompactions && len(f.Levels) > 0 && f.Levels[0].Files >= int(b.c.level0Compaction))
		if waiting || m.Compactions != last.Compactions || m.Flushes != last.Flushes {
			last, since = m, time.Now()
		} else if time.Since(since) >= rest {
			break
		}
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

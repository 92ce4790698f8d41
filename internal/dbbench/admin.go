package dbbench

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
)

// compactBody rewrites files of the deepest level too, as db_bench's compact does.
func compactBody(t *thread) error {
	err := t.each(func(cf *flatrock.ColumnFamily) error {
		return cf.CompactRange(t.ctx, &flatrock.CompactRangeOptions{BottommostLevelCompaction: flatrock.BottommostForce}, nil, nil)
	})
	if err != nil {
		return err
	}
	t.stats.finished(1, opOther)
	return nil
}

func (b *bench) compactAll() error {
	return b.each(func(cf *flatrock.ColumnFamily) error { return cf.CompactRange(b.ctx, nil, nil, nil) })
}

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
	if err := b.each(func(cf *flatrock.ColumnFamily) error { return cf.Flush(b.ctx, nil) }); err != nil {
		return err
	}
	fmt.Fprintln(b.out, "flush memtable")
	return nil
}

func (b *bench) family() flatrock.FamilyMetrics {
	return b.db.Metrics().Families[flatrock.DefaultColumnFamilyName]
}

func (b *bench) resetStats() error {
	b.db.ResetStats()
	return nil
}

func (b *bench) printLevels() error   { return b.printProperty("rocksdb.levelstats") }
func (b *bench) printSSTables() error { return b.printProperty("rocksdb.sstables") }

// printProperty writes a property as db_bench does.
func (b *bench) printProperty(name string) error {
	text, ok := b.cf.GetProperty(name)
	if !ok {
		text = "(failed)"
	}
	fmt.Fprintf(b.out, "\n%s\n", text)
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

// writeStats says what the database did since it was opened or resetStats: RocksDB's
// text, and what there is of memory.
func (b *bench) writeStats(w io.Writer) {
	text, ok := b.cf.GetProperty("rocksdb.stats")
	if !ok {
		text = "(failed)"
	}
	m := b.db.Metrics()
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.Families)) {
		f := m.Families[name]
		fmt.Fprintf(&s, "Memtables [%s]: %d, %.2f MB, %d entries; table memory: %.2f MB; estimated keys: %d\n",
			name, f.MemTables, mb(f.MemTableBytes), f.MemTableCount, mb(f.TableMemory), f.EstimatedCount)
	}
	fmt.Fprintf(&s, "Off the Go heap: %s\n", describeOffHeap(m.OffHeap))
	fmt.Fprintf(w, "\n%s\n%s\n", text, s.String())
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

// mergedPerf adds the perf contexts of the threads up, nil without --perf_level.
func mergedPerf(threads []*thread) (sum *flatrock.PerfContext) {
	for _, t := range threads {
		if t.perf != nil {
			if sum == nil {
				sum = new(flatrock.PerfContext)
			}
			sum.Merge(t.perf)
		}
	}
	return sum
}

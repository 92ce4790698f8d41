package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flatrock-db/flatrock/bench/program"
)

// engine is a program that runs the published command lines on a database of its own.
type engine struct {
	name, path string
	rocks      bool
}

// engines are Flatrock and, unless it is left out, RocksDB.
func (l *lab) engines() []engine {
	all := []engine{{"Flatrock", l.bench, false}}
	if l.dbBench != "" {
		all = append(all, engine{"RocksDB (Debian)", l.dbBench, true})
	}
	return all
}

// databaseOf is the directory of an engine's database.
func (l *lab) databaseOf(e engine) string {
	return filepath.Join(l.dir, map[bool]string{false: "flatrock", true: "rocksdb"}[e.rocks])
}

// removed are flags of the published command lines that RocksDB has no more. Its db_bench
// takes them where gflags is told so.
const removed = "--undefok=disable_data_sync,hard_rate_limit,max_grandparent_overlap_factor,numa_aware,rate_limit,readahead,source_compaction_factor,writes_per_second"

// run runs a command line on the engine's database: line as it was published, then more.
// rocks are flags that RocksDB alone needs.
func (l *lab) run(e engine, line string, rocks []string, more ...string) (program.Lines, error) {
	return l.runOn(e, l.databaseOf(e), line, rocks, more...)
}

// runOn runs it on another database.
func (l *lab) runOn(e engine, dir, line string, rocks []string, more ...string) (program.Lines, error) {
	args := append(strings.Fields(line), "--db="+dir)
	args = append(args, more...)
	if e.rocks {
		args = append(append(args, removed), rocks...)
	}
	fmt.Fprintf(l.log, "%s: %s\n", e.name, strings.Join(args, " "))
	o, err := program.Run(l.ctx, e.path, args...)
	if err != nil {
		return nil, err
	}
	return o.Lines, nil
}

// measure runs a command line and finds the line of a benchmark.
func (l *lab) measure(e engine, benchmark, line string, rocks []string, more ...string) (program.Result, program.Lines, error) {
	lines, err := l.run(e, line, rocks, more...)
	if err != nil {
		return program.Result{}, nil, err
	}
	r, err := lines.Last(benchmark)
	if err != nil {
		err = fmt.Errorf("%s: %w", e.name, err)
	}
	return r, lines, err
}

// turns calls f for each of n in turn, backwards in every second round, so that what warms
// up or slows down with time hits all.
func (l *lab) turns(n int, f func(i int) error) error {
	for round := range l.rounds {
		fmt.Fprintf(l.log, "round %d of %d\n", round+1, l.rounds)
		for i := range n {
			if round%2 == 1 {
				i = n - 1 - i
			}
			if err := f(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// ratio is "-" where there is nothing to divide by.
func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", a/b)
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/bench/program"
	"github.com/flatrock-db/flatrock/bench/report"
)

// comparison is a run under way. What it measures goes into a report, from which the tables are
// printed, and which -json and -html write.
type comparison struct {
	settings
	ctx    context.Context
	dir    string
	log    io.Writer
	report *report.Report
}

// rowOpen is the workload of opening a database.
const rowOpen = "open"

const assertions = "Debian's db_bench has assertions on: about 1.5 times slower than a release build."

func newComparison(ctx context.Context, s settings, dir string, log io.Writer) *comparison {
	c := &comparison{settings: s, ctx: ctx, dir: dir, log: log}
	r := &report.Report{
		Title: "Flatrock beside RocksDB", Date: time.Now().UTC().Truncate(time.Second), Machine: report.DescribeMachine(s.dir),
		Commands: []string{strings.TrimSpace("go run ./bench/compare " + strings.Join(s.args, " "))},
		Notes: []string{assertions,
			"CPU time is user and system time of all threads of a process. What start-up and warm-up take is measured by a process that does nothing else, and subtracted, except from fills, compact and readseq cold."},
	}
	version := program.TreeVersion(ctx)
	r.Stores, r.Workloads = []report.Store{report.RocksDBByFlags(program.Version(ctx, s.dbBench)), report.FlatrockByFlags(flatrock.title(), version)}, blockWorkloads()
	if s.suite == "plain" {
		r.Stores, r.Workloads = r.Stores[:1], plainWorkloads(s.writes)
		for _, e := range c.flatrocks() {
			r.Stores = append(r.Stores, report.FlatrockByFlags(e.title(), version))
		}
	}
	c.report = r
	return c
}

func (e engine) title() string { return strings.TrimSpace(e.name + " " + e.policy) }

func plainWorkloads(writes int) []report.Workload {
	all := []report.Workload{
		{Name: "filluniquerandom", About: "all keys once in random order, by one thread"},
		{Name: "readrandom", About: "point reads of keys that exist"},
		{Name: "readmissing", About: "point reads of keys that do not exist"},
		{Name: "multireadrandom", About: "MultiGet of 32 keys; throughput counts keys"},
		{Name: "seekrandom", About: "a seek to a key and 10 steps"},
		{Name: "readwhilewriting", About: fmt.Sprintf("point reads beside a writer of %d operations a second", writes)},
		{Name: rowOpen, About: "opening the compacted database"},
	}
	for i := range all {
		all[i].About = "E1, plain tables: " + all[i].About
	}
	return all
}

// inBlock is the workload of a row of the suite block, which is not that of plain: other sizes, other
// tables.
func inBlock(row string) string { return "E5 " + row }

// workload is a row's.
func (c *comparison) workload(row string) string {
	if c.suite == "block" {
		return inBlock(row)
	}
	return row
}

func blockWorkloads() (all []report.Workload) {
	about := map[string]string{
		rowFill:       "all keys once, in order",
		rowCompact:    "every key once, in random order, in overlapping files of level 0, merged into one level; a key is an operation",
		rowSeekRandom: "a seek to a key and 10 steps, everything cached",
		rowScanWarm:   "a scan of all keys, everything cached",
		rowScanCold:   "the first scan of all keys",
	}
	for _, cache := range blockCaches {
		about[rowReadRandom(cache)] = "point reads of keys that exist, with a block cache of " + cache.name + "; x is of the data, and absolute sizes are for 5 million keys, in proportion"
	}
	for _, row := range blockRows() {
		all = append(all, report.Workload{Name: inBlock(row), About: "E5, block-based tables: " + about[row]})
	}
	return all
}

// add takes what a benchmark did, and the CPU time of its operations.
func (c *comparison) add(e engine, row string, threads int, l program.Result, cpu time.Duration) {
	c.report.Add(e.title(), c.workload(row), "throughput", threads, c.num, l.OpsPerSecond)
	if l.Operations > 0 {
		// What is subtracted is more than there was where a benchmark takes next to nothing.
		c.report.Add(e.title(), c.workload(row), "cpu", threads, c.num, max(float64(cpu.Nanoseconds())/1e3/float64(l.Operations), 0))
	}
}

func (c *comparison) median(e engine, row, metric string, threads int) float64 {
	return report.Median(c.report.Samples(e.title(), c.workload(row), metric, threads, c.num))
}

// leastWriter is the slowest of Flatrock's writers beside readers; zero if there was none.
func (c *comparison) leastWriter() (least float64) {
	for _, e := range c.flatrocks() {
		for _, threads := range c.threads {
			for _, v := range c.report.Samples(e.title(), "readwhilewriting", "writer", threads, c.num) {
				if least == 0 || v < least {
					least = v
				}
			}
		}
	}
	return least
}

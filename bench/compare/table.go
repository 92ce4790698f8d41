package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// line is a line of output of either program.
type line struct {
	micros       float64 // an operation
	opsPerSecond float64
	operations   int64
	found, read  int64
}

var lineFormat = regexp.MustCompile(`^(\S+)\s+:\s+([\d.]+) micros/op (\d+) ops/sec [\d.]+ seconds (\d+) operations;(?:\s+[\d.]+ MB/s)?(?: \((\d+) of (\d+) found\))?`)

// find is the first line of a benchmark.
func find(lines []string, benchmark string) (line, bool) {
	all := findAll(lines, benchmark)
	if len(all) == 0 {
		return line{}, false
	}
	return all[0], true
}

// findAll are the lines of a benchmark, more than one after [X…].
func findAll(lines []string, benchmark string) (all []line) {
	for _, text := range lines {
		m := lineFormat.FindStringSubmatch(text)
		if m == nil || m[1] != benchmark {
			continue
		}
		var l line
		l.micros, _ = strconv.ParseFloat(m[2], 64) // the expression takes digits only
		l.opsPerSecond, _ = strconv.ParseFloat(m[3], 64)
		l.operations, _ = strconv.ParseInt(m[4], 10, 64)
		if m[5] != "" {
			l.found, _ = strconv.ParseInt(m[5], 10, 64)
			l.read, _ = strconv.ParseInt(m[6], 10, 64)
		}
		all = append(all, l)
	}
	return all
}

// findTiming reads a line "name:  1.234 milliseconds". The last one counts.
func findTiming(lines []string, name string) (ms float64, ok bool) {
	for _, text := range lines {
		rest, has := strings.CutPrefix(text, name+":")
		f := strings.Fields(rest)
		if has && len(f) == 2 && f[1] == "milliseconds" {
			if v, err := strconv.ParseFloat(f[0], 64); err == nil {
				ms, ok = v, true
			}
		}
	}
	return ms, ok
}

// print writes the table.
func (c *comparison) print(out io.Writer) {
	ours := c.flatrocks()
	fmt.Fprintf(out, "%d keys of %d bytes, values of %d bytes, after a full compaction; ops/s, medians of %d rounds of %v\n\n",
		c.num, keySize, valueSize, c.rounds, c.duration)
	c.rows(out, func(benchmark string, threads int) {
		base := median(c.samples[cell{rocksDB, benchmark, threads}])
		fmt.Fprintf(out, "%-18s %7d %12.0f", benchmark, threads, base)
		for _, e := range ours {
			v := median(c.samples[cell{e, benchmark, threads}])
			fmt.Fprintf(out, " %12.0f %6.2fx", v, v/base)
		}
		fmt.Fprintln(out)
	})
	fmt.Fprintln(out, "\nCPU microseconds an operation, user and system, of all threads; start-up is subtracted except from the fill; ratio: RocksDB's over ours")
	fmt.Fprintln(out)
	c.rows(out, func(benchmark string, threads int) {
		base := median(c.cpu[cell{rocksDB, benchmark, threads}])
		fmt.Fprintf(out, "%-18s %7d %12.3f", benchmark, threads, base)
		for _, e := range ours {
			v := median(c.cpu[cell{e, benchmark, threads}])
			fmt.Fprintf(out, " %12.3f %6.2fx", v, base/v)
		}
		fmt.Fprintln(out)
	})
	fmt.Fprintf(out, "\nmilliseconds to open: RocksDB %.1f", median(c.samples[cell{rocksDB, "OpenDb", 0}]))
	for _, e := range ours {
		fmt.Fprintf(out, "; %s %.1f, all files in memory after %.1f", e.policy, median(c.samples[cell{e, "OpenDb", 0}]), median(c.samples[cell{e, "LoadDb", 0}]))
	}
	if len(c.writer) > 0 {
		fmt.Fprintf(out, "\nwrites a second beside the readers: asked for %d, Flatrock kept %.0f (least of all runs)", c.writes, slices.Min(c.writer))
	}
	fmt.Fprintln(out, "\nDebian's db_bench has assertions on: about 1.5 times slower than a release build.")
}

// rows calls row for each row of a table of the suite plain.
func (c *comparison) rows(out io.Writer, row func(benchmark string, threads int)) {
	fmt.Fprintf(out, "%-18s %7s %12s", "benchmark", "threads", "RocksDB")
	for _, e := range c.flatrocks() {
		fmt.Fprintf(out, " %12s %7s", e.policy, "ratio")
	}
	fmt.Fprintln(out)
	row("filluniquerandom", 1)
	for _, threads := range c.threads {
		for _, b := range readBenchmarks {
			row(b, threads)
		}
	}
}

func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}

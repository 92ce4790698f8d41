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
	opsPerSecond float64
	operations   int64
	found, read  int64
}

var lineFormat = regexp.MustCompile(`^(\S+)\s+:\s+[\d.]+ micros/op (\d+) ops/sec [\d.]+ seconds (\d+) operations;(?:\s+[\d.]+ MB/s)?(?: \((\d+) of (\d+) found\))?`)

// find is the line of a benchmark.
func find(lines []string, benchmark string) (line, bool) {
	for _, text := range lines {
		m := lineFormat.FindStringSubmatch(text)
		if m == nil || m[1] != benchmark {
			continue
		}
		var l line
		l.opsPerSecond, _ = strconv.ParseFloat(m[2], 64) // the expression takes digits only
		l.operations, _ = strconv.ParseInt(m[3], 10, 64)
		if m[4] != "" {
			l.found, _ = strconv.ParseInt(m[4], 10, 64)
			l.read, _ = strconv.ParseInt(m[5], 10, 64)
		}
		return l, true
	}
	return line{}, false
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
	fmt.Fprintf(out, "%-18s %7s %12s", "benchmark", "threads", "RocksDB")
	for _, e := range ours {
		fmt.Fprintf(out, " %12s %7s", e.policy, "ratio")
	}
	fmt.Fprintln(out)
	row := func(benchmark string, threads int) {
		base := c.median(cell{rocksDB, benchmark, threads})
		fmt.Fprintf(out, "%-18s %7d %12.0f", benchmark, threads, base)
		for _, e := range ours {
			v := c.median(cell{e, benchmark, threads})
			fmt.Fprintf(out, " %12.0f %6.2fx", v, v/base)
		}
		fmt.Fprintln(out)
	}
	row("filluniquerandom", 1)
	for _, threads := range c.threads {
		for _, b := range readBenchmarks {
			row(b, threads)
		}
	}
	fmt.Fprintf(out, "\nmilliseconds to open: RocksDB %.1f", c.median(cell{rocksDB, "OpenDb", 0}))
	for _, e := range ours {
		fmt.Fprintf(out, "; %s %.1f, all files in memory after %.1f", e.policy, c.median(cell{e, "OpenDb", 0}), c.median(cell{e, "LoadDb", 0}))
	}
	if len(c.writer) > 0 {
		fmt.Fprintf(out, "\nwrites a second beside the readers: asked for %d, Flatrock kept %.0f (least of all runs)", c.writes, slices.Min(c.writer))
	}
	fmt.Fprintln(out, "\nDebian's db_bench has assertions on: about 1.5 times slower than a release build.")
}

func (c *comparison) median(at cell) float64 {
	s := slices.Sorted(slices.Values(c.samples[at]))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 0:
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[n/2]
}

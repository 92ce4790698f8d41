package main

import (
	"fmt"
	"io"
)

// print writes the table.
func (c *comparison) print(out io.Writer) {
	ours := c.flatrocks()
	fmt.Fprintf(out, "%d keys of %d bytes, values of %d bytes, after a full compaction; ops/s, medians of %d rounds of %v\n\n",
		c.num, keySize, valueSize, c.rounds, c.duration)
	c.rows(out, func(benchmark string, threads int) {
		base := c.median(rocksDB, benchmark, "throughput", threads)
		fmt.Fprintf(out, "%-18s %7d %12.0f", benchmark, threads, base)
		for _, e := range ours {
			v := c.median(e, benchmark, "throughput", threads)
			fmt.Fprintf(out, " %12.0f %6.2fx", v, v/base)
		}
		fmt.Fprintln(out)
	})
	fmt.Fprintln(out, "\nCPU microseconds an operation, user and system, of all threads; start-up is subtracted except from the fill; ratio: RocksDB's over ours")
	fmt.Fprintln(out)
	c.rows(out, func(benchmark string, threads int) {
		base := c.median(rocksDB, benchmark, "cpu", threads)
		fmt.Fprintf(out, "%-18s %7d %12.3f", benchmark, threads, base)
		for _, e := range ours {
			v := c.median(e, benchmark, "cpu", threads)
			fmt.Fprintf(out, " %12.3f %6.2fx", v, base/v)
		}
		fmt.Fprintln(out)
	})
	fmt.Fprintf(out, "\nmilliseconds to open: RocksDB %.1f", c.median(rocksDB, rowOpen, "open", 0))
	for _, e := range ours {
		fmt.Fprintf(out, "; %s %.1f, all files in memory after %.1f", e.policy, c.median(e, rowOpen, "open", 0), c.median(e, rowOpen, "loaded", 0))
	}
	if least := c.leastWriter(); least > 0 {
		fmt.Fprintf(out, "\nwrites a second beside the readers: asked for %d, Flatrock kept %.0f (least of all runs)", c.writes, least)
	}
	fmt.Fprintln(out, "\n"+assertions)
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

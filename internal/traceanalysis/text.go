package traceanalysis

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Block cache trace %s, RocksDB %s, %s, from %s, %.3f seconds\n", r.File, r.Version, FormatBytes(float64(r.Bytes)),
		time.UnixMicro(int64(r.First)).UTC().Format("2006-01-02 15:04:05 UTC"), r.Seconds())
	if r.Every > 1 {
		fmt.Fprintf(&b, "One of %d blocks was traced; what follows stands for about %.0f accesses.\n", r.Every, r.Total)
	}
	all := Count{Accesses: r.Accesses, Hits: r.Hits}
	fmt.Fprintf(&b, "%d accesses, %d hits, %d misses, miss ratio %.2f%%; %.0f distinct blocks of %s\n",
		all.Accesses, all.Hits, all.Accesses-all.Hits, 100*all.MissRatio(), r.Blocks, FormatBytes(r.BlockBytes))
	if p := r.PointReads; p.Accesses > 0 {
		fmt.Fprintf(&b, "Point reads of data blocks: %d, %.1f%% found the key, %.1f keys a block, %.0f bytes an entry, %.1f%% from a snapshot\n",
			p.Accesses, 100*ratio(p.Found, p.Accesses), ratio(p.Keys, p.Accesses), ratio(p.DataBytes, p.Found), 100*ratio(p.Snapshot, p.Accesses))
	}
	for _, d := range Dimensions {
		fmt.Fprintf(&b, "\nBy %s\n%-20s %12s %12s %12s %8s %8s\n", d, "", "accesses", "hits", "misses", "miss %", "share %")
		for _, g := range r.By(d) {
			fmt.Fprintf(&b, "%-20s %12d %12d %12d %8.2f %8.2f\n", printable(g.Name, 20), g.Accesses, g.Hits, g.Accesses-g.Hits, 100*g.MissRatio(), 100*ratio(g.Accesses, r.Accesses))
		}
	}
	fmt.Fprintf(&b, "\nPredicted miss ratio %% by capacity and policy\n%-12s", "")
	for _, c := range r.Curves {
		fmt.Fprintf(&b, " %14s", c.Policy)
	}
	for i, c := range r.Capacities {
		fmt.Fprintf(&b, "\n%-12s", FormatBytes(float64(c)))
		for _, curve := range r.Curves {
			fmt.Fprintf(&b, " %14.2f", 100*curve.Ratios[i])
		}
	}
	b.WriteString("\n")
	for _, h := range []struct {
		name string
		of   *Histogram
		unit func(float64) string
	}{{"Reuse distance (bytes of blocks between two uses)", merged(r.Distance), FormatBytes}, {"Reuse interval (time between two uses)", merged(r.Interval), formatMicros}} {
		fmt.Fprintf(&b, "\n%s: %d reuses, p10 %s, p50 %s, p90 %s, p99 %s\n", h.name, h.of.Count,
			h.unit(h.of.Quantile(0.1)), h.unit(h.of.Quantile(0.5)), h.unit(h.of.Quantile(0.9)), h.unit(h.of.Quantile(0.99)))
		for i, n := range h.of.Buckets {
			if n > 0 {
				fmt.Fprintf(&b, "  below %12s %12d %6.2f%% %s\n", h.unit(bucketEnd(i)), n, 100*ratio(n, h.of.Count), strings.Repeat("#", int(50*ratio(n, h.of.Count)+0.5)))
			}
		}
	}
	fmt.Fprintf(&b, "\nOver time\n%12s %12s %8s %14s %12s\n", "second", "accesses", "miss %", "blocks in use", "bytes")
	step := max(len(r.Timeline)/24, 1)
	for i := 0; i < len(r.Timeline); i += step {
		p := r.Timeline[i]
		fmt.Fprintf(&b, "%12.3f %12d %8.2f %14.0f %12s\n", float64(p.Micros-r.First)/1e6, p.Accesses, 100*Count{Accesses: p.Accesses, Hits: p.Hits}.MissRatio(), p.Blocks, FormatBytes(p.Bytes))
	}
	for _, t := range []struct {
		name string
		list []Top
		of   func(*Top) string
	}{{"Most used blocks", r.TopBlocks, (*Top).BlockName}, {"Most read keys", r.TopKeys, keyName}} {
		fmt.Fprintf(&b, "\n%s\n", t.name)
		for i := range t.list {
			fmt.Fprintf(&b, "%12d %6.2f%%  %s%s\n", t.list[i].Count, 100*ratio(t.list[i].Count, r.Accesses), t.of(&t.list[i]), atMost(&t.list[i]))
		}
	}
	if len(r.Features) > 1 {
		fmt.Fprintf(&b, "\nRank correlation of what is known of a block when it is used with its next use (%d uses)\n", len(r.Features))
		for x := range 3 {
			fmt.Fprintf(&b, "  %-32s %s %+.3f  %s %+.3f\n", FeatureNames[x], FeatureNames[3], r.Correlations[x][3], FeatureNames[4], r.Correlations[x][4])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func atMost(t *Top) string {
	if t.Error > 0 {
		return fmt.Sprintf(" (at most; at least %d)", t.Count-t.Error)
	}
	return ""
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func bucketEnd(i int) float64 {
	if i == 0 {
		return 1
	}
	return 2 * float64(uint64(1)<<(i-1))
}

// FormatBytes is n in the unit that fits.
func FormatBytes(n float64) string {
	for _, u := range []string{"B", "KB", "MB", "GB"} {
		if n < 1024 {
			return trimZero(n) + " " + u
		}
		n /= 1024
	}
	return trimZero(n) + " TB"
}

func formatMicros(n float64) string {
	switch {
	case n < 1000:
		return trimZero(n) + " µs"
	case n < 1e6:
		return trimZero(n/1000) + " ms"
	}
	return trimZero(n/1e6) + " s"
}

func trimZero(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") }

func keyName(t *Top) string { return printable(string(t.Key), 60) }

// printable is s if a terminal shows it as it is, and else its hex.
func printable(s string, most int) string {
	ok := utf8.ValidString(s)
	for _, c := range s {
		ok = ok && c >= ' ' && c != 0x7f
	}
	if !ok {
		s = fmt.Sprintf("0x%X", s)
	}
	if len(s) > most {
		s = s[:most-1] + "…"
	}
	return s
}

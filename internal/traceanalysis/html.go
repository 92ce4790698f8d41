package traceanalysis

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// WriteHTML writes the report as one page that loads nothing: charts are inline SVG, the colours
// follow the reader's choice of light or dark, and wide tables scroll by themselves.
func (r *Report) WriteHTML(w io.Writer) error {
	var b strings.Builder
	b.WriteString(htmlHead)
	fmt.Fprintf(&b, "<h1>Block cache trace</h1><p class=file>%s</p>", html.EscapeString(r.File))
	all := Count{Accesses: r.Accesses, Hits: r.Hits}
	b.WriteString("<div class=tiles>")
	tile := func(label, value string) {
		fmt.Fprintf(&b, "<div><b>%s</b><span>%s</span></div>", html.EscapeString(value), html.EscapeString(label))
	}
	tile("accesses", fmt.Sprint(r.Accesses))
	tile("miss ratio", fmt.Sprintf("%.2f %%", 100*all.MissRatio()))
	tile("distinct blocks", fmt.Sprintf("%.0f", r.Blocks))
	tile("in these", FormatBytes(r.BlockBytes))
	tile("length", fmt.Sprintf("%.1f s", r.Seconds()))
	if r.Every > 1 {
		tile("blocks traced", fmt.Sprintf("1 of %d", r.Every))
		tile("accesses in all, about", fmt.Sprintf("%.0f", r.Total))
	}
	b.WriteString("</div>")

	curves := chart{title: "Predicted miss ratio by capacity", x: "capacity of the cache", y: "miss ratio", logX: true, xText: FormatBytes, yText: percent, top: 1}
	for _, c := range r.Curves {
		l := line{name: c.Policy}
		for i, v := range c.Ratios {
			l.points = append(l.points, [2]float64{float64(r.Capacities[i]), v})
		}
		curves.lines = append(curves.lines, l)
	}
	stack := line{name: "lru by reuse distance"}
	for i, v := range r.StackRatios {
		stack.points = append(stack.points, [2]float64{float64(r.StackCapacities[i]), v})
	}
	curves.lines = append(curves.lines, stack)
	curves.write(&b)

	count, miss, set := line{name: "accesses"}, line{name: "miss ratio"}, line{name: "blocks"}
	hits := line{name: "hits"}
	for _, p := range r.Timeline {
		at := float64(p.Micros-r.First) / 1e6
		count.points = append(count.points, [2]float64{at, float64(p.Accesses)})
		hits.points = append(hits.points, [2]float64{at, float64(p.Hits)})
		if p.Accesses > 0 {
			miss.points = append(miss.points, [2]float64{at, Count{Accesses: p.Accesses, Hits: p.Hits}.MissRatio()})
		}
		set.points = append(set.points, [2]float64{at, p.Bytes})
	}
	set.name = "bytes in use"
	seconds := func(v float64) string { return trimZero(v) + " s" }
	(&chart{title: "Accesses over time", x: "time", y: "accesses", xText: seconds, yText: short, lines: []line{count, hits}}).write(&b)
	(&chart{title: "Miss ratio over time", x: "time", y: "miss ratio", xText: seconds, yText: percent, top: 1, lines: []line{miss}}).write(&b)
	(&chart{title: "Working set over time", x: "time", y: "distinct blocks", bytes: true, xText: seconds, yText: FormatBytes, lines: []line{set}}).write(&b)
	bars(&b, "Reuse distance: bytes of blocks between two uses", merged(r.Distance), FormatBytes)
	bars(&b, "Reuse interval: time between two uses", merged(r.Interval), formatMicros)

	for _, d := range Dimensions {
		fmt.Fprintf(&b, "<h2>By %s</h2><div class=scroll><table><tr><th><th>accesses<th>hits<th>misses<th>miss ratio<th>share</tr>", d)
		for _, g := range r.By(d) {
			fmt.Fprintf(&b, "<tr><td>%s<td>%d<td>%d<td>%d<td>%s<td>%s</tr>", html.EscapeString(printable(g.Name, 60)), g.Accesses, g.Hits,
				g.Accesses-g.Hits, percent(g.MissRatio()), percent(ratio(g.Accesses, r.Accesses)))
		}
		b.WriteString("</table></div>")
	}
	b.WriteString("<h2>Predicted miss ratios</h2><div class=scroll><table><tr><th>capacity")
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "<th>%s", html.EscapeString(c.Policy))
	}
	b.WriteString("</tr>")
	for i, c := range r.Capacities {
		fmt.Fprintf(&b, "<tr><td>%s", FormatBytes(float64(c)))
		for _, curve := range r.Curves {
			fmt.Fprintf(&b, "<td>%s", percent(curve.Ratios[i]))
		}
		b.WriteString("</tr>")
	}
	b.WriteString("</table></div>")
	for _, t := range []struct {
		name string
		list []Top
		of   func(*Top) string
	}{{"Most used blocks", r.TopBlocks, (*Top).BlockName}, {"Most read keys", r.TopKeys, keyName}} {
		fmt.Fprintf(&b, "<h2>%s</h2><div class=scroll><table><tr><th><th>accesses<th>share</tr>", t.name)
		for i := range t.list {
			fmt.Fprintf(&b, "<tr><td>%s<td>%d%s<td>%s</tr>", html.EscapeString(t.of(&t.list[i])), t.list[i].Count,
				html.EscapeString(atMost(&t.list[i])), percent(ratio(t.list[i].Count, r.Accesses)))
		}
		b.WriteString("</table></div>")
	}
	if len(r.Features) > 1 {
		b.WriteString("<h2>Rank correlations with the next use of a block</h2><div class=scroll><table><tr><th>")
		fmt.Fprintf(&b, "<th>%s<th>%s</tr>", FeatureNames[3], FeatureNames[4])
		for x := range 3 {
			fmt.Fprintf(&b, "<tr><td>%s<td>%+.3f<td>%+.3f</tr>", FeatureNames[x], r.Correlations[x][3], r.Correlations[x][4])
		}
		b.WriteString("</table></div>")
	}
	b.WriteString("</main></body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

const htmlHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Block cache trace</title><style>
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#57606a;--line:#d8dee4;--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#7d6608;--c6:#57606a}
@media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--soft:#9198a1;--line:#30363d;--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;--c4:#f778ba;--c5:#e3b341;--c6:#9198a1}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.45 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}h1{font-size:1.5rem;margin:.5rem 0 0}h2{font-size:1.1rem;margin:2rem 0 .5rem}.file{color:var(--soft);margin:.2rem 0 1rem;overflow-wrap:anywhere}
.tiles{display:flex;flex-wrap:wrap;gap:.5rem}.tiles div{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .8rem;flex:1 1 8rem}.tiles b{display:block;font-size:1.15rem}.tiles span{color:var(--soft);font-size:.85rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:13px system-ui,sans-serif}.grid{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke-width:2.2}.bar{fill:var(--c0)}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.9rem}.legend i{display:inline-block;width:1rem;height:.25rem;vertical-align:middle;margin-right:.35rem;border-radius:2px}
@media(max-width:36rem){svg text{font-size:22px}}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums;width:100%}th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:7rem}th{color:var(--soft);font-weight:600}
</style></head><body><main>
`

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func short(v float64) string {
	switch {
	case v >= 1e6:
		return trimZero(v/1e6) + " M"
	case v >= 1e3:
		return trimZero(v/1e3) + " k"
	}
	return trimZero(v)
}

type line struct {
	name   string
	points [][2]float64
}

// chart is lines over one axis.
type chart struct {
	title, x, y  string
	logX         bool
	bytes        bool // the y axis has bytes
	xText, yText func(float64) string
	top          float64 // of the y axis; 0 fits the lines
	lines        []line
}

// The plot in a chart of 640 × 326.
const (
	plotLeft, plotRight = 104.0, 625.0
	plotTop, plotBottom = 14.0, 270.0
	labelsX, titleX     = plotBottom + 24, plotBottom + 49
)

func (c *chart) unit() float64 {
	if c.bytes {
		return 1024
	}
	return 1
}

// gridLine is a line across the plot, with its label at the left.
func gridLine(b *strings.Builder, y float64, label string) {
	fmt.Fprintf(b, "<line class=grid x1=%.0f x2=%.0f y1=%.1f y2=%.1f /><text x=%.0f y=%.1f text-anchor=end>%s</text>",
		plotLeft, plotRight, y, y, plotLeft-8, y+4, html.EscapeString(label))
}

func (c *chart) write(b *strings.Builder) {
	lowX, highX, top := math.Inf(1), math.Inf(-1), c.top
	for _, l := range c.lines {
		for _, p := range l.points {
			lowX, highX = min(lowX, p[0]), max(highX, p[0])
			if c.top == 0 {
				top = max(top, p[1])
			}
		}
	}
	if lowX > highX {
		return // nothing to show
	}
	if top == 0 {
		top = 1
	}
	ticksX, ticksY := linearTicks(lowX, highX, 1, false), linearTicks(0, top, c.unit(), true)
	if c.logX {
		ticksX = powerTicks(lowX, highX)
	}
	top = ticksY[len(ticksY)-1]
	place := func(x float64) float64 {
		lo, hi := lowX, highX
		if c.logX {
			x, lo, hi = math.Log2(max(x, 1)), math.Log2(max(lo, 1)), math.Log2(max(hi, 1))
		}
		if hi == lo {
			return plotLeft
		}
		return plotLeft + (plotRight-plotLeft)*(x-lo)/(hi-lo)
	}
	height := func(y float64) float64 { return plotBottom - (plotBottom-plotTop)*min(y/top, 1) }
	fmt.Fprintf(b, "<h2>%s</h2><svg viewBox=\"0 0 640 326\" role=img aria-label=\"%s\">", html.EscapeString(c.title), html.EscapeString(c.title))
	for _, y := range ticksY {
		gridLine(b, height(y), c.yText(y))
	}
	for _, x := range ticksX {
		anchor := "middle"
		if place(x) > plotRight-30 {
			anchor = "end"
		}
		fmt.Fprintf(b, "<text x=%.1f y=%.0f text-anchor=%s>%s</text>", min(place(x), plotRight), labelsX, anchor, html.EscapeString(c.xText(x)))
	}
	fmt.Fprintf(b, "<text x=%.0f y=%.0f text-anchor=middle>%s</text>", (plotLeft+plotRight)/2, titleX, html.EscapeString(c.x))
	for i, l := range c.lines {
		points := slices.Clone(l.points)
		slices.SortFunc(points, func(p, q [2]float64) int { return int(math.Copysign(1, p[0]-q[0])) })
		b.WriteString("<polyline class=curve style=\"stroke:" + color(i) + "\" points=\"")
		for _, p := range points {
			fmt.Fprintf(b, "%.1f,%.1f ", place(p[0]), height(p[1]))
		}
		b.WriteString("\"/>")
	}
	b.WriteString("</svg>")
	if len(c.lines) > 1 {
		b.WriteString("<div class=legend>")
		for i, l := range c.lines {
			fmt.Fprintf(b, "<span><i style=\"background:%s\"></i>%s</span>", color(i), html.EscapeString(l.name))
		}
		b.WriteString("</div>")
	}
}

func color(i int) string { return fmt.Sprintf("var(--c%d)", i%7) }

// bars draws a histogram.
func bars(b *strings.Builder, title string, h *Histogram, text func(float64) string) {
	low, high := -1, 0
	most := uint64(0)
	for i, n := range h.Buckets {
		if n > 0 {
			if low < 0 {
				low = i
			}
			high = i
			most = max(most, n)
		}
	}
	if low < 0 {
		return
	}
	fmt.Fprintf(b, "<h2>%s</h2><svg viewBox=\"0 0 640 326\" role=img aria-label=\"%s\">", html.EscapeString(title), html.EscapeString(title))
	ticks := linearTicks(0, float64(most)/float64(h.Count), 1, true)
	top := ticks[len(ticks)-1]
	height := func(share float64) float64 { return (plotBottom - plotTop) * share / top }
	for _, v := range ticks {
		gridLine(b, plotBottom-height(v), percent(v))
	}
	width := (plotRight - plotLeft) / float64(high-low+1)
	every := (high-low)/maxTicks + 1
	for i := low; i <= high; i++ {
		x := plotLeft + width*float64(i-low)
		tall := height(float64(h.Buckets[i]) / float64(h.Count))
		fmt.Fprintf(b, "<rect class=bar x=%.1f y=%.1f width=%.1f height=%.1f><title>below %s: %d</title></rect>", x+1, plotBottom-tall, max(width-2, 1), tall, html.EscapeString(text(bucketEnd(i))), h.Buckets[i])
		if (i-low)%every == 0 {
			fmt.Fprintf(b, "<text x=%.1f y=%.0f text-anchor=middle>%s</text>", x+width/2, labelsX, html.EscapeString(text(bucketEnd(i))))
		}
	}
	fmt.Fprintf(b, "<text x=%.0f y=%.0f text-anchor=middle>below</text></svg>", (plotLeft+plotRight)/2, titleX)
}

package report

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"
)

// HTML writes the report as one page with all that it needs inside: ratios first, then
// curves over threads and sizes, then tails, then the rest, the machine and the commands.
func (r *Report) HTML(out io.Writer) error {
	if err := r.Check(); err != nil {
		return err
	}
	return page.Execute(out, view{
		Report: r, When: r.Date.Format(time.RFC3339),
		Ratios: r.ratioTables(), Curves: r.curves(), Tails: r.tails(), Tables: r.tables(), Legend: r.legend(),
	})
}

// view is what the template shows.
type view struct {
	*Report
	When   string
	Ratios []table
	Curves []section
	Tails  []section
	Tables []table
	Legend []legendEntry
}

type legendEntry struct {
	Name  string
	Class string // c0 … of the colours
	Mark  template.HTML
}

type table struct {
	Title, About string
	Columns      []string
	Rows         []tableRow
	Open         bool // shown without a click
}

type tableRow struct {
	Label string
	Cells []tableCell
}

type tableCell struct{ Text, Class, Hint string }

// section is a workload with its charts.
type section struct {
	Title, About string
	Charts       []chart
}

type chart struct {
	Caption string
	SVG     template.HTML
}

func (r *Report) color(store string) string {
	i := slices.IndexFunc(r.Stores, func(s Store) bool { return s.Name == store })
	return fmt.Sprintf("c%d", i%colors)
}

func (r *Report) legend() (all []legendEntry) {
	for i, s := range r.Stores {
		all = append(all, legendEntry{s.Name, r.color(s.Name), template.HTML(`<svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true">` + mark(i, 7, 7) + `</svg>`)})
	}
	return all
}

func (r *Report) ratioTables() (all []table) {
	sizes := r.sizes()
	slices.Reverse(sizes) // the largest decides
	for _, keys := range sizes {
		for _, subject := range r.subjects() {
			rows, others := r.compared(subject, keys)
			t := table{Title: subject + " over each other store, " + count(keys) + " keys", Columns: others, Open: keys == sizes[0]}
			for _, x := range rows {
				row := tableRow{Label: x.label()}
				for _, o := range t.Columns {
					c := tableCell{Text: "–"}
					if v, ok := r.ratio(subject, o, x); ok {
						m, _ := FindMetric(x.metric)
						a, _ := r.value(subject, x)
						b, _ := r.value(o, x)
						c = tableCell{ratioText(v), ratioClass(v), fmt.Sprintf("%s %s against %s %s", subject, withUnit(a, m.Unit), o, withUnit(b, m.Unit))}
					}
					row.Cells = append(row.Cells, c)
				}
				t.Rows = append(t.Rows, row)
			}
			if len(t.Rows) > 0 {
				all = append(all, t)
			}
		}
	}
	return all
}

// ratioClass colours a cell: what lies within a tenth is even.
func ratioClass(v float64) string {
	switch {
	case v >= 2:
		return "much"
	case v >= 1.1:
		return "more"
	case v > 1/1.1:
		return "even"
	case v > 0.5:
		return "less"
	}
	return "least"
}

func withUnit(v float64, unit string) string {
	if unit == "bytes" || unit == "×" {
		return strings.TrimSpace(number(v, unit) + strings.Trim(unit, "bytes"))
	}
	return number(v, unit) + " " + unit
}

// tables are all figures, with the spread of their samples.
func (r *Report) tables() (all []table) {
	for _, keys := range r.sizes() {
		t := table{Title: count(keys) + " keys", Columns: r.storeNames()}
		for _, m := range Metrics {
			for _, x := range r.rows(m.Name) {
				if x.keys != keys {
					continue
				}
				row := tableRow{Label: x.label()}
				if m.Unit != "bytes" && m.Unit != "×" {
					row.Label += " (" + m.Unit + ")"
				}
				for _, s := range t.Columns {
					c := tableCell{Text: "–"}
					if v, ok := r.value(s, x); ok {
						low, high, n := r.spread(s, x)
						c = tableCell{Text: number(v, m.Unit), Hint: fmt.Sprintf("%d samples, %s to %s", n, number(low, m.Unit), number(high, m.Unit))}
					}
					row.Cells = append(row.Cells, c)
				}
				t.Rows = append(t.Rows, row)
			}
		}
		all = append(all, t)
	}
	return all
}

// curves are a workload's throughput over threads and over sizes, or bars where there is
// only one point.
func (r *Report) curves() (all []section) {
	sizes := r.sizes()
	for _, w := range r.Workloads {
		s := section{Title: w.Name, About: w.About}
		var threads []int
		for _, x := range r.rows("throughput") {
			if x.workload == w.Name && !slices.Contains(threads, x.threads) {
				threads = append(threads, x.threads)
			}
		}
		if len(threads) == 0 {
			continue
		}
		slices.Sort(threads)
		largest := sizes[len(sizes)-1]
		if len(threads) > 1 {
			var lines []series
			for i, st := range r.Stores {
				l := series{name: st.Name, class: r.color(st.Name), mark: i}
				for _, t := range threads {
					if v, ok := r.value(st.Name, row{w.Name, "throughput", t, largest}); ok {
						l.points = append(l.points, point{float64(t), v})
					}
				}
				lines = append(lines, l)
			}
			s.Charts = append(s.Charts, chart{fmt.Sprintf("Operations a second over threads, %s keys", count(largest)), lineChart(lines, "threads", "ops/s")})
		}
		if len(sizes) > 1 {
			var lines []series
			for i, st := range r.Stores {
				l := series{name: st.Name, class: r.color(st.Name), mark: i}
				for _, n := range sizes {
					if v, ok := r.value(st.Name, row{w.Name, "throughput", threads[0], n}); ok {
						l.points = append(l.points, point{float64(n), v})
					}
				}
				lines = append(lines, l)
			}
			s.Charts = append(s.Charts, chart{fmt.Sprintf("Operations a second over keys, threads: %d", threads[0]), lineChart(lines, "keys", "ops/s")})
		}
		if len(s.Charts) == 0 {
			var bars []bar
			for _, st := range r.Stores {
				if v, ok := r.value(st.Name, row{w.Name, "throughput", threads[0], largest}); ok {
					bars = append(bars, bar{st.Name, r.color(st.Name), v, short(v) + " ops/s"})
				}
			}
			s.Charts = append(s.Charts, chart{fmt.Sprintf("Operations a second, threads: %d, %s keys", threads[0], count(largest)), barChart(bars)})
		}
		all = append(all, s)
	}
	return all
}

// tails show p50, p99 and p99.9 of each store on one logarithmic axis, at the largest size and
// the fewest and the most threads.
func (r *Report) tails() (all []section) {
	sizes := r.sizes()
	for _, w := range r.Workloads {
		s := section{Title: w.Name, About: w.About}
		for _, x := range r.rows("p50") {
			if x.workload != w.Name || x.keys != sizes[len(sizes)-1] {
				continue
			}
			var ranges []tail
			for _, st := range r.Stores {
				t := tail{name: st.Name, class: r.color(st.Name)}
				for i, m := range tailMetrics {
					v, ok := r.value(st.Name, row{x.workload, m, x.threads, x.keys})
					if !ok {
						v = -1
					}
					t.values[i] = v
				}
				if t.values[0] >= 0 {
					ranges = append(ranges, t)
				}
			}
			s.Charts = append(s.Charts, chart{fmt.Sprintf("Threads: %d, %s keys; microseconds: p50, p99, p99.9", x.threads, count(x.keys)), tailChart(ranges)})
		}
		if n := len(s.Charts); n > 2 {
			s.Charts = []chart{s.Charts[0], s.Charts[n-1]}
		}
		if len(s.Charts) > 0 {
			all = append(all, s)
		}
	}
	return all
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{.Title}}</title>
<style>` + style + `</style>
</head>
<body>
<header>
<h1>{{.Title}}</h1>
<p>{{.When}} · {{.Machine}}</p>
<nav><a href="#ratios">Ratios</a> <a href="#curves">Curves</a> <a href="#tails">Tails</a> <a href="#figures">All figures</a> <a href="#how">How it was measured</a></nav>
</header>
<main>
{{range .Failures}}<p class="failed"><b>Failed, and left out:</b> {{.}}</p>
{{end}}{{if not .Measures}}<p>Nothing was measured.</p>{{end}}
<section id="ratios">
<h2>Ratios</h2>
{{if .Ratios}}<p>How many times better ours is: above 1 is more throughput, less time, less memory, less disk. The figures are below, or where the pointer rests on a cell.</p>
<p class="key"><span class="much">2× and more</span> <span class="more">more than 1.1×</span> <span class="even">even</span> <span class="less">less than 0.91×</span> <span class="least">half or less</span></p>
{{range .Ratios}}<details{{if .Open}} open{{end}}><summary>{{.Title}}</summary>
{{template "table" .}}</details>
{{end}}{{else}}<p>There is nothing to compare: it takes one of ours and another store.</p>{{end}}
</section>
<section id="curves">
<h2>Curves</h2>
{{template "legend" .Legend}}
{{range .Curves}}{{template "section" .}}{{end}}
</section>
<section id="tails">
<h2>Tails</h2>
<p>From the left: half of all operations, 99 of 100, 999 of 1,000 took at most this long.</p>
{{range .Tails}}{{template "section" .}}{{end}}
</section>
<section id="figures">
<h2>All figures</h2>
<p>Medians over the rounds; the spread is shown where the pointer rests on a cell.</p>
{{range .Tables}}<details><summary>{{.Title}}</summary>
{{template "table" .}}</details>
{{end}}
</section>
<section id="how">
<h2>How it was measured</h2>
<p>{{.Machine}}</p>
{{range .Commands}}<pre>{{.}}</pre>
{{end}}{{if .Notes}}<ul>{{range .Notes}}<li>{{.}}</li>{{end}}</ul>{{end}}
{{if .Stores}}<div class="scroll"><table class="text"><thead><tr><th>store</th><th>version</th><th>set up</th></tr></thead><tbody>
{{range .Stores}}<tr><th>{{.Name}}</th><td>{{.Version}}</td><td>{{.Settings}}</td></tr>
{{end}}</tbody></table></div>{{end}}
{{if .Workloads}}<div class="scroll"><table class="text"><thead><tr><th>workload</th><th>what</th></tr></thead><tbody>
{{range .Workloads}}<tr><th>{{.Name}}</th><td>{{.About}}</td></tr>
{{end}}</tbody></table></div>{{end}}
</section>
</main>
</body>
</html>
{{define "table"}}<div class="scroll"><table><thead><tr><th></th>{{range .Columns}}<th>{{.}}</th>{{end}}</tr></thead><tbody>
{{range .Rows}}<tr><th>{{.Label}}</th>{{range .Cells}}<td{{if .Class}} class="{{.Class}}"{{end}}{{if .Hint}} title="{{.Hint}}"{{end}}>{{.Text}}</td>{{end}}</tr>
{{end}}</tbody></table></div>{{end}}
{{define "legend"}}{{if .}}<p class="legend">{{range .}}<span class="{{.Class}}">{{.Mark}} <b>{{.Name}}</b></span> {{end}}</p>{{end}}{{end}}
{{define "section"}}<article><h3>{{.Title}}</h3><p>{{.About}}</p><div class="charts">{{range .Charts}}<figure><figcaption>{{.Caption}}</figcaption>{{.SVG}}</figure>{{end}}</div></article>
{{end}}`))

// colors is how many the page has: distinct for the colour-blind, too, and each with a mark of its own.
const colors = 8

const style = `
:root{--bg:#fff;--fg:#1c2024;--dim:#5c6670;--line:#d5dae0;--panel:#f6f7f9;
--much:#9fdcb4;--more:#d5f0dd;--even:#eceff2;--less:#fbdcd0;--least:#f4a98f;
--c0:#0057b8;--c1:#00936f;--c2:#c44601;--c3:#b5179e;--c4:#8a6d00;--c5:#5a3fc0;--c6:#6b7280;--c7:#111827}
@media (prefers-color-scheme:dark){:root{--bg:#14171a;--fg:#e6e9ec;--dim:#9aa5b1;--line:#353c44;--panel:#1c2126;
--much:#1f6b3d;--more:#1d4029;--even:#2a3036;--less:#553023;--least:#8c3a20;
--c0:#66aaff;--c1:#3ddbb0;--c2:#ff8f4d;--c3:#ff7be0;--c4:#e2c044;--c5:#b09cff;--c6:#a3adb8;--c7:#f3f4f6}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;margin:.3rem 0}h2{margin:2rem 0 .3rem;border-bottom:1px solid var(--line)}h3{margin:1.2rem 0 0;font-size:1.05rem}
p{margin:.4rem 0;color:var(--dim)}nav a{display:inline-block;margin-right:.8rem;padding:.3rem 0;color:var(--c0)}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
th,td{padding:.25rem .6rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}
th:first-child{text-align:left;position:sticky;left:0;background:var(--bg);font-weight:500}
table.text th,table.text td{text-align:left;white-space:normal;vertical-align:top}
.much{background:var(--much)}.more{background:var(--more)}.even{background:var(--even)}.less{background:var(--less)}.least{background:var(--least)}
.failed{color:var(--fg);border-left:4px solid var(--c2);padding:.3rem .7rem;background:var(--panel);white-space:pre-wrap;overflow-wrap:anywhere}
.key span{display:inline-block;padding:.1rem .5rem;margin:.1rem 0;color:var(--fg);font-size:.86rem}
summary{cursor:pointer;font-weight:600;padding:.4rem 0}
.legend{position:sticky;top:0;background:var(--bg);padding:.4rem 0;z-index:1;font-size:.86rem}
.legend span{display:inline-block;margin-right:.9rem;white-space:nowrap}.legend svg{vertical-align:-2px}.legend b{color:var(--fg);font-weight:500}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,30rem),1fr));gap:1rem}
figure{margin:.4rem 0;background:var(--panel);padding:.6rem;border-radius:6px;min-width:0}
figcaption{font-size:.86rem;color:var(--dim);margin-bottom:.3rem}
figure svg{width:100%;height:auto;display:block}
svg text{font:12px system-ui,sans-serif;fill:var(--dim)}svg text.name{fill:var(--fg)}
svg .grid{stroke:var(--line)}svg .curve{fill:none;stroke:currentColor;stroke-width:2}svg .mark{fill:currentColor}
.c0{color:var(--c0)}.c1{color:var(--c1)}.c2{color:var(--c2)}.c3{color:var(--c3)}.c4{color:var(--c4)}.c5{color:var(--c5)}.c6{color:var(--c6)}.c7{color:var(--c7)}
pre{background:var(--panel);padding:.6rem;overflow-x:auto;font-size:.86rem;border-radius:6px}
@media (max-width:34rem){body{padding:.7rem}th,td{padding:.25rem .4rem}th:first-child{white-space:normal;min-width:7.5rem;max-width:9.5rem}.legend{position:static}
svg text{font-size:15px}}
@media (pointer:coarse){summary,nav a{padding:.6rem 0}}
`

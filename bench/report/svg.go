package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Charts are 480 wide, and as wide as the page wants.
const (
	chartWidth  = 480.0
	chartHeight = 280.0
	chartLeft   = 58.0
	chartRight  = 18.0
	chartTop    = 12.0
	chartBottom = 46.0
)

type point struct{ x, y float64 }

type series struct {
	name, class string
	mark        int
	points      []point
}

type bar struct {
	name, class string
	value       float64
	text        string
}

type tail struct {
	name, class string
	values      [3]float64 // p50, p99, p99.9; negative where there is none
}

// svg collects elements.
type svg struct{ strings.Builder }

func newSVG(height float64, label string) *svg {
	s := new(svg)
	fmt.Fprintf(s, `<svg viewBox="0 0 %g %g" role="img" aria-label="%s">`, chartWidth, height, html.EscapeString(label))
	return s
}

func (s *svg) line(x1, y1, x2, y2 float64) {
	fmt.Fprintf(s, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"></line>`, x1, y1, x2, y2)
}

func (s *svg) text(x, y float64, anchor, class, text string) {
	fmt.Fprintf(s, `<text x="%.1f" y="%.1f" text-anchor="%s"`, x, y, anchor)
	if class != "" {
		fmt.Fprintf(s, ` class="%s"`, class)
	}
	fmt.Fprintf(s, `>%s</text>`, html.EscapeString(text))
}

func (s *svg) done() template.HTML { return template.HTML(s.String() + `</svg>`) }

// mark is the shape of a store's points: told apart without colours.
func mark(i int, x, y float64) string {
	polygon := func(points ...float64) string {
		var b strings.Builder
		for j := 0; j < len(points); j += 2 {
			fmt.Fprintf(&b, "%.1f,%.1f ", x+points[j], y+points[j+1])
		}
		return `<polygon class="mark" points="` + strings.TrimSpace(b.String()) + `"></polygon>`
	}
	switch i % colors {
	case 0:
		return fmt.Sprintf(`<circle class="mark" cx="%.1f" cy="%.1f" r="4.5"></circle>`, x, y)
	case 1:
		return polygon(-4, -4, 4, -4, 4, 4, -4, 4)
	case 2:
		return polygon(0, -5, 5, 4, -5, 4)
	case 3:
		return polygon(0, 5, 5, -4, -5, -4)
	case 4:
		return polygon(0, -6, 5, 0, 0, 6, -5, 0)
	case 5:
		return polygon(-2, -5, 2, -5, 2, -2, 5, -2, 5, 2, 2, 2, 2, 5, -2, 5, -2, 2, -5, 2, -5, -2, -2, -2)
	case 6:
		return polygon(-5, -2, 5, -2, 5, 2, -5, 2)
	}
	return polygon(-2, -5, 2, -5, 2, 5, -2, 5)
}

// scale is a logarithmic axis over whole steps of 1, 2, 5.
type scale struct {
	low, high float64
	ticks     []float64
}

func newScale(values []float64) scale {
	values = slices.DeleteFunc(values, func(v float64) bool { return v <= 0 })
	if len(values) == 0 {
		return scale{1, 10, []float64{1, 10}}
	}
	low, high := slices.Min(values), slices.Max(values)
	var ticks []float64
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for _, m := range []float64{1, 2, 5} {
			ticks = append(ticks, m*math.Pow(10, e))
		}
	}
	first, last := 0, len(ticks)-1
	for first+1 < len(ticks) && ticks[first+1] <= low {
		first++
	}
	for last > first+1 && ticks[last-1] >= high {
		last--
	}
	s := scale{ticks[first], ticks[last], ticks[first : last+1]}
	for len(s.ticks) > mostTicks { // tens alone, then every second of what is left
		tens := slices.DeleteFunc(slices.Clone(s.ticks), func(v float64) bool { return math.Abs(math.Log10(v)-math.Round(math.Log10(v))) > 1e-9 })
		if len(tens) == len(s.ticks) {
			tens = nil
			for i := 0; i < len(s.ticks); i += 2 {
				tens = append(tens, s.ticks[i])
			}
		}
		s.ticks = tens
	}
	// The ends of the axis say what lies beyond the outermost mark, where there is room.
	if s.at(s.ticks[0]) > endRoom {
		s.ticks = slices.Insert(slices.Clone(s.ticks), 0, s.low)
	}
	if last := s.ticks[len(s.ticks)-1]; s.at(last) < 1-endRoom {
		s.ticks = append(slices.Clip(s.ticks), s.high)
	}
	return s
}

const (
	mostTicks = 8    // that a phone has room for
	endRoom   = 0.08 // of an axis, for a label
)

// at is where v lies, between 0 and 1.
func (s scale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	return math.Log(v/s.low) / math.Log(s.high/s.low)
}

// short writes a number for an axis.
func short(v float64) string {
	text := func(v float64, unit string) string {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".") + unit
	}
	switch {
	case v >= 1e9:
		return text(v/1e9, "G")
	case v >= 1e6:
		return text(v/1e6, "M")
	case v >= 1e3:
		return text(v/1e3, "k")
	}
	return text(v, "")
}

// lineChart has logarithmic axes: a store that is twice as fast is as far above at any height.
func lineChart(lines []series, xTitle, yTitle string) template.HTML {
	s := newSVG(chartHeight, yTitle+" over "+xTitle)
	var xs, ys []float64
	for _, l := range lines {
		for _, p := range l.points {
			if !slices.Contains(xs, p.x) {
				xs = append(xs, p.x)
			}
			ys = append(ys, p.y)
		}
	}
	slices.Sort(xs)
	y := newScale(ys)
	right, bottom := chartWidth-chartRight, chartHeight-chartBottom
	const margin = 24.0 // between the axis and the first point
	xAt := func(v float64) float64 {
		if len(xs) < 2 {
			return (chartLeft + right) / 2
		}
		return chartLeft + margin + (right-chartLeft-2*margin)*math.Log(v/xs[0])/math.Log(xs[len(xs)-1]/xs[0])
	}
	yAt := func(v float64) float64 { return bottom - (bottom-chartTop)*y.at(v) }
	for _, t := range y.ticks {
		s.line(chartLeft, yAt(t), right, yAt(t))
		s.text(chartLeft-6, yAt(t)+4, "end", "", short(t))
	}
	for _, x := range xs {
		s.text(xAt(x), bottom+18, "middle", "", short(x))
	}
	s.text((chartLeft+right)/2, bottom+38, "middle", "", xTitle+" (logarithmic axes)")
	for _, l := range lines {
		var path []string
		for _, p := range l.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", xAt(p.x), yAt(p.y)))
		}
		if len(path) == 0 {
			continue
		}
		fmt.Fprintf(s, `<g class="%s"><polyline class="curve" points="%s"></polyline>`, l.class, strings.Join(path, " "))
		for _, p := range l.points {
			fmt.Fprintf(s, `<g>%s<title>%s, %s %s: %s</title></g>`, mark(l.mark, xAt(p.x), yAt(p.y)), html.EscapeString(l.name), short(p.x), xTitle, number(p.y, yTitle))
		}
		s.WriteString(`</g>`)
	}
	return s.done()
}

const barHeight = 28.0

// nameWidth is the room for the names of stores at the left.
const nameWidth = 130.0

// barChart starts at zero.
func barChart(bars []bar) template.HTML {
	s := newSVG(barHeight*float64(len(bars))+8, "bars")
	most := 0.0
	for _, b := range bars {
		most = max(most, b.value)
	}
	for i, b := range bars {
		y := 4 + barHeight*float64(i)
		s.text(nameWidth-8, y+18, "end", "name", b.name)
		width := 0.0
		if most > 0 {
			width = (chartWidth - nameWidth - 130) * b.value / most
		}
		fmt.Fprintf(s, `<g class="%s"><rect class="mark" x="%g" y="%.1f" width="%.1f" height="%g"></rect></g>`, b.class, nameWidth, y+3, width, barHeight-8)
		s.text(nameWidth+width+6, y+18, "start", "", b.text)
	}
	return s.done()
}

// tailChart has a line for each store from p50 to p99.9, on one logarithmic axis.
func tailChart(tails []tail) template.HTML {
	height := barHeight*float64(len(tails)) + 34
	s := newSVG(height, "latencies in microseconds")
	var all []float64
	for _, t := range tails {
		all = append(all, t.values[:]...)
	}
	x := newScale(all)
	at := func(v float64) float64 { return nameWidth + 6 + (chartWidth-nameWidth-34)*x.at(v) }
	bottom := height - 26
	for _, t := range x.ticks {
		s.line(at(t), 4, at(t), bottom)
		s.text(at(t), bottom+18, "middle", "", short(t))
	}
	for i, t := range tails {
		y := 6 + barHeight*(float64(i)+0.5)
		s.text(nameWidth-8, y+4, "end", "name", t.name)
		var known []float64
		for _, v := range t.values {
			if v >= 0 {
				known = append(known, v)
			}
		}
		if len(known) == 0 {
			continue
		}
		fmt.Fprintf(s, `<g class="%s"><line class="curve" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"></line>`, t.class, at(known[0]), y, at(known[len(known)-1]), y)
		for j, v := range t.values {
			if v >= 0 {
				fmt.Fprintf(s, `<g><circle class="mark" cx="%.1f" cy="%.1f" r="%d"></circle><title>%s, %s: %s µs</title></g>`, at(v), y, 6-j, html.EscapeString(t.name), tailMetrics[j], number(v, "µs"))
			}
		}
		s.WriteString(`</g>`)
	}
	return s.done()
}

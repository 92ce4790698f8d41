package numa

import (
	"fmt"
	"slices"
	"strings"
)

// Placement says where the pages of a range are. Counts are of base pages (a
// huge page counts as all the base pages that it covers). The zero value is an
// empty range; Add combines ranges.
type Placement struct {
	PageSize int64 // bytes of a base page
	Pages    int64 // of the range; the sum of the counts below
	ByNode   map[int]int64

	// NotPresent pages have no memory in this process: never touched, or only read
	// (they share the kernel's zero page), or dropped, or of a file whose page is at
	// most in the page cache.
	NotPresent int64
}

// Add adds the counts of q to p.
func (p *Placement) Add(q Placement) {
	if p.PageSize == 0 {
		p.PageSize = q.PageSize
	}
	p.Pages += q.Pages
	p.NotPresent += q.NotPresent
	for node, n := range q.ByNode {
		p.on(node, n)
	}
}

func (p *Placement) on(node int, pages int64) {
	if p.ByNode == nil {
		p.ByNode = map[int]int64{}
	}
	p.ByNode[node] += pages
}

// Nodes are those that hold a page, ascending.
func (p Placement) Nodes() []int {
	var ids []int
	for node, n := range p.ByNode {
		if n > 0 {
			ids = append(ids, node)
		}
	}
	slices.Sort(ids)
	return ids
}

// Present is the number of pages that lie on some node.
func (p Placement) Present() int64 {
	var sum int64
	for _, n := range p.ByNode {
		sum += n
	}
	return sum
}

// BytesOn is how much of the range lies on a node.
func (p Placement) BytesOn(node int) int64 { return p.ByNode[node] * p.PageSize }

// Elsewhere is the number of present pages that are on none of the nodes.
func (p Placement) Elsewhere(nodes ...int) int64 {
	n := p.Present()
	for _, id := range normal(nodes) {
		n -= p.ByNode[id]
	}
	return n
}

// Remote is the share, 0 to 1, of accesses that leave the node, for a reader
// there whose accesses are uniform over the present pages. It is 0 for an
// empty range.
func (p Placement) Remote(node int) float64 {
	present := p.Present()
	if present == 0 {
		return 0
	}
	return float64(p.Elsewhere(node)) / float64(present)
}

// String is one line, "node 0: 12.0 MiB, node 1: 12.0 MiB, not present: 4.0 KiB".
func (p Placement) String() string {
	var parts []string
	for _, id := range p.Nodes() {
		parts = append(parts, fmt.Sprintf("node %d: %s", id, formatBytes(p.BytesOn(id))))
	}
	if p.NotPresent > 0 {
		parts = append(parts, "not present: "+formatBytes(p.NotPresent*p.PageSize))
	}
	if parts == nil {
		return "no pages"
	}
	return strings.Join(parts, ", ")
}

// scale turns counts of a sample into counts of the whole range. Rounding goes
// to the largest count, so that the counts still add up to pages.
func (p Placement) scale(pages int64) Placement {
	if p.Pages == 0 || p.Pages == pages {
		return p
	}
	up := func(n int64) int64 { return int64(float64(n) / float64(p.Pages) * float64(pages)) }
	whole := Placement{PageSize: p.PageSize, Pages: pages, NotPresent: up(p.NotPresent)}
	left := pages - whole.NotPresent
	largest := -1
	for _, node := range p.Nodes() {
		whole.on(node, up(p.ByNode[node]))
		left -= whole.ByNode[node]
		if largest < 0 || p.ByNode[node] > p.ByNode[largest] {
			largest = node
		}
	}
	if largest >= 0 {
		whole.ByNode[largest] += left
	} else {
		whole.NotPresent += left
	}
	return whole
}

// even reports whether all present pages are on the nodes and each node has at
// least that share of its fair part. Few pages prove nothing and count as even.
func even(p Placement, nodes []int, share float64) bool {
	if p.Elsewhere(nodes...) > 0 {
		return false
	}
	fair := float64(p.Present()) / float64(len(nodes))
	if fair < 64 {
		return true
	}
	for _, id := range nodes {
		if float64(p.ByNode[id]) < share*fair {
			return false
		}
	}
	return true
}

// Report is a table of named structures and where each lies.
// The zero value is empty and ready.
type Report struct {
	Rows []ReportRow // in the order of their first Add
}

// ReportRow is one structure of a Report.
type ReportRow struct {
	Name string
	Placement

	// Copies: the structure exists once per node and each reader uses its own
	// node's copy, so that only a node without pages reads remotely.
	Copies bool
}

// Remote is Placement.Remote, except that Copies make a reader whose node
// holds pages local.
func (r ReportRow) Remote(node int) float64 {
	if r.Copies && r.ByNode[node] > 0 {
		return 0
	}
	return r.Placement.Remote(node)
}

// Add adds p to the row of that name, which it creates if need be.
func (r *Report) Add(name string, p Placement) { r.row(name).Placement.Add(p) }

// AddCopies is Add for a structure that exists once per node.
func (r *Report) AddCopies(name string, p Placement) {
	row := r.row(name)
	row.Copies = true
	row.Placement.Add(p)
}

func (r *Report) row(name string) *ReportRow {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	r.Rows = append(r.Rows, ReportRow{Name: name})
	return &r.Rows[len(r.Rows)-1]
}

// Total is the sum of the rows.
func (r *Report) Total() Placement {
	var sum Placement
	for _, row := range r.Rows {
		sum.Add(row.Placement)
	}
	return sum
}

// Format writes the table for these nodes: bytes per node of each structure,
// and the share of remote accesses that a reader on each node would make.
func (r *Report) Format(nodes []int) string {
	var b strings.Builder
	width := len("structure")
	for _, row := range r.Rows {
		width = max(width, len(row.Name))
	}
	fmt.Fprintf(&b, "%-*s", width, "structure")
	for _, id := range nodes {
		fmt.Fprintf(&b, "  %10s", fmt.Sprintf("node %d", id))
	}
	fmt.Fprintf(&b, "  %10s", "absent")
	for _, id := range nodes {
		fmt.Fprintf(&b, "  %10s", fmt.Sprintf("remote@%d", id))
	}
	b.WriteByte('\n')
	total := ReportRow{Name: "total", Placement: r.Total()}
	for _, row := range append(slices.Clone(r.Rows), total) {
		fmt.Fprintf(&b, "%-*s", width, row.Name)
		for _, id := range nodes {
			fmt.Fprintf(&b, "  %10s", formatBytes(row.BytesOn(id)))
		}
		fmt.Fprintf(&b, "  %10s", formatBytes((row.Pages-row.Present())*row.PageSize))
		for _, id := range nodes {
			remote := row.Remote(id)
			if row.Name == "total" {
				remote = r.Remote(id)
			}
			fmt.Fprintf(&b, "  %9.1f%%", 100*remote)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Remote is the share, 0 to 1, of accesses that leave the node, for a reader there
// that reads all rows. They are weighed by their present bytes; copies count once,
// since a reader reads one of them.
func (r *Report) Remote(node int) float64 {
	var all, far float64
	for _, row := range r.Rows {
		weight := float64(row.Present() * row.PageSize)
		if row.Copies && len(row.Nodes()) > 0 {
			weight /= float64(len(row.Nodes()))
		}
		all += weight
		far += weight * row.Remote(node)
	}
	if all == 0 {
		return 0
	}
	return far / all
}

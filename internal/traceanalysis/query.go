package traceanalysis

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/internal/tracefile"
)

// QueryReport is what a query trace says.
type QueryReport struct {
	File, Header  string
	Ended         bool
	First, Last   uint64 // microseconds
	Ops           map[QueryCell]*QueryCount
	PerSecond     []uint64 // operations by second, or longer stretches
	SecondsAPoint uint64
	TopKeys       []Top
}

// QueryCell is a kind of operation on a family; writes have no family of their own.
type QueryCell struct {
	Type   tracefile.Type
	Family uint32
}

// QueryCount counts operations.
type QueryCount struct{ Ops, Keys, Bytes uint64 }

// AnalyzeQueries reads a query trace once. Damage in it is the error, and the report is
// about what comes before it.
func AnalyzeQueries(in io.Reader, name string, top int) (*QueryReport, error) {
	q, err := tracefile.NewQueryReader(in, name)
	if err != nil {
		return nil, err
	}
	r := &QueryReport{File: name, Header: strings.TrimSpace(q.Header), Ops: map[QueryCell]*QueryCount{}, SecondsAPoint: 1}
	list := newTopList(topMemory)
	count := func(t tracefile.Type, family uint32, ops, keys, bytes int) {
		c := r.Ops[QueryCell{t, family}]
		if c == nil {
			if len(r.Ops) >= maxCells {
				return
			}
			c = new(QueryCount)
			r.Ops[QueryCell{t, family}] = c
		}
		c.Ops += uint64(ops)
		c.Keys += uint64(keys)
		c.Bytes += uint64(bytes)
	}
	var op tracefile.Query
	for {
		if err = q.Read(&op); err != nil {
			break
		}
		if r.First == 0 {
			r.First = op.Micros
		}
		r.Last = max(r.Last, op.Micros)
		r.tick((op.Micros - min(op.Micros, r.First)) / 1e6)
		switch op.Type {
		case tracefile.Write:
			count(op.Type, 0, 1, batchCount(op.Batch), len(op.Batch))
		case tracefile.MultiGet:
			for i, k := range op.Keys {
				first := 0
				if i == 0 {
					first = 1
				}
				count(op.Type, op.Families[i], first, 1, len(k))
				list.add(k, false)
			}
		default:
			count(op.Type, op.Family, 1, 1, len(op.Key))
			list.add(op.Key, false)
		}
	}
	r.Ended, r.TopKeys = q.Ended, list.top(top)
	if err == io.EOF {
		return r, nil
	}
	return r, err
}

// batchCount is the number of operations that a batch says it has.
func batchCount(b []byte) int {
	if len(b) < 12 {
		return 0
	}
	return int(uint32(b[8]) | uint32(b[9])<<8 | uint32(b[10])<<16 | uint32(b[11])<<24)
}

// tick counts an operation at a second; when there are too many points, two become one.
func (r *QueryReport) tick(second uint64) {
	for second/r.SecondsAPoint >= 1<<10 {
		for i := range (len(r.PerSecond) + 1) / 2 {
			n := r.PerSecond[2*i]
			if 2*i+1 < len(r.PerSecond) {
				n += r.PerSecond[2*i+1]
			}
			r.PerSecond[i] = n
		}
		r.PerSecond = r.PerSecond[:(len(r.PerSecond)+1)/2]
		r.SecondsAPoint *= 2
	}
	at := int(second / r.SecondsAPoint)
	for len(r.PerSecond) <= at {
		r.PerSecond = append(r.PerSecond, 0)
	}
	r.PerSecond[at]++
}

func (r *QueryReport) cells() []QueryCell {
	return slices.SortedFunc(maps.Keys(r.Ops), func(a, b QueryCell) int { return int(a.Type)<<33 + int(a.Family) - int(b.Type)<<33 - int(b.Family) })
}

// WriteText writes the report for a terminal.
func (r *QueryReport) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Query trace %s: %s\nfrom %s, %.3f seconds", r.File, r.Header, time.UnixMicro(int64(r.First)).UTC().Format("2006-01-02 15:04:05 UTC"), float64(r.Last-r.First)/1e6)
	if !r.Ended {
		b.WriteString("; it was not ended")
	}
	fmt.Fprintf(&b, "\n\n%-14s %10s %12s %12s %14s\n", "operation", "family", "operations", "keys", "bytes")
	total := uint64(0)
	for _, c := range r.cells() {
		n := r.Ops[c]
		family := strconv.FormatUint(uint64(c.Family), 10)
		if c.Type == tracefile.Write {
			family = "any"
		}
		fmt.Fprintf(&b, "%-14s %10s %12d %12d %14d\n", c.Type, family, n.Ops, n.Keys, n.Bytes)
		total += n.Ops
	}
	fmt.Fprintf(&b, "%-14s %10s %12d\n\nOperations by %d s\n", "all", "", total, r.SecondsAPoint)
	for i, n := range r.PerSecond {
		fmt.Fprintf(&b, "%10d %12d\n", uint64(i)*r.SecondsAPoint, n)
	}
	b.WriteString("\nMost read keys\n")
	for i := range r.TopKeys {
		fmt.Fprintf(&b, "%12d  %s%s\n", r.TopKeys[i].Count, keyName(&r.TopKeys[i]), atMost(&r.TopKeys[i]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCSV writes the report in the columns of Report.WriteCSV.
func (r *QueryReport) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	row := func(section, series, x string, n uint64) {
		// An error stays, and Error returns it.
		_ = c.Write([]string{section, series, x, strconv.FormatUint(n, 10)})
	}
	_ = c.Write([]string{"section", "series", "x", "value"})
	for _, cell := range r.cells() {
		n := r.Ops[cell]
		for _, v := range []struct {
			name string
			n    uint64
		}{{"operations", n.Ops}, {"keys", n.Keys}, {"bytes", n.Bytes}} {
			row("family_"+strconv.FormatUint(uint64(cell.Family), 10), cell.Type.String(), v.name, v.n)
		}
	}
	for i, n := range r.PerSecond {
		row("timeline", "operations", strconv.FormatUint(uint64(i)*r.SecondsAPoint, 10), n)
	}
	for i := range r.TopKeys {
		row("top_keys", "reads", printable(string(r.TopKeys[i].Key), 1<<10), r.TopKeys[i].Count)
	}
	c.Flush()
	return c.Error()
}

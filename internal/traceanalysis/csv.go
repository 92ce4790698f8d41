package traceanalysis

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
)

// WriteCSV writes all of the report in one table of four columns: which section, which
// series in it, where on its axis, and the value.
func (r *Report) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	row := func(section, series, x string, value float64) {
		// An error stays, and Error returns it.
		_ = c.Write([]string{section, series, x, strconv.FormatFloat(value, 'g', -1, 64)})
	}
	_ = c.Write([]string{"section", "series", "x", "value"})
	for _, s := range []struct {
		name string
		v    float64
	}{{"accesses", float64(r.Accesses)}, {"hits", float64(r.Hits)}, {"one_of_blocks", float64(r.Every)}, {"accesses_of_the_whole", r.Total},
		{"blocks", r.Blocks}, {"block_bytes", r.BlockBytes}, {"seconds", r.Seconds()}, {"point_reads", float64(r.PointReads.Accesses)},
		{"point_reads_found", float64(r.PointReads.Found)}} {
		row("summary", s.name, "", s.v)
	}
	for _, d := range Dimensions {
		for _, g := range r.By(d) {
			name := printable(g.Name, 1<<10)
			row(d, "accesses", name, float64(g.Accesses))
			row(d, "hits", name, float64(g.Hits))
			row(d, "misses", name, float64(g.Accesses-g.Hits))
			row(d, "no_insert", name, float64(g.NoInsert))
			row(d, "bytes", name, float64(g.Bytes))
		}
	}
	for _, curve := range r.Curves {
		for i, v := range curve.Ratios {
			row("miss_ratio", curve.Policy, strconv.FormatInt(r.Capacities[i], 10), v)
		}
	}
	for i, v := range r.StackRatios {
		row("miss_ratio", "lru_by_reuse_distance", strconv.FormatInt(r.StackCapacities[i], 10), v)
	}
	for _, t := range slices.Sorted(maps.Keys(r.Distance)) {
		for i, n := range r.Distance[t].Buckets {
			if n > 0 {
				row("reuse_distance_below_bytes", t.String(), strconv.FormatFloat(bucketEnd(i), 'f', 0, 64), float64(n))
			}
		}
	}
	for _, t := range slices.Sorted(maps.Keys(r.Interval)) {
		for i, n := range r.Interval[t].Buckets {
			if n > 0 {
				row("reuse_interval_below_us", t.String(), strconv.FormatFloat(bucketEnd(i), 'f', 0, 64), float64(n))
			}
		}
	}
	for _, p := range r.Timeline {
		x := strconv.FormatUint(p.Micros, 10)
		row("timeline", "accesses", x, float64(p.Accesses))
		row("timeline", "hits", x, float64(p.Hits))
		row("timeline", "blocks", x, p.Blocks)
		row("timeline", "bytes", x, p.Bytes)
	}
	for i := range r.TopBlocks {
		row("top_blocks", "accesses", r.TopBlocks[i].BlockName(), float64(r.TopBlocks[i].Count))
	}
	for i := range r.TopKeys {
		row("top_keys", "accesses", printable(string(r.TopKeys[i].Key), 1<<10), float64(r.TopKeys[i].Count))
	}
	for i, f := range r.Features {
		for j, v := range f {
			row("features", FeatureNames[j], strconv.Itoa(i), v)
		}
	}
	for a, rows := range r.Correlations {
		for b, v := range rows {
			row("correlation", FeatureNames[a], FeatureNames[b], v)
		}
	}
	c.Flush()
	return c.Error()
}

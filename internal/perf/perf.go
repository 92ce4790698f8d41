// Package perf is the perf context: what single operations did, counted for whoever
// asks for it by handing one in. Where none is handed in, a nil check is all it costs.
package perf

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Level says what a Context measures.
type Level uint8

// The levels of RocksDB, by its numbers.
const (
	Uninitialized                      Level = iota
	Disable                                  // nothing
	EnableCount                              // counts only
	EnableTimeExceptForMutex                 // times too
	EnableTimeAndCPUTimeExceptForMutex       // the same here: no CPU time is measured
	EnableTime                               // the same here: nothing waits for a mutex worth measuring
)

// Counts reports whether c counts.
func (c *Context) Counts() bool { return c != nil && c.Level != Disable }

// Times reports whether c measures times.
func (c *Context) Times() bool { return c != nil && c.Level >= EnableTimeExceptForMutex }

// Start is the time now if c measures times, for Stop.
func (c *Context) Start() (t time.Time) {
	if c.Times() {
		t = time.Now()
	}
	return t
}

// Stop adds the time since Start to field, which is one of c's.
func (c *Context) Stop(field *uint64, start time.Time) {
	if !start.IsZero() {
		*field += uint64(max(time.Since(start), 0))
	}
}

// Reset sets all figures to zero. The level stays.
func (c *Context) Reset() { *c = Context{Level: c.Level} }

// Merge adds the figures of o.
func (c *Context) Merge(o *Context) {
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(o).Elem()
	for i := range names {
		a.Field(i + 1).SetUint(a.Field(i+1).Uint() + b.Field(i+1).Uint())
	}
	a, b = reflect.ValueOf(&c.IOStats).Elem(), reflect.ValueOf(&o.IOStats).Elem()
	for i := range ioNames {
		a.Field(i).SetUint(a.Field(i).Uint() + b.Field(i).Uint())
	}
}

// Metrics returns the figures by RocksDB's names, those of IOStats not included.
func (c *Context) Metrics() map[string]uint64 {
	m := make(map[string]uint64, len(names))
	v := reflect.ValueOf(c).Elem()
	for i, name := range names {
		m[name] = v.Field(i + 1).Uint()
	}
	return m
}

// String is RocksDB's text of a perf context: name = figure, and so on.
func (c *Context) String() string { return c.text(false) }

// NonZero is String without the figures that are zero.
func (c *Context) NonZero() string { return c.text(true) }

func (c *Context) text(skipZero bool) string {
	var b strings.Builder
	v := reflect.ValueOf(c).Elem()
	for i, name := range names {
		if n := v.Field(i + 1).Uint(); n > 0 || !skipZero {
			fmt.Fprintf(&b, "%s = %d, ", name, n)
		}
	}
	if skipZero {
		return b.String()
	}
	// RocksDB goes on with figures by level, of which there are none until they are asked for.
	return b.String() + "bloom_filter_useful = bloom_filter_full_positive = bloom_filter_full_true_positive = block_cache_hit_count = block_cache_miss_count = "
}

// String is RocksDB's text of an iostats context.
func (s *IOStats) String() string {
	var b strings.Builder
	v := reflect.ValueOf(s).Elem()
	for i, name := range ioNames {
		fmt.Fprintf(&b, "%s = %d, ", name, v.Field(i).Uint())
	}
	return b.String()
}

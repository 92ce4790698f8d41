package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxID bounds node and CPU numbers read from text: the kernel's own largest
// configurations have 1,024 nodes and 8,192 CPUs, and a damaged list such as
// "0-4294967295" must not become an allocation.
const maxID = 8192

// ParseList reads a kernel list such as "0-3,8,10-11" ("" is the empty list).
// The result is ascending and without duplicates. The kernel never writes
// descending or overlapping lists, so they are errors, as are numbers over 8191.
func ParseList(s string) ([]int, error) {
	s = strings.TrimSpace(s)
	var list []int
	if s == "" {
		return list, nil
	}
	last := -1
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		lo, err := parseID(from)
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", clip(s), err)
		}
		hi := lo
		if isRange {
			if hi, err = parseID(to); err != nil {
				return nil, fmt.Errorf("list %q: %w", clip(s), err)
			}
		}
		if lo <= last || hi < lo {
			return nil, fmt.Errorf("list %q: expected ascending numbers, found %q after %d", clip(s), clip(part), last)
		}
		for i := lo; i <= hi; i++ {
			list = append(list, i)
		}
		last = hi
	}
	return list, nil
}

func parseID(s string) (int, error) {
	// strconv would take a sign, which the kernel never writes.
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, fmt.Errorf("expected a number, found %q", clip(s))
	}
	n, err := strconv.Atoi(s)
	if err != nil || n >= maxID {
		return 0, fmt.Errorf("expected a number below %d, found %q", maxID, clip(s))
	}
	return n, nil
}

// clip keeps error texts short when a file holds garbage.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// FormatList writes numbers as the kernel does, "0-3,8"; the inverse of
// ParseList. Any order and duplicates are accepted.
func FormatList(ids []int) string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var b strings.Builder
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(ids[i]))
		if j > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(ids[j]))
		}
		i = j + 1
	}
	return b.String()
}

// without returns the ids of a that are not in b, in order.
func without(a, b []int) []int {
	var left []int
	for _, id := range a {
		if !slices.Contains(b, id) {
			left = append(left, id)
		}
	}
	return left
}

// intersect returns the ids of a that are in b, in order.
func intersect(a, b []int) []int {
	var both []int
	for _, id := range a {
		if slices.Contains(b, id) {
			both = append(both, id)
		}
	}
	return both
}

// normal sorts ids and drops duplicates, in a copy.
func normal(ids []int) []int {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

package main

import "fmt"

// didYouMean names the one of known that name is most like, if it may be a slip: "; did you mean scan?".
func didYouMean(name string, known []string) string {
	best, least := "", max(1, len(name)/3)
	for _, k := range known {
		if n := slips(name, k); n <= least {
			best, least = k, n-1
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// slips is with how many letters left out, put in, changed, or two changed over, a becomes b.
func slips(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		last := before
		before, row = row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(before[j]+cost, before[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], last[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

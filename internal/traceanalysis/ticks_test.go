package traceanalysis

import (
	"math"
	"slices"
	"testing"
)

func TestTicksAreRound(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, test := range []struct {
		name      string
		got, want []float64
	}{
		{"counts", linearTicks(0, 5712, 1, true), []float64{0, 2000, 4000, 6000}},
		{"shares", linearTicks(0, 1, 1, true), []float64{0, 0.25, 0.5, 0.75, 1}},
		{"small shares", linearTicks(0, 0.221, 1, true), []float64{0, 0.1, 0.2, 0.30000000000000004}},
		{"bytes", linearTicks(0, 10.4*m, k, true), []float64{0, 5 * m, 10 * m, 15 * m}},
		{"seconds", linearTicks(0, 2.03, 1, false), []float64{0, 1, 2}},
		{"seconds", linearTicks(0.2, 2, 1, false), []float64{0.5, 1, 1.5, 2}},
		{"a point", linearTicks(3, 3, 1, true), []float64{3}},
		{"capacities", powerTicks(40.5*k, 64*m), []float64{64 * k, 512 * k, 4 * m, 32 * m}},
		{"a few capacities", powerTicks(k, 8*k), []float64{k, 2 * k, 4 * k, 8 * k}},
		{"one capacity", powerTicks(5, 7), []float64{7}},
	} {
		if math.Signbit(test.got[0]) {
			t.Errorf("%s begins below zero", test.name)
		}
		if !slices.Equal(test.got, test.want) || len(test.got) > maxTicks+1 {
			t.Errorf("%s: %v, want %v", test.name, test.got, test.want)
		}
	}
}

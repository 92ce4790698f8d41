package traceanalysis

import "math"

// Axes are marked at round numbers, of which a phone has room for five.
const maxTicks = 5

// linearTicks are multiples of a round step from zero or the first at or above low, up to the first at or
// above high where high is to be covered, else to the last at or below it. A unit of 1024 makes steps round in
// bytes.
func linearTicks(low, high, unit float64, cover bool) (ticks []float64) {
	if !(high > low) {
		return []float64{low}
	}
	scale := 1.0
	for unit > 1 && (high-low)/scale >= unit {
		scale *= unit
	}
	step := roundStep((high - low) / scale / (maxTicks - 1))
	step *= scale
	for i := math.Ceil(low/step - 1e-9); ; i++ {
		v := i*step + 0 // not -0
		if !cover && v > high*(1+1e-9) {
			return ticks
		}
		ticks = append(ticks, v)
		if cover && v >= high*(1-1e-9) {
			return ticks
		}
	}
}

// roundStep is the least of 1, 2, 2.5 and 5 times a power of ten that is at least v.
func roundStep(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*ten*(1+1e-9) {
			return m * ten
		}
	}
	return 10 * ten
}

// powerTicks are powers of two from low to high, evenly spaced.
func powerTicks(low, high float64) (ticks []float64) {
	first, last := math.Ceil(math.Log2(max(low, 1))-1e-9), math.Floor(math.Log2(max(high, 1))+1e-9)
	if last < first {
		return []float64{high}
	}
	step := math.Floor((last-first)/maxTicks) + 1
	for e := first; e <= last; e += step {
		ticks = append(ticks, math.Exp2(e))
	}
	return ticks
}

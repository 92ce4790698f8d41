//go:build !race

package flatrock

const raceEnabled = false

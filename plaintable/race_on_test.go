//go:build race

package plaintable

// raceEnabled: under the race detector a sync.Pool forgets at random.
const raceEnabled = true

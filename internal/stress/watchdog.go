package stress

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Something that takes this many ticks hangs. Ticks are counted, not time: while the
// process is stopped, or the machine sleeps, there are none.
const (
	hangTick  = 5 * time.Second
	hangTicks = 48
)

// watch calls hung once, unless the function that it returns is called before the ticks
// are over.
func watch(hung func()) (done func()) {
	stop := make(chan struct{})
	go func() {
		tick := time.NewTicker(hangTick)
		defer tick.Stop()
		for range hangTicks {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
		hung()
	}()
	return func() { close(stop) }
}

// watchRound ends the process with the stacks of all goroutines when a round hangs.
func (s *session) watchRound(harness string, round uint64) (done func()) {
	return watch(func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s, seed %d, database %d, round %d: it hangs", harness, s.cfg.Seed, s.number, round))
	})
}

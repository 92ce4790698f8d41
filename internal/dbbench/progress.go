package dbbench

import (
	"fmt"
	"time"

	"github.com/flatrock-db/flatrock/internal/progress"
)

// startProgress shows how far the threads are, on a terminal, until the function that
// it returns is called.
func (b *bench) startProgress(name string, threads []*thread) (end func()) {
	if !b.show || !b.c.progressReports || b.c.statsInterval > 0 || b.c.statsIntervalSeconds > 0 {
		return func() {}
	}
	start := time.Now()
	return progress.Show(b.log, progress.Interval, func() string {
		done := int64(0)
		for _, t := range threads {
			if !t.stats.excluded {
				done += t.stats.published.Load()
			}
		}
		return fmt.Sprintf("%s: finished %d ops, %.0f ops/sec", name, done, perSecond(float64(done), time.Since(start).Seconds()))
	})
}

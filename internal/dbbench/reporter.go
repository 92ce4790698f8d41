package dbbench

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"time"
)

// startReporter writes how many operations were done in each interval to --report_file,
// as db_bench does: secs_elapsed,interval_qps. The function that it returns ends it.
func (b *bench) startReporter(threads []*thread) (end func() error, err error) {
	if b.c.reportInterval <= 0 {
		return func() error { return nil }, nil
	}
	f, err := os.Create(b.c.reportFile)
	if err != nil {
		return nil, fmt.Errorf("--report_file: %w", err)
	}
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "secs_elapsed,interval_qps")
	interval := time.Duration(b.c.reportInterval) * time.Second
	start, last := time.Now(), int64(0)
	line := func(now time.Time) {
		done := int64(0)
		for _, t := range threads {
			done += t.stats.published.Load()
		}
		fmt.Fprintf(w, "%d,%d\n", int64(math.Round(now.Sub(start).Seconds())), max(done-last, 0)/b.c.reportInterval) // fillseekseq begins anew
		_ = w.Flush()                                                                                                // the error stays until the end
		last = done
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C:
				line(now)
			case <-stop:
				return
			}
		}
	}()
	return func() error {
		close(stop)
		<-stopped
		err := w.Flush()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("--report_file: %w", err)
		}
		return nil
	}, nil
}

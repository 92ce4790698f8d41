package flatrock

import (
	"time"

	"github.com/flatrock-db/flatrock/ratelimit"
)

// Writes that would rather fail than wait (WriteOptions.NoSlowdown), and writes that
// give way to others while compactions are behind (WriteOptions.LowPri).

// writeStall is why a write with NoSlowdown failed. errors.Is matches it with ErrIncomplete.
type writeStall string

func (e writeStall) Error() string        { return "flatrock: " + string(e) }
func (e writeStall) Is(target error) bool { return target == ErrIncomplete }

// RocksDB's two: Status::Incomplete.
const (
	errWriteStall  = writeStall("write stall")
	errLowPriStall = writeStall("low priority write stall")
)

// lowPriRate is how many bytes a second LowPri writes may have before a delay has
// shown what compactions can bear; then it is a quarter of the delayed rate.
const lowPriRate = 1 << 20

// throttleLowPri lets a low-priority write of so many bytes wait its turn while
// compactions are behind. It waits outside of the commit queue, in nobody's way.
func (db *DB) throttleLowPri(bytes int64, noSlowdown bool) error {
	db.mu.Lock()
	behind := db.speedupLocked()
	db.mu.Unlock()
	switch {
	case !behind:
		return nil
	case noSlowdown:
		return errLowPriStall
	}
	start := time.Now()
	err := db.lowPri.Request(db.lifetime, bytes, ratelimit.High)
	db.metrics.lowPriNanos.Add(int64(time.Since(start)))
	if err != nil {
		return ErrClosed
	}
	return nil
}

// begin says that the leader waits. Those of the queue that will not wait fail now, and
// those that come fail on arrival, until end.
func (q *commitQueue) begin() {
	q.mu.Lock()
	q.stalled = true
	var refused []*request
	kept := q.waiting[:0]
	for _, r := range q.waiting {
		if r.noSlowdown {
			refused = append(refused, r)
		} else {
			kept = append(kept, r)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
	q.mu.Unlock()
	for _, r := range refused {
		r.err = errWriteStall
		r.rouse()
	}
}

func (q *commitQueue) end() {
	q.mu.Lock()
	q.stalled = false
	q.mu.Unlock()
}

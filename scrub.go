package flatrock

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Checks of plain tables in use, beyond what opening and VerifyChecksum check: a sample of
// reads, and a scrub that goes over the files again and again.

// sampled reports whether this read of the handle's table is one to check.
func (h *tableHandle) sampled() bool { return rand.Uint32N(h.sample) == 0 }

// checkSampled checks the row of a value that a sampled read found.
func (h *tableHandle) checkSampled(value []byte, keyLen int) error {
	h.cf.db.metrics.sampledReads.Add(1)
	err := h.plain.CheckRow(value, keyLen)
	if err != nil {
		h.cf.db.metrics.damagedBlocks.Add(1)
		h.cf.db.log.Error("a sampled read met damage", "family", h.cf.name, "err", err)
	}
	return err
}

// sampleOf is what a handle keeps of VerifyReadsOneIn.
func sampleOf(oneIn int) uint32 { return uint32(min(max(oneIn, 0), math.MaxInt32)) }

// scrubPause is how long the scrub rests after a pass, and how long it may sleep ahead.
const scrubPause = time.Second

// startScrub begins to scrub if a family asks for it and nothing scrubs yet: when Open is
// done, and when a family is made later. Close must not be waiting for the workers yet.
func (db *DB) startScrub() {
	for _, cf := range db.ColumnFamilies() {
		if o, ok := cf.opts.Table.(PlainTableOptions); ok && o.ScrubBytesPerSecond > 0 {
			if db.scrubbing.CompareAndSwap(false, true) {
				db.workers.Go(db.scrubLoop)
			}
			return
		}
	}
}

// scrubLoop scrubs until the database closes or damage was found.
func (db *DB) scrubLoop() {
	for db.lifetime.Err() == nil {
		for _, cf := range db.ColumnFamilies() {
			o, ok := cf.opts.Table.(PlainTableOptions)
			if !ok || o.ScrubBytesPerSecond <= 0 {
				continue
			}
			if err := db.scrub(db.lifetime, cf, o.ScrubBytesPerSecond); err != nil {
				if db.lifetime.Err() == nil {
					db.fail("scrubbing table files", err)
				}
				return
			}
		}
		db.metrics.scrubs.Add(1)
		sleep(db.lifetime, scrubPause)
	}
}

// sleep waits, at most until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// scrub goes over the files of a family once, at so many bytes a second.
func (db *DB) scrub(ctx context.Context, cf *ColumnFamily, rate int64) error {
	start, done := time.Now(), int64(0)
	var seen []uint64
	for {
		h := db.nextToScrub(cf, seen)
		if h == nil {
			return nil
		}
		seen = append(seen, h.meta.Number)
		chunks, err := h.plain.Chunks()
		for i := 0; i < chunks && err == nil && ctx.Err() == nil; i++ {
			var n int
			n, err = h.plain.CheckChunk(i)
			done += int64(n)
			db.metrics.scrubbed.Add(int64(n))
			if ahead := time.Duration(float64(done)/float64(rate)*1e9) - time.Since(start); ahead > 0 {
				sleep(ctx, min(ahead, scrubPause))
			}
		}
		db.unhold(h)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// nextToScrub holds a file of the family that is not among those seen; nil if there is none.
// Only the file is held: a read state would keep old memtables too.
func (db *DB) nextToScrub(cf *ColumnFamily, seen []uint64) *tableHandle {
	db.mu.Lock()
	defer db.mu.Unlock()
	for number, h := range cf.tables {
		if h.plain != nil && h.refs > 0 && !h.obsolete && !slices.Contains(seen, number) {
			h.refs++
			return h
		}
	}
	return nil
}

// unhold lets go of a file that was held by its own count.
func (db *DB) unhold(h *tableHandle) {
	db.mu.Lock()
	h.refs--
	dead := h.refs == 0
	if dead && h.cf.tables[h.meta.Number] == h {
		delete(h.cf.tables, h.meta.Number)
	}
	db.mu.Unlock()
	if dead {
		db.closeTable(h)
	}
}

package dbbench

import "fmt"

// fill returns the body of a benchmark that writes values in an order.
func fill(order keyOrder) func(*thread) error {
	return func(t *thread) error {
		c := t.c
		ops := c.writesEach()
		if order == uniqueRandom && c.fill.overwriteProbability > 0 {
			return t.fillOverwriting(ops)
		}
		if ops != t.p.num {
			t.stats.message = fmt.Sprintf("(%d ops)", t.p.num)
		}
		// Range deletes take keys from the same source, so there are so many more.
		keys := newKeySource(order, uint64(t.p.num+c.maxNumRangeTombstones), t.rng)
		values := t.values()
		batch := t.p.batch
		if order == uniqueRandom {
			ops = min(ops, t.p.num) // each key once
		}
		var written, size int64
		loop := t.count(order == random, ops)
		for !loop.done(batch) {
			t.batch.Reset()
			start := size
			for range batch {
				t.setKey(keys.take())
				v := values.next()
				t.batch.Put(t.cf, t.key, v)
				size += int64(len(t.key) + len(v))
				written++
				if c.writesPerRangeTombstone > 0 {
					t.rangeTombstone(written, &keys)
				}
			}
			if t.writePace != nil {
				t.writePace.take(size - start)
				t.stats.resetClock()
			}
			if err := t.db.Write(t.wo, &t.batch); err != nil {
				return err
			}
			t.stats.finished(batch, opWrite)
		}
		t.stats.bytes = size
		return nil
	}
}

// rangeTombstone adds a range delete to the batch when one is due after that many writes.
func (t *thread) rangeTombstone(written int64, keys *keySource) {
	c := t.c
	since := written - c.writesBeforeDeleteRange
	if since <= 0 || since%c.writesPerRangeTombstone != 0 || since/c.writesPerRangeTombstone > c.maxNumRangeTombstones {
		return
	}
	start, width := keys.take(), uint64(c.rangeTombstoneWidth)
	if c.expandRangeTombstones {
		for i := range width {
			t.setKey(start + i)
			t.batch.Delete(t.cf, t.key)
		}
		return
	}
	t.setKey(start)
	end := t.maker.put(t.maker.buffer(), start+width)
	t.batch.DeleteRange(t.cf, t.key, end)
}

// deleteKeys returns the body of a benchmark that deletes keys in an order.
func deleteKeys(order keyOrder) func(*thread) error {
	return func(t *thread) error {
		keys := newKeySource(order, uint64(t.p.num), t.rng)
		batch := t.c.batchSize
		loop := t.count(order == random, t.c.deletesEach())
		for !loop.done(batch) {
			t.batch.Reset()
			for range batch {
				t.setKey(keys.take() % keys.num)
				t.batch.Delete(t.cf, t.key)
			}
			if err := t.db.Write(t.wo, &t.batch); err != nil {
				return err
			}
			t.stats.finished(batch, opDelete)
		}
		return nil
	}
}

// writerPace is the rate of the writer of readwhilewriting: --writes_per_second in
// operations, else --benchmark_write_rate_limit in bytes.
func (b *bench) writerPace(halted <-chan struct{}) *pacer {
	if b.c.writesPerSecond > 0 {
		return newPacer(float64(b.c.writesPerSecond)*float64(b.c.keySize+b.c.valueSize), halted)
	}
	return newPacer(float64(b.c.writeRateLimit), halted)
}

// backgroundWriter overwrites random keys until the readers are done. It is not
// merged into their figures.
func backgroundWriter(t *thread) error {
	num := t.keyCount()
	return t.writeBeside(func(value []byte) error {
		t.setKey(t.rng.Uint64N(num))
		t.batch.Reset()
		t.batch.Put(t.cf, t.key, value)
		return t.db.Write(t.wo, &t.batch)
	}, opWrite)
}

// writeBeside calls write for one value after the other, at the pace of the writer, until
// the readers are done.
func (t *thread) writeBeside(write func(value []byte) error, kind opKind) error {
	values := t.values()
	limit := int64(-1)
	if t.c.finishAfterWrites {
		limit = t.c.writesEach()
	}
	unit := t.c.keySize + t.c.valueSize
	var size int64
	for !t.halt.Load() && t.stats.done != limit {
		v := values.next()
		if t.writePace != nil {
			t.writePace.take(unit)
			t.stats.resetClock()
			if t.halt.Load() {
				break
			}
		}
		if err := write(v); err != nil {
			return err
		}
		size += int64(len(t.key) + len(v))
		t.stats.finished(1, kind)
	}
	t.stats.bytes = size
	return nil
}

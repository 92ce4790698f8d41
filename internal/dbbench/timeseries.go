package dbbench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// timeseries keeps events of --key_id_range series: the number of the series, then a
// timestamp, both big-endian in 8 bytes, as the key. Time is a counter that each write
// moves on by one; what is --time_range behind is expired.
//
// One thread writes, --num_deletion_threads of the others remove what has expired if
// --expire_style is delete, and the rest read whole series. With compaction_filter,
// compactions remove it.

const timeKeyLen = 16

// clock is the time of a bench's series.
type clock struct{ now atomic.Uint64 }

// expired reports whether a timestamp is out of range.
func (k *clock) expired(timestamp, span uint64) bool { return timestamp+span < k.now.Load() }

// expiry is the compaction filter of --expire_style=compaction_filter.
type expiry struct {
	clock *clock
	span  uint64
}

func (e *expiry) Name() string { return "flatrock.bench.expiry" }

func (e *expiry) Filter(f *flatrock.FilterEntry) flatrock.FilterDecision {
	if len(f.Key) == timeKeyLen && e.clock.expired(binary.BigEndian.Uint64(f.Key[8:]), e.span) {
		return flatrock.FilterRemove
	}
	return flatrock.FilterKeep
}

var besideTimeSeries = &beside{body: writeTimeSeries, name: "timeseries write", awaited: true}

// writeTimeSeries writes events until it has written as many as --writes says; with --duration,
// until the readers are done.
func writeTimeSeries(t *thread) error {
	values := t.values()
	series := uint64(t.c.keyIDRange)
	key := make([]byte, timeKeyLen)
	var size int64
	loop := t.count(true, t.c.writesEach())
	for !loop.done(1) {
		binary.BigEndian.PutUint64(key, t.rng.Uint64N(series))
		binary.BigEndian.PutUint64(key[8:], t.clock.now.Add(1))
		v := values.next()
		t.writePace.take(int64(len(key) + len(v)))
		if err := t.cf.Put(t.wo, key, v); err != nil {
			return err
		}
		size += int64(len(key) + len(v))
		t.stats.finished(1, opWrite)
	}
	t.stats.bytes = size
	return nil
}

func timeSeries(t *thread) error {
	if t.c.expireStyle == "delete" && t.id < t.c.numDeletionThreads {
		return t.deleteExpired()
	}
	series := uint64(t.c.keyIDRange)
	key := make([]byte, timeKeyLen)
	var found, read, events, size int64
	loop := t.count(true, t.p.reads)
	for !loop.done(1) {
		binary.BigEndian.PutUint64(key, t.rng.Uint64N(series))
		binary.BigEndian.PutUint64(key[8:], 0)
		t.readPace.take(1)
		it, err := t.cf.NewIterator(t.ro)
		if err != nil {
			return err
		}
		n := int64(0)
		for ok := it.SeekGE(key); ok && bytes.HasPrefix(it.Key(), key[:8]); ok = it.Next() {
			n++
			size += int64(len(it.Key()) + len(it.Value()))
		}
		if err := it.Close(); err != nil {
			return err
		}
		read++
		found += min(n, 1)
		events += n
		t.stats.finished(1, opSeek)
	}
	t.stats.bytes = size
	t.stats.message = fmt.Sprintf("(%d of %d found, %d events)", found, read, events)
	return nil
}

// deleteExpired looks through one series after the other.
func (t *thread) deleteExpired() error {
	key := make([]byte, timeKeyLen)
	loop := t.count(true, t.p.reads)
	for id := uint64(t.id); !loop.done(1); id += uint64(t.c.numDeletionThreads) {
		binary.BigEndian.PutUint64(key, id%uint64(t.c.keyIDRange))
		binary.BigEndian.PutUint64(key[8:], 0)
		it, err := t.cf.NewIterator(t.ro)
		if err != nil {
			return err
		}
		t.batch.Reset()
		for ok := it.SeekGE(key); ok && len(it.Key()) == timeKeyLen && bytes.HasPrefix(it.Key(), key[:8]); ok = it.Next() {
			if !t.clock.expired(binary.BigEndian.Uint64(it.Key()[8:]), t.c.timeRange) {
				break
			}
			t.batch.Delete(t.cf, it.Key())
		}
		if err := it.Close(); err != nil {
			return err
		}
		if t.batch.Count() > 0 {
			if err := t.db.Write(t.wo, &t.batch); err != nil {
				return err
			}
		}
		t.stats.finished(1, opDelete)
		if t.batch.Count() == 0 && t.p.duration > 0 {
			time.Sleep(time.Millisecond) // nothing has expired yet
		}
	}
	return nil
}

package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// valueOf makes the value that an entry must have, so that a reader that met a
// half written node would see it.
func valueOf(dst, key []byte, seq uint64) []byte {
	dst = append(dst[:0], key...)
	for i := range seq % 23 {
		dst = append(dst, byte(seq>>(i%8)))
	}
	return dst
}

// numberedKey is the key of the i-th write of the concurrency tests: versions of
// a few hundred keys, some outside of the domain of Fixed(4).
func numberedKey(dst []byte, i uint64) []byte {
	i = i * 2654435761 % 701
	if i%13 == 0 {
		return fmt.Appendf(dst[:0], "%03d", i)
	}
	return fmt.Appendf(dst[:0], "%03d%d", i, i%97)
}

// reader is one goroutine beside the writers.
type reader struct {
	m         *MemTable
	published *atomic.Uint64 // every seq up to it was added before
	rng       *rand.Rand
	buf       []byte
}

func (r *reader) check(key []byte, trailer uint64, value []byte) error {
	r.buf = valueOf(r.buf, key, keys.Seq(trailer))
	if !bytes.Equal(r.buf, value) {
		return fmt.Errorf("entry %q#%d holds %q", key, keys.Seq(trailer), value)
	}
	return nil
}

func (r *reader) get() error {
	seq := r.published.Load()
	if seq == 0 {
		return nil
	}
	i := 1 + r.rng.Uint64N(seq)
	key := numberedKey(nil, i)
	value, trailer, ok := r.m.Get(lookup(r.m.extractor, key, seq))
	if !ok || keys.Seq(trailer) < i || keys.Seq(trailer) > seq {
		return fmt.Errorf("Get(%q, %d) = #%d, %v; #%d was published", key, seq, keys.Seq(trailer), ok, i)
	}
	return r.check(key, trailer, value)
}

// scan reads everything in one direction: strictly in order, all that was
// published before it began.
func (r *reader) scan() error {
	seq := r.published.Load()
	it := r.m.NewIterator()
	defer it.Close()
	forward := r.rng.IntN(2) == 0
	start, step := it.First, it.Next
	if !forward {
		start, step = it.Last, it.Prev
	}
	old, n := entry{}, uint64(0)
	for ok := start(); ok; ok = step() {
		e := entry{it.UserKey(), it.Trailer(), it.Value()}
		if err := r.check(e.key, e.trailer, e.value); err != nil {
			return err
		}
		if old.key != nil && (r.m.order.CompareInternal(old.key, old.trailer, e.key, e.trailer) < 0) != forward {
			return fmt.Errorf("%v after %v, forward %v", e, old, forward)
		}
		if keys.Seq(e.trailer) <= seq {
			n++
		}
		old = e
	}
	if n != seq {
		return fmt.Errorf("scan met %d entries of %d published", n, seq)
	}
	return nil
}

// seek goes into a prefix, walks out of it and back.
func (r *reader) seek() error {
	seq := r.published.Load()
	if seq == 0 {
		return nil
	}
	it := r.m.NewIterator()
	defer it.Close()
	key := numberedKey(nil, 1+r.rng.Uint64N(seq))
	look := lookup(r.m.extractor, key, seq)
	seek := func() bool { return it.SeekGE(key, look.Trailer()) }
	if look.PrefixLen >= 0 {
		seek = func() bool { return it.SeekPrefixGE(look, look.Trailer()) }
	}
	if !seek() || !bytes.Equal(it.UserKey(), key) {
		return fmt.Errorf("seek to %q: at %s", key, current(it))
	}
	return r.stroll(it)
}

func (r *reader) stroll(it table.Iterator) error {
	for range 40 {
		old := entry{it.UserKey(), it.Trailer(), it.Value()}
		forward := r.rng.IntN(3) > 0
		if forward && !it.Next() || !forward && !it.Prev() {
			return nil
		}
		e := entry{it.UserKey(), it.Trailer(), it.Value()}
		if err := r.check(e.key, e.trailer, e.value); err != nil {
			return err
		}
		if (r.m.order.CompareInternal(old.key, old.trailer, e.key, e.trailer) < 0) != forward {
			return fmt.Errorf("%v after %v, forward %v", e, old, forward)
		}
	}
	return nil
}

// readBeside runs readers until done is closed, and once after.
func readBeside(t *testing.T, m *MemTable, published *atomic.Uint64, done <-chan struct{}, wg *sync.WaitGroup) {
	for id := range uint64(3) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := &reader{m: m, published: published, rng: rand.New(rand.NewPCG(id, 1))}
			for last := false; ; {
				for range 20 {
					if err := r.get(); err != nil {
						t.Error(err)
						return
					}
				}
				err := r.seek()
				if err == nil && r.rng.IntN(4) == 0 {
					err = r.scan()
				}
				if err != nil {
					t.Error(err)
					return
				}
				if last {
					return
				}
				select {
				case <-done:
					last = true
				default:
				}
			}
		}()
	}
}

func TestReadersBesideOneWriter(t *testing.T) {
	for _, kind := range allKinds {
		t.Run(kind.String(), func(t *testing.T) {
			m := newTest(t, Options{Kind: kind, Extractor: prefixhash.Fixed(4), BucketCount: 50, Threshold: 8})
			var published atomic.Uint64
			var wg sync.WaitGroup
			done := make(chan struct{})
			readBeside(t, m, &published, done, &wg)
			var key, value []byte
			for seq := uint64(1); seq <= 4000; seq++ {
				key = numberedKey(key, seq)
				value = valueOf(value, key, seq)
				if err := add(m, key, keys.Pack(seq, keys.KindValue), value); err != nil {
					t.Error(err)
					break
				}
				published.Store(seq)
			}
			close(done)
			wg.Wait()
			if m.Entries() != int64(published.Load()) {
				t.Errorf("%d entries", m.Entries())
			}
		})
	}
}

// TestSeveralWriters has writers compete for the same internal keys: each must be
// inserted exactly once, whoever wins.
func TestSeveralWriters(t *testing.T) {
	const writers, groups, perGroup = 4, 150, 40
	m := newTest(t, Options{Kind: SkipList, Extractor: prefixhash.Fixed(4)})
	var published, inserted, duplicates atomic.Uint64
	var readers, wg sync.WaitGroup
	done := make(chan struct{})
	readBeside(t, m, &published, done, &readers)
	for group := range uint64(groups) {
		// As a commit group does: members insert in parallel, then the group is published.
		for w := range uint64(writers) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range uint64(perGroup) {
					seq := group*perGroup + 1 + (i*7+w)%perGroup
					key := numberedKey(nil, seq)
					switch err := add(m, key, keys.Pack(seq, keys.KindValue), valueOf(nil, key, seq)); {
					case err == nil:
						inserted.Add(1)
					case errors.Is(err, ErrDuplicate):
						duplicates.Add(1)
					default:
						t.Error(err)
					}
				}
			}()
		}
		wg.Wait()
		published.Store((group + 1) * perGroup)
	}
	close(done)
	readers.Wait()
	if inserted.Load() != groups*perGroup || duplicates.Load() != (writers-1)*groups*perGroup {
		t.Errorf("inserted %d, duplicates %d", inserted.Load(), duplicates.Load())
	}
	if m.Entries() != groups*perGroup {
		t.Errorf("%d entries", m.Entries())
	}
	for level := range m.main.height { // M3 on every level
		for at := m.main.head; at.next(level) != 0; {
			n := m.at(at.next(level))
			if at != m.main.head && m.compare(at, n.key(), n.trailer()) >= 0 {
				t.Fatalf("level %d is out of order at %q", level, n.key())
			}
			at = n
		}
	}
}

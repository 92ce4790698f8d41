// Package spin waits for moments: shorter than to put a goroutine to sleep and to wake it takes. What
// the loops of a waiter would otherwise take from the other thread of its core, the processor's
// instruction for such loops leaves to it. Where Go cannot reach one, waiting is a plain loop.
package spin

import (
	"sync"
	"sync/atomic"
)

// Of a processor whose pause takes 45 ns, a wait is up to 100 µs, longer than it takes to
// wake a thread that then takes over the goroutine that is waited for. On others it is shorter.
const (
	turns = 1024
	each  = 2
)

// Waiter learns whether waiting pays: whoever is waited for may be held up itself, by a disk, or by
// others that keep all processors busy. The zero value is ready. Safe for concurrent use.
type Waiter struct {
	// credit rises with each wait that ended well, and falls faster with each that was in vain.
	// Below zero only some calls wait, to see whether that has changed.
	credit atomic.Int32
	calls  atomic.Uint32 // that did not wait
}

const (
	mostCredit = 64
	vain       = 8  // what a wait in vain costs
	sample     = 64 // one call in so many waits all the same
)

// Until looks again and again whether done, as long as that is shorter than to sleep, and reports whether
// it was. It is for who knows that another processor is at work on it.
func (w *Waiter) Until(done func() bool) bool {
	if done() {
		return true
	}
	credit := w.credit.Load()
	if credit < 0 && w.calls.Add(1)%sample != 0 {
		return false
	}
	for range turns {
		pause(each)
		if done() {
			if credit < mostCredit {
				w.credit.Store(max(credit, 0) + 1)
			}
			return true
		}
	}
	w.credit.Store(max(credit-vain, -1))
	return false
}

// Mutex is a sync.Mutex for critical sections of a microsecond at most, in programs with more goroutines
// than processors. A sync.Mutex puts a goroutine to sleep at once when others wait to run, and it wakes
// up behind them, after milliseconds; this one looks again for a moment before.
type Mutex struct{ sync.Mutex }

// locks is how often Lock looks, some microseconds in all.
const locks = 32

// Lock takes m.
func (m *Mutex) Lock() {
	if m.TryLock() {
		return
	}
	m.wait()
}

func (m *Mutex) wait() {
	for range locks {
		pause(each)
		if m.TryLock() {
			return
		}
	}
	m.Mutex.Lock()
}

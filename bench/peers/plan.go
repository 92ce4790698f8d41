package main

import (
	"fmt"
	"slices"
	"time"
)

// storeRun is one store's turn in a round: a load and a process that reads.
type storeRun struct {
	store   string
	keys    int64
	round   int
	largest bool          // of the sizes: all threads read it
	guess   time.Duration // how long it takes, before anything ran
}

// plan is what is to run, in order, and how long that takes.
type plan struct {
	runs []storeRun
	at   int // the next one
	// spent and guessed are of what ran; known is the last time of a store at a size.
	spent, guessed time.Duration
	known          map[knownTime]time.Duration
}

type knownTime struct {
	store string
	keys  int64
}

// plan lets the stores take turns: backwards in every second round, so that what warms up or slows
// down with time hits all.
func (s settings) plan() *plan {
	p := &plan{known: map[knownTime]time.Duration{}}
	sizes := s.keys()
	for i, keys := range sizes {
		for round := range s.rounds {
			stores := slices.Clone(s.stores)
			if round%2 == 1 {
				slices.Reverse(stores)
			}
			for _, store := range stores {
				x := storeRun{store: store, keys: keys, round: round, largest: i == len(sizes)-1}
				x.guess = s.guess(x)
				p.runs = append(p.runs, x)
			}
		}
	}
	return p
}

// guess is what the reads take, and so much for the rest as most stores need on one CPU.
func (s settings) guess(x storeRun) time.Duration {
	cells := len(s.reads)
	if x.largest {
		cells = 0
		for _, w := range s.reads {
			cells += len(threadsOf(w, s.threads))
		}
	}
	d := time.Duration(cells)*s.duration + time.Duration(x.keys)*15*time.Microsecond
	if peer, _ := findPeer(x.store); peer.open == nil && x.largest {
		d += d / 2 // the latencies
	}
	return d
}

func (p *plan) done() bool { return p.at == len(p.runs) }

func (p *plan) next() storeRun {
	p.at++
	return p.runs[p.at-1]
}

// took notes how long a run took.
func (p *plan) took(x storeRun, d time.Duration) {
	p.spent += d
	p.guessed += x.guess
	p.known[knownTime{x.store, x.keys}] = d
}

// drop forgets the runs of a store that are left.
func (p *plan) drop(store string) {
	left := slices.DeleteFunc(slices.Clone(p.runs[p.at:]), func(x storeRun) bool { return x.store == store })
	p.runs = append(p.runs[:p.at:p.at], left...)
}

// remaining is how long the rest takes: as long as the same took before, or as guessed, corrected
// by how wrong the guesses were so far.
func (p *plan) remaining() (d time.Duration) {
	wrong := 1.0
	if p.guessed > 0 {
		wrong = float64(p.spent) / float64(p.guessed)
	}
	for _, x := range p.runs[p.at:] {
		if k, ok := p.known[knownTime{x.store, x.keys}]; ok {
			d += k
		} else {
			d += time.Duration(float64(x.guess) * wrong)
		}
	}
	return d
}

// roughly is a time that nobody takes for exact.
func roughly(d time.Duration) string {
	if d < 90*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

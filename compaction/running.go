package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Running are the compactions of a column family that are under way: what a picker
// must leave alone. A nil or zero Running has none. The caller's lock, under which
// it picks, guards it.
type Running struct {
	choices []*Choice
	busy    map[uint64]bool // their input files, by number
}

// Add enters c. None of its files may be busy.
func (r *Running) Add(c *Choice) {
	if r.busy == nil {
		r.busy = make(map[uint64]bool)
	}
	for _, in := range c.Inputs {
		for _, f := range in.Files {
			if r.busy[f.Number] {
				panic("compaction: two compactions of one file")
			}
			r.busy[f.Number] = true
		}
	}
	r.choices = append(r.choices, c)
}

// Remove takes c out, however it ended.
func (r *Running) Remove(c *Choice) {
	i := slices.Index(r.choices, c)
	if i < 0 {
		return
	}
	r.choices = slices.Delete(r.choices, i, i+1)
	for _, in := range c.Inputs {
		for _, f := range in.Files {
			delete(r.busy, f.Number)
		}
	}
}

// Len counts the compactions.
func (r *Running) Len() int {
	if r == nil {
		return 0
	}
	return len(r.choices)
}

// Choices are the compactions, for display. Borrowed.
func (r *Running) Choices() []*Choice {
	if r == nil {
		return nil
	}
	return r.choices
}

// Busy reports whether f is an input of a compaction.
func (r *Running) Busy(f *manifest.FileMetadata) bool { return r != nil && r.busy[f.Number] }

func (r *Running) anyBusy(files []*manifest.FileMetadata) bool {
	return r.Len() > 0 && slices.ContainsFunc(files, r.Busy)
}

// fromL0 reports whether a compaction takes files from L0.
func (r *Running) fromL0() bool {
	return slices.ContainsFunc(r.Choices(), func(c *Choice) bool { return c.Inputs[0].Level == 0 })
}

// refits reports whether files are about to change their level. Until that is installed nothing else may begin: a
// compaction that goes by where the files still are could put newer entries beneath where they will be.
func (r *Running) refits() bool {
	return slices.ContainsFunc(r.Choices(), func(c *Choice) bool { return c.Reason == ReasonRefit })
}

// writesTo reports whether a compaction may write user keys of [smallest, largest]
// to a level from L1 on: a second one could not put its files beside the outputs.
func (r *Running) writesTo(order keys.Order, level int, smallest, largest []byte) bool {
	return level > 0 && slices.ContainsFunc(r.Choices(), func(c *Choice) bool {
		return c.OutputLevel == level && order.Compare(c.Smallest, largest) <= 0 && order.Compare(smallest, c.Largest) <= 0
	})
}

package compaction

import (
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// grandparents follows the keys of outputs through the files of the level below,
// and says where an output is best ended: each output will be merged with those that
// it overlaps.
type grandparents struct {
	job   *Job
	order keys.Order
	files []*manifest.FileMetadata

	at      int    // the file that the last key is in, or the next one
	inside  bool   // the last key is in files[at]
	seen    bool   // there was a key
	overlap uint64 // bytes of files that the current output overlaps
	crossed int    // bounds that the current output has crossed
}

func (g *grandparents) init(job *Job) {
	g.job, g.order, g.files = job, job.Order, job.Grandparents
}

// begin starts an output with the last key.
func (g *grandparents) begin() {
	g.overlap, g.crossed = 0, 0
	if g.inside {
		g.overlap = g.files[g.at].Size
	}
}

// pass goes on to userKey and reports whether an output of size bytes should end
// before it.
func (g *grandparents) pass(userKey []byte, size int64) bool {
	if len(g.files) == 0 {
		return false
	}
	before := g.overlap
	bounds := g.advance(userKey)
	if bounds == 0 {
		return false
	}
	if most := g.job.MaxGrandparentOverlap; most > 0 && g.overlap+uint64(size) > most {
		return true
	}
	if !g.job.AlignOutputs {
		return false
	}
	// A whole file between two keys need not be merged if the output ends there. It
	// has to be worth a file more.
	whole := 2
	if g.inside {
		whole = 3
	}
	target := uint64(g.job.TargetFileSize)
	if bounds >= whole && g.overlap-before > target/8 {
		return true
	}
	// The more bounds there were, the more likely is another one before the target.
	return target > 0 && uint64(size) >= (target+99)/100*uint64(50+min(g.crossed*5, 40))
}

// advance moves to userKey and counts the bounds in between.
func (g *grandparents) advance(userKey []byte) (bounds int) {
	for g.at < len(g.files) {
		f := g.files[g.at]
		if !g.inside {
			if g.order.Compare(userKey, f.SmallestKey) < 0 {
				break
			}
			if g.seen {
				bounds++
				g.overlap += f.Size
			}
			g.inside = true
			continue
		}
		if c := g.order.Compare(userKey, f.LargestKey); c < 0 || c == 0 && !f.LargestIsExclusive() {
			break
		}
		if g.seen {
			bounds++
		}
		g.inside = false
		g.at++
	}
	if !g.seen {
		g.begin()
		g.seen = true
	}
	g.crossed += bounds
	return bounds
}

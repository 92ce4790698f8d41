package compaction

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Anchor says that about Bytes of an input lie after its anchor before and up to Key.
type Anchor struct {
	Key   []byte // a user key
	Bytes uint64
}

// Splits reports whether the work on c may be shared among jobs by key ranges
// (RocksDB: subcompactions): it may where one job would keep many others waiting, and always in the
// universal style and with the round-robin priority.
func (c *Choice) Splits() bool {
	return !c.TrivialMove && !c.Drop && c.OutputLevel > 0 && len(c.Inputs) > 0 &&
		(c.Inputs[0].Level == 0 || c.Reason == ReasonManual || c.large)
}

// Boundaries cuts the key range of c into at most n parts of about the same size, none much smaller than
// an output file. It returns the user keys at which a part ends and the next
// one begins, ascending; the anchors are those of all inputs, in any order.
func (c *Choice) Boundaries(order keys.Order, anchors []Anchor, n int) [][]byte {
	if n < 2 || !c.Splits() {
		return nil
	}
	anchors = slices.Clone(anchors)
	slices.SortFunc(anchors, func(a, b Anchor) int { return order.Compare(a.Key, b.Key) })
	var total uint64
	for _, a := range anchors {
		total += a.Bytes
	}
	part := max(total/uint64(n), c.TargetFileSize, 1)
	var bounds [][]byte
	var sum uint64
	next := part
	for _, a := range anchors {
		sum += a.Bytes
		if sum < next || total-sum < part/2 {
			continue
		}
		// The last key of a part is the anchor; where the next begins is any key after it, and
		// the anchor itself may as well be the first of the next.
		inside := order.Compare(a.Key, c.Smallest) > 0 && order.Compare(a.Key, c.Largest) <= 0
		if inside && (len(bounds) == 0 || order.Compare(a.Key, bounds[len(bounds)-1]) > 0) {
			bounds = append(bounds, a.Key)
			if len(bounds) == n-1 {
				break
			}
		}
		next = sum + part
	}
	return bounds
}

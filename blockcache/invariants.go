package blockcache

import (
	"slices"

	"github.com/flatrock-db/flatrock/internal/invariant"
)

// checkStore holds the store of a shard to S1 to S3, and its pages to what their slots say.
// Without the tag flatrock_invariants it is empty.
func (s *shard) checkStore() {
	if !invariant.Enabled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	used, spare := int64(0), 0
	for p := range s.opened {
		pg := &s.pagesOf[p]
		if pg.class < 0 {
			spare++
			invariant.Check(pg.live == 0, "page %d has no class, and %d blocks", p, pg.live)
			continue
		}
		used += int64(s.pageSize)
		blocks := int(s.perPage(pg.class))
		invariant.Check(int(pg.live) <= blocks && int(pg.fresh) <= blocks, "page %d of %d blocks: %d in use, %d were", p, blocks, pg.live, pg.fresh)
		room := pg.free != 0 || int(pg.fresh) < blocks
		listed := slices.Contains(s.roomy[pg.class], int32(p))
		invariant.Check(room == listed, "page %d: room %v, listed as one with room %v", p, room, listed)
	}
	invariant.Check(spare == len(s.resident)+len(s.discarded), "%d spare pages, %d with memory and %d without", spare, len(s.resident), len(s.discarded))
	for i := range s.large {
		if a := s.large[i].Load(); a != nil {
			used += a.Reserved()
		}
	}
	invariant.Check(used == s.usedBytes, "pages and large blocks take %d bytes, %d are counted", used, s.usedBytes)
}

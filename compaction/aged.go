package compaction

import (
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// aged lists the files of the output level that outputs are cut around: their data is past
// half of the TTL, and cut out it can go on by itself when its time has come, without
// what is young beside it. Files are worth that from half of the target size on.
// RocksDB: files_to_cut_for_ttl.
func (c *Choice) aged(in *Input) (files []*manifest.FileMetadata) {
	o := in.Options
	if o.Style != Leveled || o.Priority != MinOverlappingRatio || o.TTL == 0 || in.Now < o.TTL || len(c.Inputs) < 2 || c.Bottommost {
		return nil
	}
	for _, f := range c.Inputs[len(c.Inputs)-1].Files {
		if in.older(in.ancestor(f), o.TTL/2) && f.Size > o.TargetFileSizeBase/2 {
			files = append(files, f)
		}
	}
	return files
}

// islands says where keys enter and leave the ranges of files, which are in order.
type islands struct {
	files  []*manifest.FileMetadata // those that were not left yet
	inside bool                     // the last key is in the first of them
}

// pass goes on to userKey and reports whether a bound was crossed on the way.
func (s *islands) pass(order keys.Order, userKey []byte) (crossed bool) {
	for len(s.files) > 0 {
		f := s.files[0]
		if order.Compare(userKey, f.SmallestKey) < 0 {
			return crossed
		}
		if order.Compare(userKey, f.LargestKey) <= 0 {
			crossed = crossed || !s.inside
			s.inside = true
			return crossed
		}
		crossed = crossed || s.inside
		s.files, s.inside = s.files[1:], false
	}
	return crossed
}

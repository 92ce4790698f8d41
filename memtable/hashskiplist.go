package memtable

// HashSkipList: an array of buckets, each the head tower of a skip list. The
// tower lies in the array itself, lowest link last, so that the search of a
// bucket begins without another miss. Prefixes that collide share the list.

// skipBucketLen is the size of a bucket in bytes, rounded up to whole link
// units so that any tower can start there: 16 for height 4.
func skipBucketLen(height int) int { return (4*height + linkUnit - 1) &^ (linkUnit - 1) }

// skipBucket is the list of a hash.
func (m *MemTable) skipBucket(hash uint32) list {
	end := m.bucketOff + (uint64(m.buckets.Of(hash))+1)*m.bucketLen
	return list{m.atOffset(end - 4), m.height}
}

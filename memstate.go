package flatrock

import (
	"sync/atomic"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/memtable"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// memState is a memtable with what the database keeps beside it.
type memState struct {
	mem   *memtable.MemTable
	tombs *rangedel.Mutable

	// id orders the memtables of a family by age.
	id uint64
	// logNumber is the oldest log that may hold entries of this memtable. While the memtable is
	// active and empty it moves up with each new log. Guarded by db.mu.
	logNumber uint64
	// sealedAt is the log that was begun when the memtable became immutable, or one after that:
	// its entries are in older ones. Guarded by db.mu.
	sealedAt uint64
	// unlogged is set by the first write with DisableWAL. Written by the commit leader.
	unlogged atomic.Bool
	// refs counts the read states that hold the memtable. Guarded by db.mu.
	refs int
	// charged is what the block cache gives up for the memtable, in bytes.
	charged int64
	// created is the newest sequence number when the memtable was made; managed is what the
	// write buffer manager knows.
	created uint64
	managed managed
}

// free frees the memtable's memory. Nothing refers to it any more.
func (m *memState) free(db *DB) {
	m.mem.Free()
	m.forget(db)
	if m.charged > 0 {
		db.cache.AddCharge(blockcache.Memtables, -m.charged)
	}
}

// newMemState makes an empty memtable that can take at least room bytes.
func (cf *ColumnFamily) newMemState(logNumber uint64, room int64) (*memState, error) {
	m, writeBuffer := cf.opts.MemTable, cf.mutable().WriteBufferSize
	kind := m.Kind
	if cf.opts.PrefixExtractor == nil && (kind == HashSkipList || kind == HashLinkList) {
		kind = SkipList // as RocksDB does; Open has logged it
	}
	height, branching := m.SkipListHeight, m.BranchingFactor
	if kind != HashSkipList {
		height, branching = 0, 0 // these are for the short lists of buckets
	}
	mem, err := memtable.New(memtable.Options{
		Order:           cf.order,
		Extractor:       cf.opts.PrefixExtractor,
		Kind:            kind,
		BucketCount:     m.BucketCount,
		SkipListHeight:  height,
		BranchingFactor: branching,
		Threshold:       m.Threshold,
		Reserve:         memtableReserve(writeBuffer, room),
		Protection:      cf.mutable().MemtableProtectionBytesPerKey,
		VerifyOnSeek:    cf.mutable().MemtableVerifyPerKeyChecksumOnSeek,
		Arena: mmapfs.ArenaOptions{
			Name: "memtable",
			// A small memtable would clear a huge page for a few kilobytes.
			HugePages: writeBuffer >= 8<<20,
			Placement: cf.db.placed.memtables,
		},
	})
	if err != nil {
		return nil, err
	}
	cf.memID++
	s := &memState{mem: mem, tombs: rangedel.NewMutable(cf.order), id: cf.memID, logNumber: logNumber, created: cf.db.visibleSeq.Load()}
	if mem.Protected() {
		s.tombs.Protect(damagedMemtableTombstone)
	}
	if o, ok := cf.opts.Table.(BlockBasedTableOptions); ok && cf.db.opts.ChargeMemtables && !o.NoBlockCache {
		s.charged = writeBuffer
		cf.db.cache.AddCharge(blockcache.Memtables, s.charged)
	}
	return s, nil
}

// memtableReserve is how much address space a memtable gets. It costs nothing until it
// is touched, so there is room for the batch that overshoots the buffer.
func memtableReserve(writeBuffer, room int64) int64 {
	return max(writeBuffer+writeBuffer/2, room) + 1<<20
}

// get finds the newest entry that look may see. A key that a range tombstone of
// this memtable covers is reported as an entry of kind RangeDelete.
func (m *memState) get(look *keys.Lookup) (value []byte, trailer uint64, ok bool, err error) {
	near := m.tombs.Near(look.UserKey)
	if m.mem.Entries() > 0 { // after a compaction nothing is there: no miss for its filter
		if m.mem.Protected() {
			if value, trailer, ok, err = m.mem.Find(look); err != nil {
				return nil, 0, false, err
			}
		} else {
			value, trailer, ok = m.mem.Get(look)
		}
	}
	if near && !(ok && keys.Seq(trailer) >= m.tombs.Newest()) {
		var cover uint64
		if !m.tombs.Protected() {
			cover = m.tombs.Cover(look.UserKey, look.Seq)
		} else if cover, err = m.tombs.Proven(look.UserKey, look.Seq); err != nil {
			return nil, 0, false, err
		}
		if cover > 0 && (!ok || keys.Seq(trailer) < cover) {
			return nil, keys.Pack(cover, keys.KindRangeDelete), true, nil
		}
	}
	return value, trailer, ok, nil
}

// empty reports whether nothing was ever written to m.
func (m *memState) empty() bool { return m.mem.Entries() == 0 && m.tombs.Count() == 0 }

// usedBytes is what m holds of memory that counts against WriteBufferSize.
func (m *memState) usedBytes() int64 {
	return m.mem.UsedBytes() + m.tombs.UsedBytes()
}

// full reports whether m should become immutable. The hash buckets count against
// the buffer as in RocksDB, but at most for half of it: a memtable that is full
// when it is made would make every write begin another.
func (m *memState) full(writeBuffer int64) bool {
	return m.usedBytes() >= max(writeBuffer, m.mem.EmptyBytes()+writeBuffer/2)
}

package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
)

// Protection of keys and values while they lie in memory; doc/protection.md says what is
// caught and what is not.

// BlockDamageError is the error of a read that met a block which changed in memory after it
// was read from its file. It names the file, the block and the entry, and matches ErrCorruption.
type BlockDamageError = blocktable.DamageError

// validateProtection refuses strengths that do not exist.
func (o *ColumnFamilyOptions) validateProtection() error {
	for _, p := range []struct {
		name  string
		bytes int
	}{
		{"BlockProtectionBytesPerKey", o.BlockProtectionBytesPerKey},
		{"MemtableProtectionBytesPerKey", o.MemtableProtectionBytesPerKey},
	} {
		if !hash.ValidProtection(p.bytes) {
			return fmt.Errorf("%s %d: want 0, 1, 2, 4 or 8", p.name, p.bytes)
		}
	}
	return nil
}

// damagedTombstone is the error for fragment i of the file's range tombstones. They were read
// when the file was opened, and stay damaged until it is opened again.
func (h *tableHandle) damagedTombstone(i int) error {
	offset := int64(-1)
	if b, ok := block.FindMeta(h.block.MetaBlocks(), block.MetaRangeDel); ok {
		offset = int64(b.Offset)
	}
	err := keys.Corruptf(manifest.TableName("", h.meta.Number), offset, "fragment %d of the range tombstones changed in memory after they were read: it does not match its checksum", i)
	h.cf.db.metrics.damagedBlocks.Add(1)
	h.cf.db.log.Error("a range tombstone changed in memory", "family", h.cf.name, "err", err)
	return err
}

// damagedMemtableTombstone is the error for a range tombstone of a memtable.
func damagedMemtableTombstone() error {
	return keys.Corruptf("memtable", -1, "a range tombstone changed in memory after it was written: it does not match its checksum")
}

// checkTombstones refuses to compact files whose range tombstones changed in memory.
func checkTombstones(choice *compaction.Choice, handles map[uint64]*tableHandle) error {
	for _, f := range choice.Files() {
		if h := handles[f.Number]; h.tombs.Protected() {
			if i := h.tombs.Damaged(); i >= 0 {
				return h.damagedTombstone(i)
			}
		}
	}
	return nil
}

// protectBlocks puts what the family's options say about protection into a file's.
func (cf *ColumnFamily) protectBlocks(r *blocktable.ReaderOptions) {
	o := cf.mutable()
	r.Protection, r.NoReread = o.BlockProtectionBytesPerKey, o.BlockDamageFailsReads
	if r.Protection != 0 {
		db := cf.db
		r.OnDamage = func(err error) {
			db.metrics.damagedBlocks.Add(1)
			db.log.Error("a block changed in memory", "family", cf.name, "err", err)
		}
	}
}

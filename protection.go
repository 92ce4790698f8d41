package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/hash"
)

// Protection of keys and values while they lie in memory, where no checksum of a file
// reaches: bits that a failing module flips, or that stray writes of the process change.
//
// What is caught with protection on: a change of a key, a sequence number, a kind or a value, of
// the header of an entry, of restart points and hash indexes, of the index, and of
// what finds entries in cached blocks and memtables. A change that is confined to one byte is
// always caught, whatever the strength; any other with probability 1 - 2^-8 for each byte of
// strength and 2^-8 for the parity byte that comes with them. What a read does not return,
// and that does not decide what it returns, is not looked at.
//
// What is not caught: changes of filters (a key that is there may then be missed, as in
// RocksDB), of values after a read has returned them, of links of a memtable other than those that lead
// out of it or to another entry than the next, and of the engine's own structures on the Go heap.

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

package flatrock

import (
	"fmt"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/wal"
)

// batchProtection is the checksums of a batch's operations, in order, if it has any. The
// zero value has none.
type batchProtection struct {
	on   bool
	sums []uint64
}

// Protect gives each operation that is added to b from now on a checksum of bytesPerKey bytes:
// 8, or 0 for none. It is made of what the caller passes, and checked when the batch is
// logged and when the operation enters the memtable, so that nothing that happens to the batch in
// between goes unseen. b must be empty. Reset keeps the setting. RocksDB: the
// protection_bytes_per_key of a WriteBatch.
func (b *Batch) Protect(bytesPerKey int) error {
	if bytesPerKey != 0 && bytesPerKey != 8 {
		return fmt.Errorf("%w: a batch protection of %d bytes: want 0 or 8", ErrInvalidArgument, bytesPerKey)
	}
	if b.Count() > 0 {
		return fmt.Errorf("%w: Protect on a batch of %d operations: want an empty one", ErrInvalidArgument, b.Count())
	}
	b.protection.on = bytesPerKey != 0
	return nil
}

// opSum is the checksum of an operation.
func opSum(family uint32, kind keys.Kind, key, value []byte) uint64 {
	s := hash.NewEntrySum(uint64(family)<<8 | uint64(kind))
	s.Bytes(key)
	s.Bytes(value)
	return s.Full()
}

// add makes the checksum of the operation that b is about to encode.
func (p *batchProtection) add(b *Batch, family uint32, key, value []byte) {
	if p.on {
		// Operations that were rolled back are cut off.
		p.sums = append(p.sums[:b.rep.Count()], opSum(family, b.kind, key, value))
	}
}

// protectFor makes sure that b has checksums if the options ask for them.
func (b *Batch) protectFor(wo *WriteOptions) error {
	if wo == nil || wo.ProtectionBytesPerKey == 0 {
		return nil
	}
	if wo.ProtectionBytesPerKey != 8 {
		return fmt.Errorf("%w: ProtectionBytesPerKey %d: want 0 or 8", ErrInvalidArgument, wo.ProtectionBytesPerKey)
	}
	if b.protection.on {
		return nil
	}
	b.protection.sums = b.protection.sums[:0]
	var op wal.Op
	ops := wal.Decode(b.rep.Bytes())
	for ops.Next(&op) {
		if op.Counts() {
			b.protection.sums = append(b.protection.sums, opSum(op.CF, op.Kind, op.Key, op.Value))
		}
	}
	return ops.Err()
}

// checksums are those of b for this write, nil for none.
func (r *request) checksums() []uint64 {
	if r.protected {
		return r.batch.protection.sums[:min(len(r.batch.protection.sums), int(r.batch.rep.Count()))]
	}
	return nil
}

// checkOp compares an operation with its checksum.
func checkOp(sum uint64, family uint32, kind keys.Kind, key, value []byte) error {
	if opSum(family, kind, key, value) != sum {
		return fmt.Errorf("%w: an operation of a batch (%v, column family %d, key of %d bytes) changed in memory: it does not match its checksum",
			ErrCorruption, kind, family, len(key))
	}
	return nil
}

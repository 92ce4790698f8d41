package flatrock

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/table"
)

// paranoid_file_checks: what a flush or compaction wrote is read back, before its inputs may go, and
// compared with what was given to the writer.

// fingerprint sums up the entries of a file in their order.
type fingerprint struct {
	sum              uint64
	entries, deletes uint64 // point entries; range tombstones
	buf              []byte
}

func (p *fingerprint) add(userKey []byte, trailer uint64, value []byte) {
	p.entries++
	b := binary.LittleEndian.AppendUint64(p.buf[:0], p.sum)
	b = binary.LittleEndian.AppendUint64(b, trailer)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(userKey)))
	b = append(b, userKey...)
	p.buf = append(b, value...)
	p.sum = hash.XXPH3(p.buf)
}

// fingerprinted takes the fingerprint of what passes to a writer.
type fingerprinted struct {
	table.Writer
	print fingerprint
}

func (w *fingerprinted) Add(userKey []byte, trailer uint64, value []byte) error {
	w.print.add(userKey, trailer, value)
	return w.Writer.Add(userKey, trailer, value)
}

func (w *fingerprinted) AddTombstone(t table.Tombstone) error {
	w.print.deletes++
	return w.Writer.AddTombstone(t)
}

// verifyOutput reads a file back and compares it with the fingerprint.
func (cf *ColumnFamily) verifyOutput(meta *manifest.FileMetadata, level int, want *fingerprint) (err error) {
	h, err := cf.openTable(meta, level, table.CallerCompaction)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := h.close(); err == nil {
			err = cerr
		}
	}()
	var got fingerprint
	got.deletes = uint64(len(h.reader().Tombstones()))
	err = guarded(func() error {
		it := h.reader().NewIterator(table.IterOptions{NoFill: true, VerifyChecksums: true, ReadaheadSize: 1 << 20, Caller: table.CallerCompaction})
		for ok := it.First(); ok; ok = it.Next() {
			got.add(it.UserKey(), it.Trailer(), it.Value())
		}
		ierr := it.Err()
		if cerr := it.Close(); ierr == nil {
			ierr = cerr
		}
		return ierr
	})
	if err != nil {
		return err
	}
	if got.sum != want.sum || got.entries != want.entries || got.deletes != want.deletes {
		return keys.Corruptf(manifest.TableName("", meta.Number), -1, "expected the %d entries and %d range deletes that were written, read back %d and %d that differ (paranoid_file_checks)",
			want.entries, want.deletes, got.entries, got.deletes)
	}
	return nil
}

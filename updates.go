package flatrock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/wal"
)

// UpdatesIterator walks the batches of the logs in the order in which they were
// written: for replication and change capture. It belongs to one goroutine at a time. RocksDB:
// TransactionLogIterator.
//
//	it, err := db.GetUpdatesSince(seq)
//	for it.Valid() {
//		... it.Batch() ...
//		it.Next()
//	}
//
// Once it is not valid and Err is nil, it has given all that was written; Next
// goes on when there is more.
type UpdatesIterator struct {
	db    *DB
	next  uint64 // the sequence number that must come next
	log   WalFile
	pos   int64 // behind the last record read of it
	in    *wal.Reader
	epoch uint64 // of db.logsReplaced, when in was opened
	zip   bool   // the log is compressed
	batch UpdateBatch
	valid bool
	err   error
}

// UpdateBatch is a batch of a log. RocksDB: BatchResult.
type UpdateBatch struct {
	// Sequence is the number of the batch's first operation, Count how many take one each.
	Sequence uint64
	Count    int
	// Data is the batch as RocksDB's WriteBatch encodes it, valid until the next move.
	// DB.LoadBatch reads it.
	Data []byte
}

// Update is an operation of an UpdateBatch.
type Update struct {
	Sequence       uint64
	ColumnFamilyID uint32
	Kind           EntryKind
	Key            []byte
	Value          []byte // the end of a range delete, the operand of a merge, an encoded entity
}

// Updates walks the operations of the batch. Keys and values are borrowed from Data.
func (b *UpdateBatch) Updates() iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		var op wal.Op
		d, seq := wal.Decode(b.Data), b.Sequence
		for d.Next(&op) {
			if !op.Counts() {
				continue
			}
			if !yield(Update{seq, op.CF, op.Kind, op.Key, op.Value}, nil) {
				return
			}
			seq++
		}
		if err := d.Err(); err != nil {
			yield(Update{}, err)
		}
	}
}

// UpdatesGapError says that writes are missing from the logs: they were made with
// DisableWAL, or ingested, or the logs that held them are gone. A copy that
// needs them must start from a checkpoint.
type UpdatesGapError struct {
	Wanted uint64 // the sequence number that should have come next
	Found  uint64 // the first one after it that the logs have; 0 if none
}

func (e *UpdatesGapError) Error() string {
	return fmt.Sprintf("flatrock: the logs hold no update with sequence number %d; the next that they hold is %d", e.Wanted, e.Found)
}

// GetUpdatesSince returns an iterator on the batch that holds sequence number seq,
// or, when that is one more than the newest, one that becomes valid with the next
// write. Logs are kept for it only as WALTTLSeconds and WALSizeLimitMB say; without
// them only those that recovery needs. Errors match *UpdatesGapError when the batch is in
// no log any more, and ErrNotFound when seq is further ahead. RocksDB: GetUpdatesSince.
func (db *DB) GetUpdatesSince(seq uint64) (*UpdatesIterator, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	seq = max(seq, 1)
	newest := db.visibleSeq.Load() // before the logs are listed: what is written meanwhile need not be in the list
	if seq > newest+1 {
		return nil, fmt.Errorf("%w: sequence number %d is not written yet, the newest is %d", ErrNotFound, seq, newest)
	}
	logs, err := db.GetSortedWalFiles()
	if err != nil {
		return nil, err
	}
	it := &UpdatesIterator{db: db, next: seq}
	found := uint64(0)
	for _, l := range slices.Backward(logs) {
		if l.StartSequence == 0 {
			continue
		}
		if found = l.StartSequence; found <= seq {
			it.log = l
			break
		}
	}
	if it.log.LogNumber == 0 {
		if seq <= newest || len(logs) == 0 {
			return nil, &UpdatesGapError{Wanted: seq, Found: found}
		}
		// It was not written when we looked: any of the logs may get it, or has it by
		// now. Next begins with the oldest, and sees it if there is a gap.
		it.log = logs[0]
	}
	it.Next()
	return it, it.err
}

// Valid reports whether the iterator stands on a batch.
func (it *UpdatesIterator) Valid() bool { return it.valid }

// Batch is the current batch; the iterator must be valid.
func (it *UpdatesIterator) Batch() *UpdateBatch { return &it.batch }

// Err is what ended the walk, nil if it has only come to the end of what was written.
func (it *UpdatesIterator) Err() error { return it.err }

// Close releases the log that is open.
func (it *UpdatesIterator) Close() error {
	it.valid = false
	if it.err == nil {
		it.err = ErrClosed
	}
	return it.closeLog()
}

func (it *UpdatesIterator) closeLog() error {
	if it.in == nil {
		return nil
	}
	err := it.in.Close()
	it.in = nil
	return err
}

// Next moves to the next batch and reports whether there is one. After the end it may be
// called again.
func (it *UpdatesIterator) Next() bool {
	it.valid = false
	last := false // nothing was appended to the log since we began to look
	for it.err == nil && it.next <= it.db.visibleSeq.Load() {
		rec, err := it.read()
		switch {
		case err == nil:
			if it.take(rec) {
				return it.valid
			}
		case errors.Is(err, io.EOF) || errors.Is(err, ErrCorruption):
			// The end of what was written when the block was read; or of the log.
			it.closeLog()
			if !last {
				last = it.moreLogs()
				if !last && it.atEnd() {
					return false
				}
				continue
			}
			last = false
			if !errors.Is(err, io.EOF) && !it.endsHere() {
				if it.err == nil {
					it.err = err
				}
				return false
			}
			if !it.advance() {
				return false
			}
		default:
			it.err = err
		}
	}
	return false
}

// read opens the log where reading ended, if it is not open, and reads a record. A
// reader looks at a block once. The rest of a block that was read while it was the last one
// written to stays zeros to it, in a mapped log, and the records that came there since seem
// to be missing once the next block has some. So what stands behind zeros is
// looked at again from where reading ended: zeros that are still there are in the log.
func (it *UpdatesIterator) read() ([]byte, error) {
	fresh := it.in == nil
	rec, err := it.readOpen()
	if err == nil && !fresh && it.in.Hole() {
		if err := it.closeLog(); err != nil {
			return nil, err
		}
		return it.readOpen()
	}
	return rec, err
}

func (it *UpdatesIterator) readOpen() ([]byte, error) {
	if it.in == nil {
		it.epoch = it.db.logsReplaced.Load()
		from := it.pos
		if it.zip {
			from = 0 // the first record says how the others are read
		}
		in, err := wal.OpenAt(it.db.fs, it.log.PathName, it.log.LogNumber, wal.TolerateCorruptedTailRecords, from)
		if errors.Is(err, fs.ErrNotExist) {
			if err = it.findLog(); err == nil {
				in, err = wal.OpenAt(it.db.fs, it.log.PathName, it.log.LogNumber, wal.TolerateCorruptedTailRecords, from)
			}
		}
		if err != nil {
			return nil, err
		}
		in.Limit(it.db.opts.MaxDecompressedSize)
		it.in = in
	}
	for {
		rec, err := it.in.Next()
		it.zip = it.zip || it.in.Compressed()
		if err != nil || it.in.End() > it.pos {
			return rec, err
		}
	}
}

// findLog looks where the log has gone: to the archive, or away.
func (it *UpdatesIterator) findLog() error {
	logs, err := it.db.GetSortedWalFiles()
	if err != nil {
		return err
	}
	gap := &UpdatesGapError{Wanted: it.next}
	for _, l := range logs {
		if l.LogNumber == it.log.LogNumber {
			it.log = l
			return nil
		}
		if l.LogNumber > it.log.LogNumber && gap.Found == 0 {
			gap.Found = l.StartSequence
		}
	}
	return gap
}

// take looks at a record. true: Next is done with it.
func (it *UpdatesIterator) take(rec []byte) bool {
	if wal.IsFollows(rec) {
		it.pos = it.in.End()
		return false
	}
	d := wal.Decode(rec)
	seq, count := d.Sequence(), uint64(d.Count())
	switch {
	case seq+count <= it.next && count > 0 || seq < it.next && count == 0:
		it.pos = it.in.End()
		return false // before what was asked for
	case seq > it.next:
		it.err = &UpdatesGapError{Wanted: it.next, Found: seq}
		return true
	case seq+count-1 > it.db.visibleSeq.Load() && count > 0:
		it.closeLog() // logged, and not in the memtables yet
		return true
	case it.epoch != it.db.logsReplaced.Load():
		// What was read may be of a write that failed. Its number is visible only since a Resume gave it to
		// another, and that has cut the log before.
		it.closeLog()
		return false
	}
	it.pos = it.in.End()
	it.batch = UpdateBatch{Sequence: seq, Count: int(count), Data: rec}
	it.next, it.valid = seq+count, true
	return true
}

// moreLogs reports whether the log takes no more writes, because there is a newer one.
func (it *UpdatesIterator) moreLogs() bool {
	it.db.mu.Lock()
	defer it.db.mu.Unlock()
	logs := it.db.logs
	return len(logs) == 0 || logs[len(logs)-1].number > it.log.LogNumber
}

// atEnd reports whether the log that takes writes was read to its end: what is
// visible and was not found is in no log.
func (it *UpdatesIterator) atEnd() bool {
	_, err := it.read()
	it.closeLog() // a record is read again, as usual
	return err != nil
}

// endsHere reports whether the damage that was met is where a recovery ended, so that what stood behind it is
// no part of the database: the next update was written since Open, and the log is older; or another log
// goes on right there.
func (it *UpdatesIterator) endsHere() bool {
	if it.log.LogNumber < it.db.recovered.log && it.next > it.db.recovered.seq {
		return true
	}
	logs, err := it.db.GetSortedWalFiles()
	if err != nil {
		it.err = err
		return false
	}
	for _, l := range logs {
		if l.LogNumber > it.log.LogNumber && l.StartSequence > 0 {
			return l.StartSequence == it.next
		}
	}
	return false
}

// advance goes to the next log; false if there is none.
func (it *UpdatesIterator) advance() bool {
	logs, err := it.db.GetSortedWalFiles()
	if err != nil {
		it.err = err
		return false
	}
	for _, l := range logs {
		if l.LogNumber > it.log.LogNumber {
			it.log, it.pos, it.zip = l, 0, false
			return true
		}
	}
	return false
}

// LoadBatch makes a Batch of one that UpdateBatch.Data, or RocksDB's
// WriteBatch::Data, encodes, for this database: families are found by their ids. Annotations come
// along; a batch of a transaction that is not committed is refused with ErrNotSupported.
func (db *DB) LoadBatch(encoded []byte) (*Batch, error) {
	families := db.byID.Load().byID
	return loadBatch(encoded, func(id uint32) (*ColumnFamily, error) {
		if cf := families[id]; cf != nil {
			return cf, nil
		}
		return nil, fmt.Errorf("%w: a batch for column family %d, which does not exist", ErrInvalidArgument, id)
	})
}

// loadBatch builds anew what a batch in the log's form says; family names the families of its ids.
func loadBatch(encoded []byte, family func(id uint32) (*ColumnFamily, error)) (*Batch, error) {
	b := new(Batch)
	var op wal.Op
	d := wal.Decode(encoded)
	for d.Next(&op) {
		var cf *ColumnFamily
		if op.Counts() {
			var err error
			if cf, err = family(op.CF); err != nil {
				return nil, err
			}
		}
		switch op.Kind {
		case keys.KindValue:
			b.Put(cf, op.Key, op.Value)
		case keys.KindDelete:
			b.Delete(cf, op.Key)
		case keys.KindSingleDelete:
			b.SingleDelete(cf, op.Key)
		case keys.KindMerge:
			b.Merge(cf, op.Key, op.Value)
		case keys.KindRangeDelete:
			b.DeleteRange(cf, op.Key, op.Value)
		case keys.KindEntity:
			if b.account(cf, op.Key, op.Value) != nil {
				b.err = b.rep.PutEntity(cf.ID(), op.Key, op.Value)
			}
		case wal.KindLogData:
			b.PutLogData(bytes.Clone(op.Key))
		case wal.KindNoop:
		default:
			return nil, fmt.Errorf("%w: a batch with an operation of kind %v", ErrNotSupported, op.Kind)
		}
		if b.err != nil {
			return nil, b.err
		}
	}
	return b, d.Err()
}

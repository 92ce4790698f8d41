package wal

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// LogFile names a log file.
type LogFile struct {
	Number uint64
	Path   string
}

// ReplayOptions say how logs are replayed and what takes their operations.
type ReplayOptions struct {
	FS   mmapfs.FS
	Mode RecoveryMode
	// Oldest is the smallest number of a log that must exist; a log that says that
	// it follows one from Oldest on is checked against it (see Follows).
	Oldest uint64

	// MaxRecord is the largest record in bytes that is decompressed; zero means the format's 4 GiB.
	MaxRecord int64

	// Apply takes one operation that counts, with its sequence number, in order.
	// log is the number of the log to compare with a family's log number: for
	// operations of a prepared transaction, the log of the commit. op is borrowed
	// until Apply returns. A batch is checked whole before its first operation is
	// applied. An error ends the replay, whatever the mode, and is returned.
	Apply func(log, seq uint64, op *Op) error
	// EndBatch, if set, is called after each record; next is the number that the
	// next operation would take. It is the place to flush a full memtable.
	EndBatch func(log, next uint64) error
	// LogData, if set, takes the blobs of log data.
	LogData func(log uint64, blob []byte) error
	// Timestamps, if set, takes the timestamp sizes that a log has recorded, when
	// they change, before the batches that follow.
	Timestamps func(log uint64, sizes []TimestampSize) error

	// TimestampSize gives the timestamp size of a family, for transactions that
	// are committed with a timestamp; nil refuses those.
	TimestampSize func(cf uint32) int
	// RefusePrepared makes a prepared section end the replay with ErrPrepared, as
	// RocksDB does for a database opened without transactions.
	RefusePrepared bool
}

// Stop says where a point-in-time replay stopped, and why.
type Stop struct {
	Log    uint64 // that is damaged; where a log is found to be lost, or its end, that one
	Reason error  // matches keys.ErrCorruption
}

// Replayer replays the logs of a database in order. It applies the recovery mode
// across files:
//
//   - TolerateCorruptedTailRecords and AbsoluteConsistency: damage that Reader
//     reports is returned as an error.
//   - PointInTimeRecovery: damage stops the replay, and later logs are passed
//     over, unless the first record of one has exactly the next sequence number:
//     then the database was opened and written after the damage, and replay
//     resumes with that log.
//   - SkipAnyCorruptedRecords: damage is passed over.
//
// Beyond RocksDB's rules, zeros inside a log that are followed by a jump in
// sequence numbers are damage in all modes but the last: a crash of the machine
// lost what stood there, and what follows must not appear without it.
//
// Errors of files, and what Apply returns, end the replay in every mode. Not safe
// for concurrent use.
type Replayer struct {
	o    ReplayOptions
	txns Transactions
	next uint64 // sequence number after the last replayed operation
	any  bool   // next is known
	stop *Stop
	ends map[uint64]int64 // by log: where its last intact record ends

	records, skipped int64
}

// NewReplayer starts before the first log.
func NewReplayer(o ReplayOptions) *Replayer { return &Replayer{o: o, ends: map[uint64]int64{}} }

// Replay replays one log after the other; numbers ascend.
func (r *Replayer) Replay(logs ...LogFile) error {
	for _, l := range logs {
		if err := r.replayFile(l); err != nil {
			return err
		}
	}
	return nil
}

// NextSeq is the sequence number after the last replayed operation; ok is false
// when no record was replayed.
func (r *Replayer) NextSeq() (seq uint64, ok bool) { return r.next, r.any }

// Stopped says where the replay is stopped, or nil. When some family's log number
// is above Stop.Log and it has table files, the tables hold data beyond the point
// of corruption, and RocksDB refuses to open.
func (r *Replayer) Stopped() *Stop { return r.stop }

// LogEnd is where the last intact record of a replayed log ends, in bytes.
func (r *Replayer) LogEnd(log uint64) int64 { return r.ends[log] }

// Prepared lists the transactions that are prepared and neither committed nor
// rolled back.
func (r *Replayer) Prepared() []*Prepared { return r.txns.Open() }

// Records is how many records were replayed.
func (r *Replayer) Records() int64 { return r.records }

// Damaged is how often damage was met that the mode passed over, by stopping, by
// skipping, or by taking it for the end of a log that was torn.
func (r *Replayer) Damaged() int64 { return r.skipped }

func (r *Replayer) replayFile(l LogFile) (err error) {
	rd, err := Open(r.o.FS, l.Path, l.Number, r.o.Mode)
	if err != nil {
		return err
	}
	rd.Limit(r.o.MaxRecord)
	defer func() {
		if closeErr := rd.Close(); err == nil {
			err = closeErr
		}
	}()
	return r.replay(rd, l.Number)
}

func (r *Replayer) replay(rd *Reader, log uint64) error {
	sizes, first := 0, true
	for {
		batch, err := rd.Next()
		if err != nil {
			return r.ended(rd, log, err)
		}
		seq := Decode(batch).seq
		if r.o.Mode == PointInTimeRecovery && r.stop != nil {
			if !r.any || seq != r.next {
				return nil
			}
			r.stop = nil
		}
		if n := len(rd.TimestampSizes()); n != sizes && r.o.Timestamps != nil {
			if err := r.o.Timestamps(log, rd.TimestampSizes()); err != nil {
				return err
			}
			sizes = n
		}
		err = r.check(rd, batch, seq)
		at := log
		if first && err == nil {
			at, err = r.follows(rd, log, batch)
		}
		if first = false; err != nil {
			if r.o.Mode == SkipAnyCorruptedRecords {
				r.skipped++
				continue
			}
			return r.damaged(at, err)
		}
		if err := r.apply(log, batch); err != nil {
			return r.inFile(rd, err)
		}
		r.records++
		r.ends[log] = rd.End()
		if r.o.EndBatch != nil {
			if err := r.o.EndBatch(log, r.next); err != nil {
				return err
			}
		}
	}
}

// check finds what is wrong with a record that the framing thinks intact.
func (r *Replayer) check(rd *Reader, batch []byte, seq uint64) error {
	if rd.Hole() && (!r.any || seq != r.next) && r.o.Mode != SkipAnyCorruptedRecords {
		return keys.Corruptf(rd.Name(), rd.Offset(), "a part of the log is missing: expected the record after sequence number %d behind zeros, found number %d", r.next, seq)
	}
	if err := Validate(batch); err != nil {
		return r.inFile(rd, err)
	}
	return nil
}

// inFile turns an error about a batch into one about its file.
func (r *Replayer) inFile(rd *Reader, err error) error {
	var c *keys.CorruptionError
	if !errors.As(err, &c) || c.File != batchName {
		return err
	}
	return keys.Corruptf(rd.Name(), rd.Offset(), "batch, offset %d: %s", c.Offset, c.Reason)
}

// ended decides what the end of a log means.
func (r *Replayer) ended(rd *Reader, log uint64, err error) error {
	r.skipped += int64(rd.Reports())
	if rd.Torn() && rd.Reports() == 0 {
		r.skipped++
	}
	switch {
	case err == io.EOF:
		// An old record ends a recycled log, in this mode with a flag: it may be
		// the place where a part of the log is missing.
		if r.o.Mode == PointInTimeRecovery && rd.Reason() != nil {
			r.stop = &Stop{Log: log, Reason: rd.Reason()}
		}
		return nil
	case errors.Is(err, keys.ErrCorruption):
		if r.o.Mode == PointInTimeRecovery {
			r.stop = &Stop{Log: log, Reason: err}
			return nil
		}
	}
	return err
}

// damaged handles damage that Reader does not know.
func (r *Replayer) damaged(log uint64, err error) error {
	if r.o.Mode == PointInTimeRecovery && errors.Is(err, keys.ErrCorruption) {
		r.skipped++
		r.stop = &Stop{Log: log, Reason: err}
		return nil
	}
	return err
}

// apply hands out the operations of a batch that was validated.
func (r *Replayer) apply(log uint64, batch []byte) error {
	var op Op
	d := Decode(batch)
	seq := d.seq
	section, before := -1, uint32(0) // where a prepared section's operations begin, and how many stand before
	for d.Next(&op) {
		switch op.Kind {
		case KindNoop:
		case KindLogData:
			if r.o.LogData != nil {
				if err := r.o.LogData(log, op.Key); err != nil {
					return err
				}
			}
		case KindBeginPrepare:
			if r.o.RefusePrepared {
				return ErrPrepared
			}
			section, before = d.pos, d.found
		case KindBeginPersistedPrepare, KindBeginUnprepare:
			return fmt.Errorf("%w: the log holds transactions of another write policy than write-committed", ErrUnsupported)
		case KindEndPrepare:
			p := &Prepared{XID: slices.Clone(op.Key), Log: log, Seq: seq, Count: d.found - before, records: slices.Clone(batch[section:d.start])}
			if err := r.txns.Prepare(p); err != nil {
				return err
			}
			section = -1
		case KindRollback:
			r.txns.Take(op.Key)
		case KindCommit, KindCommitWithTimestamp:
			if err := r.commit(log, &seq, &op); err != nil {
				return err
			}
		default:
			if section >= 0 {
				continue // it takes its number at the commit
			}
			if err := r.o.Apply(log, seq, &op); err != nil {
				return err
			}
			seq++
		}
	}
	r.next, r.any = seq, true
	return d.err
}

// commit applies the operations of a prepared transaction from *seq on.
func (r *Replayer) commit(log uint64, seq *uint64, commit *Op) error {
	p := r.txns.Take(commit.Key)
	if p == nil {
		return nil // its section was in a log that is gone, and its data in tables
	}
	if commit.Kind == KindCommitWithTimestamp {
		if r.o.TimestampSize == nil {
			return fmt.Errorf("%w: transaction %q is committed with a timestamp", ErrUnsupported, commit.Key)
		}
		if err := p.stamp(commit.Value, r.o.TimestampSize); err != nil {
			return err
		}
	}
	var op Op
	for d := p.Ops(); d.Next(&op); {
		if !op.Counts() {
			continue
		}
		if *seq >= keys.MaxSeq {
			return keys.Corruptf(batchName, -1, "expected sequence numbers up to %d, found more operations", keys.MaxSeq)
		}
		if err := r.o.Apply(log, *seq, &op); err != nil {
			return err
		}
		*seq++
	}
	return nil
}

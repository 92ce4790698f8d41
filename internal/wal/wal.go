// Package wal writes batches to log files and reads them back after a crash.
//
// A log file is a sequence of records in the framing of package record; each
// record is one batch, or a merged group of batches, in RocksDB's WriteBatch
// encoding:
//
//	batch := fixed64 sequence number of the first counting operation
//	         fixed32 count of the counting operations
//	         operation*
//
//	operation := tag, then by the tag: varint32 column family, str key, str value
//	str       := varint32 length, bytes
//
// The table in decode.go has the tags. An operation on column family 0 uses the
// short tag, others the variant with an id. Counting operations take consecutive
// sequence numbers; markers and log data take none.
//
// A compressed log begins with a type 9 record (fixed32 7, zstd); the payload of
// each later data record is then one zstd frame with a content checksum.
//
// Writer is the way in, in two modes (mapped and plain) with the same bytes on
// disk; Reader applies the four recovery modes to one file, Replayer to the
// sequence of files that a database is recovered from.
//
// Fact sheet: wal. Proved by the golden databases: every log decoded to RocksDB's
// own listing, and written again byte for byte.
package wal

import (
	"errors"
	"fmt"
)

// RecoveryMode says what a reader does about damage. The numbers are RocksDB's.
type RecoveryMode int

const (
	// TolerateCorruptedTailRecords takes a torn last record as the end, and any
	// other damage as an error.
	TolerateCorruptedTailRecords RecoveryMode = iota
	// AbsoluteConsistency takes any damage as an error. It suits logs that were
	// closed cleanly.
	AbsoluteConsistency
	// PointInTimeRecovery keeps everything before the first damage: the database
	// is as it was at some moment. The default.
	PointInTimeRecovery
	// SkipAnyCorruptedRecords keeps whatever can be read.
	SkipAnyCorruptedRecords
)

// String is RocksDB's name.
func (m RecoveryMode) String() string {
	switch m {
	case TolerateCorruptedTailRecords:
		return "kTolerateCorruptedTailRecords"
	case AbsoluteConsistency:
		return "kAbsoluteConsistency"
	case PointInTimeRecovery:
		return "kPointInTimeRecovery"
	case SkipAnyCorruptedRecords:
		return "kSkipAnyCorruptedRecords"
	}
	return fmt.Sprintf("RecoveryMode(%d)", int(m))
}

// ParseRecoveryMode is the inverse of String.
func ParseRecoveryMode(s string) (RecoveryMode, error) {
	for m := TolerateCorruptedTailRecords; m <= SkipAnyCorruptedRecords; m++ {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("wal: unknown recovery mode %q", s)
}

// ErrUnsupported matches errors about logs that are intact and of a kind that
// this package cannot replay: another compression, or transactions of another
// write policy. No recovery mode skips them.
var ErrUnsupported = errors.New("wal: unsupported")

// ErrPrepared matches the refusal of a log with prepared transactions.
var ErrPrepared = fmt.Errorf("wal: the log contains prepared transactions, which need a transaction database: %w", ErrUnsupported)

// Compression is the type number that a log's first record stores.
type Compression uint32

// The compressions that RocksDB uses for logs.
const (
	NoCompression Compression = 0
	ZSTD          Compression = 7
)

// String names the compression.
func (c Compression) String() string {
	switch c {
	case NoCompression:
		return "none"
	case ZSTD:
		return "zstd"
	}
	return fmt.Sprintf("compression type %d", uint32(c))
}

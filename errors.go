package flatrock

import (
	"errors"
	"fmt"

	"github.com/flatrock-db/flatrock/internal/iterator"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound says that a key has no value.
	ErrNotFound = errors.New("flatrock: not found")
	// ErrClosed says that the database, iterator or snapshot was closed.
	ErrClosed = errors.New("flatrock: closed")
	// ErrReadOnly says that the database was opened read-only.
	ErrReadOnly = errors.New("flatrock: read-only")
	// ErrInvalidArgument says that an argument or an option cannot work.
	ErrInvalidArgument = errors.New("flatrock: invalid argument")
	// ErrNotSupported says that the column family's format or options exclude the operation.
	ErrNotSupported = errors.New("flatrock: not supported")
	// ErrBackground says that an earlier write-side failure made the database
	// read-only; the error wraps that failure. DB.Resume may help once its cause is gone; else reopen.
	ErrBackground = errors.New("flatrock: stopped after a background error")
	// ErrColumnFamilyDropped says that the column family no longer exists.
	ErrColumnFamilyDropped = errors.New("flatrock: column family dropped")
	// ErrNoDatabase says that the directory holds no database.
	ErrNoDatabase = errors.New("flatrock: no database")
	// ErrBusy says that something of which there can be one is under way already, or that
	// files which CompactFiles needs are being compacted.
	ErrBusy = errors.New("flatrock: busy")
	// ErrExists says that the directory holds a database already.
	ErrExists = errors.New("flatrock: database exists")

	// ErrBatchFull says that an operation would have made a batch larger than its SetMaxBytes.
	ErrBatchFull = errors.New("flatrock: batch full")
	// ErrNoSavePoint says that a batch has no save point to go back to.
	ErrNoSavePoint = errors.New("flatrock: no save point")
	// ErrIncomplete says that an iterator passed over more hidden entries in one move than
	// ReadOptions.MaxSkippableInternalKeys allows, or that a write would have had to wait that has WriteOptions.NoSlowdown.
	ErrIncomplete = iterator.ErrTooManySkipped

	// ErrCorruption matches damage found in a file; errors.As with
	// *CorruptionError gives file, offset and reason.
	ErrCorruption = keys.ErrCorruption
	// ErrLocked says that another process, or this one, has the database open.
	ErrLocked = mmapfs.ErrLocked
)

// CorruptionError says where a file stopped making sense: File is its base name, Offset the bytes from its start or
// -1 if that is not known, Reason what was expected there and what was found.
type CorruptionError = keys.CorruptionError

// backgroundError is what writes return once the write side has failed.
type backgroundError struct {
	op    string // what failed: "WAL append", "flush", …
	cause error
}

func (e *backgroundError) Error() string {
	return fmt.Sprintf("flatrock: stopped after a background error: %s: %v", e.op, e.cause)
}

func (e *backgroundError) Unwrap() []error { return []error{ErrBackground, e.cause} }

// Package table holds the small interfaces that both table formats satisfy, so
// that the root, the merging iterator and compaction never name a format.
package table

import (
	"context"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/perf"
)

// Iterator walks internal entries in internal key order: user key ascending,
// trailer descending. It starts out not positioned.
//
// Every positioning method reports whether it landed on an entry. When it did
// not, either there is none (Err returns nil) or reading failed (Err returns
// why); an iterator with an error stays invalid until the next seek.
//
// UserKey and Value are borrowed: they are valid until the next positioning
// call or Close. An Iterator is used by one goroutine at a time.
type Iterator interface {
	// SeekGE moves to the first entry at or after (userKey, trailer).
	SeekGE(userKey []byte, trailer uint64) bool
	// SeekPrefixGE moves to the first entry at or after (look.UserKey, trailer)
	// that has the prefix of look. When there is none it reports false, which
	// costs a source with a prefix hash or filter almost nothing. After true,
	// Next and Prev walk the whole source in order, other prefixes included.
	// look.PrefixLen must not be -1.
	SeekPrefixGE(look *keys.Lookup, trailer uint64) bool
	// SeekLT moves to the last entry before (userKey, trailer).
	SeekLT(userKey []byte, trailer uint64) bool
	First() bool
	Last() bool
	// Next and Prev may be called only on a valid iterator.
	Next() bool
	Prev() bool

	Valid() bool
	UserKey() []byte
	Trailer() uint64
	Value() []byte

	Err() error
	Close() error
}

// Unpinner releases what a Pin holds.
type Unpinner interface{ Unpin(handle uint64) }

// Pin keeps the memory behind a borrowed value alive beyond the call that
// returned it. The zero Pin holds nothing, which is all that memory that lives
// as long as the read state needs.
type Pin struct {
	owner  Unpinner
	handle uint64
}

// Set makes p hold handle of owner; p must hold nothing.
func (p *Pin) Set(owner Unpinner, handle uint64) { p.owner, p.handle = owner, handle }

// Release lets go of what p holds, if anything. It may be called twice.
func (p *Pin) Release() {
	if p.owner != nil {
		o := p.owner
		p.owner = nil
		o.Unpin(p.handle)
	}
}

// Tombstone is a range delete as a table stores it: keys in [Start, End) with
// sequence numbers below Seq are gone.
type Tombstone struct {
	Start, End []byte
	Seq        uint64
}

// Reader reads one immutable table file. Safe for concurrent use.
type Reader interface {
	// Get finds the newest entry of look.UserKey whose sequence number is at most
	// look.Seq. The value is borrowed: until pin is released, or for formats that
	// set no pin, as long as the Reader is open. Deletes and merge operands are
	// results like any other; look again with a smaller Seq for what is below.
	// No allocation, no lock on a hit.
	Get(look *keys.Lookup, pin *Pin) (value []byte, trailer uint64, ok bool, err error)
	// NewIterator returns an iterator that must be closed.
	NewIterator(o IterOptions) Iterator
	// Tombstones returns the range deletes of the file, in file order, owned by
	// the Reader. Most files have none.
	Tombstones() []Tombstone
	// Properties returns the decoded properties, owned by the Reader.
	Properties() *Properties
	// VerifyChecksums reads the whole file and checks every checksum it has. It ends soon
	// after ctx does, with its error.
	VerifyChecksums(ctx context.Context) error
	// MemoryUsage is what the Reader itself holds outside of caches, in bytes.
	MemoryUsage() int64
	// Close releases the file. The caller makes sure that no read is under way.
	Close() error
}

// Readahead is what readahead that adapts hands on from file to file.
type Readahead struct{ Size int }

// IterOptions tunes an iterator over a table.
type IterOptions struct {
	// NoFill keeps blocks that the iterator reads out of the block cache
	// (RocksDB's fill_cache=false). Compactions set it.
	NoFill bool
	// ReadaheadSize is a fixed readahead in bytes; zero lets it adapt. With a fixed
	// one blocks come through read calls, never through a mapping of the file.
	ReadaheadSize int
	// PastUpper lets readahead go beyond Upper.
	PastUpper bool
	// Carry, if not nil, takes the size that adapting readahead had reached in the file before, and
	// leaves that of this one when the iterator is closed: the iterators of a level's files share one.
	Carry *Readahead
	// VerifyChecksums checks each block that comes from storage, NoVerify trusts
	// them; with neither the Reader's options decide.
	VerifyChecksums, NoVerify bool
	// Perf, if not nil, is where reads of blocks count.
	Perf *perf.Context
	// Lower (inclusive) and Upper (exclusive) are user keys beyond which entries are not
	// asked for, and may be missing; nil for none. They are borrowed until Close.
	Lower, Upper []byte
	// Pace, if not nil, is called before n bytes are read ahead, and may take its time. It needs a
	// ReadaheadSize.
	Pace func(n int)
	// Guarded says that whoever uses the iterator has a mmapfs.Guard meanwhile: what lies in memory anyway may be read in
	// place.
	Guarded bool
	// Caller is on whose behalf blocks are read, for traces.
	Caller Caller
}

// Writer builds one table file. Not safe for concurrent use.
type Writer interface {
	// Add appends a point entry; entries must come in internal key order.
	Add(userKey []byte, trailer uint64, value []byte) error
	// AddTombstone appends a range delete. Formats that cannot store one refuse.
	AddTombstone(t Tombstone) error
	// EstimatedSize is the size in bytes that the file would have if finished now.
	EstimatedSize() int64
	// Finish writes what is pending, syncs and closes the file. After an error the file is
	// garbage for the caller to remove.
	Finish() (Summary, error)
	// Abandon closes the file without finishing it.
	Abandon()
}

// Summary describes a finished file.
type Summary struct {
	Size             int64 // bytes
	Entries          uint64
	Deletes          uint64 // point and single deletes, plus tombstones
	Tombstones       uint64
	SmallestUserKey  []byte // owned; internal bounds over point entries and tombstones
	SmallestTrailer  uint64
	LargestUserKey   []byte
	LargestTrailer   uint64
	SmallestSeq      uint64
	LargestSeq       uint64
	RawKeySize       uint64
	RawValueSize     uint64
	TailSize         int64  // bytes after the data
	OldestBlobNumber uint64 // 0 if none
}

// Identity is what a writer records about where a file came from. Table files
// written by the database carry it in their properties.
type Identity struct {
	ColumnFamilyID   uint32
	ColumnFamilyName string
	DBID             string
	DBSessionID      string
	DBHostID         string
	FileNumber       uint64
	CreationTime     uint64 // unix seconds
	OldestKeyTime    uint64
	NewestKeyTime    uint64 // recorded from format version 6 on
	FileCreationTime uint64
	ComparatorName   string
	MergeOperator    string // name; empty for none
	PrefixExtractor  string // name; empty for none
	// ExternalFile marks a file made outside a database (SstFileWriter): its
	// sequence numbers are zero and it carries the external_sst_file properties.
	ExternalFile bool
}

package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Condition is a way in which a log stops making sense.
type Condition int

// The conditions, named after the fact sheet.
const (
	TruncatedHeader  Condition = iota + 1 // the file ends inside a header
	TruncatedBody                         // the file ends inside a fragment's data
	TruncatedRecord                       // the file ends inside a fragmented record
	OldRecord                             // a fragment of an earlier log in the same file
	BadInsideRecord                       // a zero or misplaced fragment inside a fragmented record
	BadLength                             // a fragment would cross its block's end
	ChecksumMismatch                      // stored and computed checksums differ
	MissingStart                          // a middle or last fragment without a first
	MissingEnd                            // a full or first fragment inside a fragmented record
	UnknownType                           // a type that this reader must not ignore
	BadMeta                               // a fact about the log that makes no sense
)

// String is RocksDB's reason for the condition.
func (c Condition) String() string {
	switch c {
	case TruncatedHeader:
		return "truncated header"
	case TruncatedBody:
		return "truncated record body"
	case TruncatedRecord:
		return "error reading trailing data"
	case OldRecord:
		return "old log record"
	case BadInsideRecord:
		return "error in middle of record"
	case BadLength:
		return "bad record length"
	case ChecksumMismatch:
		return "checksum mismatch"
	case MissingStart:
		return "missing start of fragmented record"
	case MissingEnd:
		return "partial record without end"
	case UnknownType:
		return "unknown record type"
	case BadMeta:
		return "bad log metadata"
	}
	return fmt.Sprintf("condition %d", int(c))
}

// Damage says where and how a log stopped making sense. It matches
// keys.ErrCorruption, and errors.As finds the keys.CorruptionError in it.
type Damage struct {
	Condition Condition
	// InRecord says that a fragmented record was begun and is lost.
	InRecord bool
	// Recycled says that the file has recyclable fragments before this place.
	Recycled bool
	// Unwritten says of a ChecksumMismatch that the fragment is the last of the file and
	// lacks a sector, which reads as zeros: the size reached the disk, and that sector
	// did not. A bit that changed later does not look like that.
	Unwritten bool
	Where     keys.CorruptionError
}

func (d *Damage) Error() string { return d.Where.Error() }

// Unwrap gives the file, the offset and the reason.
func (d *Damage) Unwrap() error { return &d.Where }

// Tail reports whether the damage is what a crash leaves at the end of a log
// (torn bytes, or the content of the file's earlier life): readers that
// tolerate a torn tail, such as a MANIFEST's, take it as the end.
func (d *Damage) Tail() bool {
	switch d.Condition {
	case TruncatedHeader, TruncatedBody, TruncatedRecord, OldRecord:
		return true
	case ChecksumMismatch, BadLength:
		return d.Recycled || d.Unwritten
	}
	return false
}

// ReaderOptions adjust a Reader; the zero value reads a MANIFEST.
type ReaderOptions struct {
	// Meta takes the facts about the log, with the plain type and the offset of
	// the fragment. The payload is borrowed until it returns. A Damage that it
	// returns is handed on like any other; another error ends reading. Nil makes
	// TimestampSizes and SetCompression damage, and skips PredecessorInfo.
	Meta func(t Type, payload []byte, offset int64) error
	// Start is where in the file reading begins: 0, or the End of a record. The
	// source then begins with the block that holds it.
	Start int64
}

// Reader reads the records of a log in order. Not safe for concurrent use.
type Reader struct {
	src    io.Reader
	file   string
	number uint32
	meta   func(Type, []byte, int64) error

	block      []byte // unread rest of the current block
	blockStart int64  // file offset of buf[0]
	n          int    // bytes of the current block in buf
	skip       int    // bytes of the first block before the start
	last       bool   // the current block is the file's last
	err        error  // ends reading for good: an I/O error or io.EOF

	recycled  bool // a recyclable fragment was met
	returned  bool // a record was returned
	offset    int64
	end       int64
	inRecord  bool
	startedAt int64
	scratch   []byte // joined fragments of the record in progress
	skipped   int64  // bytes dropped with zero fragments since the last record
	gap       int64  // see SkippedZeros

	buf [BlockSize]byte
}

// NewReader reads the log in r from its start. file is the base name for errors;
// logNumber is what recyclable fragments must carry.
func NewReader(r io.Reader, file string, logNumber uint64, o ReaderOptions) *Reader {
	return &Reader{src: r, file: file, number: uint32(logNumber), meta: o.Meta, blockStart: o.Start / BlockSize * BlockSize, skip: int(o.Start % BlockSize)}
}

// Next returns the payload of the next record, borrowed until the following call
// of Next. At the end it returns io.EOF. A *Damage tells of bytes that make no
// sense; calling Next again goes on behind them. An error of the source is
// returned as it is, and by every later call.
func (r *Reader) Next() ([]byte, error) {
	if !r.inRecord {
		r.shrink()
	}
	for {
		t, data, at, err := r.fragment()
		if err != nil {
			return nil, err
		}
		switch t {
		case Full:
			if r.inRecord && len(r.scratch) > 0 {
				// The fragment is intact: lose the record in progress, not this one.
				r.unread(at)
				return nil, r.drop(at, MissingEnd, "expected a middle or last fragment, found a full record")
			}
			r.inRecord = false // an empty first fragment, left by LevelDB's early writers
			r.delivered(at)
			return data, nil
		case First:
			if r.inRecord && len(r.scratch) > 0 {
				r.unread(at)
				return nil, r.drop(at, MissingEnd, "expected a middle or last fragment, found a first fragment")
			}
			r.inRecord, r.startedAt = true, at
			r.scratch = append(r.scratch[:0], data...)
		case Middle:
			if !r.inRecord {
				return nil, r.drop(at, MissingStart, "expected a full or first fragment, found a middle fragment")
			}
			r.scratch = append(r.scratch, data...)
		case Last:
			if !r.inRecord {
				return nil, r.drop(at, MissingStart, "expected a full or first fragment, found a last fragment")
			}
			r.scratch = append(r.scratch, data...)
			r.inRecord = false
			r.delivered(r.startedAt)
			return r.scratch, nil
		default:
			if err := r.other(t, data, at); err != nil {
				return nil, err
			}
		}
	}
}

// shrink lets go of a scratch buffer that one huge record has made huge.
func (r *Reader) shrink() {
	if cap(r.scratch) > 16<<20 {
		r.scratch = nil
	}
}

func (r *Reader) delivered(at int64) {
	r.offset, r.end = at, r.pos()
	r.gap, r.skipped = r.skipped, 0
	r.returned = true
}

// other handles the types that are no data.
func (r *Reader) other(t Type, data []byte, at int64) error {
	known := t == SetCompression || t == TimestampSizes || t == PredecessorInfo
	switch {
	case known && r.inRecord:
		return r.drop(at, MissingEnd, "expected a middle or last fragment, found %v", t)
	case known && r.meta != nil:
		r.skipped = 0 // a meta record that does not fit its block leaves zeros
		err := r.meta(t, data, at)
		var d *Damage
		if err != nil && !errors.As(err, &d) {
			r.err = err
		}
		return err
	case t&safeToIgnore != 0:
		r.inRecord = false
		return nil
	}
	return r.drop(at, UnknownType, "expected a known type, found %d", uint8(t))
}

// Damagef builds a Damage at offset of the reader's file, for use in Meta.
func (r *Reader) Damagef(offset int64, c Condition, format string, args ...any) *Damage {
	return &Damage{
		Condition: c, Recycled: r.recycled, InRecord: r.inRecord,
		Where: keys.CorruptionError{File: r.file, Offset: offset, Reason: c.String() + ": " + fmt.Sprintf(format, args...)},
	}
}

// drop reports damage and forgets the record in progress.
func (r *Reader) drop(offset int64, c Condition, format string, args ...any) error {
	d := r.Damagef(offset, c, format, args...)
	r.inRecord = false
	return d
}

// Offset is where the record that Next returned last begins in the file.
func (r *Reader) Offset() int64 { return r.offset }

// End is where the record that Next returned last ends in the file.
func (r *Reader) End() int64 { return r.end }

// Recycled reports whether the file has recyclable fragments so far.
func (r *Reader) Recycled() bool { return r.recycled }

// SkippedZeros is how many bytes were dropped between the record that Next
// returned last and the one before it because zeros stood where a fragment should
// begin. A log written in order has at most a few, at block ends; many mean that a
// crash of the machine lost a part of the log whose end reached the disk.
func (r *Reader) SkippedZeros() int64 { return r.gap }

// pos is the file offset of the next unread byte.
func (r *Reader) pos() int64 { return r.blockStart + int64(r.n-len(r.block)) }

// unread goes back to the fragment at offset at of the current block.
func (r *Reader) unread(at int64) { r.block = r.buf[at-r.blockStart : r.n] }

// nextBlock reads a block. A short one is the last; a full one is always
// followed by another read, so a file that ends at a block boundary ends there
// whatever the tail of that block was.
func (r *Reader) nextBlock() error {
	if r.err != nil {
		return r.err
	}
	if r.last {
		r.block = nil
		r.err = io.EOF
		return io.EOF
	}
	r.blockStart += int64(r.n)
	n, err := io.ReadFull(r.src, r.buf[:])
	r.n, r.block = n, r.buf[min(r.skip, n):n]
	r.skip = 0
	switch err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		r.last = true
		return nil
	}
	r.n, r.block, r.err = 0, nil, err
	return err
}

// fragment returns the next fragment that is no leftover, with its plain type.
// It skips what is skipped without a word and reports the rest.
func (r *Reader) fragment() (t Type, data []byte, at int64, err error) {
	for {
		left := len(r.block)
		at = r.pos()
		if left < HeaderSize {
			if err := r.refill(at, left); err != nil {
				return 0, nil, at, err
			}
			continue
		}
		b := r.block
		length := int(binary.LittleEndian.Uint16(b[4:]))
		t = Type(b[6])
		header := t.HeaderSize()
		if t.Recyclable() {
			if r.returned && !r.recycled {
				// A writer uses one kind of header throughout; this is an older life.
				r.block = r.block[:0]
				if r.inRecord {
					return 0, nil, at, r.drop(at, BadInsideRecord, "expected a fragment without log number, found a recyclable one")
				}
				continue
			}
			r.recycled = true
			if left < header {
				if err := r.refill(at, left); err != nil {
					return 0, nil, at, err
				}
				continue
			}
		}
		if header+length > left {
			r.block = r.block[:0]
			c := BadLength
			if r.last {
				c = TruncatedBody
			}
			return 0, nil, at, r.drop(at, c, "expected at most %d bytes of data, found length %d", left-header, length)
		}
		if t.Recyclable() {
			if n := binary.LittleEndian.Uint32(b[7:]); n != r.number {
				r.block = b[header+length:]
				return 0, nil, at, r.drop(at, OldRecord, "expected log number %d, found %d", r.number, n)
			}
		}
		if t == Zero && length == 0 {
			if err := r.zeros(at); err != nil {
				return 0, nil, at, err
			}
			continue
		}
		if want, got := binary.LittleEndian.Uint32(b), hash.Mask(hash.CRC32C(b[6:header+length])); want != got {
			// The length may be what is damaged, so nothing behind it can be
			// trusted before the next block.
			r.block = r.block[:0]
			d := r.Damagef(at, ChecksumMismatch, "expected %#08x, found %#08x", want, got)
			r.inRecord = false
			d.Unwritten = r.last && allZero(b[header+length:]) && lacksSector(b[:header+length], at)
			return 0, nil, at, d
		}
		r.block = b[header+length:]
		return t.plain(), b[header : header+length], at, nil
	}
}

// refill goes to the next block when the current one has no room for a header.
func (r *Reader) refill(at int64, left int) error {
	atEnd := r.last && r.err == nil
	err := r.nextBlock()
	if err != io.EOF || !atEnd {
		return err
	}
	// Damage comes before the end, once.
	switch {
	case left > 0:
		return r.drop(at, TruncatedHeader, "expected a header, found %d bytes at the end of the file", left)
	case r.inRecord:
		return r.drop(at, TruncatedRecord, "expected a middle or last fragment, found the end of the file")
	}
	return io.EOF
}

// zeros skips a fragment of type zero: the rest of its block is dropped. Where
// nothing but zeros follows, this is the preallocated tail of a log that was not
// closed, and a record in progress is torn like one at the end of a file. (The
// mapped writer copies a fragment's header last. So the block in which a torn
// record was to go on may begin with zeros and hold data behind them.)
func (r *Reader) zeros(at int64) error {
	tail := allZero(r.block)
	goesOn := !tail && at == r.blockStart
	r.skipped += int64(len(r.block))
	r.block = r.block[:0]
	if !r.inRecord {
		return nil
	}
	for (tail || goesOn) && !r.last {
		if err := r.nextBlock(); err != nil {
			return err
		}
		if !allZero(r.block) {
			return r.drop(at, BadInsideRecord, "expected a middle or last fragment, found zeros")
		}
		goesOn, tail = false, true
		r.skipped += int64(len(r.block))
		r.block = r.block[:0]
	}
	if tail {
		return r.drop(at, TruncatedRecord, "expected a middle or last fragment, found zeros to the end of the file")
	}
	return r.drop(at, BadInsideRecord, "expected a middle or last fragment, found zeros")
}

const (
	sectorSize = 512 // what a disk writes wholly or not at all
	// fewestZeros is how much of a fragment must lie in a sector that is taken for
	// unwritten: fewer zeros may well be the fragment's own, and are proved.
	fewestZeros = 3
)

// lacksSector reports whether the fragment, which begins at offset at of the file,
// has nothing but zeros in one of the sectors that it reaches into.
func lacksSector(fragment []byte, at int64) bool {
	for i := int(sectorSize - at%sectorSize); i < len(fragment); i += sectorSize {
		piece := fragment[i:min(i+sectorSize, len(fragment))]
		if allZero(piece) && (len(piece) >= fewestZeros || completes(fragment, len(piece))) {
			return true
		}
	}
	return false
}

// completes reports whether the checksum of the fragment is right with other bytes
// for its last n, of which there are few: all else in it is as it was written then.
func completes(fragment []byte, n int) bool {
	want := binary.LittleEndian.Uint32(fragment)
	rest := max(6, len(fragment)-n) // the checksum is over all from the type on
	sum := hash.CRC32C(fragment[6:rest])
	for v := range 1 << (8 * (len(fragment) - rest)) {
		last := [fewestZeros]byte{byte(v), byte(v >> 8)}
		if hash.Mask(hash.ExtendCRC32C(sum, last[:len(fragment)-rest])) == want {
			return true
		}
	}
	return false
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

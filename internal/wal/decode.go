package wal

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Op is one operation of a batch. Key and Value are borrowed from its bytes.
type Op struct {
	// Kind is the kind in memtables and tables, or one of the markers above.
	Kind keys.Kind
	// CF is the column family; 0 for markers.
	CF uint32
	// Key is the user key (with its timestamp suffix where the family has
	// timestamps), the begin of a range delete, or what the marker's kind says.
	Key []byte
	// Value is the value, operand, entity or blob index, the end of a range
	// delete, or for KindValuePreferredSeqno the value and 8 bytes of unix time.
	Value []byte
}

// Counts reports whether the operation takes a sequence number.
func (op *Op) Counts() bool { return counts[op.Kind&0x1f] }

// shape is what follows a tag.
type shape uint8

const (
	hasCF    shape = 1 << iota // varint32 column family id
	hasKey                     // str
	hasValue                   // str
	counting
	known
)

// A tag's row: its kind and what follows it.
var tags = [0x1a]struct {
	kind  keys.Kind
	shape shape
}{
	0x00:                     {keys.KindDelete, known | counting | hasKey},
	0x01:                     {keys.KindValue, known | counting | hasKey | hasValue},
	0x02:                     {keys.KindMerge, known | counting | hasKey | hasValue},
	0x03:                     {KindLogData, known | hasKey},
	tagCFDelete:              {keys.KindDelete, known | counting | hasCF | hasKey},
	tagCFValue:               {keys.KindValue, known | counting | hasCF | hasKey | hasValue},
	tagCFMerge:               {keys.KindMerge, known | counting | hasCF | hasKey | hasValue},
	0x07:                     {keys.KindSingleDelete, known | counting | hasKey},
	tagCFSingleDelete:        {keys.KindSingleDelete, known | counting | hasCF | hasKey},
	0x09:                     {KindBeginPrepare, known},
	0x0a:                     {KindEndPrepare, known | hasKey},
	0x0b:                     {KindCommit, known | hasKey},
	0x0c:                     {KindRollback, known | hasKey},
	0x0d:                     {KindNoop, known},
	tagCFRangeDelete:         {keys.KindRangeDelete, known | counting | hasCF | hasKey | hasValue},
	0x0f:                     {keys.KindRangeDelete, known | counting | hasKey | hasValue},
	tagCFBlobIndex:           {keys.KindBlobIndex, known | counting | hasCF | hasKey | hasValue},
	0x11:                     {keys.KindBlobIndex, known | counting | hasKey | hasValue},
	0x12:                     {KindBeginPersistedPrepare, known},
	0x13:                     {KindBeginUnprepare, known},
	0x15:                     {KindCommitWithTimestamp, known | hasKey | hasValue},
	0x16:                     {keys.KindEntity, known | counting | hasKey | hasValue},
	tagCFEntity:              {keys.KindEntity, known | counting | hasCF | hasKey | hasValue},
	0x18:                     {keys.KindValuePreferredSeqno, known | counting | hasKey | hasValue},
	tagCFValuePreferredSeqno: {keys.KindValuePreferredSeqno, known | counting | hasCF | hasKey | hasValue},
}

var counts = func() (t [0x20]bool) {
	for _, row := range tags {
		t[row.kind] = t[row.kind] || row.shape&counting != 0
	}
	return
}()

// Decoder walks over the operations of a batch. It allocates nothing but errors.
// The zero Decoder is at the end of an empty batch.
type Decoder struct {
	batch   []byte
	pos     int // of the next operation
	start   int // of the operation that Next returned last
	seq     uint64
	want    uint32 // the header's count
	found   uint32 // counting operations so far
	section bool   // inside a prepared section
	bare    bool   // operations without a header: no count to check
	err     error
}

// Decode starts at the first operation of an encoded batch, which must not change
// meanwhile.
func Decode(batch []byte) Decoder {
	d := Decoder{batch: batch, pos: HeaderLen}
	if len(batch) < HeaderLen {
		d.pos = len(batch)
		d.err = keys.Corruptf(batchName, 0, "expected a header of %d bytes, found %d bytes", HeaderLen, len(batch))
		return d
	}
	d.seq = binary.LittleEndian.Uint64(batch)
	d.want = binary.LittleEndian.Uint32(batch[8:])
	if d.seq > keys.MaxSeq || keys.MaxSeq-d.seq < uint64(d.want) {
		d.fail(0, "expected %d sequence numbers up to %d, found the first to be %d", d.want, keys.MaxSeq, d.seq)
	}
	return d
}

// decodeRecords walks over operations without a header.
func decodeRecords(records []byte) Decoder { return Decoder{batch: records, bare: true} }

// batchName stands for the file in errors about a batch, since a batch need not
// come from one; the offset counts from its header.
const batchName = "WriteBatch"

// Sequence is the number of the first counting operation.
func (d *Decoder) Sequence() uint64 { return d.seq }

// Count is how many counting operations the header promises.
func (d *Decoder) Count() uint32 { return d.want }

// Err is what ended Next early: a keys.CorruptionError, with offsets in the batch.
func (d *Decoder) Err() error { return d.err }

func (d *Decoder) fail(at int, format string, args ...any) bool {
	d.err = keys.Corruptf(batchName, int64(at), format, args...)
	d.pos = len(d.batch)
	return false
}

// Next decodes the next operation into op and returns true, or returns false at
// the end or at an error. At the end it checks that the count was right.
func (d *Decoder) Next(op *Op) bool {
	if d.pos >= len(d.batch) {
		return d.end()
	}
	at := d.pos
	rest := d.batch[at+1:]
	tag := d.batch[at]
	if int(tag) >= len(tags) || tags[tag].shape&known == 0 {
		return d.fail(at, "expected the tag of an operation, found %#02x", tag)
	}
	row := &tags[tag]
	*op = Op{Kind: row.kind}
	var ok bool
	if row.shape&hasCF != 0 {
		if op.CF, rest, ok = coding.Uvarint32(rest); !ok {
			return d.fail(at, "expected a column family id after tag %#02x, found a bad varint", tag)
		}
	}
	if row.shape&hasKey != 0 {
		if op.Key, rest, ok = coding.Slice(rest); !ok {
			return d.fail(at, "expected a key after tag %#02x, found %d bytes that hold none", tag, len(rest))
		}
	}
	if row.shape&hasValue != 0 {
		if op.Value, rest, ok = coding.Slice(rest); !ok {
			return d.fail(at, "expected a value after tag %#02x and its key, found %d bytes that hold none", tag, len(rest))
		}
	}
	if row.shape&counting != 0 {
		d.found++
		if op.Kind == keys.KindValuePreferredSeqno && len(op.Value) < 8 {
			return d.fail(at, "expected a value with 8 bytes of time, found %d bytes", len(op.Value))
		}
	} else if !d.marker(at, op) {
		return false
	}
	d.start = at
	d.pos = len(d.batch) - len(rest)
	return true
}

// marker finishes an operation that takes no sequence number.
func (d *Decoder) marker(at int, op *Op) bool {
	switch op.Kind {
	case KindBeginPrepare, KindBeginPersistedPrepare, KindBeginUnprepare:
		if d.section || d.bare {
			return d.fail(at, "expected the end of the prepared section, found the begin of another")
		}
		d.section = true
	case KindEndPrepare:
		if !d.section {
			return d.fail(at, "expected the begin of a prepared section, found an end")
		}
		d.section = false
	case KindCommit, KindRollback:
		if d.section {
			return d.fail(at, "expected the end of the prepared section, found a commit or rollback")
		}
	case KindCommitWithTimestamp:
		if d.section {
			return d.fail(at, "expected the end of the prepared section, found a commit")
		}
		op.Key, op.Value = op.Value, op.Key // on disk the timestamp comes first
	}
	return true
}

func (d *Decoder) end() bool {
	switch {
	case d.err != nil || d.bare:
	case d.section:
		return d.fail(len(d.batch), "expected the end of the prepared section, found the end of the batch")
	case d.found != d.want:
		return d.fail(8, "WriteBatch has wrong count: expected %d, found %d operations", d.want, d.found)
	}
	return false
}

// Validate decodes the whole batch and returns its first error.
func Validate(batch []byte) error {
	var op Op
	d := Decode(batch)
	for d.Next(&op) {
	}
	return d.err
}

package block

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Iter walks the entries of a block forward, in the order in which they are
// stored: the meta blocks of both formats. Data and index blocks, which are
// searched, have cursors of their own in blocktable.
//
// Key and Value are borrowed: the key until the next step, the value from the
// block. After damage Next returns false and Err says where.
type Iter struct {
	file string
	off  int64 // of the block in the file
	all  []byte
	rest []byte // entries not yet read
	key  []byte
	val  []byte
	err  error
}

// NewIter makes an Iter over the uncompressed block b, which starts at offset
// off of file (as errors say), and checks its restart points.
func NewIter(file string, off int64, b []byte) *Iter {
	it := &Iter{file: file, off: off}
	n, err := checkRestarts(file, off, b)
	if err != nil {
		it.err = err
		return it
	}
	it.all = b[:n]
	it.rest = it.all
	return it
}

// checkRestarts returns the length of the entries part.
func checkRestarts(file string, off int64, b []byte) (entries int, err error) {
	if len(b) < 8 {
		return 0, keys.Corruptf(file, off, "expected a block of at least 8 bytes, found %d", len(b))
	}
	at := len(b) - 4
	r := uint64(binary.LittleEndian.Uint32(b[at:]))
	if r == 0 || 4*(r+1) > uint64(len(b)) {
		return 0, keys.Corruptf(file, off+int64(at), "expected 1 to %d restart points, found %d", (len(b)-4)/4, r)
	}
	entries = len(b) - 4*int(r+1)
	prev := -1
	for i := range int(r) {
		p := int(binary.LittleEndian.Uint32(b[entries+4*i:]))
		// An empty block has one restart point, at its end.
		if p <= prev || p > entries || p == entries && (entries > 0 || i > 0) || i == 0 && p != 0 {
			return 0, keys.Corruptf(file, off+int64(entries+4*i), "expected ascending restart points below %d, found %d after %d", entries, p, prev)
		}
		prev = p
	}
	return entries, nil
}

// First moves to the first entry.
func (it *Iter) First() bool {
	it.rest, it.key = it.all, it.key[:0]
	return it.Next()
}

// Next moves to the next entry, or to the first from the start.
func (it *Iter) Next() bool {
	if it.err != nil || len(it.rest) == 0 {
		return false
	}
	b := it.rest
	shared, b, ok1 := coding.Uvarint32(b)
	nonshared, b, ok2 := coding.Uvarint32(b)
	vlen, b, ok3 := coding.Uvarint32(b)
	at := it.off + int64(len(it.all)-len(it.rest))
	if !ok1 || !ok2 || !ok3 {
		it.err = keys.Corruptf(it.file, at, "expected three varints before an entry, found % x", it.rest[:min(len(it.rest), 15)])
		return false
	}
	if uint64(shared) > uint64(len(it.key)) || uint64(nonshared)+uint64(vlen) > uint64(len(b)) {
		it.err = keys.Corruptf(it.file, at, "expected an entry that shares at most %d and stores at most %d bytes, found %d and %d+%d",
			len(it.key), len(b), shared, nonshared, vlen)
		return false
	}
	it.key = append(it.key[:shared], b[:nonshared]...)
	it.val = b[nonshared : nonshared+vlen : nonshared+vlen]
	it.rest = b[nonshared+vlen:]
	return true
}

// Key is the whole key of the entry, borrowed until the next step.
func (it *Iter) Key() []byte { return it.key }

// Value is the value of the entry, borrowed from the block.
func (it *Iter) Value() []byte { return it.val }

// ValueOffset is the offset of Value in the block.
func (it *Iter) ValueOffset() int { return len(it.all) - len(it.rest) - len(it.val) }

// Err is the damage that ended the walk, if any.
func (it *Iter) Err() error { return it.err }

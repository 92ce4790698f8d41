package block

import (
	"encoding/binary"
	"math"

	"github.com/flatrock-db/flatrock/internal/coding"
)

// OneRestart is the restart interval of a properties block: a single restart point.
const OneRestart = math.MaxInt

// Builder builds one block of entries after another. Keys are opaque bytes; the
// caller adds them in order.
type Builder struct {
	buf      []byte
	restarts []uint32
	last     []byte
	interval int
	counter  int // entries since the last restart point
	entries  int
	noDelta  bool
}

// NewBuilder makes a Builder with a restart point every restartInterval entries, at least 1.
func NewBuilder(restartInterval int) *Builder {
	b := &Builder{interval: max(restartInterval, 1)}
	b.Reset()
	return b
}

// SetDelta turns the prefix compression of keys off or (as it starts out) on.
func (b *Builder) SetDelta(on bool) { b.noDelta = !on }

// Reset forgets all entries and keeps the memory. It invalidates what Finish returned.
func (b *Builder) Reset() {
	b.buf = b.buf[:0]
	b.restarts = append(b.restarts[:0], 0)
	b.last = b.last[:0]
	b.counter, b.entries = 0, 0
}

// Add appends an entry; both slices are copied. It returns the index of the
// restart interval that the entry is in.
func (b *Builder) Add(key, value []byte) (restart int) {
	shared := b.beginEntry(key)
	b.buf = coding.AppendUvarint(b.buf, uint64(shared))
	b.buf = coding.AppendUvarint(b.buf, uint64(len(key)-shared))
	b.buf = coding.AppendUvarint(b.buf, uint64(len(value)))
	b.buf = append(b.buf, key[shared:]...)
	b.buf = append(b.buf, value...)
	return len(b.restarts) - 1
}

// AddIndex appends an entry without a value length, as index blocks with delta
// encoded values have them: full is the value if the key shares nothing with
// its predecessor, delta the value otherwise.
func (b *Builder) AddIndex(key, full, delta []byte) {
	shared := b.beginEntry(key)
	b.buf = coding.AppendUvarint(b.buf, uint64(shared))
	b.buf = coding.AppendUvarint(b.buf, uint64(len(key)-shared))
	b.buf = append(b.buf, key[shared:]...)
	if shared == 0 {
		b.buf = append(b.buf, full...)
	} else {
		b.buf = append(b.buf, delta...)
	}
}

// beginEntry moves to the next restart point when it is time, and returns how
// many bytes key shares with its predecessor.
func (b *Builder) beginEntry(key []byte) (shared int) {
	if b.counter >= b.interval {
		b.restarts = append(b.restarts, uint32(len(b.buf)))
		b.counter = 0
	} else if !b.noDelta && b.entries > 0 {
		shared = SharedLen(b.last, key)
	}
	b.last = append(b.last[:shared], key[shared:]...)
	b.counter++
	b.entries++
	return shared
}

// Finish appends the restart points and returns the block, borrowed until Reset.
func (b *Builder) Finish() []byte {
	b.AppendRestarts()
	return b.AppendCount(0)
}

// AppendRestarts appends the restart points only; a caller that puts a hash
// index after them then calls Append and AppendCount.
func (b *Builder) AppendRestarts() {
	for _, r := range b.restarts {
		b.buf = binary.LittleEndian.AppendUint32(b.buf, r)
	}
}

// Append appends raw bytes.
func (b *Builder) Append(raw []byte) { b.buf = append(b.buf, raw...) }

// AppendCount ends the block with the packed restart count and returns it.
func (b *Builder) AppendCount(flags uint32) []byte {
	b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(b.restarts))|flags)
	return b.buf
}

// Empty reports whether nothing was added since the last Reset.
func (b *Builder) Empty() bool { return b.entries == 0 }

// Entries is the number of entries since the last Reset.
func (b *Builder) Entries() int { return b.entries }

// Restarts is the number of restart points so far.
func (b *Builder) Restarts() int { return len(b.restarts) }

// EstimatedSize is the size in bytes that the block would have if finished now.
func (b *Builder) EstimatedSize() int { return len(b.buf) + 4*len(b.restarts) + 4 }

// EstimatedSizeAfter is RocksDB's estimate of EstimatedSize once an entry with
// these sizes has been added, which decides where blocks end. delta says that
// the block is an index block with delta encoded values.
func (b *Builder) EstimatedSizeAfter(keyLen, valueLen int, delta bool) int {
	whole := !delta || b.counter >= b.interval
	n := b.EstimatedSize() + keyLen
	if whole {
		n += valueLen
	} else {
		n += valueLen / 2
	}
	if b.counter >= b.interval {
		n += 4
	}
	n += 4 // RocksDB counts a varint for the shared length as four bytes
	n += coding.UvarintLen(uint64(keyLen))
	if whole {
		n += coding.UvarintLen(uint64(valueLen))
	}
	return n
}

// LastKey is the key added last, borrowed until the next Add or Reset.
func (b *Builder) LastKey() []byte { return b.last }

// SharedLen is the length of the common prefix of a and b in bytes.
func SharedLen(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for i+8 <= n {
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

package blocktable

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/prefetch"
)

// A data block in the cache has room behind it for a hint, which a point read
// searches instead of the block. The entries of a block are a chain, each as long as
// its header says, in which a search from a restart point waits for memory at every
// link; the hint is two adjacent cache lines. Most blocks of a cache that is
// small for its data are never found again, so a block gets its hint from the first
// point read that finds it; from the one that loads it only where blocks mostly are
// found again.
//
//	room := … ‖ hint
//	hint := common prefix of the user keys ‖ fixed32 head[n] ‖ fixed16 offset[n] ‖
//	        fixed16 length of the common prefix ‖ fixed16 n ‖ fixed32 block length
//
// A head is the four bytes of a user key after the common prefix, as a number
// that sorts like them; an offset is where the entry begins. n is zero when there
// is no hint but the block length, which is there from the beginning. Only the cache
// has hints, never a file, so the hint of a damaged block is at worst useless: what
// it finds is compared with the entry itself.
const (
	hintTail  = 8
	headLen   = 4
	hintEntry = headLen + 2
	maxHints  = 400
	maxCommon = 64
	maxHinted = 64 << 10 // blocks whose offsets fit 16 bits

	// What is asked for at once of a hint and of the entry it leads to, in bytes.
	hintAhead  = 4 * prefetch.Line
	entryAhead = 6 * prefetch.Line
)

// setHintRoom decides how much more than a data block to reserve in the cache. It is
// the same for all blocks of a file, whoever reads them, so that the memory of one
// serves for another.
func (r *Reader) setHintRoom() {
	r.hintRoom = hintTail
	n := r.props.NumDataBlocks
	if n == 0 || !r.opts.Order.Bytewise() || r.gseq != 0 {
		return
	}
	entries := int(min(r.props.NumEntries/n, maxHints)) + 1
	r.hintRoom += min(len(r.index.common)+8, maxCommon) + (entries+entries/8)*hintEntry
}

// buildHint writes the hint of block b into the end of room, in which the block
// length is already, and leaves it at that if it does not fit. A block that is
// damaged is for the search to find.
func buildHint(b, room []byte) {
	if len(b) > maxHinted || len(room) <= hintTail {
		return
	}
	var d dataIter
	if !d.init(b, 0) || d.values >= 0 {
		return
	}
	// The common prefix is no longer than what any key shares with the one before,
	// or, at restart points, with the first.
	t := len(room) - hintTail
	common, count := min(t, maxCommon), 0
	var first []byte
	last := 0 // the length of the user key before
	for at := 0; at < d.end; count++ {
		shared, nonshared, vlen, key, ok := d.entryHeader(at)
		n := int(shared) + int(nonshared) - keys.TrailerLen
		if !ok || uint64(nonshared)+uint64(vlen) > uint64(d.end-key) || count == 0 && shared != 0 {
			return
		}
		// Only versions of one key may share bytes of the trailer.
		if (int(shared) > last || int(shared) > n) && n != last {
			return
		}
		switch {
		case count == 0:
			first = b[key:][:n]
			common = min(common, n)
		case shared == 0:
			common = min(common, block.SharedLen(b[key:][:n], first))
		default:
			common = min(common, int(shared), n)
		}
		last = n
		at = key + int(nonshared) + int(vlen)
	}
	start := t - common - count*hintEntry
	if count == 0 || count > maxHints || start < 0 {
		return
	}
	copy(room[start:], first[:common])
	heads, offsets := room[start+common:t-2*count], room[t-2*count:t]
	h := uint32(0)
	for at, i := 0, 0; i < count; i++ {
		shared, nonshared, vlen, key, _ := d.entryHeader(at)
		end := key + int(nonshared)
		if n := end - keys.TrailerLen; n > key {
			keep := min(max(int(shared)-common, 0), headLen) // bytes of the head before
			from := min(key+max(common-int(shared), 0), n)
			h = h&^(math.MaxUint32>>(8*keep)) | head32(b[from:n])>>(8*keep)
		}
		binary.LittleEndian.PutUint32(heads[headLen*i:], h)
		binary.LittleEndian.PutUint16(offsets[2*i:], uint16(at))
		at = end + int(vlen)
	}
	binary.LittleEndian.PutUint16(room[t:], uint16(common))
	binary.LittleEndian.PutUint16(room[t+2:], uint16(count))
}

// head32 is the first four bytes of k as a number that sorts like them.
func head32(k []byte) uint32 {
	if len(k) >= 4 {
		return binary.BigEndian.Uint32(k)
	}
	return uint32(head(k) >> 32)
}

// hintVerdict is what a hint says about a key.
type hintVerdict uint8

const (
	hintUnknown hintVerdict = iota // ask the block
	hintFound
	hintAbsent
	hintNext // not here, and the next block has to be asked
)

// hintGet finds the first entry of userKey at or after trailer. hint is the room
// behind block b, or empty. whole is as in dataIter.get. i is the number of the entry found.
func hintGet(b, hint, userKey []byte, trailer uint64, whole bool) (value []byte, found uint64, i int, v hintVerdict) {
	t := len(hint) - hintTail
	if t <= 0 {
		return nil, 0, 0, hintUnknown
	}
	prefetch.Span(hint, max(len(hint)-hintAhead, 0), len(hint))
	common := int(binary.LittleEndian.Uint16(hint[t:]))
	n := int(binary.LittleEndian.Uint16(hint[t+2:]))
	at := t - common - hintEntry*n
	if n == 0 || at < 0 || len(userKey) < common || !bytes.Equal(userKey[:common], hint[at:at+common]) {
		return nil, 0, 0, hintUnknown
	}
	heads, offsets := hint[at+common:t-2*n], hint[t-2*n:t]
	want := head32(userKey[common:])
	lo, m := 0, n
	for m > 0 {
		half := m >> 1
		if binary.LittleEndian.Uint32(heads[headLen*(lo+half):]) < want {
			lo += half + 1
			m -= half + 1
		} else {
			m = half
		}
	}
	notHere := hintAbsent
	if !whole {
		notHere = hintNext
	}
	if lo == n {
		return nil, 0, 0, notHere
	}
	if binary.LittleEndian.Uint32(heads[headLen*lo:]) != want {
		return nil, 0, 0, hintAbsent
	}
	if lo+1 < n && binary.LittleEndian.Uint32(heads[headLen*(lo+1):]) == want {
		return nil, 0, 0, hintUnknown // several versions, or keys that differ further on
	}
	off := int(binary.LittleEndian.Uint16(offsets[2*lo:]))
	next := len(b)
	if lo+1 < n {
		next = int(binary.LittleEndian.Uint16(offsets[2*(lo+1):]))
		notHere = hintAbsent
	}
	if off > next || next > len(b) {
		return nil, 0, 0, hintUnknown // damaged in memory
	}
	prefetch.Span(b, off, min(next, off+entryAhead))
	value, found, v = hintEntryGet(b[off:next], userKey, trailer, common+headLen, notHere)
	return value, found, lo, v
}

// hintEntryGet compares the entry at the start of b with the target, of which the
// first known bytes are known to be equal.
func hintEntryGet(b, userKey []byte, trailer uint64, known int, notHere hintVerdict) (value []byte, found uint64, v hintVerdict) {
	if len(b) < 4 || b[0]|b[1] >= 0x80 {
		return nil, 0, hintUnknown
	}
	shared, nonshared, vlen, at := int(b[0]), int(b[1]), int(b[2]), 3
	if vlen >= 0x80 {
		w, k := binary.Uvarint(b[2:])
		if k <= 0 || w > uint64(len(b)) {
			return nil, 0, hintUnknown
		}
		vlen, at = int(w), 2+k
	}
	end := at + nonshared
	if shared > known || nonshared < 8 || end+vlen > len(b) {
		return nil, 0, hintUnknown
	}
	if shared+nonshared-8 != len(userKey) || shared > len(userKey) || !bytes.Equal(b[at:end-8], userKey[shared:]) {
		return nil, 0, notHere
	}
	found = binary.LittleEndian.Uint64(b[end-8:])
	if found > trailer {
		return nil, 0, notHere // newer than the read may see
	}
	return b[end : end+vlen : end+vlen], found, hintFound
}

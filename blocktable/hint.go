package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
)

// A data block in the cache has room behind it for a hint, which a point read
// searches instead of the block. The entries of a block are a chain, each as long as
// its header says, in which a search from a restart point waits for memory at every
// link; the hint is two adjacent cache lines. Most blocks of a cache that is
// small for its data are never found again, so a block gets its hint from the first
// point read that finds it, and not from the one that loads it.
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
// length is already, and leaves it at that if it does not fit. d is scratch.
func buildHint(b, room []byte, d *dataIter) {
	if len(b) > maxHinted || len(room) <= hintTail {
		return
	}
	t := len(room) - hintTail
	if !d.init(b, 0) || d.values >= 0 || !d.last() {
		return
	}
	var lastKey [maxCommon]byte
	last := lastKey[:copy(lastKey[:], d.userKey())]
	if !d.first() {
		return
	}
	var heads [maxHints]uint32
	var offsets [maxHints]uint16
	var prefix [maxCommon]byte
	common := copy(prefix[:], d.userKey()[:min(block.SharedLen(d.userKey(), last), t)])
	most := min((t-common)/hintEntry, maxHints)
	count := 0
	for ok := true; ok; ok = d.forward() {
		k := d.userKey()
		if count == most || !bytes.HasPrefix(k, prefix[:common]) {
			return
		}
		heads[count], offsets[count] = head32(k[common:]), uint16(d.off)
		count++
	}
	if d.err != nil {
		return
	}
	at := t - common - count*hintEntry
	at += copy(room[at:], prefix[:common])
	for _, h := range heads[:count] {
		binary.LittleEndian.PutUint32(room[at:], h)
		at += headLen
	}
	for _, off := range offsets[:count] {
		binary.LittleEndian.PutUint16(room[at:], off)
		at += 2
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
// behind block b, or empty. whole is as in dataIter.get.
func hintGet(b, hint, userKey []byte, trailer uint64, whole bool) (value []byte, found uint64, v hintVerdict) {
	t := len(hint) - hintTail
	if t <= 0 {
		return nil, 0, hintUnknown
	}
	common := int(binary.LittleEndian.Uint16(hint[t:]))
	n := int(binary.LittleEndian.Uint16(hint[t+2:]))
	at := t - common - hintEntry*n
	if n == 0 || len(userKey) < common || !bytes.Equal(userKey[:common], hint[at:at+common]) {
		return nil, 0, hintUnknown
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
		return nil, 0, notHere
	}
	if binary.LittleEndian.Uint32(heads[headLen*lo:]) != want {
		return nil, 0, hintAbsent
	}
	if lo+1 < n && binary.LittleEndian.Uint32(heads[headLen*(lo+1):]) == want {
		return nil, 0, hintUnknown // several versions, or keys that differ further on
	}
	off := int(binary.LittleEndian.Uint16(offsets[2*lo:]))
	next := len(b)
	if lo+1 < n {
		next = int(binary.LittleEndian.Uint16(offsets[2*(lo+1):]))
		notHere = hintAbsent
	}
	return hintEntryGet(b[off:next], userKey, trailer, common+headLen, notHere)
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

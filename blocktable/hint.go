package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
)

// A data block in the cache has a hint behind it, which a point read searches
// instead of the block. The entries of a block are a chain, each as long as its
// header says, in which a search from a restart point waits for memory at every
// link; the hint is two or three adjacent cache lines.
//
//	hint := common prefix of the user keys ‖ fixed64 head[n] ‖ fixed16 offset[n] ‖
//	        fixed16 length of the common prefix ‖ fixed16 n ‖ fixed32 block length
//
// A head is the eight bytes of a user key after the common prefix, as a number
// that sorts like them; an offset is where the entry begins. n is zero when there
// is no hint but the block length. Only the cache has hints, never a file, so the
// hint of a damaged block is at worst useless: what it finds is compared with the
// entry itself.
const (
	hintTail   = 8
	hintEntry  = 10
	maxHints   = 400
	maxCommon  = 64
	maxHinted  = 64 << 10 // blocks whose offsets fit 16 bits
	hintMargin = 16
)

// hintRoom is how much more than the block to reserve in the cache.
func (r *Reader) hintRoom(o fetchOptions) int {
	switch {
	case o.kind != blockcache.Data:
		return 0
	case o.ahead != nil || !r.opts.Order.Bytewise() || r.gseq != 0:
		return hintTail
	}
	return hintTail + hintMargin + (r.entriesPerBlock+r.entriesPerBlock/4)*hintEntry
}

// appendHint writes the hint of the block buf[:n] behind it, as far as it fits
// buf and build says so, and returns its length. There is room for hintTail.
func appendHint(buf []byte, n int, build bool) int {
	count, common := 0, 0
	if build && n <= maxHinted {
		count, common = fillHint(buf, n)
	}
	at := n + common + count*hintEntry
	binary.LittleEndian.PutUint16(buf[at:], uint16(common))
	binary.LittleEndian.PutUint16(buf[at+2:], uint16(count))
	binary.LittleEndian.PutUint32(buf[at+4:], uint32(n))
	return at + hintTail - n
}

// fillHint writes everything but the tail.
func fillHint(buf []byte, n int) (count, common int) {
	room := len(buf) - n - hintTail
	var d dataIter
	var scratch [256]byte
	d.key = scratch[:0]
	if !d.init(buf[:n:n], 0) || d.values >= 0 || !d.last() {
		return 0, 0
	}
	var lastKey [maxCommon]byte
	last := lastKey[:copy(lastKey[:], d.userKey())]
	if !d.first() {
		return 0, 0
	}
	common = min(block.SharedLen(d.userKey(), last), room)
	copy(buf[n:], d.userKey()[:common])
	// Offsets go where they belong only once the number of entries is known.
	var offsets [maxHints]uint16
	for ok := true; ok; ok = d.forward() {
		k := d.userKey()
		if count == maxHints || common+(count+1)*hintEntry > room || !bytes.HasPrefix(k, buf[n:n+common]) {
			return 0, 0
		}
		binary.LittleEndian.PutUint64(buf[n+common+8*count:], head(k[common:]))
		offsets[count] = uint16(d.off)
		count++
	}
	if d.err != nil {
		return 0, 0
	}
	for i, off := range offsets[:count] {
		binary.LittleEndian.PutUint16(buf[n+common+8*count+2*i:], off)
	}
	return count, common
}

// hintVerdict is what a hint says about a key.
type hintVerdict uint8

const (
	hintUnknown hintVerdict = iota // ask the block
	hintFound
	hintAbsent
	hintNext // not here, and the next block has to be asked
)

// hintGet finds the first entry of userKey at or after trailer. whole is as in
// dataIter.get.
func hintGet(b, hint, userKey []byte, trailer uint64, whole bool) (value []byte, found uint64, v hintVerdict) {
	t := len(hint) - hintTail
	if t <= 0 {
		return nil, 0, hintUnknown
	}
	common := int(binary.LittleEndian.Uint16(hint[t:]))
	n := int(binary.LittleEndian.Uint16(hint[t+2:]))
	if n == 0 || len(userKey) < common || !bytes.Equal(userKey[:common], hint[:common]) {
		return nil, 0, hintUnknown
	}
	heads, offsets := hint[common:common+8*n], hint[common+8*n:t]
	want := head(userKey[common:])
	lo, m := 0, n
	for m > 0 {
		half := m >> 1
		if binary.LittleEndian.Uint64(heads[8*(lo+half):]) < want {
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
	if binary.LittleEndian.Uint64(heads[8*lo:]) != want {
		return nil, 0, hintAbsent
	}
	if lo+1 < n && binary.LittleEndian.Uint64(heads[8*(lo+1):]) == want {
		return nil, 0, hintUnknown // several versions, or keys that differ further on
	}
	off := int(binary.LittleEndian.Uint16(offsets[2*lo:]))
	next := len(b)
	if lo+1 < n {
		next = int(binary.LittleEndian.Uint16(offsets[2*(lo+1):]))
		notHere = hintAbsent
	}
	return hintEntryGet(b[off:next], userKey, trailer, common+8, notHere)
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

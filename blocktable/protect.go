package blocktable

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// Protection of entries in memory (ReaderOptions.Protection). A block's own checksum
// says that it is what was written; once it lies in memory nothing says so any more. With
// protection there is a sum for each entry beside the block, made of its whole key, its
// trailer and its value, and of its number in the block:
//
//	sums := … ‖ sum[n] ‖ fixed32 proof ‖ fixed32 restart interval ‖ fixed32 n
//
// What a read returns is compared with its sum. So is what makes the read return just
// that: with the entry that a search ends at, the one before it is checked, which must
// be before the target. Since sums know the entry's number, the two are known to be
// neighbours, and it does not matter what led there: a hint, restart points, headers of
// entries in between may be damaged, and the answer is right or an error.
//
// Sums are made when a block is found in the cache for the second time, after the proof
// (the checksum of the whole block, from the file if the file is not compressed) has
// said that the block is still what was loaded; the first time the proof is enough. Where
// nearly all blocks are found again they are made at once. A block that is read
// once, as most are when the cache is small, costs nothing. A block whose entries have no sums, because
// they do not fit or its restart points are not evenly spaced, is proved whole for each read.
//
// Iterators keep sums of their own for a block that they load themselves.
const sumTail = 12

// setSumRoom decides how much more than block and hint to reserve for sums.
func (r *Reader) setSumRoom() {
	if r.sumLen == 0 {
		return
	}
	r.ownProof = r.compressed || r.footer.Checksum == hash.ChecksumNone
	r.sumRoom = sumTail
	if n := r.props.NumDataBlocks; n > 0 {
		entries := int(min(r.props.NumEntries/n, maxSums/2)) + 2
		r.sumRoom += (entries + entries/4) * r.sumLen
	}
}

// maxSums is how many entries of a block can have sums.
const maxSums = 1<<26 - 1

// indexRoom is the room for the sums of an index block, and the length of the block
// after them. It need not be the same for all.
func (r *Reader) indexRoom() int {
	if r.sumLen == 0 {
		return 0
	}
	entries := r.props.NumDataBlocks + 1
	if r.partitioned && r.index != nil && r.index.n > 0 {
		entries = entries/uint64(r.index.n) + 8
		entries += entries / 4
	}
	return int(min(entries, maxSums/16))*r.sumLen + sumTail + 4
}

// proofOf is the proof of a block in memory. The type byte of its stored form was that
// of no compression, or does not matter.
func (r *Reader) proofOf(h block.Handle, b []byte) uint32 {
	if r.ownProof {
		s := hash.NewEntrySum(h.Offset)
		s.Bytes(b)
		return uint32(s.Full())
	}
	return hash.Checksum(r.footer.Checksum, b, byte(compress.None)) + r.footer.Modifier(h.Offset)
}

// sumBuilder makes the sums of a block.
type sumBuilder struct {
	data  dataIter
	index indexIter
	sums  []byte
	found sumTable
	dups  bool // a user key has several versions
}

var sumBuilders = sync.Pool{New: func() any { return new(sumBuilder) }}

// sumTable is the sums of one block. The zero value is none.
type sumTable struct {
	b        []byte // count sums of so many bytes
	sumLen   int
	count    int
	interval int // entries from one restart point to the next
}

// at is the stored sum of entry i, nil if there is none.
func (t *sumTable) at(i int) []byte {
	if uint(i) >= uint(t.count) {
		return nil
	}
	return t.b[i*t.sumLen:][:t.sumLen]
}

// evenly notes that entry number ord begins at restart point i; false if the
// restart points are not evenly spaced.
func (t *sumTable) evenly(i, ord int) bool {
	if i == 1 {
		t.interval = ord
	}
	return i == 0 || ord == i*t.interval
}

// ofData makes the sums of a data block, false if they cannot be used.
func (sb *sumBuilder) ofData(b []byte, order keys.Order, sumLen int) bool {
	d := &sb.data
	d.order, d.gseq = order, 0
	defer func() { d.b, d.hash, d.val = nil, nil, nil }()
	sb.begin(sumLen)
	if !d.init(b, 0) {
		return false
	}
	restart, nextRestart := 0, 0
	sb.dups = false
	last := 0 // the length of the user key before
	for d.next < d.end {
		at := d.next
		if at == nextRestart && restart < d.n {
			if !sb.found.evenly(restart, sb.found.count) {
				return false
			}
			if restart++; restart < d.n {
				nextRestart = int(binary.LittleEndian.Uint32(b[d.restarts+4*restart:]))
			}
		}
		shared, nonshared, _, start, ok := d.entryHeader(at)
		if !ok {
			return false
		}
		// The same user key as before: nothing that is stored differs.
		n := int(shared) + int(nonshared) - keys.TrailerLen
		same := sb.found.count > 0 && n == last && d.values < 0 && start+int(nonshared) <= d.end &&
			(int(shared) >= n || string(b[start:][:n-int(shared)]) == string(d.key[shared:n]))
		if !d.read(at, false) {
			return false
		}
		sb.dups = sb.dups || same
		last = n
		s := dataSum(sb.found.count, d.key, d.val)
		sb.add(&s)
	}
	return sb.end(restart == d.n)
}

// ofIndex makes the sums of an index block, false if they cannot be used.
func (sb *sumBuilder) ofIndex(b []byte, order keys.Order, f indexFormat, sumLen int) bool {
	x := &sb.index
	x.order, x.f = order, f
	defer func() { x.b = nil }()
	sb.begin(sumLen)
	if !x.init(b, 0) {
		return false
	}
	restart := 0
	for ok := x.first(); ok; ok = x.next() {
		if restart < x.n && int(binary.LittleEndian.Uint32(b[x.end+4*restart:])) == x.off {
			if !sb.found.evenly(restart, sb.found.count) {
				return false
			}
			restart++
		}
		s := indexSum(sb.found.count, x.key, x.handle)
		sb.add(&s)
	}
	return x.err == nil && sb.end(restart == x.n)
}

func (sb *sumBuilder) begin(sumLen int) {
	sb.sums = sb.sums[:0]
	sb.found = sumTable{sumLen: sumLen, interval: maxSums}
}

func (sb *sumBuilder) add(s *hash.EntrySum) {
	n := len(sb.sums)
	for range sb.found.sumLen {
		sb.sums = append(sb.sums, 0)
	}
	s.Put(sb.sums[n:])
	sb.found.count++
}

func (sb *sumBuilder) end(ok bool) bool {
	sb.found.b = sb.sums
	return ok && sb.found.count > 0 && sb.found.count <= maxSums && sb.found.interval <= maxSums
}

// put writes the sums to the end of room, before the proof that is there.
func (sb *sumBuilder) put(room []byte) {
	t := &sb.found
	at := len(room) - sumTail - len(t.b)
	if at < 0 {
		return
	}
	copy(room[at:], t.b)
	binary.LittleEndian.PutUint32(room[len(room)-8:], uint32(t.interval))
	binary.LittleEndian.PutUint32(room[len(room)-4:], uint32(t.count))
}

// readSums finds the sums at the end of room; none if it has none.
func readSums(room []byte, sumLen int) (t sumTable) {
	end := len(room) - sumTail
	if end < 0 || sumLen == 0 {
		return t
	}
	interval := int(binary.LittleEndian.Uint32(room[end+4:]))
	n := int(binary.LittleEndian.Uint32(room[end+8:]))
	if n == 0 || interval == 0 || n > maxSums || interval > maxSums || end < n*sumLen {
		return t
	}
	return sumTable{b: room[end-n*sumLen : end], sumLen: sumLen, count: n, interval: interval}
}

// dataSum is the sum of entry i of a data block. key is the internal key as stored.
func dataSum(i int, key, value []byte) hash.EntrySum {
	n := len(key) - keys.TrailerLen
	return hintSum(i, key[:n], binary.LittleEndian.Uint64(key[n:]), value)
}

func hintSum(i int, userKey []byte, trailer uint64, value []byte) hash.EntrySum {
	s := hash.NewEntrySum(uint64(i))
	s.Bytes(userKey)
	s.Word(trailer)
	s.Bytes(value)
	return s
}

// indexSum is the sum of entry i of an index block.
func indexSum(i int, sep []byte, h block.Handle) hash.EntrySum {
	s := hash.NewEntrySum(uint64(i))
	s.Bytes(sep)
	s.Word(h.Offset)
	s.Word(h.Size ^ 1<<63)
	return s
}

// secure makes sure that a fetched block of entries is what was loaded, and gives it
// sums if it may: with keep they go into the cache. False says that it is damaged.
func (r *Reader) secure(ref *blockRef, h block.Handle, kind blockcache.BlockType, keep bool) bool {
	if ref.sums.count > 0 {
		return true
	}
	if ref.hold == 0 || ref.sumRoom == nil {
		return true // just read and verified, by this caller
	}
	if !ref.fresh {
		stored := binary.LittleEndian.Uint32(ref.sumRoom[len(ref.sumRoom)-sumTail:])
		if r.proofOf(h, ref.data) != stored {
			return false
		}
	}
	if !keep || ref.noted || !r.cache.Annotate(ref.hold) {
		return true
	}
	sb := sumBuilders.Get().(*sumBuilder)
	ok := false
	if kind == blockcache.Data {
		ok = sb.ofData(ref.data, r.opts.Order, r.sumLen)
		if len(ref.room) > hintTail && !(ok && sb.dups) {
			buildHint(ref.data, ref.room)
			ref.hint = ref.room
		}
	} else {
		ok = sb.ofIndex(ref.data, r.opts.Order, r.indexFormat, r.sumLen)
	}
	if ok {
		sb.put(ref.sumRoom)
	}
	sumBuilders.Put(sb)
	r.cache.Annotated(ref.hold)
	ref.sums = readSums(ref.sumRoom, r.sumLen)
	ref.room, ref.noted = nil, true
	return true
}

// searchProtected is search with protection.
func (r *Reader) searchProtected(d *dataIter, ref *blockRef, h block.Handle, userKey []byte, target uint64) (value []byte, trailer uint64, found, more bool) {
	if !r.secure(ref, h, blockcache.Data, r.worthSums(ref)) {
		d.err = r.damaged(h, blockcache.Data)
		return nil, 0, false, false
	}
	if ref.sums.count > 0 {
		// The hint is trusted as far as what it finds has the sum of its place: a block with
		// several versions of a key has no hint.
		value, trailer, i, verdict := hintGet(ref.data, ref.hint, userKey, target, r.indexFormat.userKeys)
		if verdict == hintFound {
			s := hintSum(i, userKey, trailer, value)
			if stored := ref.sums.at(i); stored != nil && s.Matches(stored) {
				return value, trailer, true, false
			}
		}
	}
	if !d.init(ref.data, h.Offset) {
		return nil, 0, false, false
	}
	d.sums = ref.sums
	found, more = d.get(userKey, target, r.indexFormat.userKeys)
	return d.val, d.trailer, found, more
}

// worthSums says whether to make sums for a data block now.
func (r *Reader) worthSums(ref *blockRef) bool {
	if ref.fresh {
		return ref.hold != 0 && r.cache.SurelyFound(ref.hold)
	}
	return ref.again
}

// DamageError says that a block changed while it was in memory. It is the error of a
// read only if the block, read again from the file, fails again.
type DamageError struct {
	File   string // base name
	Offset uint64 // of the block in the file
	Entry  int    // its number in the block from 0 on, or -1 for the block as a whole
	Kind   blockcache.BlockType
	// Held says that the entry belongs to the index that an open file holds decoded, and names the
	// block at Offset. It stays damaged until the file is opened again.
	Held bool
}

func (e *DamageError) Error() string {
	if e.Held {
		return fmt.Sprintf("%s: entry %d of the index in memory, for the block at %d, changed after it was read: it does not match its checksum", e.File, e.Entry, e.Offset)
	}
	if e.Entry < 0 {
		return fmt.Sprintf("%s: the %v block at %d changed in memory after it was read", e.File, e.Kind, e.Offset)
	}
	return fmt.Sprintf("%s: entry %d of the %v block at %d changed in memory after it was read: it does not match its checksum", e.File, e.Entry, e.Kind, e.Offset)
}

// Is makes a DamageError match keys.ErrCorruption.
func (e *DamageError) Is(target error) bool { return target == keys.ErrCorruption }

// damaged is the error for a block as a whole.
func (r *Reader) damaged(h block.Handle, kind blockcache.BlockType) error {
	return &DamageError{File: r.name, Offset: h.Offset, Entry: -1, Kind: kind}
}

// fromMemory reports whether what a read found wrong in a block may be right in the file.
func (r *Reader) fromMemory(ref *blockRef) bool {
	return r.sumLen != 0 && ref.hold != 0 && !ref.fresh
}

// discard takes a damaged block out of the cache, and tells why. The caller still
// has to release it.
func (r *Reader) discard(ref *blockRef, h block.Handle, why error) {
	if r.cache.Drop(ref.hold) && r.opts.OnDamage != nil {
		r.opts.OnDamage(why)
	}
}

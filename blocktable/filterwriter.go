package blocktable

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// bitsBuilder collects hashes of keys and prefixes and makes one filter block of
// them after another. Consecutive equal hashes count once.
type bitsBuilder interface {
	add(entry []byte)
	count() int
	// finish returns the filter block, and begins the next one.
	finish() []byte
	// capacity is about how many entries a filter block of so many bytes takes.
	capacity(bytes int) int
}

// newBitsBuilder chooses the builder as RocksDB does: by format version and policy.
// With fill they take what memory would else be lost; see filled.
func newBitsBuilder(p FilterPolicy, formatVersion int, fill bool) bitsBuilder {
	mb := p.millibits()
	switch {
	case mb == 0:
		return nil
	case formatVersion < 5:
		return &legacyBloomBuilder{bitsPerKey: (mb + 500) / 1000}
	case p.Ribbon:
		r := newRibbonBuilder(p, mb)
		r.fill = fill
		return r
	}
	return &bloomBuilder{millibits: mb, fill: fill}
}

// hashes64 are the hashes of filters from format version 5 on.
type hashes64 struct{ hs []uint64 }

func (h *hashes64) add(entry []byte) {
	x := hash.XXPH3(entry)
	if n := len(h.hs); n == 0 || h.hs[n-1] != x {
		h.hs = append(h.hs, x)
	}
}

func (h *hashes64) count() int { return len(h.hs) }

// bloomBuilder makes FastLocalBloom filters.
type bloomBuilder struct {
	hashes64
	millibits int
	fill      bool
}

// filled is the largest length of a filter's bits, a multiple of unit, that takes no more memory in a block cache
// than n, metadata and block trailer included.
func filled(n, unit int) int {
	const more = filterMetaLen + block.TrailerLen
	return max(n, (blockcache.Usable(n+more)-more)/unit*unit)
}

// maxBloomLen keeps the number of lines within the 32-bit arithmetic of probing.
const maxBloomLen = 0xffffffc0

func (b *bloomBuilder) dataLen(entries int) int {
	n := (uint64(entries)*uint64(b.millibits) + 7999) / 8000
	return int(min((n+63)&^63, maxBloomLen))
}

func (b *bloomBuilder) capacity(size int) int {
	n := (size - filterMetaLen) &^ (bloomLine - 1)
	if n <= 0 {
		return 0
	}
	return int(8000 * uint64(n) / uint64(b.millibits))
}

func (b *bloomBuilder) finish() []byte {
	size := b.dataLen(len(b.hs))
	if b.fill {
		size = min(filled(size, bloomLine), maxBloomLen)
	}
	f := buildBloom(b.hs, size, bloomProbes(b.millibits))
	b.hs = b.hs[:0]
	return f
}

// bloomProbes is how many bits RocksDB sets per key.
func bloomProbes(millibits int) int {
	for probes, upTo := range []int{2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501} {
		if millibits <= upTo {
			return probes + 1
		}
	}
	if millibits > 50000 {
		return 24
	}
	return (millibits-1)/2000 - 1
}

func buildBloom(hs []uint64, size, probes int) []byte {
	if len(hs) == 0 {
		return nil
	}
	f := make([]byte, size+filterMetaLen)
	lines := uint64(size / bloomLine)
	// The lines of the keys ahead are touched first, so that their misses overlap.
	const batch = 8
	var at [batch]uint64
	for len(hs) > 0 {
		n := min(batch, len(hs))
		for i, h := range hs[:n] {
			at[i], _ = bits.Mul64(h<<32, lines)
			f[at[i]*bloomLine] |= 0
		}
		for i, h := range hs[:n] {
			line := f[at[i]*bloomLine:][:bloomLine]
			x := uint32(h >> 32)
			for range probes {
				bit := x >> 23
				line[bit>>3] |= 1 << (bit & 7)
				x *= 0x9e3779b9
			}
		}
		hs = hs[n:]
	}
	f[size], f[size+2] = filterNewBloom, byte(probes)
	return f
}

// legacyBloomBuilder makes the filters of format versions below 5.
type legacyBloomBuilder struct {
	hs         []uint32
	bitsPerKey int
}

func (b *legacyBloomBuilder) add(entry []byte) {
	x := hash.Hash32(entry, legacyBloomSeed)
	if n := len(b.hs); n == 0 || b.hs[n-1] != x {
		b.hs = append(b.hs, x)
	}
}

func (b *legacyBloomBuilder) count() int { return len(b.hs) }

// lines is an odd number of cache lines: more hash bits then choose the line.
func (b *legacyBloomBuilder) lines(entries int) uint32 {
	if entries == 0 {
		return 0
	}
	const lineBits = 8 * bloomLine
	total := min(uint64(entries)*uint64(b.bitsPerKey), 0xffff0000)
	n := uint32((total + lineBits - 1) / lineBits)
	return n | 1
}

func (b *legacyBloomBuilder) capacity(size int) int {
	total := min(uint64(size)*8, 0xffff0000)
	n := int(total)/b.bitsPerKey + 1
	for ; n >= 1; n-- {
		if int(b.lines(n))*bloomLine+filterMetaLen <= size {
			break
		}
	}
	return n
}

func (b *legacyBloomBuilder) finish() []byte {
	lines := b.lines(len(b.hs))
	probes := min(max(int(float64(b.bitsPerKey)*0.69), 1), 30)
	size := int(lines) * bloomLine
	f := make([]byte, size+filterMetaLen)
	for _, h := range b.hs {
		line := f[h%lines*bloomLine:][:bloomLine]
		delta := h>>17 | h<<15
		for range probes {
			bit := h % (8 * bloomLine)
			line[bit>>3] |= 1 << (bit & 7)
			h += delta
		}
	}
	f[size] = byte(probes)
	binary.LittleEndian.PutUint32(f[size+1:], lines)
	b.hs = b.hs[:0]
	return f
}

// filterWriter decides what goes into the filter: whole keys, prefixes, both.
// When both do, they come by turns, and each is compared with the one of its own
// kind before.
type filterWriter struct {
	bits      bitsBuilder
	wholeKey  bool
	extractor *prefixhash.Extractor
	anyAdded  bool
	// strayEntries repeats what RocksDB 7 does in filters of prefixes only.
	strayEntries bool

	lastKey      []byte
	hasLastKey   bool
	lastPrefix   []byte
	hasPrefix    bool // lastPrefix was added to this filter block
	lastInDomain bool

	parts *filterParts // nil for a full filter
}

// filterParts cuts the filter where the index is cut.
type filterParts struct {
	index       *indexWriter
	perPart     int // entries in a partition
	added       int // entries in the current one
	done        []filterPart
	totalInDone int
}

type filterPart struct {
	key    []byte // the last separator of the index partition
	filter []byte
}

// newFilterWriter returns nil when the options ask for no filter.
func newFilterWriter(o *WriterOptions, index *indexWriter) *filterWriter {
	if o.FilterPolicy.None() || o.SkipFilter {
		return nil
	}
	b := newBitsBuilder(o.FilterPolicy, o.FormatVersion, o.OptimizeFiltersForMemory)
	if b == nil {
		return nil
	}
	w := &filterWriter{bits: b, wholeKey: o.WholeKeyFiltering, extractor: o.Extractor, strayEntries: o.FormatVersion < 6}
	if o.PartitionFilters {
		w.parts = &filterParts{index: index, perPart: entriesPerPartition(b, o)}
	}
	return w
}

// entriesPerPartition is how many entries fill a partition of MetadataBlockSize,
// less the allowed deviation.
func entriesPerPartition(b bitsBuilder, o *WriterOptions) int {
	size := max((o.MetadataBlockSize*(100-o.BlockSizeDeviation)+99)/100, 1)
	n := b.capacity(size)
	// A partition may be smaller than the smallest filter: find that.
	for larger := max(size+4, 16); n < 1; larger += larger / 4 {
		if larger > 100000 {
			return 1
		}
		n = b.capacity(larger)
	}
	return n
}

// add sees every user key, without its timestamp, in order.
func (w *filterWriter) add(key []byte) {
	if w.parts != nil {
		w.cut(key)
	}
	n := w.extractor.PrefixLen(key)
	if !w.hasPrefix && w.lastInDomain {
		// A partition begins: seeks backward look for the prefix before here too.
		// (With prefixes only RocksDB 7 never sets lastPrefix, and adds an empty
		// entry here.)
		w.addEntry(w.lastPrefix)
		w.hasPrefix = true
	}
	if w.wholeKey {
		if n < 0 {
			w.addEntry(key)
		} else if !w.hasLastKey || !bytes.Equal(w.lastKey, key) {
			w.addEntry(key)
			w.hasLastKey = true
			w.lastKey = append(w.lastKey[:0], key...)
		}
	}
	w.lastInDomain = n >= 0
	if n >= 0 {
		w.addPrefix(key[:n])
	}
}

func (w *filterWriter) addPrefix(prefix []byte) {
	if !w.wholeKey && w.strayEntries {
		w.addEntry(prefix)
		return
	}
	if !w.hasPrefix || !bytes.Equal(w.lastPrefix, prefix) {
		w.addEntry(prefix)
		w.hasPrefix = true
		w.lastPrefix = append(w.lastPrefix[:0], prefix...)
	}
}

func (w *filterWriter) addEntry(e []byte) {
	w.bits.add(e)
	w.anyAdded = true
	if w.parts != nil {
		w.parts.added++
	}
}

// cut ends the filter partition if the index has ended one; next is the key that
// comes, nil at the end.
func (w *filterWriter) cut(next []byte) {
	p := w.parts
	if p.added == p.perPart {
		p.index.cutWanted = true
	}
	key, ok := p.index.takeCut()
	if !ok {
		return
	}
	if next != nil {
		if n := w.extractor.PrefixLen(next); n >= 0 {
			w.addPrefix(next[:n])
		}
	}
	p.totalInDone += w.bits.count()
	p.done = append(p.done, filterPart{slices.Clone(key), w.bits.finish()})
	p.added = 0
	w.hasLastKey, w.hasPrefix = false, false
}

// entries is the property rocksdb.num.filter_entries.
func (w *filterWriter) entries() uint64 {
	n := w.bits.count()
	if w.parts != nil {
		n += w.parts.totalInDone
	}
	return uint64(n)
}

// finish writes the filter blocks; size is the sum of their contents. ok is false
// if there is nothing to write.
func (w *filterWriter) finish(o *WriterOptions, write func(contents []byte) (block.Handle, error)) (h block.Handle, size uint64, ok bool, err error) {
	if !w.anyAdded {
		return block.Handle{}, 0, false, nil
	}
	if w.parts == nil {
		f := w.bits.finish()
		h, err = write(f)
		return h, uint64(len(f)), true, err
	}
	w.cut(nil)
	top := newTwoForms(&w.parts.index.sep, o.IndexBlockRestartInterval, o.deltaValues())
	for _, p := range w.parts.done {
		if h, err = write(p.filter); err != nil {
			return h, 0, false, err
		}
		size += uint64(len(p.filter))
		top.add(p.key, h, nil)
	}
	b := top.finish()
	size += uint64(len(b))
	h, err = write(b)
	return h, size, true, err
}

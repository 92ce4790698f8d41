package plaintable

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// Reader reads one plain table. It implements table.Reader.
type Reader struct {
	view atomic.Pointer[view]

	// Fixed after Open.
	f          mmapfs.File
	o          ReaderOptions
	file       string // base name
	layout     layout
	props      *table.Properties
	tombstones []table.Tombstone

	sums atomic.Pointer[rowSums] // of chunks of rows, once they were needed

	scan   sync.Mutex               // held by the one who builds rowIdx
	rowIdx atomic.Pointer[rowIndex] // built by a scan

	mu     sync.Mutex      // guards what follows
	arenas []*mmapfs.Arena // of indexes and blooms, and of replicas
	views  []*view         // all that were made; readers may still hold old ones
	closed bool
}

var _ table.Reader = (*Reader)(nil)

// layout says where the parts of a file lie.
type layout struct {
	size       int64
	rows       int // bytes
	meta       []block.MetaEntry
	bloomLines uint64
	format     rowFormat
}

// Open opens the table f and takes it over: it is closed by Close, or now if
// Open fails. Errors of options match ErrInvalidArgument or ErrNotSupported, those
// of the file keys.ErrCorruption.
func Open(f mmapfs.File, o ReaderOptions) (*Reader, error) {
	r := &Reader{f: f, o: o, file: filepath.Base(f.Name())}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (r *Reader) open() error {
	if err := r.o.Options.validate(); err != nil {
		return err
	}
	size := r.o.FileSize
	if size == 0 {
		var err error
		if size, err = r.f.Size(); err != nil {
			return fmt.Errorf("plain table: size of %s: %w", r.f.Name(), err)
		}
	}
	if size > MaxFileSize {
		return fmt.Errorf("%w: File size %d exceeds PlainTableReader max file size %d (%s)", ErrNotSupported, size, MaxFileSize, r.f.Name())
	}
	m, err := r.f.Map(size, mmapfs.MapOptions{Memory: r.o.Memory, Placement: r.o.Placement.rows(r.o.Memory), HugePages: r.o.HugePages})
	if err != nil {
		return err
	}
	v := &view{m: m, whole: m.Bytes(), file: r.file}
	r.views = append(r.views, v)
	if err := r.parse(v); err != nil {
		return err
	}
	if err := r.publish(v, r.o.Memory, &r.o.Placement); err != nil {
		return err
	}
	if r.o.Verify == VerifyAtOpen {
		return r.VerifyChecksums(context.Background())
	}
	return nil
}

// publish makes v, which is complete but for its replicas, the view that reads use.
func (r *Reader) publish(v *view, memory mmapfs.Memory, p *Placement) error {
	v.replicas, v.here = nil, nil
	if err := r.replicate(v, memory, p); err != nil {
		return err
	}
	v.detour = v.indexFault && v.series == nil || v.noSeek || v.replicas != nil
	r.view.Store(v)
	return nil
}

// parse reads all but the rows, and them too if the index is not in the file.
func (r *Reader) parse(v *view) (err error) {
	if !v.m.Anonymous() {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	if err := r.parseLayout(v.whole); err != nil {
		return err
	}
	extractor, err := r.chooseExtractor()
	if err != nil {
		return err
	}
	r.prepare(v, extractor)
	if err := r.findRowIndex(v); err != nil || v.noSeek {
		return err
	}
	if err := r.findSeries(v); err != nil {
		return err
	}
	return r.makeIndex(v, r.o.Memory, &r.o.Placement)
}

func (r *Reader) parseLayout(whole []byte) error {
	size := int64(len(whole))
	foot, err := block.DecodeFooter(r.file, whole[max(0, size-block.FooterLen):], size)
	if err != nil {
		return err
	}
	if !foot.Plain() {
		return keys.Corruptf(r.file, size-8, "Bad table magic number: expected %d, found %d in %s", block.PlainMagic, foot.Magic, r.f.Name())
	}
	if foot.Version != 0 {
		return keys.Corruptf(r.file, size-int64(foot.Len()), "expected plain table format version 0, found %d", foot.Version)
	}
	l := &r.layout
	l.size = size - int64(foot.Len())
	metaIndex, err := r.section(whole, "metaindex", foot.MetaIndex)
	if err != nil {
		return err
	}
	if l.meta, err = block.DecodeMetaIndex(r.file, int64(foot.MetaIndex.Offset), metaIndex); err != nil {
		return err
	}
	h, ok := block.FindMeta(l.meta, block.MetaProperties)
	if !ok {
		return keys.Corruptf(r.file, int64(foot.MetaIndex.Offset), "expected %s in the metaindex, found %d other blocks", block.MetaProperties, len(l.meta))
	}
	b, err := r.section(whole, block.MetaProperties, h)
	if err != nil {
		return err
	}
	if r.props, err = block.DecodeProperties(r.file, int64(h.Offset), b); err != nil {
		return err
	}
	if err := r.parseProperties(int64(h.Offset)); err != nil {
		return err
	}
	if _, ok := block.FindMeta(l.meta, metaChecksums); !ok && r.props.Present[propChecksums] {
		return keys.Corruptf(r.file, int64(foot.MetaIndex.Offset), "expected %s in the metaindex, as the property of that name says", metaChecksums)
	}
	if h, ok := block.FindMeta(l.meta, metaTombstones); ok {
		if b, err = r.section(whole, metaTombstones, h); err != nil {
			return err
		}
		r.tombstones, err = decodeTombstones(r.file, int64(h.Offset), b)
	}
	return err
}

// section returns the block of h, checked to lie before the footer.
func (r *Reader) section(whole []byte, name string, h block.Handle) ([]byte, error) {
	if end, ok := h.End(0); !ok || end > uint64(r.layout.size) {
		return nil, keys.Corruptf(r.file, -1, "expected block %s before the footer at %d, found %v", name, r.layout.size, h)
	}
	end := h.Offset + h.Size
	return whole[h.Offset:end:end], nil
}

func (r *Reader) parseProperties(off int64) error {
	p, l := r.props, &r.layout
	if p.DataSize > uint64(l.size) {
		return keys.Corruptf(r.file, off, "expected rocksdb.data.size of at most %d, found %d", l.size, p.DataSize)
	}
	l.rows = int(p.DataSize)
	if p.FixedKeyLen > MaxFileSize {
		return keys.Corruptf(r.file, off, "expected rocksdb.fixed.key.length of at most %d, found %d", MaxFileSize, p.FixedKeyLen)
	}
	l.format.keyLen = int(p.FixedKeyLen)
	if b, ok := p.User[block.PropPlainEncoding]; ok {
		if len(b) != 4 || binary.LittleEndian.Uint32(b) > uint32(Prefix) {
			return keys.Corruptf(r.file, off, "expected %s 0 or 1 in four bytes, found % x", block.PropPlainEncoding, b)
		}
		l.format.prefix = b[0] == byte(Prefix)
	}
	if b, ok := p.User[block.PropPlainBloomBlocks]; ok {
		n, rest, ok := coding.Uvarint32(b)
		if !ok || len(rest) > 0 {
			return keys.Corruptf(r.file, off, "expected %s as a varint32, found % x", block.PropPlainBloomBlocks, b)
		}
		l.bloomLines = uint64(n)
	}
	return nil
}

// chooseExtractor returns the extractor of the index, nil for total order, or
// refuses as RocksDB does.
func (r *Reader) chooseExtractor() (*prefixhash.Extractor, error) {
	own, name := r.o.Extractor, r.props.PrefixExtractorName
	if r.o.FullScanMode {
		return nil, nil
	}
	named := name != "" && name != noExtractor
	_, stored := block.FindMeta(r.layout.meta, block.MetaPlainTableIndex)
	switch {
	case !named && (name == "" || !stored):
		return own, r.o.validateMode(own)
	case !named:
		return nil, r.o.validateMode(own) // what is stored is in total order
	case own != nil && own.Name() == name:
		return own, nil
	case !r.o.AnyExtractor && own == nil:
		return nil, fmt.Errorf("%w: Prefix extractor is missing when opening a PlainTable built using a prefix extractor (%s uses %s)", ErrInvalidArgument, r.file, name)
	case !r.o.AnyExtractor:
		return nil, fmt.Errorf("%w: Prefix extractor given doesn't match the one used to build PlainTable (%s uses %s, given %s)", ErrInvalidArgument, r.file, name, own.Name())
	}
	e, err := prefixhash.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidArgument, r.file, err)
	}
	return e, nil
}

// prepare fills what a view takes from layout and options.
func (r *Reader) prepare(v *view, extractor *prefixhash.Extractor) {
	v.rows = v.whole[:r.layout.rows:r.layout.rows]
	v.format = r.layout.format
	v.order = r.o.Order
	v.extractor = extractor
	v.lookHash = extractor != nil && extractor == r.o.Extractor
	v.words = !v.format.prefix && v.format.keyLen >= 8 && v.order.Bytewise()
	v.noSeek = r.o.FullScanMode
	v.rowsFault = !v.m.Anonymous()
	v.index = noIndex
}

// noIndex is the index of an empty table.
var noIndex = index{slots: prefixhash.Slots{0xff, 0xff, 0xff, 0x7f}, bucket: prefixhash.NewBuckets(1), off: -1}

// findRowIndex takes the row index from its block, if the file has one.
func (r *Reader) findRowIndex(v *view) error {
	h, ok := block.FindMeta(r.layout.meta, metaRowIndex)
	if !ok {
		return nil
	}
	b, err := r.section(v.whole, metaRowIndex, h)
	if err != nil {
		return err
	}
	v.rowIdx, err = decodeRowIndex(r.file, int64(h.Offset), b, len(v.rows))
	return err
}

// findSeries takes the series of the keys, if the file has them and its keys are what
// they are for. They are decoded to memory that no fault can hit.
func (r *Reader) findSeries(v *view) error {
	h, ok := block.FindMeta(r.layout.meta, metaSeries)
	if !ok || !v.words {
		return nil
	}
	b, err := r.section(v.whole, metaSeries, h)
	if err != nil {
		return err
	}
	v.series, err = decodeSeries(r.file, int64(h.Offset), b, len(v.rows), v.format.keyLen, r.props.NumEntries)
	return err
}

func (r *Reader) makeIndex(v *view, memory mmapfs.Memory, p *Placement) error {
	h, ok := block.FindMeta(r.layout.meta, block.MetaPlainTableIndex)
	if !ok {
		if len(v.rows) == 0 {
			return nil
		}
		return r.buildIndex(v, p.index())
	}
	if err := r.decodeStored(v, h); err != nil {
		return err
	}
	if v.rowsFault && r.copiesIndex(memory) || p.movesIndex(memory) {
		if err := r.copyIndex(v, p.index()); err != nil {
			return err
		}
	}
	return r.totalOrderRowIndex(v)
}

// decodeStored takes index and bloom filter from the file's memory.
func (r *Reader) decodeStored(v *view, h block.Handle) error {
	b, err := r.section(v.whole, block.MetaPlainTableIndex, h)
	if err != nil {
		return err
	}
	if v.index, err = decodeIndex(r.file, int64(h.Offset), b); err != nil {
		return err
	}
	if h, ok := block.FindMeta(r.layout.meta, metaIndexLines); ok && v.extractor != nil {
		if b, err = r.section(v.whole, metaIndexLines, h); err != nil {
			return err
		}
		if v.lines, err = decodeLines(r.file, int64(h.Offset), b, v.index.prefixes); err != nil {
			return err
		}
	}
	if h, ok := block.FindMeta(r.layout.meta, block.MetaPlainTableBloom); ok && h.Size > 0 {
		if b, err = r.section(v.whole, block.MetaPlainTableBloom, h); err != nil {
			return err
		}
		if v.bloom, err = decodeBloom(r.file, int64(h.Offset), b, r.layout.bloomLines); err != nil {
			return err
		}
	}
	v.indexFault, v.indexArena = v.rowsFault, nil
	return nil
}

// totalOrderRowIndex makes the one bucket of a total-order index the row index.
func (r *Reader) totalOrderRowIndex(v *view) error {
	if v.extractor != nil || v.rowIdx != nil || v.index.bucket.Count() != 1 {
		return nil
	}
	switch b := v.index.slots.At(0); {
	case b&subIndexBit != 0:
		offsets, ok := v.index.record(int(b &^ subIndexBit))
		if !ok {
			return v.index.recordError(r.file, int(b&^subIndexBit))
		}
		if rowIndex(offsets).at(0) != 0 {
			return keys.Corruptf(r.file, v.index.off, "index: expected the first row at 0, found %d", rowIndex(offsets).at(0))
		}
		v.rowIdx = offsets
	case b == 0:
		v.rowIdx = rowIndex{0, 0, 0, 0}
	}
	return nil
}

func (r *Reader) copiesIndex(m mmapfs.Memory) bool {
	switch r.o.Index {
	case IndexCopy:
		return true
	case IndexInPlace:
		return false
	}
	return m == mmapfs.MemoryPopulate || m == mmapfs.MemoryLock
}

// reserve makes an arena for n bytes in allocations of cache lines.
func (r *Reader) reserve(n int64, p mmapfs.Placement, name string) (*mmapfs.Arena, error) {
	a, err := mmapfs.NewArena(n+8*blockAlign, mmapfs.ArenaOptions{HugePages: true, Placement: p, Name: name})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arenas = append(r.arenas, a)
	return a, nil
}

// indexArena is the name of the arenas of index and bloom filter.
const indexArena = "plain table index"

// alloc returns n zero bytes of an arena, on a cache line; reserve counted them.
func (r *Reader) alloc(a *mmapfs.Arena, n int) ([]byte, error) {
	off, ok := a.Alloc(uint32(n), blockAlign)
	if !ok {
		return nil, fmt.Errorf("plain table: %s: no room for %d bytes in an arena of %d", r.file, n, a.Reserved())
	}
	return a.Bytes()[off : off+uint64(n) : off+uint64(n)], nil
}

func (r *Reader) clone(a *mmapfs.Arena, b []byte) ([]byte, error) {
	mem, err := r.alloc(a, len(b))
	copy(mem, b)
	return mem, err
}

// copyIndex moves v's index and bloom filter to an arena of their own, with bloom
// lines and buckets on cache lines.
func (r *Reader) copyIndex(v *view, p mmapfs.Placement) (err error) {
	a, err := r.reserve(int64(len(v.index.slots)+len(v.index.sub)+len(v.lines)+v.bloom.bytes()), p, indexArena)
	if err != nil {
		return err
	}
	if v.index.slots, err = r.clone(a, v.index.slots); err != nil {
		return err
	}
	if v.index.sub, err = r.clone(a, v.index.sub); err != nil {
		return err
	}
	if v.lines != nil {
		if v.lines, err = r.clone(a, v.lines); err != nil {
			return err
		}
	}
	if v.bloom, err = v.bloom.copyTo(func(n int) ([]byte, error) { return r.alloc(a, n) }); err != nil {
		return err
	}
	v.indexFault, v.indexArena = false, a
	return nil
}

// Load maps the file again under another memory policy and placement, and switches
// reads over when it is there. Until Close the old mapping stays, for those who
// still read from it. An index that lies in an arena is kept, unless p wants it
// elsewhere. One Load at a time.
func (r *Reader) Load(memory mmapfs.Memory, p Placement) error {
	old := r.view.Load()
	m, err := r.f.Map(int64(len(old.whole)), mmapfs.MapOptions{Memory: memory, Placement: p.rows(memory), HugePages: true})
	if err != nil {
		return err
	}
	v := *old
	v.m, v.whole = m, m.Bytes()
	r.mu.Lock()
	r.views = append(r.views, &v)
	r.mu.Unlock()
	if err := r.reload(&v, memory, &p); err != nil {
		return err // Close unmaps
	}
	return r.publish(&v, memory, &p)
}

func (r *Reader) reload(v *view, memory mmapfs.Memory, p *Placement) (err error) {
	v.rows = v.whole[:r.layout.rows:r.layout.rows]
	v.rowsFault = !v.m.Anonymous()
	if v.rowsFault {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	if err := r.findRowIndex(v); err != nil || v.noSeek {
		return err
	}
	if len(v.rows) == 0 {
		return nil
	}
	if v.indexArena != nil { // index and bloom filter do not lie in the mapping
		if p.Replicas != nil || p.movesIndex(memory) {
			return r.copyIndex(v, p.index())
		}
		return nil
	}
	if v.extractor == nil {
		v.rowIdx = nil // it lies in the old mapping's index
	}
	return r.makeIndex(v, memory, p)
}

// CanFault reports whether reading the file's memory may fault: then the stages
// of MultiGet, and whoever reads a borrowed key or value, need mmapfs.Guard.
func (r *Reader) CanFault() bool { return r.view.Load().rowsFault }

// Tombstones returns the range deletes, owned by the Reader.
func (r *Reader) Tombstones() []table.Tombstone { return r.tombstones }

// Properties returns the decoded properties, owned by the Reader.
func (r *Reader) Properties() *table.Properties { return r.props }

// ResidentBytes is how many bytes of the file are in memory now.
func (r *Reader) ResidentBytes() (int64, error) { return r.view.Load().m.Resident() }

// MemoryUsage is the memory that the Reader holds beside the page cache: the
// copies of a resident file, indexes and bloom filters that are not in it, and a
// row index built by a scan.
func (r *Reader) MemoryUsage() int64 {
	var n int64
	if v := r.view.Load(); !v.rowsFault {
		n += int64(len(v.whole))
	}
	r.mu.Lock()
	for _, a := range r.arenas {
		n += a.Used()
	}
	r.mu.Unlock()
	if x := r.rowIdx.Load(); x != nil {
		n += x.size()
	}
	return n
}

// Close unmaps and closes the file. The caller makes sure that nobody reads, nor
// holds a borrowed key or value.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	var errs []error
	for _, v := range r.views {
		errs = append(errs, v.m.Close())
	}
	for _, a := range r.arenas {
		a.Free()
	}
	return errors.Join(append(errs, r.f.Close())...)
}

// maxMemoryBloom is the largest filter built at open, in bits.
const maxMemoryBloom = math.MaxInt32 - 1024

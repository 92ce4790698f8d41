package blocktable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/prefixhash"
	"github.com/flatrock-db/flatrock/statistics"
)

// ReaderOptions says how a table is read.
type ReaderOptions struct {
	// FileSize is the size that the MANIFEST records; zero asks the file.
	FileSize int64
	// Order is the column family's order. A file that names another comparator is refused.
	Order keys.Order
	// Extractor is the family's prefix extractor, nil for none. Prefix filters of a
	// file are used only if it names the same one.
	Extractor *prefixhash.Extractor
	// Cache holds data blocks, and partitions of index and filter; nil reads each
	// block from the file, and holds all partitions in memory.
	Cache *blockcache.Cache
	// CacheID names the file in the cache; zero takes a new one.
	CacheID uint64
	// CacheIndexAndFilterBlocks keeps index and filter in the cache, where they may
	// be evicted, instead of with the Reader. RocksDB: cache_index_and_filter_blocks.
	CacheIndexAndFilterBlocks bool
	// PinIndexAndFilterBlocks holds index and filter in the cache as long as the
	// Reader is open. RocksDB: pin_l0_filter_and_index_blocks_in_cache, for files
	// of level 0.
	PinIndexAndFilterBlocks bool
	// Mmap reads blocks through a mapping of the file. Blocks that are not compressed
	// are then read where they lie, and not cached. Whoever touches what the Reader
	// returns does so under mmapfs.Guard; see Faultable. RocksDB: allow_mmap_reads.
	Mmap bool
	// CopyFromMapping reads a file that lies in memory (tmpfs) from a mapping rather than by system calls, with the
	// same results: see mmapfs.MapMemory. Mmap comes before it.
	CopyFromMapping bool
	// VerifyChecksums checks every block that is read from the file. Index, filter
	// and the other meta blocks are always checked.
	VerifyChecksums bool
	// ManifestLargestSeq is the file's largest sequence number by the MANIFEST, which
	// ingested files may know from nowhere else. Zero is unknown, unless
	// HasManifestLargestSeq says that it is zero: then a file that claims another
	// is damaged, which nothing else can tell, as the number lies outside of the
	// checksum.
	ManifestLargestSeq    uint64
	HasManifestLargestSeq bool
	// Trace is what block cache traces say about the file. Without a number it is in none.
	Trace blockcache.FileInfo
	// OpenCaller is on whose behalf the file is opened, for traces.
	OpenCaller table.Caller
	// RestartInterval is the entries between restart points that traces assume.
	RestartInterval int
	// Statistics counts what reads do; nil for nobody.
	Statistics *statistics.Statistics
	// InitialReadahead and MaxReadahead are where the readahead of iterators begins and up to where it
	// doubles, in bytes: zero means 8 KiB and 256 KiB, less none at all. RocksDB: initial_auto_readahead_size,
	// max_auto_readahead_size.
	InitialReadahead, MaxReadahead int
	// ReadaheadAfter is how many blocks in sequence an iterator reads before that: zero means 2, less none.
	// RocksDB: num_file_reads_for_auto_readahead.
	ReadaheadAfter int
	// Protection is how many bytes of checksum each entry of a block has while it is in
	// memory: 0, 1, 2, 4 or 8. RocksDB: block_protection_bytes_per_key.
	Protection int
	// OnDamage is told of each block that changed in memory, once.
	OnDamage func(error)
	// MaxDecompressed is the largest block in bytes that is decompressed, meta blocks included: a
	// larger one is damage. Zero means the format's 2 GiB.
	MaxDecompressed int64
	// NoReread makes a read fail that meets such a block. Otherwise it reads the block from
	// the file again, once.
	NoReread bool
}

// Reader reads a block-based table. It implements table.Reader: safe for
// concurrent use, apart from Close.
type Reader struct {
	file        mmapfs.File
	name        string // base name, for errors
	opts        ReaderOptions
	footer      block.Footer
	footerStart int64
	cache       *blockcache.Cache
	cacheID     uint64

	props       *table.Properties
	compressed  bool // blocks may be compressed
	decoder     *compress.Decoder
	dataDecoder *compress.Decoder // with the dictionary
	gseq        uint64

	hintRoom int           // behind each data block in the cache
	sumLen   int           // of the sum of an entry; 0 without protection
	sumRoom  int           // behind the hint
	ownProof bool          // the proof of a block is not its checksum in the file
	auto     autoReadahead // of iterators
	inMemory bool          // nothing is won by reading ahead of need, or side by side
	// indexDamaged is set once damage to the index was told.
	indexDamaged atomic.Bool
	mapping      *mmapfs.Mapping // with Mmap
	mapped       []byte

	indexFormat indexFormat
	index       *flatIndex
	partitioned bool // index names index blocks, not data blocks
	filter      filterReader
	tombstones  []table.Tombstone
	pinned      []blockcache.Handle // held as long as the Reader is open
	timestamp   int                 // bytes at the end of each user key

	unknownFilters int
	metas          []block.MetaEntry
}

// Open reads what a table says about itself, and takes f over: it is closed with
// the Reader, or here if Open fails.
func Open(f mmapfs.File, o ReaderOptions) (*Reader, error) {
	r := &Reader{file: f, name: filepath.Base(f.Name()), opts: o, cache: o.Cache, cacheID: o.CacheID}
	if !hash.ValidProtection(o.Protection) {
		return nil, errors.Join(fmt.Errorf("blocktable: a protection of %d bytes an entry: expected 0, 1, 2, 4 or 8", o.Protection), f.Close())
	}
	r.sumLen = hash.EntrySumLen(o.Protection)
	r.auto = autoOf(&o)
	if r.cache != nil && r.cacheID == 0 {
		r.cacheID = r.cache.NewFileID()
	}
	r.describe()
	if err := r.open(); err != nil {
		r.Close()
		if r.cache != nil {
			r.cache.Forget(r.cacheID)
		}
		return nil, err
	}
	return r, nil
}

// tailSize is how much of the end of a file is read at once when it is opened.
const tailSize = 64 << 10

// timestamped is a comparator whose user keys end in a timestamp of so many bytes.
type timestamped interface{ TimestampSize() int }

func (r *Reader) open() (err error) {
	if r.opts.Mmap {
		old := mmapfs.Guard()
		defer mmapfs.Unguard(old, &err)
	}
	size, err := r.file.Size()
	if err != nil {
		return err
	}
	if r.opts.FileSize != 0 && r.opts.FileSize != size {
		return keys.Corruptf(r.name, size, "expected a file of %d bytes, found %d", r.opts.FileSize, size)
	}
	if r.opts.CopyFromMapping && !r.opts.Mmap {
		r.file = mmapfs.MapMemory(r.file, size)
		r.inMemory = mmapfs.InMemory(r.file)
	}
	r.footerStart = size // until the footer is known
	tail := &readahead{stable: false, fixed: 1}
	start := max(0, size-tailSize)
	tail.buf, tail.off = make([]byte, size-start), uint64(start)
	if err := r.readAt(tail.buf, uint64(start)); err != nil {
		return err
	}
	end := tail.buf[max(0, len(tail.buf)-block.FooterLen):]
	if r.footer, err = block.DecodeFooter(r.name, end, size); err != nil {
		return err
	}
	if r.footer.Plain() {
		return fmt.Errorf("%s is a plain table, not a block-based one", r.name)
	}
	r.footerStart = size - int64(r.footer.Len())
	if r.opts.Mmap {
		if r.mapping, err = r.file.Map(size, mmapfs.MapOptions{}); err != nil {
			return err
		}
		r.mapped = r.mapping.Bytes()
	}
	if t, ok := r.opts.Order.Comparator().(timestamped); ok {
		r.timestamp = t.TimestampSize()
	}
	r.decoder = compress.NewDecoder(r.footer.Version >= 2, nil)
	r.decoder.Limit(r.opts.MaxDecompressed)
	r.dataDecoder = r.decoder
	r.compressed = true // until the properties say otherwise
	if err := r.readMeta(tail); err != nil {
		return err
	}
	r.setSumRoom()
	if err := r.readIndex(tail); err != nil {
		return err
	}
	r.setHintRoom()
	if err := r.readFilter(tail); err != nil {
		return err
	}
	return r.readTombstones(tail)
}

// ComparatorError refuses a file in the order of another comparator.
type ComparatorError struct {
	File           string // base name
	Written, Given string // names of comparators
}

func (e *ComparatorError) Error() string {
	return fmt.Sprintf("%s was written with comparator %q, and is read with %q", e.File, e.Written, e.Given)
}

// metaBlock reads a block that only opening needs; it bypasses the cache.
func (r *Reader) metaBlock(h block.Handle, tail *readahead) ([]byte, error) {
	ref, err := r.load(h, fetchOptions{kind: blockcache.Other, verify: true, ahead: tail})
	return ref.data, err
}

// readMeta reads metaindex, properties and dictionary.
func (r *Reader) readMeta(tail *readahead) error {
	b, err := r.metaBlock(r.footer.MetaIndex, tail)
	if err != nil {
		return err
	}
	if r.metas, err = block.DecodeMetaIndex(r.name, int64(r.footer.MetaIndex.Offset), b); err != nil {
		return err
	}
	h, ok := block.FindMeta(r.metas, block.MetaProperties)
	if !ok {
		h, ok = block.FindMeta(r.metas, block.MetaPropertiesOld)
	}
	if ok {
		if r.props, err = r.readProperties(h, tail); err != nil {
			return err
		}
	} else {
		if r.footer.Version >= 6 {
			return keys.Corruptf(r.name, int64(r.footer.MetaIndex.Offset), "expected a properties block, found none")
		}
		r.props = &table.Properties{User: map[string][]byte{}, Present: map[string]bool{}}
	}
	if name, ours := r.props.ComparatorName, r.opts.Order.Comparator().Name(); name != "" && name != ours {
		return &ComparatorError{File: r.name, Written: name, Given: ours}
	}
	if v, ok := r.props.User[block.PropTimestampsKept]; ok && r.timestamp > 0 && len(v) == 1 && v[0] == 0 {
		return fmt.Errorf("%s has no timestamps in its keys (persist_user_defined_timestamps=false), which is not supported", r.name)
	}
	r.compressed = r.props.CompressionName != "NoCompression" && r.props.CompressionName != ";;"
	if err := r.setGlobalSeq(); err != nil {
		return err
	}
	if h, ok := block.FindMeta(r.metas, block.MetaCompressionDict); ok {
		dict, err := r.metaBlock(h, tail)
		if err != nil {
			return err
		}
		r.dataDecoder = compress.NewDecoder(r.footer.Version >= 2, append([]byte(nil), dict...))
		r.dataDecoder.Limit(r.opts.MaxDecompressed)
	}
	return nil
}

// readProperties reads the properties block. Ingestion may have changed the
// global sequence number in place without correcting the checksum, which is then
// right for a zero in its stead.
func (r *Reader) readProperties(h block.Handle, tail *readahead) (*table.Properties, error) {
	b, err := r.metaBlock(h, tail)
	if err != nil && errors.Is(err, keys.ErrCorruption) {
		raw, err2 := r.metaRaw(h, tail)
		if err2 != nil {
			return nil, err
		}
		n := int(h.Size)
		off, size, ok := block.PropertyOffset(raw[:n:n], block.PropGlobalSeqno)
		if !ok || size != 8 || compress.Type(raw[n]) != compress.None {
			return nil, err
		}
		repaired := append([]byte(nil), raw...)
		clear(repaired[off : off+size])
		if r.checkTrailer(h, repaired, true) != nil {
			return nil, err
		}
		b, err = raw[:n:n], nil
	}
	if err != nil {
		return nil, err
	}
	return block.DecodeProperties(r.name, int64(h.Offset), b)
}

// metaRaw is the stored form of a block, trailer included, unchecked.
func (r *Reader) metaRaw(h block.Handle, tail *readahead) ([]byte, error) {
	if err := r.checkHandle(h); err != nil {
		return nil, err
	}
	return tail.read(r, h.Offset, int(h.Size)+block.TrailerLen)
}

// setGlobalSeq finds the sequence number that an ingested file was given.
func (r *Reader) setGlobalSeq() error {
	version, hasVersion := r.props.User[block.PropExternalVersion]
	global, hasGlobal := r.props.User[block.PropGlobalSeqno]
	at := int64(r.footer.MetaIndex.Offset)
	if !hasVersion {
		if hasGlobal {
			return keys.Corruptf(r.name, at, "expected no global sequence number in a file without an external version")
		}
		return nil
	}
	if len(version) != 4 {
		return keys.Corruptf(r.name, at, "expected an external file version of 4 bytes, found % x", version)
	}
	switch v := binary.LittleEndian.Uint32(version); v {
	case 1:
		if hasGlobal {
			return keys.Corruptf(r.name, at, "expected no global sequence number in an external file of version 1")
		}
		return nil
	case 2:
	default:
		return keys.Corruptf(r.name, at, "expected external file version 1 or 2, found %d", v)
	}
	var seq uint64
	if hasGlobal {
		if len(global) != 8 {
			return keys.Corruptf(r.name, at, "expected a global sequence number of 8 bytes, found % x", global)
		}
		seq = binary.LittleEndian.Uint64(global)
	}
	known := r.opts.ManifestLargestSeq
	if seq == 0 {
		seq = known
	} else if (known != 0 || r.opts.HasManifestLargestSeq) && known != seq {
		return keys.Corruptf(r.name, at, "expected global sequence number %d as in the MANIFEST, found %d", known, seq)
	}
	if seq > keys.MaxSeq {
		return keys.Corruptf(r.name, at, "expected a sequence number of 56 bits, found %d", seq)
	}
	r.gseq = seq
	return nil
}

// readTombstones collects the range deletes, which may be unsorted.
func (r *Reader) readTombstones(tail *readahead) error {
	h, ok := block.FindMeta(r.metas, block.MetaRangeDel)
	if !ok {
		return nil
	}
	b, err := r.metaBlock(h, tail)
	if err != nil {
		return err
	}
	it := block.NewIter(r.name, int64(h.Offset), b)
	for it.Next() {
		start, trailer, ok := keys.Split(it.Key())
		if !ok || keys.KindOf(trailer) != keys.KindRangeDelete {
			return keys.Corruptf(r.name, int64(h.Offset)+int64(it.ValueOffset()), "expected a range tombstone's start key, found % x", it.Key())
		}
		seq := keys.Seq(trailer)
		if r.gseq != 0 {
			seq = r.gseq
		}
		r.tombstones = append(r.tombstones, table.Tombstone{
			Start: append([]byte{}, start...),
			End:   append([]byte{}, it.Value()...),
			Seq:   seq,
		})
	}
	return it.Err()
}

// getState is what a Get needs beyond its arguments.
type getState struct {
	point pointTrace // with a trace
	index indexCursor
	data  dataIter
}

var getStates = sync.Pool{New: func() any { return new(getState) }}

// Get finds the newest entry of look.UserKey that look may see. The value is
// pinned by pin if it lies in the cache; without a cache it is the collector's.
func (r *Reader) Get(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	if r.Faultable() {
		return r.getFaultable(look, pin)
	}
	return r.getIn(getStates.Get().(*getState), look, pin)
}

// getFaultable is Get for a mapped file. It has a guard of its own, so that a fault leaves
// nothing of the cache held.
func (r *Reader) getFaultable(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	old := mmapfs.Guard()
	defer mmapfs.Unguard(old, &err)
	g := getStates.Get().(*getState)
	returned := false
	defer func() {
		if !returned { // g does not go back to the pool
			value, ok = nil, false
			g.index.close()
		}
	}()
	value, trailer, ok, err = r.getIn(g, look, pin)
	returned = true
	return value, trailer, ok, err
}

func (r *Reader) getIn(g *getState, look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	if may, err := r.mayContain(look); !may {
		getStates.Put(g)
		return nil, 0, false, err
	}
	o := fetchOptions{kind: blockcache.Data, fill: !look.NoFill, verify: r.opts.VerifyChecksums && !look.NoVerify, perf: look.Perf}
	if r.partitioned && r.tracer() != nil {
		o.point = g.point.begin(look)
	}
	g.index.init(r, o)
	if value, trailer, ok, err = r.get(g, look, o, pin); ok {
		r.countTruePositive(look)
	}
	g.index.close()
	g.data.b, g.data.hash, g.data.val = nil, nil, nil
	getStates.Put(g)
	return value, trailer, ok, err
}

func (r *Reader) get(g *getState, look *keys.Lookup, o fetchOptions, pin *table.Pin) ([]byte, uint64, bool, error) {
	userKey, target := look.UserKey, look.Trailer()
	d := &g.data
	d.order, d.gseq, d.file = r.opts.Order, r.gseq, r.name
	for more := g.index.seekGE(userKey, target); more; more = g.index.next() {
		h := g.index.handle()
		ref, hit, err := r.fetchPoint(h, o)
		if err != nil {
			return nil, 0, false, err
		}
		if hit && r.observed(look) {
			r.countHit(&ref, o.kind, o.perf, tallyOf(look))
		}
		value, trailer, found, goOn := r.search(g, &ref, h, userKey, target)
		if d.err != nil && r.fromMemory(&ref) {
			r.discard(&ref, h, d.err)
			if !r.opts.NoReread {
				r.release(&ref)
				if ref, err = r.load(h, o); err != nil {
					return nil, 0, false, err
				}
				value, trailer, found, goOn = r.search(g, &ref, h, userKey, target)
			}
		}
		if t := r.tracer(); t != nil {
			if o.point != nil {
				look.TraceID = o.point.id
			}
			r.tracedData(t, look, h, &ref, hit, &o, found, trailer, value)
			if o.point != nil {
				o.point.id = look.TraceID
			}
		}
		if found {
			if ref.hold != 0 {
				pin.Set(r.cache, uint64(ref.hold))
			}
			return value, trailer, true, nil
		}
		r.release(&ref)
		if !goOn {
			return nil, 0, false, d.err
		}
	}
	return nil, 0, false, g.index.err
}

// search finds the first entry at or after the target in a block that was fetched.
// An error is in g.data.
func (r *Reader) search(g *getState, ref *blockRef, h block.Handle, userKey []byte, target uint64) (value []byte, trailer uint64, found, more bool) {
	d := &g.data
	d.err = nil
	if r.sumLen != 0 {
		return r.searchProtected(d, ref, h, userKey, target)
	}
	if ref.room != nil {
		r.annotate(ref)
	}
	value, trailer, _, verdict := hintGet(ref.data, ref.hint, userKey, target, r.indexFormat.userKeys)
	if verdict != hintUnknown {
		return value, trailer, verdict == hintFound, verdict == hintNext
	}
	if !d.init(ref.data, h.Offset) {
		return nil, 0, false, false
	}
	found, more = d.get(userKey, target, r.indexFormat.userKeys)
	return d.val, d.trailer, found, more
}

// Tombstones returns the range deletes in file order, owned by the Reader.
func (r *Reader) Tombstones() []table.Tombstone { return r.tombstones }

// Properties returns the decoded properties, owned by the Reader.
func (r *Reader) Properties() *table.Properties { return r.props }

// Footer returns the decoded footer.
func (r *Reader) Footer() block.Footer { return r.footer }

// MetaBlocks returns the metaindex, owned by the Reader.
func (r *Reader) MetaBlocks() []block.MetaEntry { return r.metas }

// GlobalSeq is the sequence number that replaces those of the keys of an ingested
// file; zero if none does.
func (r *Reader) GlobalSeq() uint64 { return r.gseq }

// UnknownFilters counts the filter blocks of the file that are of no known kind
// and therefore unused.
func (r *Reader) UnknownFilters() int { return r.unknownFilters }

// MemoryUsage is what the Reader holds outside of the cache, in bytes.
func (r *Reader) MemoryUsage() int64 {
	n := int64(1024)
	if r.index != nil {
		n += int64(len(r.index.mem.b) + len(r.index.common))
	}
	n += r.filter.memory()
	for _, t := range r.tombstones {
		n += int64(len(t.Start) + len(t.End) + 56)
	}
	return n
}

// Close releases the file and what the Reader holds in the cache.
func (r *Reader) Close() error {
	for _, h := range r.pinned {
		r.cache.Release(h)
	}
	r.pinned = nil
	if r.index != nil {
		r.index.mem.free()
	}
	r.filter.free()
	if r.dataDecoder != nil && r.dataDecoder != r.decoder {
		r.dataDecoder.Close()
	}
	err := r.file.Close()
	if r.mapping != nil {
		err = errors.Join(err, r.mapping.Close())
		r.mapping = nil
	}
	return err
}

// Faultable reports whether what the Reader returns may lie in a mapping of the
// file, where an I/O error is a fault: reads then run under mmapfs.Guard.
func (r *Reader) Faultable() bool { return r.mapping != nil && !r.mapping.Anonymous() }

// GlobalSeqOffset is where in the file the 8 bytes lie that may hold the sequence
// number of an ingested file; ok is false where there is no such place. The checksum
// of the block around them is that of zeros in their stead.
func (r *Reader) GlobalSeqOffset() (off int64, ok bool, err error) {
	h, ok := block.FindMeta(r.metas, block.MetaProperties)
	if !ok {
		return 0, false, nil
	}
	if err := r.checkHandle(h); err != nil {
		return 0, false, err
	}
	raw := make([]byte, int(h.Size)+block.TrailerLen)
	if err := r.readAt(raw, h.Offset); err != nil {
		return 0, false, err
	}
	n := int(h.Size)
	at, size, ok := block.PropertyOffset(raw[:n:n], block.PropGlobalSeqno)
	ok = ok && size == 8 && compress.Type(raw[n]) == compress.None
	// What was read at open was verified; this is another read.
	if err := r.checkTrailer(h, raw, true); err != nil {
		if !ok {
			return 0, false, err
		}
		repaired := append([]byte(nil), raw...)
		clear(repaired[at : at+size])
		if r.checkTrailer(h, repaired, true) != nil {
			return 0, false, err
		}
	}
	if !ok {
		return 0, false, nil
	}
	return int64(h.Offset) + int64(at), true, nil
}

package blocktable

import (
	"bytes"
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/prefixhash"
)

// separators is what all index blocks of a file agree on: whether some block
// boundary falls between two entries of one user key, which makes separators
// internal keys everywhere. Only the end of the file decides, so that each index
// block is built in both forms until then.
type separators struct{ internal bool }

// twoForms builds an index block with internal keys, and beside it with user
// keys as long as those may still do.
type twoForms struct {
	sep      *separators
	internal *block.Builder
	bare     *block.Builder
	delta    bool
	last     block.Handle // the handle added before, for delta encoding
	full     []byte
	change   []byte
}

func newTwoForms(sep *separators, restartInterval int, delta bool) *twoForms {
	return &twoForms{sep: sep, internal: block.NewBuilder(restartInterval), bare: block.NewBuilder(restartInterval), delta: delta}
}

// add appends an entry; key is an internal key. firstKey is nil except for
// indexes that hold first keys.
func (t *twoForms) add(key []byte, h block.Handle, firstKey []byte) {
	t.full = block.AppendHandle(t.full[:0], h)
	t.change = binary.AppendVarint(t.change[:0], int64(h.Size)-int64(t.last.Size))
	t.last = h
	if firstKey != nil {
		t.full = coding.AppendSlice(t.full, firstKey)
		t.change = coding.AppendSlice(t.change, firstKey)
	}
	t.addTo(t.internal, key)
	if !t.sep.internal {
		t.addTo(t.bare, key[:len(key)-8])
	}
}

func (t *twoForms) addTo(b *block.Builder, key []byte) {
	if t.delta {
		b.AddIndex(key, t.full, t.change)
	} else {
		b.Add(key, t.full)
	}
}

// current is the form that the file will have as far as is known.
func (t *twoForms) current() *block.Builder {
	if t.sep.internal {
		return t.internal
	}
	return t.bare
}

func (t *twoForms) finish() []byte { return t.current().Finish() }

// indexWriter builds the index of a file of any type.
type indexWriter struct {
	o     *WriterOptions
	sep   separators
	whole *twoForms // types other than two-level
	// first is the first internal key of the current data block, for
	// BinarySearchWithFirstKey.
	first   []byte
	hasKey  bool
	scratch []byte

	// Two-level index.
	part     *twoForms
	partLast []byte // last separator added to part
	parts    []indexPart
	top      *twoForms
	// partForm is the builder that the flush policy of part looks at.
	partForm *block.Builder
	// cutWanted asks for the end of the partition, cutDone says that one ended:
	// the filter's partitions end with the index's.
	cutWanted, cutDone bool

	prefixes *prefixIndex

	size      uint64 // of all index blocks, uncompressed
	topSize   uint64
	partCount uint64
}

type indexPart struct {
	last []byte
	form *twoForms
}

func newIndexWriter(o *WriterOptions) *indexWriter {
	w := &indexWriter{o: o}
	w.sep.internal = o.FormatVersion <= 2
	if o.IndexType == TwoLevelIndexSearch {
		w.top = newTwoForms(&w.sep, o.IndexBlockRestartInterval, o.deltaValues())
		return w
	}
	w.whole = newTwoForms(&w.sep, o.IndexBlockRestartInterval, o.deltaValues())
	if o.IndexType == HashSearch {
		w.prefixes = &prefixIndex{extractor: o.Extractor}
	}
	return w
}

// keyAdded sees every internal key, after the data block has it.
func (w *indexWriter) keyAdded(key []byte) {
	if w.o.IndexType == BinarySearchWithFirstKey && !w.hasKey {
		w.first = append(w.first[:0], key...)
		w.hasKey = true
	}
	if w.prefixes != nil {
		w.prefixes.keyAdded(key[:len(key)-8])
	}
}

// blockDone adds the entry of a data block: its last internal key, the first
// one of the next block (nil at the end), and where it lies.
func (w *indexWriter) blockDone(last, next []byte, h block.Handle) {
	if w.prefixes != nil {
		w.prefixes.blockDone()
	}
	if w.whole != nil {
		var first []byte
		if w.o.IndexType == BinarySearchWithFirstKey {
			first = w.first
		}
		w.whole.add(w.separator(last, next), h, first)
		w.hasKey = false
		return
	}
	if next == nil {
		w.toPart(last, nil, h)
		w.endPart()
		return
	}
	if w.part != nil && (w.cutWanted || w.partFull(last, h)) {
		w.endPart()
	}
	w.toPart(last, next, h)
}

// separator is the index key between two data blocks, borrowed until the next call.
func (w *indexWriter) separator(last, next []byte) []byte {
	user := last[:len(last)-8]
	var short []byte
	cmp := w.o.Order.Comparator()
	if next != nil {
		nextUser := next[:len(next)-8]
		if w.o.IndexShortening != NoShortening {
			short = cmp.AppendSeparator(w.scratch[:0], user, nextUser)
		}
		if !w.sep.internal && w.o.Order.Compare(user, nextUser) == 0 {
			w.sep.internal = true
		}
	} else if w.o.IndexShortening == ShortenSeparatorsAndSuccessor {
		short = cmp.AppendSuccessor(w.scratch[:0], user)
	}
	if short != nil {
		w.scratch = short
		if len(short) <= len(user) && w.o.Order.Compare(user, short) < 0 {
			w.scratch = binary.LittleEndian.AppendUint64(short, keys.Pack(keys.MaxSeq, w.o.seekKind()))
			return w.scratch
		}
	}
	w.scratch = append(w.scratch[:0], last...)
	return w.scratch
}

func (w *indexWriter) toPart(last, next []byte, h block.Handle) {
	if w.part == nil {
		w.part = newTwoForms(&w.sep, w.o.IndexBlockRestartInterval, w.o.deltaValues())
		w.partForm = w.part.current()
		w.cutWanted = false
	}
	internal := w.sep.internal
	s := w.separator(last, next)
	w.part.add(s, h, nil)
	w.partLast = append(w.partLast[:0], s...)
	if w.sep.internal != internal {
		w.partForm = w.part.internal
	}
}

// partFull says whether the partition must end before the entry of the block at
// h is added. The estimate takes the whole last key, as RocksDB's does.
func (w *indexWriter) partFull(last []byte, h block.Handle) bool {
	var enc [block.MaxHandleLen]byte
	return blockFull(w.partForm, len(last), len(block.AppendHandle(enc[:0], h)), w.o.MetadataBlockSize, w.o.BlockSizeDeviation, false, w.o.deltaValues(), 0)
}

func (w *indexWriter) endPart() {
	w.parts = append(w.parts, indexPart{bytes.Clone(w.partLast), w.part})
	w.part = nil
	w.cutDone = true
}

// takeCut reports once that a partition ended. key is the separator after the
// last data block so far, borrowed until the next blockDone: the block is the
// first of the next index partition, but the filter has seen its keys already.
func (w *indexWriter) takeCut() (key []byte, ok bool) {
	if !w.cutDone {
		return nil, false
	}
	w.cutDone = false
	return w.partLast, true
}

// finish writes the index blocks and returns the handle of the index.
func (w *indexWriter) finish(write func(contents []byte) (block.Handle, error)) (block.Handle, error) {
	if w.whole != nil {
		b := w.whole.finish()
		w.size += uint64(len(b))
		return write(b)
	}
	w.partCount = uint64(len(w.parts))
	for _, p := range w.parts {
		b := p.form.finish()
		w.size += uint64(len(b))
		h, err := write(b)
		if err != nil {
			return h, err
		}
		w.top.add(p.last, h, nil)
	}
	b := w.top.finish()
	w.topSize = uint64(len(b))
	w.size += w.topSize
	return write(b)
}

// prefixIndex makes the two blocks of a hash index: which data blocks each
// prefix lies in.
//
//	prefixes := prefix*
//	metadata := (varint32 prefix length ‖ varint32 first block ‖ varint32 blocks)*
type prefixIndex struct {
	extractor *prefixhash.Extractor
	prefixes  []byte
	metadata  []byte
	current   []byte
	first     uint64 // data block where current begins
	count     uint64 // data blocks that it is in; 0 before the first key
	block     uint64 // number of the current data block
}

func (p *prefixIndex) keyAdded(userKey []byte) {
	prefix, _ := p.extractor.Prefix(userKey)
	switch {
	case p.count == 0 || string(prefix) != string(p.current):
		p.flush()
		p.current = append(p.current[:0], prefix...)
		p.first, p.count = p.block, 1
	case p.first+p.count-1 != p.block:
		p.count++
	}
}

func (p *prefixIndex) blockDone() { p.block++ }

func (p *prefixIndex) flush() {
	if p.count == 0 {
		return
	}
	p.prefixes = append(p.prefixes, p.current...)
	p.metadata = coding.AppendUvarint(p.metadata, uint64(len(p.current)))
	p.metadata = coding.AppendUvarint(p.metadata, p.first)
	p.metadata = coding.AppendUvarint(p.metadata, p.count)
	p.count = 0
}

// blockFull is RocksDB's rule for ending a block before an entry is added to it.
// hashBytes is what a hash index would add.
func blockFull(b *block.Builder, keyLen, valueLen, size, deviation int, align, delta bool, hashBytes int) bool {
	if b.Empty() {
		return false
	}
	now := b.EstimatedSize() + hashBytes
	if now >= size {
		return true
	}
	if deviation == 0 {
		return false
	}
	after := b.EstimatedSizeAfter(keyLen, valueLen, delta) + hashBytes
	if align {
		return after+block.TrailerLen > size
	}
	return after > size && now > (size*(100-deviation)+99)/100
}

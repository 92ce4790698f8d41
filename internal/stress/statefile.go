package stress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// The state file holds a history so that it survives kill -9 of the process: it is
// written through a shared mapping, or with write calls where a mapping would not be
// safe; what returned is in the page cache either way. It need not survive the death of
// the machine. Everything is 64-bit little-endian words:
//
//	header   magic, workers, families, words of a trace, generation times eight plus
//	         its promise, the generation (likewise) that was closed in good order,
//	         operations, checks, keys of each family; at wordInjected the injected faults
//	base     twice, copy generation mod 2 counts: a word a key (the id of its value,
//	         0 for none), family by family, then a word a family and worker (counters)
//	traces   one a worker: its generation, how many words count, records
//	record   begin; end, with the top bits for failed and refused; shape; two words
//	         for each entry: kind, family, end, key packed; id
//
// A new generation writes the copy of the base that does not count, then the
// generation: one word, so a kill leaves the old one or the new one.
const (
	stateMagic  = 0x31736b636f726c66
	headerWords = 64
	traceHead   = 2

	failedBit  = 1 << 63
	refusedBit = 1 << 62

	wordGeneration = 4
	wordClosed     = 5
	wordOperations = 6 // then checks
	wordFamilies   = 8
	wordInjected   = headerWords - 1

	promiseBits = 3
)

// promise says what the writes of a generation rely on.
type promise uint8

const (
	unlogged promise = 1 << iota // they go without a log
	together                     // and all families are flushed together
	heldBack                     // their log records wait in the process for FlushWAL
)

// promise is what the options of a round mean for its writes.
func (o *roundOptions) promise() promise {
	var p promise
	if o.noWAL {
		p |= unlogged
	}
	if o.db.AtomicFlush == flatrock.On {
		p |= together
	}
	if o.db.ManualWALFlush {
		p |= heldBack
	}
	return p
}

// perFamily reports whether what is left may end at another moment in each family.
func (p promise) perFamily() bool { return p&unlogged != 0 && p&together == 0 }

// killed are the bounds of what the death of the process leaves.
func (p promise) killed() bounds {
	b := bounds{must: everything, mustSync: everything, kill: true}
	if p&(unlogged|heldBack) != 0 {
		b.must, b.perFamily = 0, p.perFamily()
	}
	return b
}

// lostPower are the bounds of what the death of the machine leaves.
func (p promise) lostPower() bounds { return bounds{mustSync: everything, perFamily: p.perFamily()} }

// closed are the bounds after Close in good order.
func (o *roundOptions) closed() bounds {
	if o.db.AvoidFlushDuringShutdown && o.noWAL {
		return o.promise().killed()
	}
	return bounds{must: everything, mustSync: everything}
}

type stateFile struct {
	mu         sync.Mutex
	file       mmapfs.File
	mapping    *mmapfs.WriteMapping // nil: write calls
	shape      shape
	traceWords int
	generation uint64
	promise    promise  // of the generation
	used       []int    // by worker: words of its trace that count
	started    []uint64 // by worker: the generation that its trace is of
	err        error    // the first failure; nothing counts after it
}

// openStateFile opens the history in the file, or begins one.
func openStateFile(name string, s shape, traceWords int) (*history, error) {
	h := newHistory(s)
	sf := &stateFile{shape: s, traceWords: traceWords, used: make([]int, s.Workers), started: make([]uint64, s.Workers)}
	var err error
	fresh := false
	if sf.file, err = mmapfs.OS.OpenReadWrite(name); err != nil {
		fresh = true
		// It gets its name once it says what it is: a kill in between leaves none.
		if sf.file, err = mmapfs.OS.Create(name + ".new"); err != nil {
			return nil, err
		}
	}
	size := int64(8 * (headerWords + 2*sf.baseWords() + s.Workers*(traceHead+traceWords)))
	if fresh {
		err = sf.file.Truncate(size)
	} else if have, serr := sf.file.Size(); serr != nil || have != size {
		err = errors.Join(serr, fmt.Errorf("state file %s: %d bytes, want %d: another shape?", name, have, size))
	}
	if err == nil {
		sf.mapping, err = sf.file.MapWrite(0, size)
		if errors.Is(err, mmapfs.ErrMapWriteUnsupported) {
			err = nil
		}
	}
	if err == nil {
		if fresh {
			if err = sf.create(h); err == nil {
				err = mmapfs.OS.Rename(name+".new", name)
			}
		} else {
			err = sf.load(h)
		}
	}
	if err != nil {
		return nil, errors.Join(err, sf.close())
	}
	h.file = sf
	return h, nil
}

func (sf *stateFile) close() error {
	var err error
	if sf.mapping != nil {
		err = sf.mapping.Close()
	}
	return errors.Join(sf.err, err, sf.file.Close())
}

func (sf *stateFile) baseWords() int {
	n := len(sf.shape.Families) * sf.shape.Workers
	for _, f := range sf.shape.Families {
		n += f.n
	}
	return n
}

func (sf *stateFile) baseAt(generation uint64) int {
	return headerWords + int(generation%2)*sf.baseWords()
}

func (sf *stateFile) traceAt(worker int) int {
	return headerWords + 2*sf.baseWords() + worker*(traceHead+sf.traceWords)
}

// put writes words. Under mu, or before anybody else is there.
func (sf *stateFile) put(at int, words ...uint64) {
	b := make([]byte, 0, 64*8)
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	var err error
	if sf.mapping != nil {
		err = sf.mapping.WriteAt(b, 8*at)
	} else {
		_, err = sf.file.WriteAt(b, int64(8*at))
	}
	if sf.err == nil {
		sf.err = err
	}
}

func (sf *stateFile) read(at, n int) ([]uint64, error) {
	b := make([]byte, 8*n)
	if _, err := sf.file.ReadAt(b, int64(8*at)); err != nil {
		return nil, err
	}
	words := make([]uint64, n)
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return words, nil
}

func (sf *stateFile) header() []uint64 {
	h := make([]uint64, headerWords)
	copy(h, []uint64{stateMagic, uint64(sf.shape.Workers), uint64(len(sf.shape.Families)), uint64(sf.traceWords), sf.generationWord()})
	for i, f := range sf.shape.Families {
		h[wordFamilies+i] = uint64(f.n)
	}
	return h
}

func (sf *stateFile) generationWord() uint64 {
	return sf.generation<<promiseBits | uint64(sf.promise)
}

// count records what was done so far.
func (sf *stateFile) count(h *history) {
	sf.mu.Lock()
	sf.put(wordOperations, uint64(h.stats.Operations.Load()), uint64(h.stats.Checks.Load()))
	sf.put(wordInjected, uint64(h.stats.Injected.Load()))
	sf.mu.Unlock()
}

// closed records that the database was closed in good order.
func (sf *stateFile) closed() {
	sf.mu.Lock()
	sf.put(wordClosed, sf.generationWord())
	sf.mu.Unlock()
}

// bounds are those of what a kill left.
func (sf *stateFile) bounds() (bounds, error) {
	head, err := sf.read(wordClosed, 1)
	if err != nil {
		return bounds{}, err
	}
	if head[0] != sf.generationWord() {
		return sf.promise.killed(), nil
	}
	return bounds{must: everything, mustSync: everything}, nil
}

func (sf *stateFile) create(h *history) error {
	sf.generation = 1
	h.nextID.Store(1 << 32)
	sf.put(0, sf.header()...)
	return sf.err
}

// rebase begins the generation that h holds the base of.
func (sf *stateFile) rebase(h *history, promise promise) error {
	sf.mu.Lock()
	defer sf.mu.Unlock()
	next := sf.generation + 1
	words := make([]uint64, 0, sf.baseWords())
	for f := range h.keys {
		for i := range h.keys[f] {
			words = append(words, h.keys[f][i].base)
		}
	}
	for f := range h.counter {
		words = append(words, h.counter[f]...)
	}
	sf.put(sf.baseAt(next), words...)
	sf.generation, sf.promise = next, promise
	sf.put(wordGeneration, sf.generationWord())
	h.nextID.Store(next << 32)
	return sf.err
}

func (b *batchRecord) shapeWord() uint64 {
	w := uint64(len(b.entries))
	if b.sync {
		w |= 1 << 32
	}
	if b.barrier {
		w |= 1<<33 | uint64(b.barrierFamily+1)<<40
	}
	return w
}

// add appends the record of a batch that begins; false: there is no room.
func (sf *stateFile) add(b *batchRecord) bool {
	sf.mu.Lock()
	defer sf.mu.Unlock()
	at := sf.traceAt(b.worker)
	if sf.started[b.worker] != sf.generation {
		sf.put(at, 0, 0)
		sf.put(at, sf.generation)
		sf.started[b.worker], sf.used[b.worker] = sf.generation, 0
	}
	used := sf.used[b.worker]
	n := 3 + 2*len(b.entries)
	if used+n > sf.traceWords || sf.err != nil {
		return false
	}
	b.slot = at + traceHead + used
	words := []uint64{b.begin, 0, b.shapeWord()}
	for _, e := range b.entries {
		words = append(words, uint64(e.kind)<<56|uint64(e.family)<<48|uint64(e.end)<<24|uint64(e.key), e.id)
	}
	sf.put(b.slot, words...)
	sf.used[b.worker] = used + n
	sf.put(at+1, uint64(used+n))
	return true
}

// finish records that the batch returned.
func (sf *stateFile) finish(b *batchRecord) {
	w := b.end.Load()
	if b.failed.Load() {
		w |= failedBit
	}
	if b.refused.Load() {
		w |= refusedBit
	}
	sf.mu.Lock()
	sf.put(b.slot+1, w)
	sf.mu.Unlock()
}

// load reads the history that the file holds.
func (sf *stateFile) load(h *history) error {
	head, err := sf.read(0, headerWords)
	if err != nil {
		return err
	}
	sf.generation, sf.promise = head[wordGeneration]>>promiseBits, promise(head[wordGeneration]&(1<<promiseBits-1))
	h.stats.Operations.Store(int64(head[wordOperations]))
	h.stats.Checks.Store(int64(head[wordOperations+1]))
	h.stats.Injected.Store(int64(head[wordInjected]))
	for i, want := range sf.header() {
		if (i < wordFamilies && i > wordGeneration) || i == wordInjected {
			continue // says what was done
		}
		if head[i] != want {
			return fmt.Errorf("state file: word %d is %d, want %d: another shape?", i, head[i], want)
		}
	}
	h.nextID.Store(sf.generation << 32) // rebase comes before any is given out
	base, err := sf.read(sf.baseAt(sf.generation), sf.baseWords())
	if err != nil {
		return err
	}
	for f := range h.keys {
		for i := range h.keys[f] {
			h.keys[f][i].base, h.keys[f][i].now = base[0], base[0]
			base = base[1:]
		}
	}
	for f := range h.counter {
		base = base[copy(h.counter[f], base):]
	}
	var all []*batchRecord
	for w := range h.logs {
		for f := range h.counter {
			h.logs[w].first = max(h.logs[w].first, h.counter[f][w]+1)
		}
		batches, err := sf.loadTrace(w, h.logs[w].first)
		if err != nil {
			return err
		}
		h.logs[w].batches = batches
		all = append(all, batches...)
	}
	h.replay(all)
	return nil
}

func (sf *stateFile) loadTrace(worker int, first uint64) ([]*batchRecord, error) {
	at := sf.traceAt(worker)
	head, err := sf.read(at, traceHead)
	if err != nil || head[0] != sf.generation {
		return nil, err
	}
	if head[1] > uint64(sf.traceWords) {
		return nil, fmt.Errorf("state file: the trace of worker %d has %d of %d words", worker, head[1], sf.traceWords)
	}
	words, err := sf.read(at+traceHead, int(head[1]))
	if err != nil {
		return nil, err
	}
	var batches []*batchRecord
	for len(words) >= 3 {
		n := int(uint32(words[2]))
		b := &batchRecord{worker: worker, number: first + uint64(len(batches)), begin: words[0], sync: words[2]>>32&1 != 0}
		if b.barrier = words[2]>>33&1 != 0; b.barrier {
			b.barrierFamily = int(words[2]>>40) - 1
		}
		b.end.Store(words[1] &^ (failedBit | refusedBit))
		b.failed.Store(words[1]&failedBit != 0)
		b.refused.Store(words[1]&refusedBit != 0)
		if len(words) < 3+2*n {
			return nil, fmt.Errorf("state file: the trace of worker %d ends within a record", worker)
		}
		for i := range n {
			w, id := words[3+2*i], words[4+2*i]
			b.entries = append(b.entries, entry{kind: entryKind(w >> 56), family: int(uint8(w >> 48)), end: int(w >> 24 & 0xffffff), key: int(w & 0xffffff), id: id})
		}
		words = words[3+2*n:]
		batches = append(batches, b)
	}
	return batches, nil
}

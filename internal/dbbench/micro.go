package dbbench

import (
	"fmt"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
)

// checksumBytes is what each thread of a checksum benchmark reads, and compressBytes
// what it compresses, unless --reads says how many blocks.
const (
	checksumBytes = 5000 << 20
	compressBytes = 1 << 30
)

// checksums returns the body of a benchmark that checksums blocks.
func checksums(kind hash.ChecksumType) func(*thread) error {
	return func(t *thread) error {
		block := make([]byte, max(t.c.blockSize, 1))
		for i := range block {
			block[i] = 'x'
		}
		var size int64
		var sum uint32
		loop := t.count(true, orNum(t.c.reads, checksumBytes/int64(len(block))))
		for !loop.done(1) {
			sum += hash.Checksum(kind, block, 0)
			size += int64(len(block))
			t.stats.finished(1, opHash)
		}
		checksumSink.Store(sum)
		t.stats.bytes = size
		t.stats.message = fmt.Sprintf("(%d per op)", len(block))
		return nil
	}
}

var checksumSink atomic.Uint32

// acquireLoads loads one pointer that other threads may load as well.
func acquireLoads(t *thread) error {
	const loads = 1000
	var n uint64
	loop := t.count(true, orNum(t.c.reads, 100_000))
	for !loop.done(1) {
		for range loads {
			if sharedPointer.Load() != nil {
				n++
			}
		}
		t.stats.finished(1, opOther)
	}
	if n == 0 {
		return fmt.Errorf("no load found the pointer")
	}
	t.stats.message = fmt.Sprintf("(each op is %d loads)", loads)
	return nil
}

var sharedPointer = func() *atomic.Pointer[int] {
	var p atomic.Pointer[int]
	p.Store(new(int))
	return &p
}()

// encoder is that of --compression_type, and a block of values.
func (t *thread) encoder() (*compress.Encoder, []byte, error) {
	kind, ok := compress.ParseType(t.c.compressionType)
	if !ok || kind == compress.None {
		return nil, nil, fmt.Errorf("--compression_type=%s: want one that compresses", t.c.compressionType)
	}
	e, err := compress.NewEncoder(kind, compress.DefaultLevel, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("--compression_type=%s: %w", t.c.compressionType, err)
	}
	return e, t.values().sized(int(max(t.c.blockSize, 1))), nil
}

func compressBlocks(t *thread) error {
	e, block, err := t.encoder()
	if err != nil {
		return err
	}
	defer e.Close()
	var in, out int64
	var dst []byte
	loop := t.count(true, orNum(t.c.reads, compressBytes/int64(len(block))))
	for !loop.done(1) {
		ok := false
		if dst, ok = e.Encode(dst[:0], block); !ok {
			return fmt.Errorf("%v did not shrink a block of %d bytes", e.Type(), len(block))
		}
		in += int64(len(block))
		out += int64(len(dst))
		t.stats.finished(1, opOther)
	}
	t.stats.bytes = in
	t.stats.message = fmt.Sprintf("(output: %.1f%%)", 100*float64(out)/float64(max(in, 1)))
	return nil
}

func uncompressBlocks(t *thread) error {
	e, block, err := t.encoder()
	if err != nil {
		return err
	}
	defer e.Close()
	packed, ok := e.Encode(nil, block)
	if !ok {
		return fmt.Errorf("%v did not shrink a block of %d bytes", e.Type(), len(block))
	}
	d := compress.NewDecoder(true, nil)
	defer d.Close()
	dst := make([]byte, len(block))
	var size int64
	loop := t.count(true, orNum(t.c.reads, compressBytes/int64(len(block))))
	for !loop.done(1) {
		n, body, err := d.Size(e.Type(), packed)
		if err == nil && n != len(block) {
			err = fmt.Errorf("a block of %d bytes comes back with %d", len(block), n)
		}
		if err == nil {
			err = d.Decode(dst, e.Type(), body)
		}
		if err != nil {
			return err
		}
		size += int64(n)
		t.stats.finished(1, opOther)
	}
	if string(dst) != string(block) && size > 0 {
		return fmt.Errorf("a block comes back as another")
	}
	t.stats.bytes = size
	return nil
}

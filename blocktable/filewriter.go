package blocktable

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// fileWriter appends blocks to the file, compressed and checksummed.
type fileWriter struct {
	f        mmapfs.File
	o        *WriterOptions
	buf      []byte  // not yet handed to behind
	spare    *[]byte // what buf is of
	behind   writeBehind
	off      uint64        // of the end of buf in the file
	reached  atomic.Uint64 // a copy of off
	footer   block.Footer
	dict     []byte
	enc      *compress.Encoder // for index blocks, and for data blocks without a dictionary
	dataEnc  *compress.Encoder
	scratch  []byte
	align    uint64
	used     bool // some block was compressed
	rejected uint64
	packed   uint64 // blocks of data and index that were compressed
	unpacked uint64 // and those that compression would not have made smaller by enough
	err      error
}

// writeSize is how much is written to the file at once, in bytes.
const writeSize = 256 << 10

type blockClass uint8

const (
	blockData  blockClass = iota
	blockIndex            // compressed like data if EnableIndexCompression
	blockMeta             // never compressed
)

func newFileWriter(f mmapfs.File, o *WriterOptions) (*fileWriter, error) {
	w := &fileWriter{f: f, o: o, behind: writeBehind{f: f}}
	w.takeBuffer()
	w.footer = block.Footer{Magic: block.BlockMagic, Version: uint32(o.FormatVersion), Checksum: o.Checksum}
	if o.FormatVersion >= 6 {
		w.footer.BaseContextChecksum = o.baseContext
		for w.footer.BaseContextChecksum == 0 {
			w.footer.BaseContextChecksum = rand.Uint32()
		}
	}
	if o.BlockAlign {
		w.align = uint64(min(o.BlockSize, 4096))
	}
	var err error
	w.enc, err = compress.NewEncoder(o.Compression, o.CompressionOptions.Level, nil)
	w.dataEnc = w.enc
	return w, err
}

// setDict compresses data blocks with a dictionary from here on.
func (w *fileWriter) setDict(dict []byte) (err error) {
	w.dict = dict
	if len(dict) > 0 {
		w.dataEnc, err = compress.NewEncoder(w.o.Compression, w.o.CompressionOptions.Level, dict)
	}
	return err
}

// worthwhile is RocksDB's rule: a block stays compressed if that saves an eighth.
func worthwhile(compressed, raw int) bool { return compressed < raw-raw/8 }

// writeBlock appends a block and its trailer.
func (w *fileWriter) writeBlock(raw []byte, class blockClass) (block.Handle, error) {
	if class == blockMeta || class == blockIndex && !w.o.EnableIndexCompression || w.o.Compression == compress.None {
		return w.writeStored(raw, compress.None)
	}
	enc := w.enc
	if class == blockData {
		enc = w.dataEnc
	}
	out, ok := enc.Encode(w.scratch[:0], raw)
	w.scratch = out[:0]
	if ok && worthwhile(len(out), len(raw)) {
		w.packed++
		return w.writeStored(out, w.o.Compression)
	}
	w.unpacked++
	if class == blockData {
		w.rejected++
	}
	return w.writeStored(raw, compress.None)
}

// writeStored appends contents in their stored form, and the trailer.
func (w *fileWriter) writeStored(contents []byte, t compress.Type) (block.Handle, error) {
	h := block.Handle{Offset: w.off, Size: uint64(len(contents))}
	w.used = w.used || t != compress.None
	sum := hash.Checksum(w.o.Checksum, contents, byte(t)) + w.footer.Modifier(w.off)
	w.append(contents)
	w.buf = binary.LittleEndian.AppendUint32(append(w.buf, byte(t)), sum)
	w.off += block.TrailerLen
	return h, w.err
}

// append puts bytes at the end of the file.
func (w *fileWriter) append(b []byte) {
	w.off += uint64(len(b))
	w.reached.Store(w.off)
	w.buf = append(w.buf, b...)
	if len(w.buf) >= writeSize {
		w.write()
	}
}

func (w *fileWriter) takeBuffer() {
	w.spare = writeBuffers.Get().(*[]byte)
	w.buf = *w.spare
}

func (w *fileWriter) write() {
	if w.err != nil {
		w.buf = w.buf[:0]
		return
	}
	*w.spare = w.buf
	w.err = w.behind.write(w.spare)
	w.takeBuffer()
}

// pad fills up to the alignment of data blocks.
func (w *fileWriter) pad() {
	if w.align > 0 {
		var zeros [4096]byte
		w.append(zeros[:-w.off&(w.align-1)])
	}
}

// written is about the offset that has been reached, for any goroutine.
func (w *fileWriter) written() uint64 { return w.reached.Load() }

// compressionName is the property rocksdb.compression.
func (w *fileWriter) compressionName() string {
	if w.o.FormatVersion < 7 {
		return w.o.Compression.String()
	}
	switch {
	case w.o.Compression == compress.None:
		return ";;"
	case !w.used:
		return "BuiltinV2;;"
	}
	return fmt.Sprintf("BuiltinV2;%02X;", uint8(w.o.Compression))
}

func (w *fileWriter) sync() error {
	if err := w.behind.finish(); w.err == nil {
		w.err = err
	}
	if w.err == nil && len(w.buf) > 0 {
		_, w.err = w.f.Write(w.buf)
	}
	w.buf = w.buf[:0]
	if w.err == nil {
		w.err = w.f.Sync()
	}
	return w.err
}

func (w *fileWriter) close() error {
	_ = w.behind.finish() // its error is w.err, or the file is abandoned
	if w.spare != nil {
		*w.spare = w.buf
		recycle(w.spare)
		w.buf, w.spare = nil, nil
	}
	if w.dataEnc != nil && w.dataEnc != w.enc {
		w.dataEnc.Close()
	}
	if w.enc != nil {
		w.enc.Close()
	}
	return w.f.Close()
}

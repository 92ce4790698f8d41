// Package tracefile holds RocksDB's trace files: the container that all kinds share, the
// records of block cache traces (block.go, human.go) and of query traces (query.go).
//
//	file    := record*
//	record  := fixed64 microseconds ‖ type byte ‖ fixed32 length ‖ payload
//
// The first record is of type Begin, and its payload says which kind and version of
// trace follows. There is no checksum: a file that was cut is noticed only where
// the cut is inside of a record.
//
// Fact sheet: trace-files.
package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Type is the type byte of a record.
type Type uint8

// The types.
const (
	Begin Type = 1 + iota
	End
	Write
	Get
	Seek
	SeekForPrev
	IndexBlock
	FilterBlock
	DataBlock
	DictionaryBlock
	RangeDeletionBlock
	IO
	MultiGet
)

var typeNames = [...]string{"Reserved", "Begin", "End", "Write", "Get", "Seek", "SeekForPrev", "Index", "Filter", "Data",
	"UncompressionDict", "RangeDeletion", "IO", "MultiGet"}

// String names the type; for blocks as RocksDB's analyzer does.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// IsBlock reports whether records of the type belong to a block cache trace.
func (t Type) IsBlock() bool { return t >= IndexBlock && t <= RangeDeletionBlock }

const (
	headerLen = 8 + 1 + 4
	// magic begins the payload of the first record.
	magic = "feedcafedeadbeef"
)

// ErrKind matches the error about a file that holds another kind of trace.
var ErrKind = errors.New("another kind of trace")

// AppendHeader appends the 13 bytes before a payload of n bytes.
func AppendHeader(dst []byte, micros uint64, t Type, n int) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, micros)
	dst = append(dst, byte(t))
	return binary.LittleEndian.AppendUint32(dst, uint32(n))
}

// Record is a record of the container.
type Record struct {
	Offset  int64 // in the file
	Micros  uint64
	Type    Type
	Payload []byte // borrowed until the next Read
}

// Reader reads the records of a file.
type Reader struct {
	in   io.Reader
	name string
	off  int64
	buf  []byte
	head [headerLen]byte
}

// NewReader reads records from in, which should be buffered. The name is for errors.
func NewReader(in io.Reader, name string) *Reader { return &Reader{in: in, name: name} }

// Offset is how many bytes of the file have been read.
func (r *Reader) Offset() int64 { return r.off }

// step is how much memory a record may ask for before its bytes have come.
const step = 1 << 20

// Read returns the next record, or io.EOF at the end of the last one.
func (r *Reader) Read() (Record, error) {
	n, err := io.ReadFull(r.in, r.head[:])
	rec := Record{Offset: r.off}
	switch {
	case err == io.EOF:
		return rec, io.EOF
	case err == io.ErrUnexpectedEOF:
		return rec, keys.Corruptf(r.name, r.off+int64(n), "expected a trace record header of %d bytes, found the end of the file after %d", headerLen, n)
	case err != nil:
		return rec, err
	}
	rec.Micros = binary.LittleEndian.Uint64(r.head[:])
	rec.Type = Type(r.head[8])
	size := int64(binary.LittleEndian.Uint32(r.head[9:]))
	r.buf = r.buf[:0]
	for got := int64(0); got < size; {
		want := min(size-got, step)
		if int64(cap(r.buf)) < got+want {
			r.buf = append(make([]byte, 0, max(got+want, 2*int64(cap(r.buf)))), r.buf...)
		}
		r.buf = r.buf[:got+want]
		n, err := io.ReadFull(r.in, r.buf[got:])
		got += int64(n)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return rec, keys.Corruptf(r.name, r.off+headerLen+got, "expected a trace record payload of %d bytes, found the end of the file after %d", size, got)
		case err != nil:
			return rec, err
		}
	}
	rec.Payload = r.buf
	r.off += headerLen + size
	if rec.Type < Begin || rec.Type > MultiGet {
		return rec, keys.Corruptf(r.name, rec.Offset+8, "expected a trace record of type %d to %d, found %d", Begin, MultiGet, rec.Type)
	}
	return rec, nil
}

// begin reads the first record.
func (r *Reader) begin() (Record, error) {
	rec, err := r.Read()
	switch {
	case err == io.EOF:
		return rec, keys.Corruptf(r.name, 0, "expected a trace, found an empty file")
	case err != nil:
		return rec, err
	case rec.Type != Begin:
		return rec, keys.Corruptf(r.name, 8, "expected a trace to begin with a record of type %d, found %v", Begin, rec.Type)
	}
	return rec, nil
}

// fields takes a payload apart. After the first failure everything is zero.
type fields struct {
	name string
	at   int64 // of b in the file
	b    []byte
	err  error
}

func (f *fields) fail(what string, want int) {
	if f.err == nil {
		f.err = keys.Corruptf(f.name, f.at, "expected %s of %d bytes in a trace record, found %d", what, want, len(f.b))
	}
	f.b = nil
}

func (f *fields) take(what string, n int) []byte {
	if len(f.b) < n || f.err != nil {
		f.fail(what, n)
		return nil
	}
	b := f.b[:n:n]
	f.b = f.b[n:]
	f.at += int64(n)
	return b
}

func (f *fields) byte(what string) byte {
	if b := f.take(what, 1); b != nil {
		return b[0]
	}
	return 0
}

// flag is a byte that must be 0 or 1.
func (f *fields) flag(what string) bool {
	b := f.byte(what)
	if b > 1 && f.err == nil {
		f.err = keys.Corruptf(f.name, f.at-1, "expected %s of 0 or 1 in a trace record, found %d", what, b)
	}
	return b == 1
}

func (f *fields) fixed32(what string) uint32 {
	if b := f.take(what, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (f *fields) fixed64(what string) uint64 {
	if b := f.take(what, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// str is a length as a varint32 and so many bytes.
func (f *fields) str(what string) []byte {
	if f.err != nil {
		return nil
	}
	n, w := binary.Uvarint(f.b[:min(len(f.b), 5)])
	if w <= 0 || n > 1<<32-1 {
		f.err = keys.Corruptf(f.name, f.at, "expected the length of %s in a trace record", what)
		return nil
	}
	f.take(what, w)
	if n > uint64(len(f.b)) {
		f.fail(what, int(n))
		return nil
	}
	return f.take(what, int(n))
}

// end makes sure that nothing is left over.
func (f *fields) end() error {
	if f.err == nil && len(f.b) > 0 {
		f.err = keys.Corruptf(f.name, f.at, "expected the end of a trace record, found %d more bytes", len(f.b))
	}
	return f.err
}

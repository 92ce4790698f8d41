package flatrock

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	checksums "github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// FileChecksumGenFactory makes the checksums of whole table files that the MANIFEST
// records. RocksDB: FileChecksumGenFactory.
type FileChecksumGenFactory struct {
	// Name is recorded with each checksum; a file whose checksum has another name is not verified.
	Name string
	// New makes a generator: all bytes of a file are written to it, and its Sum is recorded.
	New func() hash.Hash
}

// FileChecksumGenCrc32c is RocksDB's own: CRC32C, four bytes, big-endian. RocksDB:
// FileChecksumGenCrc32cFactory.
var FileChecksumGenCrc32c = &FileChecksumGenFactory{Name: "FileChecksumCrc32c", New: func() hash.Hash { return new(crc32cHash) }}

// NoFileChecksums makes none, whatever the OPTIONS file says.
var NoFileChecksums = new(FileChecksumGenFactory)

// crc32cHash is CRC32C as a hash.Hash.
type crc32cHash struct{ sum uint32 }

func (c *crc32cHash) Write(p []byte) (int, error) {
	c.sum = checksums.ExtendCRC32C(c.sum, p)
	return len(p), nil
}
func (c *crc32cHash) Sum(b []byte) []byte { return binary.BigEndian.AppendUint32(b, c.sum) }
func (c *crc32cHash) Reset()              { c.sum = 0 }
func (c *crc32cHash) Size() int           { return 4 }
func (c *crc32cHash) BlockSize() int      { return 1 }

// fileChecksums is what makes the checksums of files, or nil.
func (db *DB) fileChecksums() *FileChecksumGenFactory {
	if g := db.opts.FileChecksumGenFactory; g != nil && g.New != nil {
		return g
	}
	return nil
}

// checksumFile reads a table file whole.
func (db *DB) checksumFile(g *FileChecksumGenFactory, m *manifest.FileMetadata) ([]byte, error) {
	f, err := db.fs.Open(manifest.TableName(db.dir, m.Number))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := g.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return nil, err
	}
	if uint64(n) != m.Size {
		return nil, keys.Corruptf(manifest.TableName("", m.Number), n, "expected %d bytes, found %d", m.Size, n)
	}
	return h.Sum(nil), nil
}

// fileSums makes the checksums of a job's outputs from what it writes: a file that is read again for it
// may be read wrong.
type fileSums struct {
	gen   *FileChecksumGenFactory
	files map[uint64]*summedFile // by number
}

type summedFile struct {
	mmapfs.File
	sum     hash.Hash
	written uint64
}

func (f *summedFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	f.sum.Write(b[:n]) // a hash.Hash never fails
	f.written += uint64(n)
	return n, err
}

// fileSums are those of a new job, nil if no checksums are asked for.
func (db *DB) fileSums() *fileSums {
	g := db.fileChecksums()
	if g == nil {
		return nil
	}
	return &fileSums{gen: g, files: map[uint64]*summedFile{}}
}

// summed adds what is written to f to the checksum of the file of that number.
func (p *pace) summed(number uint64, f mmapfs.File) mmapfs.File {
	if p.sums == nil {
		return f
	}
	s := &summedFile{File: f, sum: p.sums.gen.New()}
	p.sums.files[number] = s
	return s
}

// fill gives the metadata of a file its checksum.
func (s *fileSums) fill(m *manifest.FileMetadata) error {
	if s == nil {
		return nil
	}
	f := s.files[m.Number]
	if f == nil || f.written != m.Size {
		return fmt.Errorf("flatrock: table file %06d of %d bytes: its checksum is of something else", m.Number, m.Size)
	}
	m.Checksum, m.ChecksumFunc = f.sum.Sum(nil), s.gen.Name
	return nil
}

// addChecksum fills in the checksum of a file that was ingested.
func (db *DB) addChecksum(m *manifest.FileMetadata) (err error) {
	g := db.fileChecksums()
	if g == nil {
		return nil
	}
	m.Checksum, err = db.checksumFile(g, m)
	m.ChecksumFunc = g.Name
	return err
}

// VerifyFileChecksums reads every live table file and compares it with the checksum
// that the MANIFEST has. Families that are dropped meanwhile, files without one, or with one of another name than
// Options.FileChecksumGenFactory's, are passed over. The first damage is returned; it names
// the file. RocksDB: VerifyFileChecksums.
func (db *DB) VerifyFileChecksums(ctx context.Context) error {
	g := db.fileChecksums()
	if g == nil {
		return fmt.Errorf("%w: VerifyFileChecksums needs Options.FileChecksumGenFactory", ErrInvalidArgument)
	}
	for _, cf := range db.ColumnFamilies() {
		if err := cf.verifyFileChecksums(ctx, g); err != nil && !errors.Is(err, ErrColumnFamilyDropped) {
			return err
		}
	}
	return nil
}

func (cf *ColumnFamily) verifyFileChecksums(ctx context.Context, g *FileChecksumGenFactory) error {
	s, stripe, err := cf.enter()
	if err != nil {
		return err
	}
	defer s.release(stripe) // the files stay meanwhile
	for _, level := range s.files.levels {
		for _, r := range level {
			if err := ctx.Err(); err != nil {
				return err
			}
			m := r.handle.meta
			if m.ChecksumFunc != g.Name {
				continue
			}
			sum, err := cf.db.checksumFile(g, m)
			if err != nil {
				return err
			}
			if !bytes.Equal(sum, m.Checksum) {
				return keys.Corruptf(manifest.TableName("", m.Number), -1, "expected the file's checksum (%s) to be %x as in the MANIFEST, found %x", g.Name, m.Checksum, sum)
			}
		}
	}
	return nil
}

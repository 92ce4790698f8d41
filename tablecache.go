package flatrock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/flatrock-db/flatrock/blockcache"
	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/compaction"
	"github.com/flatrock-db/flatrock/internal/block"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/killpoint"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/mutation"
	"github.com/flatrock-db/flatrock/internal/rangedel"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
	"github.com/flatrock-db/flatrock/plaintable"
	"github.com/flatrock-db/flatrock/statistics"
)

// This file opens and begins tables of both formats; but for it only multiget.go,
// which reads each in batches its own way, and sstreader.go, which opens files
// without a database, name them.

// tableHandle is an open table file.
type tableHandle struct {
	cf   *ColumnFamily
	meta *manifest.FileMetadata

	// Exactly one is set. The formats are called directly, not through
	// table.Reader: what passes through an interface would escape to the heap.
	plain *plaintable.Reader
	block *blocktable.Reader

	modTime uint64         // unix seconds; zero where the MANIFEST or the file knows when it was written
	cacheID uint64         // of a block-based table in the block cache
	charged int64          // what the block cache gives up for the reader's own memory, in bytes
	sample  uint32         // one read in so many of a plain table is checked; 0 for none
	tombs   *rangedel.List // nil when the file has no range tombstones

	// wants is the policy to load the file with in the background; MemoryNone if
	// done. Guarded by db.mu.
	wants mmapfs.Memory

	// Guarded by db.mu.
	refs     int  // file sets that hold it
	obsolete bool // no version has the file any more: delete it with the last reference
}

// get finds the newest entry that look may see. A key that a range tombstone of
// the file covers is reported as an entry of kind RangeDelete.
func (h *tableHandle) get(look *keys.Lookup, pin *table.Pin) (value []byte, trailer uint64, ok bool, err error) {
	near := h.tombs.Near(look.UserKey)
	if h.plain != nil {
		if value, trailer, ok, err = h.plain.Get(look, pin); h.sample != 0 && ok && h.sampled() {
			err = h.checkSampled(value, len(look.UserKey))
		}
	} else {
		value, trailer, ok, err = h.block.Get(look, pin)
	}
	if !near {
		return value, trailer, ok, err
	}
	return h.hideCovered(look, pin, value, trailer, ok, err)
}

// hideCovered puts a range tombstone of the file that covers the key in the place
// of what a read found, if that is older. It matters to keys that tombs says are near.
func (h *tableHandle) hideCovered(look *keys.Lookup, pin *table.Pin, value []byte, trailer uint64, ok bool, err error) ([]byte, uint64, bool, error) {
	if h.tombs != nil && err == nil {
		if h.tombs.Protected() {
			if i := h.tombs.DamagedAt(look.UserKey); i >= 0 {
				pin.Release()
				return nil, 0, false, h.damagedTombstone(i)
			}
		}
		if ok && keys.Seq(trailer) >= h.tombs.MaxSeq() {
			return value, trailer, ok, err
		}
		cover := h.tombs.Cover(look.UserKey, look.Seq)
		if cover > 0 && (!ok || keys.Seq(trailer) < cover) {
			pin.Release()
			return nil, keys.Pack(cover, keys.KindRangeDelete), true, nil
		}
	}
	return value, trailer, ok, err
}

// reader is the handle's table behind the common interface.
func (h *tableHandle) reader() table.Reader {
	if h.plain != nil {
		return h.plain
	}
	return h.block
}

func (h *tableHandle) close() error {
	if h.cf != nil {
		h.cf.db.tablesOpen.Add(-1)
	}
	if h.charged > 0 {
		h.cf.db.cache.AddCharge(blockcache.TableReaders, -h.charged)
	}
	err := h.reader().Close()
	if h.cacheID != 0 {
		h.cf.db.cache.Forget(h.cacheID) // nobody asks for these blocks again
	}
	return err
}

// anchors samples the keys of the file, at most about n of them: of a block-based
// table where its data blocks end, else its last key alone.
func (h *tableHandle) anchors(n int) (all []compaction.Anchor, err error) {
	blocks := 0
	if h.block != nil {
		blocks = int(min(h.block.Properties().NumDataBlocks, 1<<30))
	}
	if blocks > 1 {
		step, i, size := (blocks+n-1)/n, 0, uint64(0)
		err = h.block.EachDataBlock(func(separator []byte, at block.Handle) error {
			size += at.Size
			if i++; i%step == 0 {
				all = append(all, compaction.Anchor{Key: bytes.Clone(separator), Bytes: size})
				size = 0
			}
			return nil
		})
		return all, err
	}
	return []compaction.Anchor{{Key: h.meta.LargestKey, Bytes: h.meta.Size}}, nil
}

// openTable opens a file of the family. For families that are loaded in the background it
// returns at once with a handle that reads through the bare mapping, and wants set.
func (cf *ColumnFamily) openTable(meta *manifest.FileMetadata, level int, opener table.Caller) (*tableHandle, error) {
	memory := mmapfs.MemoryNone
	if o, ok := cf.opts.Table.(PlainTableOptions); ok {
		memory = o.Memory.policy()
		if o.LoadInBackground.or(true) && cf.db.opening && memory != mmapfs.MemoryNone && memory != mmapfs.MemoryWillNeed {
			h, err := cf.openTableIn(meta, level, opener, mmapfs.MemoryNone, &placement{home: -1})
			if err == nil {
				h.wants = memory
			}
			return h, err
		}
	}
	return cf.openTableIn(meta, level, opener, memory, &cf.db.placed)
}

// openTableFile opens a file with a memory policy and a placement, which only plain
// tables have.
func (cf *ColumnFamily) openTableFile(meta *manifest.FileMetadata, level int, opener table.Caller, memory mmapfs.Memory, placed *placement) (*tableHandle, error) {
	db := cf.db
	name := manifest.TableName(db.dir, meta.Number)
	open := db.fs.Open
	if _, ok := cf.opts.Table.(BlockBasedTableOptions); ok && db.opts.UseDirectReads {
		open = func(name string) (mmapfs.File, error) { return mmapfs.OpenDirect(db.fs, name) }
	}
	f, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if g, err2 := open(manifest.OldTableName(db.dir, meta.Number)); err2 == nil {
			f, err = g, nil
		}
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("column family %q: %w", cf.name,
				&CorruptionError{File: manifest.TableName("", meta.Number), Offset: -1, Reason: "the MANIFEST names this table file, and it does not exist"})
		}
		return nil, err
	}
	if size, err := f.Size(); err != nil || uint64(size) != meta.Size {
		f.Close()
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("column family %q: %w", cf.name,
			keys.Corruptf(manifest.TableName("", meta.Number), size, "the MANIFEST expects %d bytes, and the file has %d", meta.Size, size))
	}
	h := &tableHandle{cf: cf, meta: meta}
	switch o := cf.opts.Table.(type) {
	case PlainTableOptions:
		h.sample = sampleOf(o.VerifyReadsOneIn)
		verify := plaintable.VerifyNone
		if o.Verify == VerifyAtOpen {
			verify = plaintable.VerifyAtOpen
		}
		err = placed.whileLoading(func() (err error) {
			h.plain, err = plaintable.Open(f, plaintable.ReaderOptions{
				Options:       o.format(),
				Order:         cf.order,
				Extractor:     cf.opts.PrefixExtractor,
				BloomLocality: cf.opts.BloomLocality,
				Memory:        memory,
				// Not for level 0, which is soon compacted: it takes time in the flush.
				HugePages: level > 0,
				Placement: placed.tables,
				Verify:    verify,
				FileSize:  int64(meta.Size),
			})
			return err
		})
		if err == nil {
			placed.gather(h.plain, db.log)
		}
	case BlockBasedTableOptions:
		ro := o.readerOptions(cf, meta, level)
		ro.OpenCaller = opener
		h.cacheID = ro.CacheID
		h.block, err = blocktable.Open(f, ro)
	}
	if err != nil {
		return nil, fmt.Errorf("column family %q: %w", cf.name, err)
	}
	if p := h.reader().Properties(); meta.FileCreationTime == 0 && meta.OldestAncestorTime == 0 && p.FileCreationTime == 0 && p.CreationTime == 0 {
		if info, err := db.fs.Stat(name); err == nil {
			h.modTime = uint64(max(info.ModTime().Unix(), 0))
		}
	}
	if db.opts.ChargeTableReaders && h.cacheID != 0 {
		h.charged = h.block.MemoryUsage()
		db.cache.AddCharge(blockcache.TableReaders, h.charged)
	}
	if ts := h.reader().Tombstones(); len(ts) > 0 && !(level > 0 && mutation.On(mutation.ForgetRangeTombstones)) {
		h.tombs = rangedel.New(cf.order, ts).Clip(meta.SmallestKey, meta.LargestKey, meta.LargestIsExclusive())
		if h.block != nil {
			h.tombs.Protect(cf.mutable().BlockProtectionBytesPerKey, h.damagedTombstone)
		}
		h.tombs.Fence()
	}
	cf.db.tablesOpen.Add(1)
	return h, nil
}

// newTableWriter begins the file of that number, as an output of job, at a pace.
func (cf *ColumnFamily) newTableWriter(number uint64, job *compaction.Job, id table.Identity, p *pace) (table.Writer, error) {
	f, err := cf.db.fs.Create(manifest.TableName(cf.db.dir, number))
	if err != nil {
		return nil, err
	}
	f = p.summed(number, p.output(f))
	o := cf.mutable()
	if job.Uncompressed {
		plain := *o
		plain.Compression, plain.CompressionPerLevel, plain.BottommostCompression = NoCompression, nil, DefaultCompression
		o = &plain
	}
	w, err := beginTable(f, o, cf.order, job.CompressionLevel, job.Bottommost, id)
	if err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// beginTable begins a table in f, for a level as CompressionPerLevel counts them, of the format that o chooses. f is
// the caller's to close after an error.
func beginTable(f mmapfs.File, o *ColumnFamilyOptions, order keys.Order, level int, bottommost bool, id table.Identity) (table.Writer, error) {
	switch t := o.Table.(type) {
	case PlainTableOptions:
		return plaintable.NewWriter(f, plaintable.WriterOptions{
			Options:        t.format(),
			Order:          order,
			Extractor:      o.PrefixExtractor,
			BloomLocality:  o.BloomLocality,
			Identity:       id,
			ChunkChecksums: t.ChunkChecksums.or(true),

			RangeTombstones: t.marked || t.RangeDeletes == On,
		})
	case BlockBasedTableOptions:
		wo := t.writerOptions(o, level, bottommost, id)
		wo.Order = order
		return blocktable.NewWriter(f, wo)
	}
	return nil, fmt.Errorf("%w: unknown table format %T", ErrNotSupported, o.Table)
}

// tableRefusal gives the refusals of the formats the root's sentinels.
func tableRefusal(err error) error {
	switch {
	case errors.Is(err, plaintable.ErrInvalidArgument):
		return fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	case errors.Is(err, plaintable.ErrNotSupported):
		return fmt.Errorf("%w: %w", ErrNotSupported, err)
	}
	return err
}

// maxOutputSize is the size at which a file of the family must be cut, whatever
// the target size says: plain tables cannot pass 2 GiB.
func (cf *ColumnFamily) maxOutputSize() int64 {
	if _, ok := cf.opts.Table.(PlainTableOptions); ok {
		return plainSplitSize
	}
	return 1 << 40
}

// plainSplitSize leaves room below the format's limit of 2 GiB for what a file
// needs beside its rows.
const plainSplitSize = 1 << 30 * 3 / 2

// canFault reports whether reads of the file run under the guard.
func (h *tableHandle) canFault() bool {
	if h.plain != nil {
		return h.plain.CanFault()
	}
	return h.block.Faultable()
}

// closeTable closes a file that nothing refers to any more, and deletes it if it
// is obsolete.
func (db *DB) closeTable(h *tableHandle) {
	db.stats.Add(statistics.Stripe(), statistics.NoFileCloses, 1)
	if err := h.close(); err != nil {
		db.log.Warn("closing a table file", "file", h.meta.Number, "err", err)
	}
	if !h.obsolete || db.opts.ReadOnly {
		return
	}
	db.removeFile(manifest.TableName(db.dir, h.meta.Number), manifest.OldTableName(db.dir, h.meta.Number))
	killpoint.Here("table deleted")
}

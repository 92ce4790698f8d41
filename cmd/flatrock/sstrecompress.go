package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flatrock-db/flatrock/blocktable"
	"github.com/flatrock-db/flatrock/internal/blob"
	"github.com/flatrock-db/flatrock/internal/compress"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// recompressOptions are those of --command=recompress alone.
var recompressOptions = []string{"set_block_size", "compression_types", "compression_level_from", "compression_level_to",
	"compression_max_dict_bytes", "compression_zstd_max_train_bytes", "compression_max_dict_buffer_bytes", "compression_use_zstd_finalize_dict"}

// recompression says which tables to make of a file, to see their sizes.
type recompression struct {
	blockSize int
	types     []compress.Type
	from, to  int // levels
	options   blocktable.CompressionOptions
}

// allTypes are tried if none are named, in RocksDB's order.
var allTypes = []compress.Type{compress.None, compress.Snappy, compress.Zlib, compress.BZip2, compress.LZ4, compress.LZ4HC, compress.Xpress, compress.ZSTD}

func parseRecompression(opts *arguments) (r recompression, err error) {
	r = recompression{blockSize: 16384, types: allTypes, from: compress.DefaultLevel, to: compress.DefaultLevel, options: blocktable.DefaultCompressionOptions()}
	if opts.has("set_block_size") {
		if r.blockSize, err = strconv.Atoi(opts.text("set_block_size")); err != nil {
			return r, usagef("block size must be numeric")
		}
		if r.blockSize <= 0 || r.blockSize > 1<<30 {
			return r, usagef("--set_block_size: expected 1 to %d bytes, found %d", 1<<30, r.blockSize)
		}
	}
	if opts.has("compression_types") {
		r.types = nil
		for _, name := range strings.Split(opts.text("compression_types"), ",") {
			t, ok := compress.ParseType(name)
			if !ok || name != t.OptionName() {
				return r, usagef("%s is not a valid CompressionType", name)
			}
			r.types = append(r.types, t)
		}
	}
	if opts.has("compression_level_from") || opts.has("compression_level_to") {
		if !opts.has("compression_level_from") || !opts.has("compression_level_to") {
			return r, usagef("Specify both --compression_level_from and --compression_level_to.\n")
		}
		if len(r.types) != 1 {
			return r, usagef("Specify one compression type.\n")
		}
		for name, level := range map[string]*int{"compression_level_from": &r.from, "compression_level_to": &r.to} {
			if *level, err = strconv.Atoi(opts.text(name)); err != nil {
				return r, usagef("%s must be numeric", strings.ReplaceAll(name, "_", " "))
			}
		}
		if r.to-r.from > 1000 {
			return r, usagef("--compression_level_to: expected at most 1000 levels, found %d", r.to-r.from+1)
		}
	}
	var n [3]uint64
	for i, name := range []string{"compression_max_dict_bytes", "compression_zstd_max_train_bytes", "compression_max_dict_buffer_bytes"} {
		if n[i], err = opts.number(name, 0); err != nil {
			return r, err
		}
		if n[i] > 1<<31-1 {
			return r, usagef("--%s: expected at most %d, found %d", name, 1<<31-1, n[i])
		}
	}
	r.options.MaxDictBytes, r.options.ZstdMaxTrainBytes, r.options.MaxDictBufferBytes = int(n[0]), int(n[1]), int64(n[2])
	r.options.UseZstdDictTrainer = !opts.flag("compression_use_zstd_finalize_dict")
	return r, nil
}

// recompress prints how large the file would be as a block-based table with each compression. As in
// RocksDB, range deletes and filters are left out.
func (d *sstDump) recompress(t *tableFile) error {
	r := d.recompression
	if !d.json {
		fmt.Fprintf(d.out, "Block Size: %d\n", r.blockSize)
	}
	for _, typ := range r.types {
		if !typ.CanWrite() {
			if !d.json {
				fmt.Fprintf(d.out, "Unsupported compression type: %s.\n", typ.OptionName())
			}
			continue
		}
		if !d.json {
			fmt.Fprintf(d.out, "Compression: %-24s\n", typ.OptionName())
		}
		for level := r.from; level <= r.to; level++ {
			if err := d.recompressAs(t, typ, level); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *sstDump) recompressAs(t *tableFile, typ compress.Type, level int) error {
	o := blocktable.WriterOptions{Options: blocktable.DefaultOptions(), Order: t.order, Compression: typ, CompressionOptions: d.recompression.options,
		Identity: table.Identity{ColumnFamilyID: unknownFamily}}
	o.BlockSize, o.CompressionOptions.Level = d.recompression.blockSize, level
	d.seen.done.Store(0)
	start := time.Now()
	w, size, err := d.rewrite(t, o)
	if err != nil {
		return err
	}
	took := time.Since(start)
	blocks := w.Properties().NumDataBlocks
	packed, not := w.CompressedBlocks()
	all := max(blocks, packed+not) // with index blocks, where they are compressed
	part := func(n uint64) float64 { return 100 * float64(n) / float64(max(all, 1)) }
	if d.json {
		return d.jsonValue(map[string]any{"file": t.name, "compression": typ.OptionName(), "level": level, "block_size": d.recompression.blockSize, "size": size,
			"blocks": blocks, "micros": took.Microseconds(), "compressed": packed, "not_compressed_ratio": all - packed - not, "not_compressed_abort": not})
	}
	fmt.Fprintf(d.out, "Compression level: %d Size: %10d Blocks: %6d Time Taken: %10d microsecs", level, size, blocks, took.Microseconds())
	_, err = fmt.Fprintf(d.out, " Compressed: %6d (%5.1f%%) Not compressed (ratio): %6d (%5.1f%%) Not compressed (abort): %6d (%5.1f%%)\n",
		packed, part(packed), all-packed-not, part(all-packed-not), not, part(not))
	return err
}

// rewrite writes the entries of t into a file in memory, and says how large it became.
func (d *sstDump) rewrite(t *tableFile, o blocktable.WriterOptions) (*blocktable.Writer, uint64, error) {
	f, err := mmapfs.NewMem().Create("/recompressed.sst")
	if err != nil {
		return nil, 0, err
	}
	w, err := blocktable.NewWriter(f, o)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	err = t.each(nil, func(e entry) error {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		d.seen.done.Add(1)
		return w.Add(e.key, e.trailer, e.value)
	})
	if err != nil {
		w.Abandon()
		return nil, 0, err
	}
	s, err := w.Finish()
	return w, uint64(s.Size), err
}

// blobText is the value of an entry as it is printed: with --decode_blob_index, a blob
// index says where it points.
func blobText(e entry, decode, hex bool) (text string, decoded bool, err error) {
	if !decode || keys.KindOf(e.trailer) != keys.KindBlobIndex {
		return "", false, nil
	}
	i, err := blob.DecodeIndex(e.value)
	if err != nil {
		return "", false, err
	}
	return i.Text(hex), true, nil
}

package dbbench

import (
	"fmt"
	"strconv"
	"strings"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/statistics"
)

// storageFlags are flags of how blocks are compressed and files are read.
type storageFlags struct {
	level, maxDict, zstdTrain, parallel int64
	dictBuffer                          uint64
	zstdTrainer                         bool
	filtersForMemory                    bool
	directReads, chargeReaders          bool
	multipliers                         string
	statsLevel                          int64
}

// defaultStorage has db_bench's defaults; 32767 is RocksDB's number for an algorithm's own level.
var defaultStorage = storageFlags{level: 32767, parallel: 1, zstdTrainer: true, statsLevel: int64(statistics.ExceptDetailedTimers)}

func (f *storageFlags) bindings() []binding {
	return []binding{
		{"compression_level", &f.level, "level of the compression algorithm; the default means its own"},
		{"compression_max_dict_bytes", &f.maxDict, "bytes of a table's compression dictionary; zero means none"},
		{"compression_zstd_max_train_bytes", &f.zstdTrain, "bytes of samples that a zstd dictionary is trained from; zero takes the samples themselves"},
		{"compression_max_dict_buffer_bytes", &f.dictBuffer, "bytes held back to sample from; zero holds back the whole file"},
		{"compression_use_zstd_dict_trainer", &f.zstdTrainer, "train zstd dictionaries; otherwise samples are only finalized"},
		{"compression_parallel_threads", &f.parallel, "goroutines that compress the blocks of a table"},
		{"optimize_filters_for_memory", &f.filtersForMemory, "filters as large as the memory that they take in the block cache anyway"},
		{"use_direct_reads", &f.directReads, "read files of block-based tables around the page cache"},
		{"charge_table_reader", &f.chargeReaders, "the block cache gives way to what open tables hold"},
		{"max_bytes_for_level_multiplier_additional", &f.multipliers, "factor of each level's bytes, besides the common one, separated by commas"},
		{"stats_level", &f.statsLevel, "how much --statistics counts: 0 nothing, 1 tickers, 2 sizes, 3 times, 5 all"},
	}
}

func (f *storageFlags) check() error {
	if f.statsLevel < 0 || f.statsLevel > int64(statistics.All) {
		return fmt.Errorf("--stats_level=%d: want 0 to %d", f.statsLevel, statistics.All)
	}
	if f.maxDict < 0 || f.zstdTrain < 0 || f.parallel < 0 || f.dictBuffer > 1<<62 || f.maxDict > 1<<30 || f.parallel > 1024 {
		return fmt.Errorf("--compression_max_dict_bytes=%d, --compression_zstd_max_train_bytes=%d, --compression_max_dict_buffer_bytes=%d, --compression_parallel_threads=%d: want no negative numbers, and at most 1 GiB and 1024 threads",
			f.maxDict, f.zstdTrain, f.dictBuffer, f.parallel)
	}
	_, err := f.additional()
	return err
}

func (f *storageFlags) additional() ([]int, error) {
	var all []int
	for _, s := range strings.Split(f.multipliers, ",") {
		if f.multipliers == "" {
			break
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--max_bytes_for_level_multiplier_additional=%s: want positive numbers, separated by commas", f.multipliers)
		}
		all = append(all, int(n))
	}
	return all, nil
}

// compression is RocksDB's compression_opts.
func (f *storageFlags) compression() flatrock.CompressionOptions {
	o := flatrock.DefaultCompressionOptions()
	if f.level != defaultStorage.level {
		o.Level = int(f.level)
	}
	o.MaxDictBytes, o.ZstdMaxTrainBytes, o.MaxDictBufferBytes = int(f.maxDict), int(f.zstdTrain), int64(f.dictBuffer)
	o.UseZstdDictTrainer, o.ParallelThreads = f.zstdTrainer, int(f.parallel)
	return o
}

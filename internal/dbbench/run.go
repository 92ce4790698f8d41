package dbbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/hash"
	"github.com/flatrock-db/flatrock/statistics"
)

// bench runs the benchmarks of one command line, over one database.
type bench struct {
	c        *config
	ctx      context.Context // its end interrupts
	out      io.Writer       // results
	log      io.Writer       // header, warnings, progress
	show     bool            // log is a terminal
	dir      string
	seed     uint64
	memory   memoryChoice
	db       *flatrock.DB
	cf       *flatrock.ColumnFamily   // the default one
	families []*flatrock.ColumnFamily // those that hold keys
	keys     keyMaker
	clock    clock // of timeseries
	gc       gcShare
	stats    *statistics.Statistics // nil without --statistics
	threads  int64                  // number of threads ever started; seeds differ
	traces   traceFiles
	follower *follower // with --use_secondary_db
}

// benchmark is an entry of the list of benchmarks. It has a body, which the threads
// run and which gets a line in the output, or is a meta operation.
type benchmark struct {
	name, usage string
	fresh       bool          // wants an empty database
	adjust      func(*params) // changes what the flags say
	body        func(*thread) error
	meta        func(*bench) error
	skip        string // why it does nothing here
}

// benchmarks is the list of all benchmarks.
func benchmarks() []benchmark {
	one := func(p *params) { p.threads = 1 }
	return []benchmark{
		{name: "fillseq", usage: "write --num values in key order", fresh: true, body: fill(sequential)},
		{name: "fillrandom", usage: "write --num values in random order", fresh: true, body: fill(random)},
		{name: "filluniquerandom", usage: "write each of --num keys once, in random order, with one thread", fresh: true, body: fill(uniqueRandom), adjust: one},
		{name: "fillanddeleteuniquerandom", usage: "filluniquerandom that deletes keys soon after, with --disposable_entries_batch_size", fresh: true, body: fillAndDelete, adjust: one},
		{name: "fillsync", usage: "write values in random order over --num/1000 keys, each write synced", fresh: true, body: fill(random),
			adjust: func(p *params) { p.num = max(p.num/1000, 1); p.sync = true }},
		{name: "fillbatch", usage: "write --num values in key order, 1000 a batch", fresh: true, body: fill(sequential), adjust: func(p *params) { p.batch = 1000 }},
		{name: "fill100K", usage: "write --num/1000 values of 100,000 bytes in random order", fresh: true, body: fill(random),
			adjust: func(p *params) { p.num, p.valueSize = max(p.num/1000, 1), 100_000 }},
		{name: "fillseqdeterministic", usage: "write levels of fixed sizes, each in key order: --num values to the deepest, and of each one above a fraction; needs --disable_auto_compactions", fresh: true,
			body: fillLevels(sequential), adjust: one},
		{name: "filluniquerandomdeterministic", usage: "the same in random order", fresh: true, body: fillLevels(uniqueRandom), adjust: one},
		{name: "fillseekseq", usage: "write --num values in key order, then seek to each key twice; only the seeks count", fresh: true, body: fillSeekSequential, adjust: one},
		{name: "randomreplacekeys", usage: "delete keys of --numdistinct and write their next versions, by a normal distribution with --stddev", fresh: true, body: replaceKeys, adjust: one},
		{name: "overwrite", usage: "write --num values in random order over what is there", body: fill(random)},
		{name: "readrandom", usage: "read --reads random keys", body: readRandom},
		{name: "readrandomfast", usage: "readrandom over a power of two of numbers, so that some keys do not exist", body: readRandomFast},
		{name: "readrandomsmall", usage: "read --reads/1000 random keys", body: readRandom, adjust: func(p *params) { p.reads /= 1000 }},
		{name: "readhot", usage: "read --reads random keys of the first hundredth", body: readRandom, adjust: func(p *params) { p.num = (p.num + 99) / 100 }},
		{name: "readmissing", usage: "read --reads keys that do not exist", body: readRandom, adjust: func(p *params) { p.missing = true }},
		{name: "readseq", usage: "read --reads keys in order", body: readSequential},
		{name: "readtocache", usage: "read --num keys in order with one thread, whatever --reads says, which fills the block cache", body: readSequential,
			adjust: func(p *params) { p.threads, p.reads = 1, p.num }},
		{name: "readreverse", usage: "read --reads keys in reverse order", body: readReverse},
		{name: "multireadrandom", usage: "read random keys, --batch_size with each MultiGet", body: multiReadRandom},
		{name: "readwhilewriting", usage: "readrandom, while one more thread overwrites random keys", body: readRandom, adjust: func(p *params) { p.beside = besideWriter }},
		{name: "readwhilemerging", usage: "readrandom, while one more thread merges into random keys", body: readRandom, adjust: func(p *params) { p.beside = besideMerger }},
		{name: "readwhilescanning", usage: "readrandom, while one more thread walks over the database", body: readRandom, adjust: func(p *params) { p.beside = besideScanner }},
		{name: "readrandomwriterandom", usage: "read and write random keys, --readwritepercent reads", body: readRandomWriteRandom},
		{name: "readrandommergerandom", usage: "merge into random keys and read them, --mergereadpercent merges", body: readRandomMergeRandom},
		{name: "updaterandom", usage: "read a random key and write it anew", body: updateWith(true, replaced)},
		{name: "xorupdaterandom", usage: "read a random key and write its exclusive or with a new value", body: updateWith(false, xored)},
		{name: "appendrandom", usage: "read a random key and write it with a new value behind", body: updateWith(true, appended)},
		{name: "mergerandom", usage: "merge into random keys; needs --merge_operator", body: mergeRandom},
		{name: "randomwithverify", usage: "put, get and delete keys in threes, and check that they agree", body: randomWithVerify},
		{name: "mixgraph", usage: "Get, Put and scans by the distributions of the mix_, keyrange_, key_dist_, value_, iter_ and sine_ flags", body: mixGraph},
		{name: "timeseries", usage: "write events of --key_id_range series with one more thread, read whole series, and remove old events by --expire_style", fresh: true,
			body: timeSeries, adjust: func(p *params) { p.beside = besideTimeSeries }},
		{name: "seekrandom", usage: "seek to random keys, each followed by --seek_nexts steps", body: seekRandom},
		{name: "seekrandomwhilewriting", usage: "seekrandom, while one more thread overwrites random keys", body: seekRandom, adjust: func(p *params) { p.beside = besideWriter }},
		{name: "seekrandomwhilemerging", usage: "seekrandom, while one more thread merges into random keys", body: seekRandom, adjust: func(p *params) { p.beside = besideMerger }},
		{name: "seekrandomwithprefix", usage: "seekrandom whose steps end with the prefix of the key; needs --prefix_size", body: seekWithPrefix},
		{name: "newiteratorwhilewriting", usage: "make iterators, while one more thread overwrites random keys", body: newIterators, adjust: func(p *params) { p.beside = besideWriter }},
		{name: "newiterator", usage: "make iterators", body: newIterators},
		{name: "deleteseq", usage: "delete --deletes keys in order", body: deleteKeys(sequential)},
		{name: "deleterandom", usage: "delete --deletes random keys", body: deleteKeys(random)},
		{name: "compact", usage: "rewrite the whole database as one sorted run, even if it is one", body: compactBody},
		{name: "compactall", usage: "merge the whole database into one sorted run, unless it is one; no line in the output", meta: (*bench).compactAll},
		{name: "compact0", usage: "merge level 0 into the first level below that has files", meta: (*bench).compact0},
		{name: "compact1", usage: "merge the first level below level 0 that has files into the next that has", meta: (*bench).compact1},
		{name: "waitforcompaction", usage: "wait until no flush or compaction runs", meta: (*bench).waitForCompaction},
		{name: "flush", usage: "flush the memtable", meta: (*bench).flush},
		{name: "stats", usage: "print what the database did since it was opened or resetstats", meta: (*bench).printStats},
		{name: "resetstats", usage: "begin to count anew", meta: (*bench).resetStats},
		{name: "levelstats", usage: "print files and bytes of each level", meta: (*bench).printLevels},
		{name: "sstables", usage: "print the files of each level", meta: (*bench).printSSTables},
		{name: "verify", usage: "compare the database with the one of --truth_db, key by key", meta: (*bench).verifyAgainstTruth},
		{name: "approximatesizerandom", usage: "ask for the approximate sizes of random ranges", body: approximateSizes},
		{name: "verifychecksum", usage: "verify the checksums of all files' blocks", body: verifyChecksum, adjust: one},
		{name: "verifyfilechecksums", usage: "compare all table files with the checksums in the MANIFEST; needs --file_checksum", body: verifyFileChecksums, adjust: one},
		{name: "backup", usage: "make a backup in --backup_dir, and verify it", body: backup, adjust: one},
		{name: "restore", usage: "restore the newest backup to --restore_dir", body: restore, adjust: one},
		{name: "crc32c", usage: "checksum blocks of --block_size, 5000 MB a thread", body: checksums(hash.ChecksumCRC32C)},
		{name: "xxhash", usage: "the same with XXH32", body: checksums(hash.ChecksumXXH32)},
		{name: "xxhash64", usage: "the same with XXH64", body: checksums(hash.ChecksumXXH64)},
		{name: "xxh3", usage: "the same with XXH3", body: checksums(hash.ChecksumXXH3)},
		{name: "acquireload", usage: "load a shared pointer, 1000 times an operation", body: acquireLoads},
		{name: "compress", usage: "compress blocks of --block_size with --compression_type, 1 GB a thread", body: compressBlocks},
		{name: "uncompress", usage: "uncompress them", body: uncompressBlocks},
		{name: "readtorowcache", usage: "not here", skip: "there is no row cache"},
		{name: "randomtransaction", usage: "not here", skip: "there are no transactions"},
		{name: "getmergeoperands", usage: "not here", skip: "there is no GetMergeOperands"},
		{name: "readrandomoperands", usage: "not here", skip: "there is no GetMergeOperands"},
		{name: "heapprofile", usage: "not here", skip: "see --cpuprofile and the benchmark heap"},
		{name: "stats_history", usage: "not here", skip: "statistics are not stored in the database"},
		{name: "memstats", usage: "print what memtables hold", meta: (*bench).printMemtables},
		{name: "placement", usage: "ours: print on which NUMA nodes the memory lies", meta: (*bench).printPlacement},
		{name: "replay", usage: "execute the operations of --trace_file, at their times", meta: (*bench).replay},
		{name: "heap", usage: "ours: print the Go heap, the memory beside it, and the collector's share of CPU since the last heap", meta: (*bench).printHeap},
	}
}

// request is one entry of --benchmarks.
type request struct {
	benchmark
	warmups, runs int // runs is zero without [X…]
}

// parseBenchmarks reads the list of --benchmarks.
func parseBenchmarks(list string) ([]request, error) {
	all := benchmarks()
	var out []request
	for _, entry := range strings.Split(list, ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, args, hasArgs := strings.Cut(entry, "[")
		var r request
		for _, b := range all {
			if b.name == name {
				r.benchmark = b
			}
		}
		if r.name == "" {
			names := make([]string, len(all))
			for i, b := range all {
				names[i] = b.name
			}
			if near := nearest(name, names); near != "" {
				return nil, fmt.Errorf("unknown benchmark '%s'; did you mean %s?", name, near)
			}
			return nil, fmt.Errorf("unknown benchmark '%s'; --help lists them", name)
		}
		if hasArgs {
			inner, ok := strings.CutSuffix(args, "]")
			if !ok {
				return nil, fmt.Errorf("benchmark %s: no closing bracket", entry)
			}
			for _, a := range strings.Split(inner, "-") {
				if a == "" {
					continue
				}
				n, err := strconv.ParseUint(a[1:], 10, 20)
				switch {
				case err == nil && a[0] == 'X':
					r.runs = int(n)
				case err == nil && a[0] == 'W':
					r.warmups = int(n)
				default:
					return nil, fmt.Errorf("benchmark %s: %q: want X and a number of runs, or W and a number of warm-ups", entry, a)
				}
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// params are what the flags say, as changed by a benchmark.
type params struct {
	name     string
	num      int64
	reads    int64 // a thread
	keySize  int
	threads  int64
	duration time.Duration
	sync     bool
	missing  bool // read keys that do not exist
	// beside is what one more thread does, nil for none.
	beside    *beside
	valueSize int64
	batch     int64
}

// params are those of a benchmark.
func (c *config) params(bm *benchmark) *params {
	p := &params{
		name: bm.name, num: c.num, reads: c.readsEach(), keySize: int(c.keySize), threads: c.threads,
		duration: time.Duration(c.duration) * time.Second, sync: c.sync, valueSize: c.valueSize, batch: c.batchSize,
	}
	if bm.adjust != nil {
		bm.adjust(p)
	}
	return p
}

// thread is one of the goroutines that run a benchmark's body. What it needs in its
// loop is its own: no locks, no allocation.
type thread struct {
	*bench
	cf        *flatrock.ColumnFamily // of the key that setKey made last
	p         *params
	id        int64
	node      int // that it is pinned to, or -1
	rng       *rand.Rand
	stats     threadStats
	perf      *flatrock.PerfContext // nil without --perf_level
	maker     keyMaker
	key       []byte
	batch     flatrock.Batch
	wo        *flatrock.WriteOptions
	ro        *flatrock.ReadOptions
	writePace *pacer
	readPace  *pacer
	halt      *atomic.Bool // set when all must end
	halted    <-chan struct{}
}

// runAll runs the list of --benchmarks.
func (b *bench) runAll() (err error) {
	requests, err := parseBenchmarks(b.c.benchmarks)
	if err != nil {
		return err
	}
	defer func() {
		if b.db != nil {
			err = errors.Join(err, b.endFollowing(), b.endTraces(), b.db.Close())
		}
	}()
	if err = b.open(b.c.useExistingDB); err != nil {
		return err
	}
	b.printHeader()
	endProfiles, err := b.startProfiles()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endProfiles()) }()
	for _, r := range requests {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		if r.skip != "" {
			fmt.Fprintf(b.out, "%-12s : skipped (%s)\n", r.name, r.skip)
			continue
		}
		if r.fresh {
			if b.c.useExistingDB {
				fmt.Fprintf(b.out, "%-12s : skipped (--use_existing_db is true)\n", r.name)
				continue
			}
			if err := b.reopenEmpty(); err != nil {
				return err
			}
		}
		if err := b.beginTraces(r.name); err != nil {
			return err
		}
		if r.meta != nil {
			for range max(r.runs, 1) {
				if err := r.meta(b); err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
			}
			continue
		}
		fmt.Fprintf(b.out, "DB path: [%s]\n", b.dir)
		b.copyPaths(r.name)
		if err := b.repeat(r); err != nil {
			return err
		}
	}
	if b.stats != nil {
		fmt.Fprintf(b.out, "STATISTICS:\n%s\n", b.stats)
	}
	b.printMemory()
	if b.c.wantsPlacement() {
		if err := b.printPlacement(); err != nil {
			return err
		}
	}
	if err := errors.Join(b.endFollowing(), b.endTraces()); err != nil {
		return err
	}
	db := b.db
	b.db = nil
	return db.Close()
}

// repeat runs a benchmark as often as its brackets say.
func (b *bench) repeat(r request) error {
	if r.warmups > 0 {
		fmt.Fprintf(b.out, "Warming up benchmark by running %d times\n", r.warmups)
	}
	for range r.warmups {
		if err := b.runOnce(r, nil); err != nil {
			return err
		}
	}
	if r.runs == 0 {
		return b.runOnce(r, nil)
	}
	if r.runs > 1 {
		fmt.Fprintf(b.out, "Running benchmark for %d times\n", r.runs)
	}
	all := repeats{name: r.name}
	for range r.runs {
		if err := b.runOnce(r, &all); err != nil {
			return err
		}
		all.printSoFar(b.out, b.c.confidenceIntervalOnly)
	}
	all.printFinal(b.out)
	return nil
}

// runOnce runs a benchmark and prints its line.
func (b *bench) runOnce(r request, into *repeats) error {
	main, writer, err := b.measure(r.benchmark)
	if err != nil {
		return err
	}
	main.print(b.out)
	main.printNodes(b)
	if writer != nil {
		writer.print(b.out)
	}
	if into != nil {
		into.add(main)
	}
	return nil
}

// measure runs the threads of a benchmark. The second result is that of the thread
// that writes beside the others, nil if there is none.
func (b *bench) measure(bm benchmark) (main, writer *result, err error) {
	p := b.c.params(&bm)
	threads, err := b.runThreads(p, bm.body)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", bm.name, err)
	}
	main = &result{name: bm.name, nodes: byNode(threads)}
	for _, t := range threads {
		if t.stats.excluded {
			writer = &result{name: cmp.Or(p.beside.name, "bgwriter")}
			writer.merge(&t.stats)
		} else {
			main.merge(&t.stats)
		}
	}
	if main.read > 0 {
		main.message = fmt.Sprintf("(%d of %d found)", main.found, main.read)
		if bm.name != "multireadrandom" {
			main.message += "\n" // db_bench ends these lines twice
		}
	}
	if p := mergedPerf(threads); p != nil {
		main.message = strings.TrimPrefix(main.message+" PERF_CONTEXT:\n"+p.String()+"\nIOSTATS_CONTEXT:\n"+p.IOStats.String(), " ")
	}
	return main, writer, nil
}

// runThreads starts the threads of a benchmark together and waits for all of them.
// The first error ends the others.
func (b *bench) runThreads(p *params, body func(*thread) error) ([]*thread, error) {
	var halt atomic.Bool
	halted := make(chan struct{})
	stop := sync.OnceFunc(func() { halt.Store(true); close(halted) })
	defer stop()
	defer context.AfterFunc(b.ctx, stop)()

	n := p.threads
	if p.beside != nil {
		n++
	}
	nodes, machine, err := b.spread(int(n))
	if err != nil {
		return nil, err
	}
	threads := make([]*thread, n)
	for i := range threads {
		threads[i] = b.newThread(p, int64(i), &halt)
	}
	endReports, err := b.startReporter(threads)
	if err != nil {
		return nil, err
	}
	var perReport func()
	if b.c.statsPerInterval > 0 {
		perReport = func() {
			b.writeStats(b.log)
			if b.c.observe.tableProperties {
				b.writeLevelProperties(b.log)
			}
		}
	}
	begin := make(chan struct{})
	errs := make([]error, n)
	var readers, all sync.WaitGroup
	for i, t := range threads {
		run, group := body, &readers
		other := p.beside != nil && i == len(threads)-1
		if other {
			t.stats.excluded = !p.beside.counted
			run = p.beside.body
			if !p.beside.awaited {
				group = nil
			}
		}
		if group != nil {
			group.Add(1)
		}
		all.Go(func() {
			if group != nil {
				defer group.Done()
			}
			work := func() error {
				<-begin
				t.stats.begin(b.c, b.log, perReport)
				defer t.stats.finish()
				return guardedRun(run, t)
			}
			if nodes == nil {
				errs[i] = work()
			} else {
				t.node = nodes[i]
				errs[i] = machine.Run(t.node, work)
			}
			if errs[i] != nil {
				stop()
			}
		})
	}
	writePace := newPacer(float64(b.c.writeRateLimit), halted)
	endSine := func() {}
	if b.c.sineWrites {
		writePace, endSine = b.sineWrites(writePace, halted)
	}
	defer endSine()
	readPace := newPacer(float64(b.c.readRateLimit), halted)
	for _, t := range threads {
		t.writePace, t.readPace, t.halted = writePace, readPace, halted
		if p.beside != nil && int(t.id) == len(threads)-1 {
			t.writePace = b.writerPace(halted)
		}
	}
	close(begin)
	endProgress := b.startProgress(p.name, threads)
	readers.Wait()
	if !b.c.finishAfterWrites {
		stop()
	}
	all.Wait()
	endProgress()
	return threads, errors.Join(append(errs, endReports(), b.ctx.Err())...)
}

// guardedRun turns a panic into an error, so that a temporary directory is removed
// whatever happens.
func guardedRun(body func(*thread) error, t *thread) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return body(t)
}

func (b *bench) newThread(p *params, id int64, halt *atomic.Bool) *thread {
	t := &thread{bench: b, cf: b.cf, p: p, id: id, node: -1, halt: halt, maker: b.keys}
	t.stats.id = int(id)
	source := new(ownSource)
	source.Seed(b.seed, uint64(b.threads))
	t.rng = rand.New(source)
	b.threads++
	t.maker.keySize = p.keySize
	if p.missing {
		t.maker.keySize++ // a longer key than any that is there
	}
	t.key = t.maker.buffer()
	t.wo = &flatrock.WriteOptions{Sync: p.sync, DisableWAL: b.c.disableWAL && !p.sync, ProtectionBytesPerKey: int(b.c.batchProtection)}
	t.ro = b.readOptions()
	if level := flatrock.PerfLevel(b.c.perfLevel); level > flatrock.PerfDisable {
		t.perf = &flatrock.PerfContext{Level: level}
		t.ro.Perf, t.wo.Perf = t.perf, t.perf
	}
	return t
}

// ownLines is the size of an allocation that shares no cache line with another, nor the
// pair of lines that processors fetch together.
const ownLines = 128

// ownSource is a thread's source of random numbers, on cache lines of its own: it changes
// with each number.
type ownSource struct {
	rand.PCG
	_ [ownLines - 16]byte
}

// count tells a loop when it has done enough operations or run long enough.
type count struct {
	ops, max, next, every int64
	deadline              time.Time
	halt                  *atomic.Bool
}

// count returns the end of a loop of max operations, or of --duration where the
// benchmark obeys it.
func (t *thread) count(timed bool, max int64) count {
	c := count{max: max, every: t.c.opsBetweenDurationChecks, halt: t.halt}
	if timed && t.p.duration > 0 {
		c.deadline = time.Now().Add(t.p.duration)
	}
	c.next = 1
	return c
}

// done is asked before n further operations.
func (c *count) done(n int64) bool {
	c.ops += n
	return c.ops >= c.next && c.check()
}

func (c *count) check() bool {
	if c.halt.Load() {
		return true
	}
	c.next = c.ops + c.every
	if !c.deadline.IsZero() {
		return !time.Now().Before(c.deadline)
	}
	c.next = min(c.next, c.max+1)
	return c.ops > c.max
}

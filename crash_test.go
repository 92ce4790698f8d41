package flatrock

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flatrock-db/flatrock/internal/leaks/leaktest"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// The crash tests write numbered batches. Batch i sets the key "count" of two
// families, one of plain and one of block-based tables, to i and changes other keys by a rule that depends on i alone, so that
// after a crash the state says which prefix of the writes it is, and every key can
// be checked against that prefix.

const crashKeys = 50

func crashOptions(fsys mmapfs.FS, mode WALWriteMode) *Options {
	plain := ColumnFamilyOptions{
		PrefixExtractor: CappedPrefix(4),
		MemTable:        MemTableOptions{Kind: HashSkipList, BucketCount: 16},
		Table:           PlainTableOptions{},
		WriteBufferSize: 64 << 10,
	}
	other := ColumnFamilyOptions{
		Table: BlockBasedTableOptions{
			BlockSize: 512, IndexType: TwoLevelIndexSearch, PartitionFilters: true, MetadataBlockSize: 256,
			FilterPolicy: BloomFilter(10), CacheIndexAndFilterBlocks: true,
		},
		WriteBufferSize: 256 << 10, // flushed less often: logs serve one family and not the other
	}
	// Compactions all the time, side by side and in parts.
	for _, o := range []*ColumnFamilyOptions{&plain, &other} {
		o.Level0FileNumCompactionTrigger, o.TargetFileSizeBase, o.MaxBytesForLevelBase = 2, 16<<10, 64<<10
	}
	return &Options{
		BlockCacheSize: 1 << 20, MaxBackgroundJobs: 6, MaxSubcompactions: 3,
		FS: fsys, CreateIfMissing: true, CreateMissingColumnFamilies: true, WALWriteMode: mode, EnablePipelinedWrite: mode != WALWrite,
		ColumnFamily:   &plain,
		ColumnFamilies: []ColumnFamilyDescriptor{{"other", &other}},
	}
}

// crashBatch is what batch i does.
func crashBatch(i uint64, b *Batch, other *ColumnFamily) {
	rng := rand.New(rand.NewPCG(i, 99))
	count := binary.BigEndian.AppendUint64(nil, i)
	b.Put(nil, []byte("count"), count)
	b.Put(other, []byte("count"), count)
	for range 3 {
		k := fmt.Appendf(nil, "key%02d", rng.IntN(crashKeys))
		if rng.IntN(4) == 0 {
			b.Delete(nil, k)
			b.Delete(other, k)
			continue
		}
		v := make([]byte, rng.IntN(3000))
		for j := range v {
			v[j] = byte(i + uint64(j))
		}
		b.Put(nil, k, v)
		b.Put(other, k, v)
	}
}

// crashModel is the state after batch n.
func crashModel(n uint64) map[string]string {
	m := map[string]string{}
	for i := uint64(1); i <= n; i++ {
		m["count"] = string(binary.BigEndian.AppendUint64(nil, i))
		rng := rand.New(rand.NewPCG(i, 99))
		for range 3 {
			k := fmt.Sprintf("key%02d", rng.IntN(crashKeys))
			if rng.IntN(4) == 0 {
				delete(m, k)
				continue
			}
			v := make([]byte, rng.IntN(3000))
			for j := range v {
				v[j] = byte(i + uint64(j))
			}
			m[k] = string(v)
		}
	}
	return m
}

// recoveredPrefix returns the number of the last batch in db, after checking that
// both families hold exactly the state after it.
func recoveredPrefix(db *DB) (uint64, error) {
	v, err := db.Get(nil, []byte("count"), nil)
	if errors.Is(err, ErrNotFound) {
		v, err = make([]byte, 8), nil
	}
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint64(v)
	want := crashModel(n)
	for _, name := range []string{DefaultColumnFamilyName, "other"} {
		it, err := db.ColumnFamily(name).NewIterator(nil)
		if err != nil {
			return n, err
		}
		seen := 0
		for k, v := range it.All() {
			if w, ok := want[string(k)]; !ok || w != string(v) {
				it.Close()
				return n, fmt.Errorf("family %s: key %q has %d bytes; after batch %d it should have %d (exists: %v)", name, k, len(v), n, len(w), ok)
			}
			seen++
		}
		if err := it.Close(); err != nil {
			return n, err
		}
		if seen != len(want) {
			return n, fmt.Errorf("family %s: %d keys, after batch %d there should be %d", name, seen, n, len(want))
		}
	}
	return n, nil
}

// TestPowerLoss crashes the in-memory file system at a random operation of a
// write load, again and again. What was synced must survive, and what survives
// must be a prefix of what was written, whatever the file system dropped.
func TestPowerLoss(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 5))
			var mem *mmapfs.MemFS
			var at uint64
			for round := worker; round < rounds; round += 2 {
				if mem == nil || rng.IntN(4) == 0 {
					mem, at = mmapfs.NewMem(), 0
				}
				next, n, err := powerLossRound(mem, at, rng)
				if err != nil {
					t.Errorf("worker %d, round %d: %v", worker, round, err)
					return
				}
				mem, at = next, n
			}
		})
	}
	wg.Wait()
}

// powerLossRound runs one round on a file system that holds the state after batch
// at, all of it durable. It returns the file system after the crash, and its state.
func powerLossRound(mem *mmapfs.MemFS, at uint64, rng *rand.Rand) (*mmapfs.MemFS, uint64, error) {
	var (
		synced  atomic.Uint64 // batches that must survive
		started atomic.Uint64 // batches that may
		mu      sync.Mutex
		after   *mmapfs.MemFS // the file system as the crash left it
		must    uint64
		may     uint64
		ops     int
		crashAt = 1 + rng.IntN(600)
		// Of the crash alone: it happens on whichever goroutine gets there.
		crashRNG = rand.New(rand.NewPCG(rng.Uint64(), 6))
	)
	crash := func() {
		// Read in this order: a write that ends in between may be counted as one
		// that need not survive, never the other way round.
		must = synced.Load()
		after = mem.Crash(crashRNG)
		may = started.Load()
	}
	fault := mmapfs.NewFault(mem)
	fault.SetHook(func(op mmapfs.Op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops == crashAt {
			crash()
		}
		return nil
	})
	mode := []WALWriteMode{WALMapped, WALWrite}[rng.IntN(2)]
	alwaysSync := rng.IntN(2) == 0
	synced.Store(at)
	started.Store(at)
	o := crashOptions(fault, mode)
	o.AvoidFlushDuringRecovery = rng.IntN(3) == 0
	db, err := Open("/db", o)
	if err != nil {
		return nil, 0, fmt.Errorf("Open: %w\n%s", err, describeCrash(mem))
	}
	if n, err := recoveredPrefix(db); err != nil || n != at {
		return nil, 0, fmt.Errorf("after Open: batch %d, want %d: %w", n, at, err)
	}
	var b Batch
	other := db.ColumnFamily("other")
	for i := at + 1; i <= at+60; i++ {
		b.Reset()
		crashBatch(i, &b, other)
		started.Store(i)
		sync := alwaysSync || rng.IntN(8) == 0
		if err := db.Write(&WriteOptions{Sync: sync}, &b); err != nil {
			return nil, 0, fmt.Errorf("Write: %w", err)
		}
		if sync {
			synced.Store(i)
		}
		switch rng.IntN(60) {
		case 0:
			err = db.Flush(context.Background(), nil)
		case 1:
			err = other.Flush(context.Background(), nil)
		case 2:
			err = db.CompactRange(context.Background(), nil, nil, nil)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	mu.Lock()
	if after == nil {
		crashAt = -1
		crash()
	}
	mu.Unlock()
	if err := db.Close(); err != nil {
		return nil, 0, fmt.Errorf("Close: %w", err)
	}

	o = crashOptions(after, mode)
	o.AvoidFlushDuringRecovery = rng.IntN(3) == 0
	db, err = Open("/db", o)
	if err != nil {
		return nil, 0, fmt.Errorf("Open after the crash: %w\n%s", err, describeCrash(after))
	}
	got, err := recoveredPrefix(db)
	if err != nil {
		return nil, 0, fmt.Errorf("after the crash: %w", err)
	}
	if got < must || got > may {
		return nil, 0, fmt.Errorf("after the crash the state is that of batch %d; %d were synced and %d begun", got, must, may)
	}
	if err := db.SyncWAL(); err != nil {
		return nil, 0, err
	}
	return after, got, db.Close()
}

// TestKilledProcess kills a writing process at random moments: no write that
// returned is lost, with the mapped and with the plain log.
func TestKilledProcess(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	for _, mode := range []WALWriteMode{WALMapped, WALWrite} {
		t.Run(fmt.Sprint("mode=", mode), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(uint64(mode), 3))
			for round := range rounds / 2 {
				acked := runAndKill(t, dir, mode, time.Duration(rng.IntN(120))*time.Millisecond)
				db, err := Open(dir, crashOptions(nil, mode))
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				got, err := recoveredPrefix(db)
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				if got < acked {
					t.Fatalf("round %d: batch %d was acknowledged, the state is that of %d", round, acked, got)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				if got > 4000 { // keep the model small
					if err := os.RemoveAll(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

const crashChildEnv = "FLATROCK_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(secondaryChildEnv); dir != "" {
		if err := secondaryChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if spec := os.Getenv(crashChildEnv); spec != "" {
		crashChild(spec)
		return
	}
	os.Exit(leaktest.Main(m))
}

// crashChild writes batches until it is killed, and says so for each that returned.
func crashChild(spec string) {
	mode, dir, _ := strings.Cut(spec, ":")
	n, _ := strconv.Atoi(mode)
	db, err := Open(dir, crashOptions(nil, WALWriteMode(n)))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	at, err := recoveredPrefix(db)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println("open", at)
	var b Batch
	other := db.ColumnFamily("other")
	for i := at + 1; ; i++ {
		b.Reset()
		crashBatch(i, &b, other)
		if err := db.Write(nil, &b); err != nil {
			fmt.Println("error", err)
			return
		}
		fmt.Println("done", i)
	}
}

func runAndKill(t *testing.T, dir string, mode WALWriteMode, after time.Duration) (acked uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", crashChildEnv, mode, dir))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var word string
		var n uint64
		fmt.Sscan(lines.Text(), &word, &n)
		switch word {
		case "open":
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		case "done":
			acked = n
		default:
			t.Fatalf("the writing process says: %s", lines.Text())
		}
	}
	io.Copy(io.Discard, out)
	cmd.Wait() // it was killed: that is not an error here
	return acked
}

// describeCrash says what a file system that failed to open holds.
func describeCrash(fsys *mmapfs.MemFS) string {
	var b strings.Builder
	names, _ := fsys.List("/db")
	for _, n := range names {
		info, _ := fsys.Stat("/db/" + n)
		fmt.Fprintf(&b, "%s %d\n", n, info.Size())
		if kind, number, ok := manifest.ParseName(n); ok && kind == manifest.KindLog {
			r, err := wal.Open(fsys, "/db/"+n, number, wal.PointInTimeRecovery)
			if err != nil {
				continue
			}
			for {
				batch, err := r.Next()
				if err != nil {
					fmt.Fprintf(&b, "   %v; %v\n", err, r.Reason())
					break
				}
				d := wal.Decode(batch)
				fmt.Fprintf(&b, "   %d..%d seq %d count %d\n", r.Offset(), r.End(), d.Sequence(), d.Count())
			}
			r.Close()
		}
	}
	cur, _ := manifest.ReadCurrent(fsys, "/db")
	manifest.ReadEdits(fsys, manifest.ManifestName("/db", cur), func(e *manifest.VersionEdit, off int64) error {
		e.Dump(&b)
		return nil
	})
	return b.String()
}

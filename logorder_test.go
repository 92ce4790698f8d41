package flatrock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// logOrder writes numbered keys to two families, without syncs, and looks at what crashes of the
// machine leave: whatever the MANIFEST says by then, the database opens with the first n of the writes.
type logOrder struct {
	t       *testing.T
	mem     *mmapfs.MemFS
	fault   *mmapfs.FaultFS
	options func(mmapfs.FS) *Options
	db      *DB
	other   *ColumnFamily
	n       int
	crashes int
}

func newLogOrder(t *testing.T, change func(*Options)) *logOrder {
	l := &logOrder{t: t, mem: mmapfs.NewMem(), crashes: 200}
	l.options = func(fsys mmapfs.FS) *Options {
		// Of the other family a single memtable is not flushed by itself.
		other := &ColumnFamilyOptions{MinWriteBufferNumberToMerge: 2, MaxWriteBufferNumber: 6, DisableAutoCompactions: true}
		o := &Options{
			FS: fsys, CreateIfMissing: true, CreateMissingColumnFamilies: true, WALWriteMode: WALWrite,
			ColumnFamily:   &ColumnFamilyOptions{DisableAutoCompactions: true},
			ColumnFamilies: []ColumnFamilyDescriptor{{"other", other}},
		}
		if change != nil {
			change(o)
		}
		return o
	}
	l.open()
	t.Cleanup(func() { l.db.Close() })
	return l
}

func (l *logOrder) open() {
	l.t.Helper()
	l.fault = mmapfs.NewFault(l.mem)
	db, err := Open("/db", l.options(l.fault))
	if err != nil {
		l.t.Fatal(err)
	}
	l.db, l.other = db, db.ColumnFamily("other")
}

// kill ends the process, not the machine, and opens again.
func (l *logOrder) kill() {
	l.t.Helper()
	mem := l.mem.Kill()
	if err := l.db.Close(); err != nil {
		l.t.Fatal(err)
	}
	l.mem = mem
	l.open()
}

// put makes the next write. The value makes the log long enough to be torn in many places.
func (l *logOrder) put(cf *ColumnFamily) {
	l.t.Helper()
	l.n++
	if err := cf.Put(nil, fmt.Appendf(nil, "%04d", l.n), []byte(strings.Repeat("v", 200))); err != nil {
		l.t.Fatal(err)
	}
}

// nextLog begins a log, and with it a memtable of the other family.
func (l *logOrder) nextLog() {
	l.t.Helper()
	before := l.db.wal.number
	var err error
	l.db.exclusive(func() { err = l.db.switchMemtables([]*ColumnFamily{l.other}, 0) })
	if err != nil || l.db.wal.number == before {
		l.t.Fatalf("no new log after %d: %v", before, err)
	}
}

// whenFilesAreWritten calls f once, when a flush has written its file and before the MANIFEST has it.
func (l *logOrder) whenFilesAreWritten(f func()) (called func() bool) {
	var mu sync.Mutex
	done, armed := false, true
	l.fault.SetHook(func(op mmapfs.Op, name string) error {
		mu.Lock()
		now := armed && op == mmapfs.OpSyncDir && name == "/db"
		if now {
			armed = false
		}
		mu.Unlock()
		if now {
			f()
			mu.Lock()
			done = true
			mu.Unlock()
		}
		return nil
	})
	return func() bool { mu.Lock(); defer mu.Unlock(); return done }
}

// check crashes the machine in many ways. It wants that some of them lost writes, and some none.
func (l *logOrder) check(also func(db *DB, n int) error) {
	l.t.Helper()
	lost, whole := 0, 0
	for seed := range uint64(l.crashes) {
		image := l.mem.Crash(rand.New(rand.NewPCG(seed, 1)))
		db, err := Open("/db", l.options(image))
		if err != nil {
			l.t.Fatalf("crash %d: %v\n%s", seed, err, describeCrash(image))
		}
		n, err := recoveredWrites(db, l.n)
		if err == nil && also != nil {
			err = also(db, n)
		}
		if err != nil {
			l.t.Fatalf("crash %d: %v\n%s", seed, err, describeCrash(image))
		}
		if n < l.n {
			lost++
		} else {
			whole++
		}
		if err := db.Close(); err != nil {
			l.t.Fatal(err)
		}
	}
	if lost == 0 || whole == 0 {
		l.t.Errorf("%d crashes lost writes, %d lost none: want some of both", lost, whole)
	}
}

// recoveredWrites returns how many of the first total writes db has, the first so many.
func recoveredWrites(db *DB, total int) (n int, err error) {
	for i := 1; i <= total; i++ {
		found := false
		for _, name := range []string{DefaultColumnFamilyName, "other"} {
			_, err := db.ColumnFamily(name).Get(nil, fmt.Appendf(nil, "%04d", i), nil)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return n, err
			}
			found = found || err == nil
		}
		switch {
		case found && n == i-1:
			n = i
		case found:
			return n, fmt.Errorf("write %d is there, and write %d is not", i, n+1)
		}
	}
	return n, nil
}

// A log may be closed while a flush is under way that depends on none of it: what the flush records
// must not make recovery think that the family's files are newer than what a crash takes from that log.
func TestLogsClosedDuringAFlushMayBeLost(t *testing.T) {
	for _, atomic := range []Toggle{Off, On} {
		t.Run(fmt.Sprint("AtomicFlush=", atomic == On), func(t *testing.T) {
			l := newLogOrder(t, func(o *Options) { o.AtomicFlush = atomic })
			l.put(l.db.defaultCF)
			l.put(l.other)
			called := l.whenFilesAreWritten(func() {
				l.db.mu.Lock()
				l.db.sched.paused++ // no flush after this one
				l.db.mu.Unlock()
				for range 3 {
					l.put(l.other)
					l.put(l.other)
					l.nextLog()
				}
				l.put(l.other)
			})
			if err := l.db.Flush(context.Background(), nil); err != nil || !called() {
				t.Fatal(err, called())
			}
			l.check(nil)
			l.db.liftPause()
		})
	}
}

// What a flush writes is not older than what another family has in logs of an earlier process.
func TestFlushesSyncTheLogsOfEarlierProcesses(t *testing.T) {
	for _, atomic := range []Toggle{Off, On} {
		t.Run(fmt.Sprint("AtomicFlush=", atomic == On), func(t *testing.T) {
			small := int64(0) // of the default family, for the replay
			l := newLogOrder(t, func(o *Options) {
				o.AtomicFlush, o.AvoidFlushDuringRecovery = atomic, true
				o.ColumnFamily.WriteBufferSize = small
			})
			l.crashes = 40
			for range 400 {
				l.put(l.other)
				l.put(l.db.defaultCF)
			}
			small = 64 << 10 // the replay makes memtables immutable, which are flushed once it is over
			l.kill()
			err := l.db.waitUntil(context.Background(), func() (bool, error) {
				cf := l.db.defaultCF
				return len(cf.immutables) == 0 && cf.files.version.NumFiles() > 0, l.db.background
			})
			if err != nil {
				t.Fatal(err)
			}
			l.put(l.other)
			l.check(nil)
		})
	}
}

// Logs of an earlier process, which are kept for one family, may be lost although another needs none of them.
func TestKeptLogsMayBeLost(t *testing.T) {
	l := newLogOrder(t, func(o *Options) { o.AvoidFlushDuringRecovery = true })
	l.put(l.db.defaultCF)
	if err := l.db.Flush(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l.put(l.other)
		l.put(l.other)
		l.nextLog()
	}
	l.put(l.other)
	l.kill()
	l.put(l.other)
	l.check(nil)
}

// The files of an imported family are there, after a crash, only with the writes before the import.
func TestImportsSyncTheLogs(t *testing.T) {
	l := newLogOrder(t, nil)
	ctx := context.Background()
	l.put(l.db.defaultCF)
	m, err := l.db.ExportColumnFamily(ctx, l.db.defaultCF, "/export")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		l.put(l.other)
		l.put(l.other)
		l.nextLog()
	}
	l.put(l.other)
	before := l.n
	if _, err := l.db.CreateColumnFamilyWithImport(ctx, "imported", nil, nil, m); err != nil {
		t.Fatal(err)
	}
	l.put(l.other)
	l.check(func(db *DB, n int) error {
		if cf := db.ColumnFamily("imported"); cf == nil || n < before {
			return fmt.Errorf("%d writes of %d before the import (family: %v)", n, before, cf != nil)
		}
		return nil
	})
}

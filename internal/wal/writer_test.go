package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// variants are the ways in which a log can be written.
var variants = map[string]WriterOptions{
	"mapped":            {Mode: Mapped},
	"mapped recyclable": {Mode: Mapped, Recyclable: true, Preallocate: 1},
	"mapped zstd":       {Mode: Mapped, Compression: ZSTD},
	"plain":             {Mode: Plain, Preallocate: -1},
	"plain ahead":       {Mode: Plain},
	"plain recyclable":  {Mode: Plain, Recyclable: true},
	"plain zstd":        {Mode: Plain, Compression: ZSTD, Recyclable: true},
}

// payload is the batch of record i; its bytes are made from i.
func payload(i, size int) []byte {
	var b Batch
	rng := rand.New(rand.NewPCG(uint64(i), 9))
	v := make([]byte, size+8)
	for j := 0; j < size; j += 8 {
		binary.LittleEndian.PutUint64(v[j:], rng.Uint64()&0x0f0f0f0f0f0f0f0f) // so that zstd has something to do
	}
	v = v[:size]
	b.Put(uint32(i%3), fmt.Appendf(nil, "key%06d", i), v)
	b.SetSequence(uint64(i + 1))
	return bytes.Clone(b.Bytes())
}

func readFile(t testing.TB, fsys mmapfs.FS, path string) []byte {
	t.Helper()
	f, err := fsys.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// records reads a log to its end, which must be clean or, in a lenient mode, torn.
func records(t testing.TB, fsys mmapfs.FS, path string, number uint64, mode RecoveryMode) [][]byte {
	t.Helper()
	r, err := Open(fsys, path, number, mode)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all [][]byte
	for {
		p, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("record %d: %v", len(all), err)
		}
		all = append(all, bytes.Clone(p))
	}
}

func sameRecords(t testing.TB, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("read %d records, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("record %d differs", i)
		}
	}
}

func fileSystems(t *testing.T) map[string]func() (mmapfs.FS, string) {
	return map[string]func() (mmapfs.FS, string){
		"os":     func() (mmapfs.FS, string) { return mmapfs.OS, t.TempDir() },
		"memory": func() (mmapfs.FS, string) { return mmapfs.NewMem(), "/" },
	}
}

func create(t testing.TB, fsys mmapfs.FS, path string, number uint64, o WriterOptions) *Writer {
	t.Helper()
	w, err := Create(fsys, path, number, o)
	if o.Mode == Mapped && errors.Is(err, mmapfs.ErrMapWriteUnsupported) {
		o.Mode = Auto // the file system of this test run cannot
		w, err = Create(fsys, path, number, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestLogsRoundTripInEveryVariant(t *testing.T) {
	sizes := []int{0, 10, 100, 32700, 32720, 32735, 33000, 70000, 300000, 5, 1 << 20, 7}
	for fsName, newFS := range fileSystems(t) {
		for name, o := range variants {
			t.Run(fsName+"/"+name, func(t *testing.T) {
				fsys, dir := newFS()
				path := filepath.Join(dir, "000012.log")
				w := create(t, fsys, path, 12, o)
				var want [][]byte
				for i := range 60 {
					p := payload(i, sizes[i%len(sizes)])
					if i%2 == 0 {
						p = payload(i, i)
					}
					cut := len(p) * (i % 5) / 4
					if err := w.Append(p[:12], p[12:max(cut, 12)], nil, p[max(cut, 12):]); err != nil {
						t.Fatal(err)
					}
					want = append(want, p)
					if i%20 == 7 {
						// As after a kill: the file may be longer than the log.
						sameRecords(t, records(t, fsys, path, 12, AbsoluteConsistency), want)
					}
				}
				if err := w.Sync(); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				sameRecords(t, records(t, fsys, path, 12, AbsoluteConsistency), want)
				file := readFile(t, fsys, path)
				if int64(len(file)) != w.Size() {
					t.Errorf("the file has %d bytes, Size says %d", len(file), w.Size())
				}
				if w.Number() != 12 || w.Err() == nil {
					t.Errorf("number %d, error after Close %v", w.Number(), w.Err())
				}
			})
		}
	}
}

// Mapped and plain logs are the same bytes.
func TestModesWriteTheSameBytes(t *testing.T) {
	for _, base := range []WriterOptions{{}, {Recyclable: true}, {Compression: ZSTD}} {
		var files [2][]byte
		for i, mode := range []WriteMode{Mapped, Plain} {
			fsys := mmapfs.NewMem()
			o := base
			o.Mode = mode
			w := create(t, fsys, "/1.log", 1, o)
			if w.Mapped() != (mode == Mapped) {
				t.Fatalf("mapped %v in mode %v", w.Mapped(), mode)
			}
			w.SetPredecessor(Predecessor{Number: 8, Size: 9, LastSeq: 10})
			for n := range 300 {
				if n == 100 {
					w.SetTimestampSizes(TimestampSize{1, 8}, TimestampSize{2, 0})
				}
				w.Append(payload(n, n*17))
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			files[i] = readFile(t, fsys, "/1.log")
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("%+v: the modes differ", base)
		}
	}
}

func TestFactsAboutTheLogAreRead(t *testing.T) {
	for _, recyclable := range []bool{false, true} {
		fsys := mmapfs.NewMem()
		w := create(t, fsys, "/5.log", 5, WriterOptions{Recyclable: recyclable, Compression: ZSTD})
		want := Predecessor{Number: 4, Size: 1 << 40, LastSeq: 99}
		if err := errors.Join(w.SetPredecessor(want), w.SetTimestampSizes(TimestampSize{3, 8}, TimestampSize{0, 0}),
			w.Append(payload(0, 10)), w.SetTimestampSizes(TimestampSize{3, 8}, TimestampSize{70000, 16}), w.Append(payload(1, 10)), w.Close()); err != nil {
			t.Fatal(err)
		}
		r, err := Open(fsys, "/5.log", 5, AbsoluteConsistency)
		if err != nil {
			t.Fatal(err)
		}
		for i, sizes := range []string{"[{3 8}]", "[{3 8} {70000 16}]"} {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.TimestampSizes()); got != sizes {
				t.Errorf("record %d: sizes %s, want %s", i, got, sizes)
			}
		}
		if p, ok := r.Predecessor(); !ok || p != want || !r.Compressed() {
			t.Errorf("predecessor %v %v, compressed %v", p, ok, r.Compressed())
		}
		if _, err := r.Next(); err != io.EOF {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Next(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestReusedFilesEndWithTheirNewRecords(t *testing.T) {
	for fsName, newFS := range fileSystems(t) {
		for _, mode := range []WriteMode{Mapped, Plain} {
			for _, recovery := range []RecoveryMode{TolerateCorruptedTailRecords, PointInTimeRecovery, SkipAnyCorruptedRecords} {
				t.Run(fmt.Sprint(fsName, mode, recovery), func(t *testing.T) {
					fsys, dir := newFS()
					old, path := filepath.Join(dir, "000007.log"), filepath.Join(dir, "000019.log")
					o := WriterOptions{Mode: mode, Recyclable: true}
					w := create(t, fsys, old, 7, o)
					for i := range 400 {
						w.Append(payload(i, 1000))
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					before := w.Size()
					o.ReuseFile = old
					w = create(t, fsys, path, 19, o)
					var want [][]byte
					for i := range 100 {
						p := payload(1000+i, i*20)
						if err := w.Append(p); err != nil {
							t.Fatal(err)
						}
						want = append(want, p)
						if i%9 == 0 { // a crash here leaves old records behind the end
							r := NewReader(bytes.NewReader(readFile(t, fsys, path)), "000019.log", 19, recovery)
							for n := 0; ; n++ {
								p, err := r.Next()
								if err != nil {
									if n != len(want) || err != io.EOF && (recovery != PointInTimeRecovery || !errors.Is(err, keys.ErrCorruption)) {
										t.Fatalf("%d records, then %v; want %d", n, err, len(want))
									}
									break
								}
								if n == len(want) || !bytes.Equal(p, want[n]) {
									t.Fatalf("record %d of %d is an old one", n, len(want))
								}
							}
						}
					}
					if len(readFile(t, fsys, path)) < int(before) {
						t.Error("the reused file was cut before Close")
					}
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					sameRecords(t, records(t, fsys, path, 19, AbsoluteConsistency), want)
					if _, err := fsys.Open(old); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("the old name: %v", err)
					}
				})
			}
		}
	}
}

func TestCreateRefusesWhatItCannotDo(t *testing.T) {
	fsys := mmapfs.NewMem()
	if _, err := Create(fsys, "/1.log", 1, WriterOptions{ReuseFile: "/0.log"}); err == nil {
		t.Error("reusing a file without log numbers was allowed")
	}
	if _, err := Create(fsys, "/1.log", 1, WriterOptions{Compression: 4}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("LZ4: %v", err)
	}
	if _, err := Create(fsys, "/none/1.log", 1, WriterOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := Create(fsys, "/1.log", 1, WriterOptions{Recyclable: true, ReuseFile: "/0.log"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file to reuse: %v", err)
	}
}

// plainOnly is a file system without writable mappings.
type plainOnly struct{ mmapfs.FS }

type plainFile struct{ mmapfs.File }

func (p plainOnly) Create(name string) (mmapfs.File, error) {
	f, err := p.FS.Create(name)
	return plainFile{f}, err
}

func (plainFile) MapWrite(int64, int64) (*mmapfs.WriteMapping, error) {
	return nil, mmapfs.ErrMapWriteUnsupported
}

func TestAutoFallsBackToPlain(t *testing.T) {
	fsys := plainOnly{mmapfs.NewMem()}
	if _, err := Create(fsys, "/1.log", 1, WriterOptions{Mode: Mapped}); !errors.Is(err, mmapfs.ErrMapWriteUnsupported) {
		t.Errorf("mapped: %v", err)
	}
	w := create(t, fsys, "/1.log", 1, WriterOptions{})
	if w.Mapped() {
		t.Error("mapped")
	}
	if err := errors.Join(w.Append(payload(0, 5)), w.Close()); err != nil {
		t.Error(err)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	for _, mode := range []WriteMode{Mapped, Plain} {
		w := create(t, mmapfs.OS, filepath.Join(t.TempDir(), "1.log"), 1, WriterOptions{Mode: mode})
		head, body := make([]byte, 12), make([]byte, 128)
		w.Append(head, body)
		if n := testing.AllocsPerRun(500, func() { w.Append(head, body) }); n != 0 {
			t.Errorf("mode %v: %v allocations", mode, n)
		}
		w.Close()
	}
}

func TestSyncMayRunBesideAppend(t *testing.T) {
	for name, o := range variants {
		path := filepath.Join(t.TempDir(), "1.log")
		w := create(t, mmapfs.OS, path, 1, o)
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						if err := w.Sync(); err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
					}
				}
			})
		}
		var want [][]byte
		for i := range 500 {
			p := payload(i, 2000)
			if err := w.Append(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
		}
		close(stop)
		wg.Wait()
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("sync after close: %v", err)
		}
		if err := w.Append(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("append after close: %v", err)
		}
		if err := w.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("close after close: %v", err)
		}
		sameRecords(t, records(t, mmapfs.OS, path, 1, AbsoluteConsistency), want)
	}
}

// A crash of the machine keeps what was synced, and recovers to a prefix.
func TestSyncedRecordsSurviveTheMachine(t *testing.T) {
	for name, o := range variants {
		for seed := range uint64(40) {
			rng := rand.New(rand.NewPCG(seed, 77))
			mem := mmapfs.NewMem()
			if seed%2 == 1 && o.Recyclable {
				old := create(t, mem, "/000001.log", 1, WriterOptions{Recyclable: true, Mode: Plain})
				for i := range 100 {
					old.Append(payload(5000+i, rng.IntN(3000)))
				}
				old.Sync()
				old.Close()
				o.ReuseFile = "/000001.log"
			} else {
				o.ReuseFile = ""
			}
			w := create(t, mem, "/000002.log", 2, o)
			mem.SyncDir("/")
			synced, n := 0, rng.IntN(120)
			for i := range n {
				if err := w.Append(payload(i, rng.IntN(3000))); err != nil {
					t.Fatal(err)
				}
				if rng.IntN(20) == 0 {
					if err := w.Sync(); err != nil {
						t.Fatal(err)
					}
					synced = i + 1
				}
			}
			crashed := mem.Crash(rng)
			w.Close()
			got := 0
			r := NewReplayer(ReplayOptions{FS: crashed, Mode: PointInTimeRecovery, Apply: func(_, seq uint64, op *Op) error {
				if want := fmt.Sprintf("key%06d", got); seq != uint64(got+1) || string(op.Key) != want {
					return fmt.Errorf("met %s with number %d, want %s", op.Key, seq, want)
				}
				got++
				return nil
			}})
			if err := r.Replay(LogFile{2, "/000002.log"}); err != nil {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
			if got < synced || got > n {
				t.Fatalf("%s, seed %d: %d records of %d recovered, %d were synced; stopped %+v", name, seed, got, n, synced, r.Stopped())
			}
		}
	}
}

// A kill of the process keeps what was appended, in every mode of recovery, and
// whatever was half appended is the end.
func TestAppendedRecordsSurviveTheProcess(t *testing.T) {
	for name, o := range variants {
		mem := mmapfs.NewMem()
		faulty := mmapfs.NewFault(mem)
		w := create(t, faulty, "/000002.log", 2, o)
		var appended [][]byte
		// Kill at every file operation of the appends.
		faulty.SetHook(func(op mmapfs.Op, _ string) error {
			if op&(mmapfs.OpWrite|mmapfs.OpMappedWrite) == 0 || len(appended)%7 != 0 {
				return nil
			}
			killed := mem.Kill()
			for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
				n := 0
				r := NewReplayer(ReplayOptions{FS: killed, Mode: mode, Apply: func(_, seq uint64, op *Op) error { n++; return nil }})
				err := r.Replay(LogFile{2, "/000002.log"})
				// A record over several blocks may be half there: that is
				// damage by the rules of the strict mode.
				if err != nil && mode != AbsoluteConsistency {
					t.Errorf("%s, %v: %v", name, mode, err)
				}
				if n != len(appended) {
					t.Errorf("%s, %v: %d records recovered, %d were appended", name, mode, n, len(appended))
				}
			}
			return nil
		})
		for i := range 120 {
			p := payload(i, i*i%70000)
			if err := w.Append(p); err != nil {
				t.Fatal(err)
			}
			appended = append(appended, p)
		}
		faulty.SetHook(nil)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every file operation of a log fails once: the error comes back from the call
// that needed it and from all later ones, and what was acknowledged is there.
// Reserving ahead may fail without harm: it is tried again when it is needed.
func TestEveryFaultIsStickyAndLosesNothing(t *testing.T) {
	const hints = mmapfs.OpMapWrite | mmapfs.OpPreallocate
	for name, o := range variants {
		for _, ops := range []mmapfs.Op{(mmapfs.OpMutate | mmapfs.OpClose) &^ hints, hints} {
			for n := 1; ; n++ {
				mem := mmapfs.NewMem()
				faulty := mmapfs.NewFault(mem)
				faulty.FailNth(n, ops, true)
				appended, err := faultyRun(t, faulty, o)
				if faulty.Injected() == 0 {
					if err != nil {
						t.Fatalf("%s: %v without a fault", name, err)
					}
					break
				}
				if err == nil && ops != hints {
					t.Errorf("%s, operation %d: the fault was swallowed", name, n)
				}
				if err != nil && !errors.Is(err, mmapfs.ErrInjected) {
					t.Errorf("%s, operation %d: %v", name, n, err)
				}
				if len(appended) == 0 {
					continue
				}
				got := records(t, mem, "/000003.log", 3, TolerateCorruptedTailRecords)
				if len(got) < len(appended) {
					t.Fatalf("%s, operation %d: %d records left, %d acknowledged", name, n, len(got), len(appended))
				}
				sameRecords(t, got[:len(appended)], appended)
			}
		}
	}
}

func faultyRun(t *testing.T, fsys mmapfs.FS, o WriterOptions) (appended [][]byte, err error) {
	w, err := Create(fsys, "/000003.log", 3, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := w.Close(); err == nil {
			err = closeErr
		}
	}()
	for i := range 30 {
		p := payload(i, 12000)
		if err := w.Append(p); err != nil {
			if w.Append(p) == nil || w.Sync() == nil || w.SetPredecessor(Predecessor{}) == nil || w.Err() == nil {
				t.Error("a call behind a failed append succeeded")
			}
			return appended, err
		}
		appended = append(appended, p)
		if i%10 == 5 {
			if err := w.Sync(); err != nil {
				if w.Append(p) == nil || w.Sync() == nil {
					t.Error("a call behind a failed sync succeeded")
				}
				return appended, err
			}
		}
	}
	return appended, nil
}

func TestFullDiskIsAnErrorOfAppend(t *testing.T) {
	for name, o := range variants {
		for _, room := range []int64{100 << 10, 400 << 10, 1500 << 10} {
			mem := mmapfs.NewMem()
			faulty := mmapfs.NewFault(mem)
			faulty.FailWritesAfter(room)
			w, err := Create(faulty, "/000003.log", 3, o)
			if err != nil {
				t.Fatalf("%s, room for %d: %v", name, room, err)
			}
			var appended [][]byte
			for i := 0; ; i++ {
				p := payload(i, 5000)
				if err = w.Append(p); err != nil {
					break
				}
				appended = append(appended, p)
			}
			if !mmapfs.IsNoSpace(err) || w.Append(nil) == nil {
				t.Errorf("%s: %v", name, err)
			}
			size := w.Size()
			if used := room - size; used > chunkAlign+record.BlockSize {
				t.Errorf("%s: %d of %d bytes were left unused", name, used, room)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			sameRecords(t, records(t, mem, "/000003.log", 3, AbsoluteConsistency), appended)
		}
	}
}

func TestCompressedRecordsAreFramesWithAChecksum(t *testing.T) {
	fsys := mmapfs.NewMem()
	w := create(t, fsys, "/1.log", 1, WriterOptions{Compression: ZSTD})
	p := append(payload(0, 100), make([]byte, 4000)...)
	if err := errors.Join(w.Append(p[:12], p[12:]), w.Append(), w.Close()); err != nil {
		t.Fatal(err)
	}
	file := readFile(t, fsys, "/1.log")
	if !bytes.HasPrefix(file, unhex(t, "e12c08f80400 09 07000000")) {
		t.Errorf("begins %x", file[:11])
	}
	frame := file[18:]
	if binary.LittleEndian.Uint32(frame) != 0xfd2fb528 || frame[4]&4 == 0 {
		t.Errorf("the frame begins %x", frame[:5])
	}
	if !bytes.HasSuffix(file, unhex(t, "052b2843000001")) {
		t.Error("an empty record has a payload")
	}
	if len(file) > len(p) {
		t.Errorf("%d bytes became %d", len(p), len(file))
	}
}

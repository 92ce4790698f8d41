package wal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/record"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// logs builds log files in memory, and replays them.
type logs struct {
	t  *testing.T
	fs *mmapfs.MemFS
}

func newLogs(t *testing.T) logs { return logs{t, mmapfs.NewMem()} }

func (l logs) path(number uint64) string { return fmt.Sprintf("/%06d.log", number) }

// put writes a log with one record a key; sequence numbers from seq on.
func (l logs) put(number, seq uint64, keys ...string) {
	w := create(l.t, l.fs, l.path(number), number, WriterOptions{Mode: Plain})
	for i, k := range keys {
		var b Batch
		b.Put(0, []byte(k), nil)
		b.SetSequence(seq + uint64(i))
		if err := w.Append(b.Bytes()); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		l.t.Fatal(err)
	}
}

func (l logs) write(number uint64, batches ...*Batch) {
	w := create(l.t, l.fs, l.path(number), number, WriterOptions{Mode: Plain})
	for _, b := range batches {
		if err := w.Append(b.Bytes()); err != nil {
			l.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		l.t.Fatal(err)
	}
}

// edit changes the bytes of a log.
func (l logs) edit(number uint64, change func([]byte) []byte) {
	b := change(readFile(l.t, l.fs, l.path(number)))
	f, err := l.fs.Create(l.path(number))
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := f.Write(b); err != nil {
		l.t.Fatal(err)
	}
	f.Close()
}

func (l logs) files(numbers ...uint64) (files []LogFile) {
	for _, n := range numbers {
		files = append(files, LogFile{n, l.path(n)})
	}
	return files
}

// replay lists what is applied as key@seq/log.
func (l logs) replay(o ReplayOptions, numbers ...uint64) (string, *Replayer, error) {
	var applied []string
	o.FS = l.fs
	o.Apply = func(log, seq uint64, op *Op) error {
		applied = append(applied, fmt.Sprintf("%s@%d/%d", op.Key, seq, log))
		return nil
	}
	r := NewReplayer(o)
	err := r.Replay(l.files(numbers...)...)
	return strings.Join(applied, " "), r, err
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 1; return b }
}

func TestPointInTimeResumesWhereTheNumbersGoOn(t *testing.T) {
	l := newLogs(t)
	l.put(4, 1, "a", "b", "c")
	l.edit(4, flip(40)) // in b's batch
	l.put(5, 3, "lost")
	l.put(6, 2, "d", "e") // opened after the damage, and written
	l.put(7, 4, "f")

	got, r, err := l.replay(ReplayOptions{Mode: PointInTimeRecovery}, 4, 5)
	if err != nil || got != "a@1/4" || r.Stopped() == nil || r.Stopped().Log != 4 {
		t.Errorf("stopped: %q, %+v, %v", got, r.Stopped(), err)
	}
	if r.Damaged() == 0 || !errors.Is(r.Stopped().Reason, keys.ErrCorruption) {
		t.Errorf("damage %d, reason %v", r.Damaged(), r.Stopped().Reason)
	}
	got, r, err = l.replay(ReplayOptions{Mode: PointInTimeRecovery}, 4, 5, 6, 7)
	if err != nil || got != "a@1/4 d@2/6 e@3/6 f@4/7" || r.Stopped() != nil {
		t.Errorf("resumed: %q, %+v, %v", got, r.Stopped(), err)
	}
	if r.Records() != 4 {
		t.Errorf("%d records", r.Records())
	}
}

func TestPointInTimeDoesNotResumeFromNothing(t *testing.T) {
	l := newLogs(t)
	l.put(4, 1, "a")
	l.edit(4, flip(20))
	l.put(5, 1, "b")
	if got, r, err := l.replay(ReplayOptions{Mode: PointInTimeRecovery}, 4, 5); err != nil || got != "" || r.Stopped() == nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOtherModesAcrossLogs(t *testing.T) {
	l := newLogs(t)
	l.put(4, 1, "a", "b")
	l.edit(4, func(b []byte) []byte { return b[:len(b)-1] })
	l.put(5, 3, "c")
	for mode, want := range map[RecoveryMode]string{
		TolerateCorruptedTailRecords: "a@1/4 c@3/5 <nil>",
		AbsoluteConsistency:          "a@1/4 corruption: 000004.log at offset 23: truncated record body: expected at most 15 bytes of data, found length 16",
		PointInTimeRecovery:          "a@1/4 <nil>",
		SkipAnyCorruptedRecords:      "a@1/4 c@3/5 <nil>",
	} {
		got, _, err := l.replay(ReplayOptions{Mode: mode}, 4, 5)
		if got := fmt.Sprintf("%s %v", got, err); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
	}
}

func TestBatchesWithAWrongCountAreDamage(t *testing.T) {
	l := newLogs(t)
	f := record.NewFramer(4, false)
	var file []byte
	for i := range 3 {
		var b Batch
		b.Put(0, []byte{'a' + byte(i)}, nil)
		b.SetSequence(uint64(i + 1))
		rep := b.Bytes()
		if i == 1 {
			rep[8] = 9
		}
		file = f.AppendRecord(file, rep)
	}
	file = f.AppendRecord(file, []byte("small"))
	l.put(4, 1)
	l.edit(4, func([]byte) []byte { return file })
	for mode, want := range map[RecoveryMode]string{
		TolerateCorruptedTailRecords: "a@1/4 true",
		AbsoluteConsistency:          "a@1/4 true",
		PointInTimeRecovery:          "a@1/4 false",
		SkipAnyCorruptedRecords:      "a@1/4 c@3/4 false",
	} {
		got, r, err := l.replay(ReplayOptions{Mode: mode}, 4)
		if err != nil && (!errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "000004.log at offset 23: batch, offset 8: WriteBatch has wrong count")) {
			t.Errorf("%v: %v", mode, err)
		}
		if got := fmt.Sprintf("%s %v", got, err != nil); got != want {
			t.Errorf("%v: %s, want %s", mode, got, want)
		}
		if mode == SkipAnyCorruptedRecords && r.Damaged() != 2 {
			t.Errorf("damaged %d, want the count and the short record", r.Damaged())
		}
	}
}

// A crash of the machine may lose a page in the middle of a mapped log.
func TestAHoleInALogIsNotSteppedOver(t *testing.T) {
	l := newLogs(t)
	var batches []*Batch
	for i := range 30 {
		b := &Batch{}
		b.Put(0, fmt.Appendf(nil, "k%d", i), make([]byte, 4000))
		b.SetSequence(uint64(i + 1))
		batches = append(batches, b)
	}
	l.write(4, batches...)
	hole := func(from int) func(b []byte) []byte {
		return func(b []byte) []byte { clear(b[from:record.BlockSize]); return b }
	}
	end := 3 * (record.HeaderSize + batches[0].Size()) // of the third record
	l.edit(4, hole(end))
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		got, r, err := l.replay(ReplayOptions{Mode: mode}, 4)
		n := len(strings.Fields(got))
		switch mode {
		case SkipAnyCorruptedRecords:
			if n < 20 || err != nil {
				t.Errorf("%v: %d records, %v", mode, n, err)
			}
		case PointInTimeRecovery:
			if n != 3 || err != nil || r.Stopped() == nil {
				t.Errorf("%v: %d records, %v", mode, n, err)
			}
		default:
			if n != 3 || !errors.Is(err, keys.ErrCorruption) {
				t.Errorf("%v: %d records, %v", mode, n, err)
			}
		}
	}
	l.edit(4, hole(0))
	if got, r, err := l.replay(ReplayOptions{Mode: PointInTimeRecovery}, 4); got != "" || err != nil || r.Stopped() == nil {
		t.Errorf("the first block is lost: %.40q, %v", got, err)
	}
	// Zeros that nothing is missing behind are no hole.
	l.write(5, batches[:3]...)
	l.write(6, batches[3:]...)
	rest := readFile(t, l.fs, l.path(6))
	l.edit(5, func(b []byte) []byte {
		return append(append(b, make([]byte, record.BlockSize-len(b))...), rest...)
	})
	if got, _, err := l.replay(ReplayOptions{Mode: AbsoluteConsistency}, 5); len(strings.Fields(got)) != 30 || err != nil {
		t.Errorf("%d records, %v", len(strings.Fields(got)), err)
	}
}

func TestRecycledLogsGoOnInTheNext(t *testing.T) {
	l := newLogs(t)
	old := record.NewFramer(3, true)
	recycled := record.NewFramer(4, true)
	var file []byte
	var b Batch
	b.Put(0, []byte("a"), nil)
	b.SetSequence(7)
	file = recycled.AppendRecord(file, b.Bytes())
	file = old.AppendRecord(file, b.Bytes())
	l.put(4, 1)
	l.edit(4, func([]byte) []byte { return file })
	l.put(5, 8, "b")
	l.put(6, 10, "gap")
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		got, r, err := l.replay(ReplayOptions{Mode: mode}, 4, 5)
		if got != "a@7/4 b@8/5" || err != nil || r.Stopped() != nil {
			t.Errorf("%v: %q, %v", mode, got, err)
		}
	}
	// The end of a recycled log may be a loss: what follows must fit.
	if got, r, err := l.replay(ReplayOptions{Mode: PointInTimeRecovery}, 4, 6); got != "a@7/4" || err != nil || r.Stopped() == nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, _, err := l.replay(ReplayOptions{Mode: TolerateCorruptedTailRecords}, 4, 6); got != "a@7/4 gap@10/6" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestErrorsOfFilesAndOfApplyEndEveryMode(t *testing.T) {
	boom := errors.New("boom")
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		l := newLogs(t)
		l.put(4, 1, "a", "b")
		r := NewReplayer(ReplayOptions{FS: l.fs, Mode: mode, Apply: func(uint64, uint64, *Op) error { return boom }})
		if err := r.Replay(l.files(4)...); err != boom {
			t.Errorf("apply: %v", err)
		}
		faulty := mmapfs.NewFault(l.fs)
		for _, op := range []mmapfs.Op{mmapfs.OpOpen, mmapfs.OpRead, mmapfs.OpClose} {
			faulty.FailNth(1, op, true)
			r = NewReplayer(ReplayOptions{FS: faulty, Mode: mode, Apply: func(uint64, uint64, *Op) error { return nil }})
			if err := r.Replay(l.files(4)...); !errors.Is(err, mmapfs.ErrInjected) {
				t.Errorf("%v, %v: %v", mode, op, err)
			}
		}
	}
}

func TestReplayTellsWhatIsNotAnOperation(t *testing.T) {
	l := newLogs(t)
	w := create(t, l.fs, l.path(4), 4, WriterOptions{Mode: Plain})
	var b Batch
	b.LogData([]byte("note"))
	b.Put(0, []byte("a"), nil)
	b.SetSequence(5)
	if err := errors.Join(w.SetTimestampSizes(TimestampSize{2, 8}), w.Append(b.Bytes()), w.Close()); err != nil {
		t.Fatal(err)
	}
	var told []string
	_, _, err := l.replay(ReplayOptions{
		EndBatch: func(log, next uint64) error { told = append(told, fmt.Sprintf("end %d %d", log, next)); return nil },
		LogData: func(log uint64, blob []byte) error {
			told = append(told, fmt.Sprintf("data %d %s", log, blob))
			return nil
		},
		Timestamps: func(log uint64, sizes []TimestampSize) error {
			told = append(told, fmt.Sprintf("sizes %d %v", log, sizes))
			return nil
		},
	}, 4)
	if got := strings.Join(told, "; "); got != "sizes 4 [{2 8}]; data 4 note; end 4 6" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func prepare(seq uint64, xid string, names ...string) *Batch {
	var b Batch
	b.BeginPrepare()
	for _, k := range names {
		b.Put(0, []byte(k), nil)
	}
	b.EndPrepare([]byte(xid))
	b.SetSequence(seq)
	return &b
}

func marker(seq uint64, mark func(b *Batch)) *Batch {
	var b Batch
	mark(&b)
	b.SetSequence(seq)
	return &b
}

func TestTransactionsTakeNumbersAtTheirCommit(t *testing.T) {
	l := newLogs(t)
	l.write(4,
		marker(1, func(b *Batch) { b.Put(0, []byte("a"), nil) }),
		prepare(2, "one", "x1", "x2"),
		prepare(2, "two", "y1"),
		prepare(2, "three", "z1"),
		marker(2, func(b *Batch) { b.Rollback([]byte("two")) }),
		marker(2, func(b *Batch) { b.Commit([]byte("gone")) }), // its section's log is obsolete
		marker(2, func(b *Batch) { b.Put(0, []byte("b"), nil) }))
	l.write(5, marker(3, func(b *Batch) {
		b.Put(0, []byte("c"), nil) // a commit-time batch
		b.Commit([]byte("one"))
		b.Put(0, []byte("d"), nil)
	}))
	got, r, err := l.replay(ReplayOptions{Mode: AbsoluteConsistency}, 4, 5)
	if want := "a@1/4 b@2/4 c@3/5 x1@4/5 x2@5/5 d@6/5"; got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if next, _ := r.NextSeq(); next != 7 {
		t.Errorf("next %d", next)
	}
	if open := r.Prepared(); len(open) != 1 || string(open[0].XID) != "three" || r.txns.String() != `"three"` {
		t.Errorf("open: %v", &r.txns)
	}
}

func TestPreparedTwiceIsDamage(t *testing.T) {
	l := newLogs(t)
	l.write(4, prepare(1, "one", "x"), prepare(1, "one", "y"))
	if _, _, err := l.replay(ReplayOptions{}, 4); !errors.Is(err, keys.ErrCorruption) || !strings.Contains(err.Error(), "000004.log") {
		t.Error(err)
	}
}

func TestOtherWritePoliciesAreRefused(t *testing.T) {
	for _, tag := range []byte{0x12, 0x13} {
		l := newLogs(t)
		p := prepare(1, "one", "x")
		p.Bytes()[HeaderLen] = tag
		l.write(4, p)
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			if _, _, err := l.replay(ReplayOptions{Mode: mode}, 4); !errors.Is(err, ErrUnsupported) {
				t.Errorf("tag %#x, %v: %v", tag, mode, err)
			}
		}
	}
}

func TestCommitTimestampsAreStampedIntoKeys(t *testing.T) {
	l := newLogs(t)
	var p Batch
	p.BeginPrepare()
	p.Put(1, []byte("key--------"), nil)
	p.Put(0, []byte("plain"), nil)
	p.EndPrepare([]byte("x"))
	p.SetSequence(1)
	var c Batch
	c.SetSequence(1)
	c.rep = append(c.Bytes(), unhex(t, "15 08 3132333435363738 01 78")...)
	l.write(4, &p, &c)
	size := func(cf uint32) int { return 8 * int(cf) }
	if got, _, err := l.replay(ReplayOptions{TimestampSize: size}, 4); got != "key12345678@1/4 plain@2/4" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, _, err := l.replay(ReplayOptions{}, 4); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without sizes: %v", err)
	}
	size = func(cf uint32) int { return 9 * int(cf) }
	if _, _, err := l.replay(ReplayOptions{TimestampSize: size}, 4); !errors.Is(err, keys.ErrCorruption) {
		t.Errorf("another size: %v", err)
	}
}

func TestLogsOfAnotherCompressionAreRefused(t *testing.T) {
	meta := func(change func(f *record.Framer) []byte) error {
		f := record.NewFramer(4, false)
		r := NewReader(bytes.NewReader(change(&f)), "4.log", 4, SkipAnyCorruptedRecords)
		for {
			if _, err := r.Next(); err != nil {
				if r.Reports() > 0 {
					return fmt.Errorf("%d reports", r.Reports())
				}
				return err
			}
		}
	}
	if err := meta(func(f *record.Framer) []byte { return f.AppendMeta(nil, record.SetCompression, []byte{4, 0, 0, 0}) }); !errors.Is(err, ErrUnsupported) {
		t.Errorf("LZ4: %v", err)
	}
	none := []byte{0, 0, 0, 0}
	for name, change := range map[string]func(f *record.Framer) []byte{
		"twice": func(f *record.Framer) []byte {
			return f.AppendMeta(f.AppendMeta(nil, record.SetCompression, none), record.SetCompression, none)
		},
		"late": func(f *record.Framer) []byte {
			return f.AppendMeta(f.AppendRecord(nil, payload(0, 1)), record.SetCompression, none)
		},
		"short":       func(f *record.Framer) []byte { return f.AppendMeta(nil, record.SetCompression, none[:3]) },
		"sizes, odd":  func(f *record.Framer) []byte { return f.AppendMeta(nil, record.TimestampSizes, none) },
		"sizes, zero": func(f *record.Framer) []byte { return f.AppendMeta(nil, record.TimestampSizes, make([]byte, 6)) },
		"sizes, two answers": func(f *record.Framer) []byte {
			return f.AppendMeta(nil, record.TimestampSizes, unhex(t, "010000000800 010000001000"))
		},
		"predecessor": func(f *record.Framer) []byte { return f.AppendMeta(nil, record.PredecessorInfo, none) },
		"no frame": func(f *record.Framer) []byte {
			return f.AppendRecord(f.AppendMeta(nil, record.SetCompression, []byte{7, 0, 0, 0}), payload(0, 1))
		},
	} {
		if err := meta(change); err == nil || err.Error() != "1 reports" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecoveryModesHaveRocksDBsNames(t *testing.T) {
	for m := TolerateCorruptedTailRecords; m <= SkipAnyCorruptedRecords; m++ {
		if got, err := ParseRecoveryMode(m.String()); got != m || err != nil {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseRecoveryMode("kOther"); err == nil {
		t.Error("another name is a mode")
	}
	if PointInTimeRecovery != 2 || SkipAnyCorruptedRecords.String() != "kSkipAnyCorruptedRecords" {
		t.Error("the numbers differ from RocksDB's")
	}
}

// FuzzReplay replays anything in every mode, and then what it was told as a new log.
func FuzzReplay(f *testing.F) {
	f.Add(golden(f, "d17_2pc/db/000004.log"), uint64(4))
	f.Add(golden(f, "d10_recycled_wal/db/000017.log"), uint64(17))
	f.Add(golden(f, "d09_wal_zstd/db/000010.log")[:1500], uint64(10))
	f.Add(golden(f, "d05_deleterange/db/000013.log"), uint64(13))
	f.Add(golden(f, "d18_wide_columns/db/000010.log"), uint64(10))
	f.Fuzz(func(t *testing.T, file []byte, number uint64) {
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			last := uint64(0)
			r := NewReplayer(ReplayOptions{Mode: mode, Apply: func(log, seq uint64, op *Op) error {
				if log != number || !op.Counts() || seq > keys.MaxSeq {
					t.Fatalf("applied %+v with number %d in log %d", op, seq, log)
				}
				last = seq
				return nil
			}})
			rd := NewReader(bytes.NewReader(file), "fuzz.log", number, mode)
			err := r.replay(rd, number)
			if err != nil && !errors.Is(err, keys.ErrCorruption) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("%v: %v", mode, err)
			}
			if mode == PointInTimeRecovery && errors.Is(err, keys.ErrCorruption) && !strings.Contains(err.Error(), "prepared") && !strings.Contains(err.Error(), "sequence numbers") {
				t.Fatalf("%v: %v", mode, err)
			}
			if next, ok := r.NextSeq(); ok && err == nil && next < last {
				t.Fatalf("next %d, last %d", next, last)
			}
			rd.Close()
		}
	})
}

// FuzzDecompress reads compressed records of any bytes.
func FuzzDecompress(f *testing.F) {
	z, err := newCompressor(ZSTD)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(z.compress([][]byte{payload(0, 3000)})))
	f.Add(unhex(f, "28b52ffd 24 19 c90000 3d00000000000000 01000000 00 0b 6b3032312f343539333032"))
	file := golden(f, "d09_wal_zstd/db/000010.log")
	f.Add(file[18 : 18+38])
	f.Fuzz(func(t *testing.T, frame []byte) {
		d, err := newDecompressor(0)
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		plain, err := d.decompress(frame)
		if err != nil {
			return
		}
		plain = bytes.Clone(plain)
		again, err := d.decompress(z.compress([][]byte{plain}))
		if err != nil || !bytes.Equal(plain, again) {
			t.Fatalf("%d bytes came back as %d, %v", len(plain), len(again), err)
		}
	})
}

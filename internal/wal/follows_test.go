package wal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// pair writes log 4 with two records and log 5 that follows it.
func pair(t *testing.T) logs {
	l := newLogs(t)
	l.put(4, 1, "a", "b")
	size := int64(len(readFile(t, l.fs, l.path(4))))
	w := create(t, l.fs, l.path(5), 5, WriterOptions{})
	var b Batch
	b.Put(0, []byte("c"), nil)
	b.SetSequence(3)
	if err := errors.Join(w.AppendFollows(3, Follows{Number: 4, Size: size}), w.Append(b.Bytes()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALogThatFollowsAWholeLogIsReplayed(t *testing.T) {
	l := pair(t)
	for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
		got, r, err := l.replay(ReplayOptions{Mode: mode, Oldest: 4}, 4, 5)
		if got != "a@1/4 b@2/4 c@3/5" || err != nil || r.Stopped() != nil {
			t.Errorf("%v: %q, %v", mode, got, err)
		}
	}
}

// A crash of the machine may take the end of one log and leave the next.
func TestALogThatFollowsALostEndIsNot(t *testing.T) {
	for name, numbers := range map[string][]uint64{"end lost": {4, 5}, "log lost": {5}} {
		l := pair(t)
		l.edit(4, func(b []byte) []byte { return b[:len(b)/2] })
		for mode := TolerateCorruptedTailRecords; mode <= SkipAnyCorruptedRecords; mode++ {
			got, r, err := l.replay(ReplayOptions{Mode: mode, Oldest: 4}, numbers...)
			switch mode {
			case SkipAnyCorruptedRecords:
				if !strings.HasSuffix(got, "c@3/5") || err != nil {
					t.Errorf("%s, %v: %q, %v", name, mode, got, err)
				}
			case PointInTimeRecovery:
				if strings.Contains(got, "c") || err != nil || r.Stopped() == nil || r.Stopped().Log != 4 {
					t.Errorf("%s, %v: %q, %+v, %v", name, mode, got, r.Stopped(), err)
				}
			default:
				if strings.Contains(got, "c") || !errors.Is(err, keys.ErrCorruption) {
					t.Errorf("%s, %v: %q, %v", name, mode, got, err)
				}
			}
		}
		// A log that was obsolete need not be there.
		if got, _, err := l.replay(ReplayOptions{Mode: AbsoluteConsistency, Oldest: 5}, 5); got != "c@3/5" || err != nil {
			t.Errorf("%s, obsolete: %q, %v", name, got, err)
		}
	}
}

func TestOtherLogDataSaysNothingAboutLogs(t *testing.T) {
	for _, blob := range []string{"", "note", followsMagic, followsMagic + "\x04", followsMagic + "\x04\xff", followsMagic + "\x04\x05x"} {
		var b Batch
		b.LogData([]byte(blob))
		if f, ok := decodeFollows(b.Bytes()); ok {
			t.Errorf("%q: %+v", blob, f)
		}
	}
	var b Batch
	b.LogData(fmt.Appendf(nil, "%s\x04\x05", followsMagic))
	if f, ok := decodeFollows(b.Bytes()); !ok || f != (Follows{4, 5}) {
		t.Errorf("%+v, %v", f, ok)
	}
	b.Put(0, []byte("k"), nil)
	if _, ok := decodeFollows(b.Bytes()); ok {
		t.Error("a batch with operations was taken for one without")
	}
}

package flatrock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/flatrock-db/flatrock/mmapfs"
)

// tagFilter is a factory whose filters remove values that begin with "old" and change
// those that begin with "up".
type tagFilter struct {
	flush    bool
	mu       sync.Mutex
	contexts []CompactionFilterContext
}

func (*tagFilter) Name() string { return "tag" }

func (f *tagFilter) FilterFiles(r FilterReason) bool { return f.flush || r == FilterAtCompaction }

func (f *tagFilter) NewFilter(c CompactionFilterContext) CompactionFilter {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contexts = append(f.contexts, c)
	return tagged{}
}

type tagged struct{}

func (tagged) Name() string { return "tag" }

func (tagged) Filter(e *FilterEntry) FilterDecision {
	switch {
	case e.Kind != FilterValue:
		return FilterKeep
	case strings.HasPrefix(string(e.Value), "old"):
		return FilterRemove
	case strings.HasPrefix(string(e.Value), "up"):
		e.NewValue = []byte(strings.ToUpper(string(e.Value)))
		return FilterChangeValue
	}
	return FilterKeep
}

func TestCompactionFilterInADatabase(t *testing.T) {
	for name, table := range map[string]TableFactory{"block": BlockBasedTableOptions{}, "plain": PlainTableOptions{HashTableRatio: TotalOrder}} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			factory := new(tagFilter)
			db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{Table: table, CompactionFilterFactory: factory, DisableAutoCompactions: true})
			defer db.Close()
			put := func(key, value string) {
				t.Helper()
				if err := db.Put(nil, []byte(key), []byte(value)); err != nil {
					t.Fatal(err)
				}
			}
			get := func(ro *ReadOptions, key string) string {
				t.Helper()
				v, err := db.Get(ro, []byte(key), nil)
				if errors.Is(err, ErrNotFound) {
					return "-"
				}
				if err != nil {
					t.Fatal(err)
				}
				return string(v)
			}
			check := func(what string, ro *ReadOptions, want string) {
				t.Helper()
				got := ""
				for _, k := range []string{"a", "b", "c", "d"} {
					got += get(ro, k) + " "
				}
				if got != want+" " {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
			compact := func() {
				t.Helper()
				if err := db.CompactRange(ctx, &CompactRangeOptions{BottommostLevelCompaction: BottommostForce}, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			put("a", "old1")
			put("b", "up1")
			put("c", "keep")
			snap, err := db.NewSnapshot()
			if err != nil {
				t.Fatal(err)
			}
			put("d", "old2")
			check("before", nil, "old1 up1 keep old2")
			if err := db.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
			check("a flush does not filter", nil, "old1 up1 keep old2")
			compact()
			check("under a snapshot", nil, "old1 up1 keep -")
			check("at the snapshot", &ReadOptions{Snapshot: snap}, "old1 up1 keep -")
			snap.Release()
			compact()
			check("after it", nil, "- UP1 keep -")
			last := factory.contexts[len(factory.contexts)-1]
			if !last.Full || !last.Manual || !last.Bottommost || last.InputLevel == 0 || last.ColumnFamily != "default" || last.Reason != FilterAtCompaction {
				t.Errorf("context %+v", last)
			}
			factory.flush = true
			put("a", "old3")
			put("b", "up3")
			if err := db.Flush(ctx, nil); err != nil {
				t.Fatal(err)
			}
			check("a flush filters where the factory wants it", nil, "- UP3 keep -")
			last = factory.contexts[len(factory.contexts)-1]
			if last.Reason != FilterAtFlush || last.Manual {
				t.Errorf("context of a flush %+v", last)
			}
			compact()
			check("at the end", nil, "- UP3 keep -")
		})
	}
}

func TestRemoveEmptyValues(t *testing.T) {
	db := openDyn(t, mmapfs.NewMem(), &ColumnFamilyOptions{CompactionFilter: RemoveEmptyValues, MergeOperator: mustMerge(t, "stringappend")})
	defer db.Close()
	for i := range 20 {
		if err := db.Put(nil, fmt.Appendf(nil, "k%02d", i), make([]byte, i%2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Merge(nil, []byte("m"), nil); err != nil {
		t.Fatal(err)
	}
	if err := db.CompactRange(context.Background(), nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	it, err := db.NewIterator(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := 0
	for range it.All() {
		n++
	}
	if n != 11 || it.Err() != nil {
		t.Errorf("%d entries left, want 10 with values and the merged one; %v", n, it.Err())
	}
}

func mustMerge(t *testing.T, name string) MergeOperator {
	t.Helper()
	op, err := ParseMergeOperator(name)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

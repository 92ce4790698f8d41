package stress

import (
	"fmt"
	"sync"

	"github.com/flatrock-db/flatrock"
)

// tellings checks what a database tells its listener. Safe for concurrent use.
type tellings struct {
	mu                   sync.Mutex
	flushes, compactions int // under way
	created              map[uint64]flatrock.TableFileCreatedInfo
	deleted              map[uint64]bool
	wrong                error // the first
}

func (t *tellings) note(f func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := f(); t.wrong == nil {
		t.wrong = err
	}
}

// err is what was wrong first.
func (t *tellings) err() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wrong
}

// ended counts something that was begun before.
func ended(n *int, what string) error {
	if *n--; *n < 0 {
		return fmt.Errorf("the listener was told of the end of a %s that did not begin", what)
	}
	return nil
}

// listener is told what happens: an end follows a begin, and numbers of files are given once.
func (t *tellings) listener() *flatrock.EventListener {
	t.created, t.deleted = map[uint64]flatrock.TableFileCreatedInfo{}, map[uint64]bool{}
	return &flatrock.EventListener{
		FlushBegin:          func(flatrock.FlushInfo) { t.note(func() error { t.flushes++; return nil }) },
		FlushCompleted:      func(flatrock.FlushInfo) { t.note(func() error { return ended(&t.flushes, "flush") }) },
		CompactionBegin:     func(flatrock.CompactionInfo) { t.note(func() error { t.compactions++; return nil }) },
		CompactionCompleted: func(flatrock.CompactionInfo) { t.note(func() error { return ended(&t.compactions, "compaction") }) },
		TableFileCreated: func(i flatrock.TableFileCreatedInfo) {
			t.note(func() error {
				if first, told := t.created[i.FileNumber]; told { // a short-lived file may be told to be gone before
					return fmt.Errorf("the listener was told twice that file %d was created: by job %d of %s (%s), then by %d of %s (%s)", i.FileNumber,
						first.JobID, first.ColumnFamily, first.Reason, i.JobID, i.ColumnFamily, i.Reason)
				}
				t.created[i.FileNumber] = i
				return nil
			})
		},
		TableFileDeleted: func(i flatrock.TableFileDeletedInfo) {
			t.note(func() error {
				if i.Err == nil && t.deleted[i.FileNumber] {
					return fmt.Errorf("the listener was told twice that file %d (%s) was deleted", i.FileNumber, i.FilePath)
				}
				t.deleted[i.FileNumber] = t.deleted[i.FileNumber] || i.Err == nil
				return nil
			})
		},
	}
}

package flatrock

import (
	"context"
	"errors"

	"github.com/flatrock-db/flatrock/compaction"
)

// WaitForCompactOptions tunes WaitForCompact. Nil means the zero value. A context with a deadline takes the
// place of RocksDB's timeout.
type WaitForCompactOptions struct {
	// AbortOnPause returns ErrPaused when background work is paused, instead of waiting for it to
	// go on. RocksDB: abort_on_pause.
	AbortOnPause bool
	// Flush flushes all families first. RocksDB: flush.
	Flush bool
	// CloseDB closes the database at the end. RocksDB: close_db.
	CloseDB bool
}

// ErrPaused says that background work is paused.
var ErrPaused = errors.New("flatrock: background work is paused")

// WaitForCompact waits until nothing is left to flush or to compact: until the pickers are
// content, which takes as long as writes go on to give them work. Families with
// DisableAutoCompactions are not waited for. RocksDB: WaitForCompact.
func (db *DB) WaitForCompact(ctx context.Context, o *WaitForCompactOptions) error {
	if o == nil {
		o = &WaitForCompactOptions{}
	}
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if o.Flush {
		for _, cf := range db.ColumnFamilies() {
			if err := cf.Flush(ctx, nil); err != nil && !errors.Is(err, ErrColumnFamilyDropped) {
				return err
			}
		}
	}
	err := db.waitUntil(ctx, func() (bool, error) {
		if db.background != nil {
			return false, db.background
		}
		if db.sched.paused > 0 && o.AbortOnPause {
			return false, ErrPaused
		}
		return db.restsLocked(), nil
	})
	if err == nil && o.CloseDB {
		err = db.Close()
	}
	return err
}

// restsLocked reports whether no flush or compaction runs, waits, or would begin if it could.
func (db *DB) restsLocked() bool {
	if db.sched.flushes+db.sched.compactions+len(db.manual)+db.sched.exclusive > 0 || db.sched.held {
		return false
	}
	if cf, _ := db.pickFlushLocked(); cf != nil {
		return false
	}
	for _, cf := range db.families {
		if cf.dropped.Load() || cf.mutable().DisableAutoCompactions {
			continue
		}
		if cf.ingesting || compaction.Pick(cf.pickerInputLocked()) != nil {
			return false
		}
	}
	return true
}

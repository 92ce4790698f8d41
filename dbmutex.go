package flatrock

import (
	"sync"
	"time"

	"github.com/flatrock-db/flatrock/statistics"
)

// dbMutex is a mutex whose waits are counted at statistics level All, as RocksDB's
// are: rocksdb.db.mutex.wait.micros. Reads never take it.
type dbMutex struct {
	sync.Mutex
	stats *statistics.Statistics // fixed after Open
}

// Lock is Mutex.Lock.
func (m *dbMutex) Lock() {
	if m.stats == nil || m.stats.Level() < statistics.All {
		m.Mutex.Lock()
		return
	}
	if m.TryLock() {
		return
	}
	start := time.Now()
	m.Mutex.Lock()
	m.stats.Add(statistics.Stripe(), statistics.DBMutexWaitMicros, uint64(time.Since(start).Microseconds()))
}

package flatrock

// manualFlushBuffer is how many bytes of log records ManualWALFlush keeps in the process
// at most. RocksDB: writable_file_max_buffer_size.
const manualFlushBuffer = 1 << 20

// FlushWAL gives the log records that ManualWALFlush keeps in the process to the operating system, so that
// the writes so far survive the death of the process; with sync that of the machine
// too, as SyncWAL. Without ManualWALFlush nothing is kept back. RocksDB: FlushWAL.
func (db *DB) FlushWAL(sync bool) error {
	if sync {
		return db.SyncWAL()
	}
	return db.betweenWrites("WAL flush", func() error { return db.wal.w.Flush() })
}

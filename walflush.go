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
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	var err error
	db.exclusive(func() {
		if db.closed.Load() {
			err = ErrClosed
			return
		}
		if err = db.writable(); err != nil {
			return
		}
		if err = db.wal.w.Flush(); err != nil {
			err = db.fail("WAL flush", err)
		}
	})
	return err
}

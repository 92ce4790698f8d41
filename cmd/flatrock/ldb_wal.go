package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/manifest"
	"github.com/flatrock-db/flatrock/internal/wal"
	"github.com/flatrock-db/flatrock/mmapfs"
)

func (l *ldb) dumpWAL() error {
	if !l.has("walfile") {
		return usagef("--walfile=FILE must be given for dump_wal")
	}
	path, remove, err := l.spooled(l.text("walfile"), "stdin")
	if err != nil {
		return failedf("%w", err)
	}
	return errors.Join(l.dumpLog(path, l.flag("header"), l.flag("print_value")), remove())
}

// opNames are ldb's names of operations.
var opNames = map[keys.Kind]string{
	keys.KindValue: "PUT", keys.KindDelete: "DELETE", keys.KindSingleDelete: "SINGLE_DELETE", keys.KindMerge: "MERGE",
	keys.KindRangeDelete: "DELETE_RANGE", keys.KindEntity: "PUT_ENTITY", keys.KindBlobIndex: "PUT_BLOB_INDEX",
	keys.KindValuePreferredSeqno: "TIMED_PUT", keys.KindDeleteWithTimestamp: "DELETE_WITH_TIMESTAMP",
	wal.KindLogData: "LOG_DATA", wal.KindNoop: "NOOP", wal.KindBeginPrepare: "BEGIN_PREPARE(false)",
	wal.KindBeginPersistedPrepare: "BEGIN_PREPARE(false)", wal.KindBeginUnprepare: "BEGIN_PREPARE(true)",
	wal.KindEndPrepare: "END_PREPARE", wal.KindCommit: "COMMIT", wal.KindRollback: "ROLLBACK",
	wal.KindCommitWithTimestamp: "COMMIT_WITH_TIMESTAMP",
}

// dumpLog prints a log file, a line a batch. Damage that a crash leaves at the end
// of a log is its end. Other damage is passed over, told of, and an error in the end.
func (l *ldb) dumpLog(path string, header, values bool) error {
	_, number, _ := manifest.ParseName(filepath.Base(path))
	r, err := wal.Open(mmapfs.OS, path, number, wal.SkipAnyCorruptedRecords)
	if err != nil {
		return failedf("Failed to open WAL file %w", err)
	}
	r.Limit(l.maxDecompressed)
	if header && !l.json {
		line := "Sequence,Count,ByteSize,Physical Offset,Key(s)"
		if values {
			line += " : value "
		}
		fmt.Fprintln(l.out, line)
	}
	for err == nil {
		var batch []byte
		if batch, err = r.Next(); err == nil {
			if err = l.ctx.Err(); err != nil {
				break
			}
			if l.json {
				err = l.jsonBatch(l.inFile(path), batch, r.Offset())
			} else {
				err = l.printBatch(batch, r.Offset(), values)
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if n := r.Reports(); n > 0 && err == nil {
		err = fmt.Errorf("damaged in %d places", n)
		if reason := r.Reason(); reason != nil { // it reads on behind damage, and may end well
			err = fmt.Errorf("%w, the last one: %w", err, reason)
		}
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return failedf("%s: %w", path, err)
	}
	return nil
}

func (l *ldb) printBatch(batch []byte, offset int64, values bool) error {
	d := wal.Decode(batch)
	line := fmt.Appendf(nil, "%d,%d,%d,%d,", d.Sequence(), d.Count(), len(batch), offset)
	var op wal.Op
	for d.Next(&op) {
		line = appendOp(line, &op, values)
	}
	if d.Err() != nil {
		return d.Err()
	}
	_, err := l.out.Write(append(line, '\n'))
	return err
}

func appendOp(line []byte, op *wal.Op, values bool) []byte {
	name := opNames[op.Kind]
	switch op.Kind {
	case wal.KindLogData:
		return line
	case wal.KindNoop, wal.KindBeginPrepare, wal.KindBeginPersistedPrepare, wal.KindBeginUnprepare:
		return fmt.Appendf(line, "%s ", name)
	case wal.KindEndPrepare, wal.KindCommit, wal.KindRollback:
		return fmt.Appendf(line, "%s(%s) ", name, toHex(op.Key))
	case wal.KindCommitWithTimestamp:
		return fmt.Appendf(line, "%s(%s, %s) ", name, toHex(op.Key), toHex(op.Value))
	}
	line = fmt.Appendf(line, "%s(%d) : %s ", name, op.CF, toHex(op.Key))
	switch op.Kind {
	case keys.KindDelete, keys.KindSingleDelete, keys.KindDeleteWithTimestamp:
	case keys.KindRangeDelete:
		line = fmt.Appendf(line, "%s ", toHex(op.Value))
	default:
		if values {
			line = fmt.Appendf(line, ": %s ", toHex(op.Value))
		}
	}
	return line
}

// jsonBatch writes a line for each operation. Those that take no sequence number
// have that of the next one.
func (l *ldb) jsonBatch(file string, batch []byte, offset int64) error {
	d := wal.Decode(batch)
	seq := d.Sequence()
	var op wal.Op
	for d.Next(&op) {
		fields := map[string]any{"offset": offset, "seq": seq, "op": opNames[op.Kind], "cf": op.CF,
			"k": hex.EncodeToString(op.Key), "v": hex.EncodeToString(op.Value)}
		if file != "" {
			fields["file"] = file
		}
		if err := l.jsonValue(fields); err != nil {
			return err
		}
		if op.Counts() {
			seq++
		}
	}
	return d.Err()
}

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
	"github.com/flatrock-db/flatrock/internal/optionsfile"
	"github.com/flatrock-db/flatrock/mmapfs"
)

// Databases of RocksDB's DBWithTTL, for --ttl: every value, and every merge operand, ends in the time when it was
// written.
//
//	value, by offset and size in bytes:
//	  0   n  what the caller wrote
//	  n   4  seconds since 1970, little-endian
//
// Source: RocksDB 7.8.3 utilities/ttl/db_ttl_impl.h and .cc; proved by oracle tests both ways. As in RocksDB's ldb,
// nothing expires here: that is the work of the compactions of a program that says how long values live.

const (
	ttlLength = 4
	ttlLeast  = 1368146402 // when RocksDB began with it: what is older is no time
	ttlMost   = math.MaxInt32
)

// appendTTL appends a value as it is stored.
func appendTTL(dst, value []byte, written int64) []byte {
	return binary.LittleEndian.AppendUint32(append(dst, value...), uint32(written))
}

var (
	errTTLShort = errors.New("Corruption: Error: value's length less than timestamp's\n")
	errTTLOld   = errors.New("Corruption: Error: Timestamp < ttl feature release time!\n")
)

// splitTTL takes a stored value apart. Times that cannot be are for the caller to judge.
func splitTTL(stored []byte) (value []byte, written int32, err error) {
	n := len(stored) - ttlLength
	if n < 0 {
		return nil, 0, errTTLShort
	}
	return stored[:n], int32(binary.LittleEndian.Uint32(stored[n:])), nil
}

// readTTL is splitTTL where the time must be one.
func readTTL(stored []byte) (value []byte, err error) {
	value, written, err := splitTTL(stored)
	if err == nil && written < ttlLeast {
		err = errTTLOld
	}
	return value, err
}

// stored is value as it is written, with --ttl or without.
func (l *ldb) stored(value []byte) []byte {
	if !l.ttl {
		return value
	}
	return appendTTL(nil, value, time.Now().Unix())
}

// loaded is what stored was given.
func (l *ldb) loaded(stored []byte) ([]byte, error) {
	if !l.ttl {
		return stored, nil
	}
	return readTTL(stored)
}

// ttlOperator merges operands without their times, and gives the outcome the present one.
type ttlOperator struct {
	flatrock.MergeOperator
	text string // of the operator in OPTIONS files
}

// Name is what RocksDB writes into OPTIONS files.
func (o ttlOperator) Name() string {
	return "{id=TtlMergeOperator;user_operator=" + o.text + ";}"
}

func (o ttlOperator) FullMerge(key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error) {
	var err error
	if hasExisting {
		if existing, _, err = splitTTL(existing); err != nil {
			return nil, err
		}
	}
	bare := make([][]byte, len(operands))
	for i, operand := range operands {
		if bare[i], _, err = splitTTL(operand); err != nil {
			return nil, err
		}
	}
	value, err := o.MergeOperator.FullMerge(key, existing, hasExisting, bare)
	if err != nil {
		return nil, err
	}
	return appendTTL(nil, value, time.Now().Unix()), nil
}

// ttlOperators puts the families' merge operators under one that knows of times. The operator beneath is what the
// options say, by itself or within RocksDB's TtlMergeOperator, and otherwise what RocksDB's ldb takes.
func (l *ldb) ttlOperators(families []flatrock.ColumnFamilyDescriptor) error {
	file, _, _ := optionsfile.LoadLatest(mmapfs.OS, l.dir) // that it cannot be read, Open tells
	for _, d := range families {
		text := `{id=StringAppendOperator;delimiter=\:;}`
		var s *optionsfile.Section
		if file != nil {
			s = file.Family(d.Name)
		}
		if l.has("merge_operator") {
			text = l.text("merge_operator")
		} else if s != nil {
			if o, ok := s.Lookup("merge_operator"); ok {
				id, params, err := o.Custom()
				switch {
				case err != nil || id == "" || id == "nullptr":
				case id == "TtlMergeOperator":
					for _, p := range params {
						if p.Key == "user_operator" {
							text = p.Value
						}
					}
				default:
					text = o.Value
				}
			}
		}
		op, err := flatrock.ParseMergeOperator(text)
		if err != nil {
			return failedf("column family %q, --ttl: %w", d.Name, err)
		}
		if op == nil { // RocksDB's own default
			text = `{id=StringAppendOperator;delimiter=\:;}`
			if op, err = flatrock.ParseMergeOperator(text); err != nil {
				return err
			}
		}
		d.Options.MergeOperator = ttlOperator{op, text}
	}
	return nil
}

// ttlRange is which values scan and dump look at, by the time when they were written, and how they tell it.
type ttlRange struct {
	from, to int64 // from inclusive, to exclusive
	shown    bool  // --timestamp
	bucket   int64 // seconds; 0 for one bucket, which is not told
	counts   map[int64]uint64
}

func (l *ldb) ttlRange() (r ttlRange, err error) {
	r = ttlRange{from: ttlLeast, to: ttlMost, shown: l.flag("timestamp"), counts: map[int64]uint64{}}
	for name, n := range map[string]*int64{"start_time": &r.from, "end_time": &r.to, "bucket": &r.bucket} {
		if !l.has(name) {
			continue
		}
		if *n, err = strconv.ParseInt(l.text(name), 10, 32); err != nil {
			if errors.Is(err, strconv.ErrRange) {
				return r, failedf("%s has a value out-of-range.", name)
			}
			return r, failedf("%s has an invalid value.", name)
		}
	}
	if !l.ttl {
		for _, name := range []string{"timestamp", "start_time", "end_time", "bucket"} {
			if l.has(name) {
				return r, usagef("--%s is about values with times: it goes with --ttl", name)
			}
		}
	}
	if r.to < r.from {
		return r, failedf("Error: End time can't be less than start time")
	}
	if r.bucket <= 0 || r.bucket >= r.to-r.from {
		r.bucket = 0
	}
	return r, nil
}

func (r *ttlRange) has(written int32) bool { return int64(written) >= r.from && int64(written) < r.to }

// humanTime is RocksDB's form of a time, in the zone where this runs.
func humanTime(at int64) string { return time.Unix(at, 0).Format(time.ANSIC) }

// title is what scan and dump begin with.
func (r *ttlRange) title(what string) string {
	return fmt.Sprintf("%s key-values from %s to %s\n", what, humanTime(r.from), humanTime(r.to))
}

// prefix stands before a line about a value.
func (r *ttlRange) prefix(written int32) string {
	if !r.shown {
		return ""
	}
	return humanTime(int64(written)) + " "
}

func (r *ttlRange) count(written int32) {
	if r.bucket > 0 {
		r.counts[(int64(written)-r.from)/r.bucket]++
	}
}

// buckets prints how many values each span of time has.
func (l *ldb) buckets(r *ttlRange) error {
	n := (r.to - r.from + r.bucket - 1) / r.bucket
	for i := range n {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		from := r.from + i*r.bucket
		to := from + r.bucket
		if i == n-1 {
			to = r.to
		}
		var err error
		if l.json {
			err = l.jsonValue(map[string]any{"cf": l.family, "from": from, "to": to, "keys": r.counts[i]})
		} else {
			_, err = fmt.Fprintf(l.out, "Keys in range %s to %s : %d\n", humanTime(from), humanTime(to), r.counts[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

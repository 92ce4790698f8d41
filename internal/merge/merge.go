// Package merge defines merge operators and holds RocksDB's built-in ones,
// whose results equal RocksDB's byte for byte.
//
// A merge entry stores an operand; the value of a key is what the operator makes
// of the newest plain value and all operands above it. An operator's name is
// stored in table properties and OPTIONS files, so a database must always be
// opened with the operator that wrote it.
package merge

import "fmt"

// Operator turns operands into values. Implementations must be deterministic
// and safe for concurrent use. The slices passed in are borrowed for the call;
// what FullMerge returns becomes the caller's.
type Operator interface {
	// Name identifies the operator on disk.
	Name() string
	// FullMerge applies operands, oldest first and at least one, to existing.
	// hasExisting is false when the key had no value; existing is then nil.
	// An error fails the read that asked; a compaction stops with it.
	FullMerge(key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error)
}

// PartialMerger is an Operator that can also combine neighbouring operands
// before the value beneath them is known, which shortens chains of operands.
type PartialMerger interface {
	Operator
	// PartialMerge combines operands, oldest first and at least two, into one
	// operand with the same effect. ok is false when they cannot be combined;
	// they are then kept as they are.
	PartialMerge(key []byte, operands [][]byte) (operand []byte, ok bool)
}

// Appender is an Operator that can build its result in memory of the caller.
// All built-in operators are Appenders, so that reads need not allocate.
type Appender interface {
	Operator
	// AppendMerge is FullMerge with the result appended to dst.
	AppendMerge(dst, key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error)
}

// Append runs op's full merge and appends the result to dst. On an error dst is
// returned unchanged, and the error says which operator refused which key.
func Append(dst []byte, op Operator, key, existing []byte, hasExisting bool, operands [][]byte) ([]byte, error) {
	n := len(dst)
	if a, ok := op.(Appender); ok {
		out, err := a.AppendMerge(dst, key, existing, hasExisting, operands)
		if err != nil {
			return dst[:n], fmt.Errorf("merge operator %s: key %q: %w", op.Name(), key, err)
		}
		return out, nil
	}
	v, err := op.FullMerge(key, existing, hasExisting, operands)
	if err != nil {
		return dst, fmt.Errorf("merge operator %s: key %q: %w", op.Name(), key, err)
	}
	return append(dst, v...), nil
}

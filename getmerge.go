package flatrock

import (
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
	"github.com/flatrock-db/flatrock/internal/table"
)

// mergeInput is what a merge of one key works on.
type mergeInput struct {
	operands [][]byte // oldest first
	base     []byte   // the value beneath them
	hasBase  bool
	stored   []byte // the entity that base is the default column of; nil if none
}

// findFunc is readState.find, or that with more on top.
type findFunc func(*keys.Lookup, *table.Pin) (value []byte, trailer uint64, ok bool, err error)

// mergeInput collects the operands below the one found, newest first, by looking
// again with ever smaller sequence numbers, until a value, a delete or nothing ends
// them.
func (s *readState) mergeInput(find findFunc, look keys.Lookup, operand []byte, trailer uint64) (in mergeInput, err error) {
	if s.cf.opts.MergeOperator == nil {
		return in, fmt.Errorf("%w: key %q has merge operands, and column family %q has no MergeOperator", ErrInvalidArgument, look.UserKey, s.cf.name)
	}
	in.operands = [][]byte{append([]byte(nil), operand...)}
	look.Tallying = false // nobody takes what this copy counts
	for seq := keys.Seq(trailer); seq > 0; seq = keys.Seq(trailer) {
		look.Seq = seq - 1
		var pin table.Pin
		value, t, ok, err := find(&look, &pin)
		if err != nil {
			return in, err
		}
		if !ok {
			break
		}
		if keys.KindOf(t) == keys.KindMerge {
			in.operands = append(in.operands, append([]byte(nil), value...))
			trailer = t
			pin.Release()
			continue
		}
		if keys.KindOf(t) == keys.KindEntity {
			in.stored = append([]byte{}, value...)
			value = in.stored
		}
		in.base, err = s.appendValue(nil, &look, value, t)
		in.hasBase = true
		pin.Release()
		if err != nil {
			return in, err
		}
		break
	}
	slices.Reverse(in.operands)
	return in, nil
}

// appendMerged appends what the operands of a key make of its value.
func (s *readState) appendMerged(dst []byte, look keys.Lookup, operand []byte, trailer uint64) ([]byte, error) {
	in, err := s.mergeInput(s.find, look, operand, trailer)
	if err != nil {
		return dst, err
	}
	return in.appendTo(dst, s.cf, look.UserKey)
}

func (in *mergeInput) appendTo(dst []byte, cf *ColumnFamily, userKey []byte) ([]byte, error) {
	dst, err := merge.Append(dst, cf.opts.MergeOperator, userKey, in.base, in.hasBase, in.operands)
	if err != nil {
		return dst, fmt.Errorf("column family %q: %w", cf.name, err)
	}
	return dst, nil
}

// appendMergedEntity is appendMerged for readers of columns: onto an entity the operands
// change its default column, and what is appended is then an encoded entity.
func (s *readState) appendMergedEntity(find findFunc, dst []byte, look keys.Lookup, operand []byte, trailer uint64) (_ []byte, stored bool, err error) {
	in, err := s.mergeInput(find, look, operand, trailer)
	if err != nil {
		return dst, false, err
	}
	if in.stored == nil {
		dst, err = in.appendTo(dst, s.cf, look.UserKey)
		return dst, false, err
	}
	value, err := in.appendTo(nil, s.cf, look.UserKey)
	if err != nil {
		return dst, false, err
	}
	dst, err = entity.ReplaceDefault(dst, in.stored, value)
	return dst, true, err
}

package iterator

import (
	"fmt"
	"slices"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/merge"
)

// preferredSeqnoLen is the size of the write time behind a value of kind 0x18.
const preferredSeqnoLen = 8

// plain gives the value of a stored entry that is neither a delete nor a merge
// operand, and its stored form if it is an entity. Both are borrowed from stored
// or from Resolve.
func (u *User) plain(userKey []byte, kind keys.Kind, stored []byte) (value, raw []byte, live bool, err error) {
	switch kind {
	case keys.KindValue:
		return stored, nil, true, nil
	case keys.KindEntity:
		value, err = entity.Default(stored)
		return value, stored, err == nil, err
	case keys.KindValuePreferredSeqno:
		n := len(stored) - preferredSeqnoLen
		if n < 0 {
			return nil, nil, false, keys.Corruptf("entry", -1,
				"key %q: expected a value with a write time of 8 bytes, found %d bytes", userKey, len(stored))
		}
		return stored[:n:n], nil, true, nil
	}
	if u.o.Resolve == nil {
		return nil, nil, false, u.unsupported(userKey, kind)
	}
	value, live, err = u.o.Resolve(userKey, kind, stored)
	return value, nil, live, err
}

// operandOrder says in which order operands were pushed.
type operandOrder bool

const (
	newestFirst operandOrder = true
	oldestFirst operandOrder = false
)

// finishMerge merges the collected operands of u.saved onto base, which raw is
// the entity of, and makes the result the current key and value.
func (u *User) finishMerge(base, raw []byte, hasBase bool, order operandOrder) error {
	if u.o.Operator == nil {
		return fmt.Errorf("key %q: %w", u.saved, ErrNoOperator)
	}
	operands := u.operands.list(order)
	// base may lie in valueBuf (backward); the result is built behind it.
	n := 0
	if len(base) > 0 && len(u.valueBuf) > 0 && &base[0] == &u.valueBuf[0] {
		n = len(base)
	}
	merged, err := merge.Append(u.valueBuf[:n], u.o.Operator, u.saved, base, hasBase, operands)
	if err != nil {
		return err
	}
	u.valueBuf = merged
	u.key, u.value, u.raw = u.saved, merged[n:], nil
	if raw == nil {
		return nil
	}
	n = 0
	if len(u.rawBuf) > 0 && &raw[0] == &u.rawBuf[0] {
		n = len(raw)
	}
	if u.rawBuf, err = entity.ReplaceDefault(u.rawBuf[:n], raw, u.value); err != nil {
		return err
	}
	u.raw = u.rawBuf[n:]
	return nil
}

// operandStack copies operands into one buffer, so that collecting them
// allocates nothing once the buffer has grown.
type operandStack struct {
	bytes []byte
	ends  []int
	views [][]byte
}

func (s *operandStack) reset()   { s.bytes, s.ends = s.bytes[:0], s.ends[:0] }
func (s *operandStack) len() int { return len(s.ends) }

func (s *operandStack) push(operand []byte) {
	s.bytes = append(s.bytes, operand...)
	s.ends = append(s.ends, len(s.bytes))
}

// list returns the operands oldest first, borrowed until the next push or reset.
func (s *operandStack) list(pushed operandOrder) [][]byte {
	s.views = s.views[:0]
	start := 0
	for _, end := range s.ends {
		s.views = append(s.views, s.bytes[start:end:end])
		start = end
	}
	if pushed == newestFirst {
		slices.Reverse(s.views)
	}
	return s.views
}

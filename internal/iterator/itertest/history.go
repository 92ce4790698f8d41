package itertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/entity"
	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// Op is one write. A range delete has End set and Kind KindRangeDelete.
type Op struct {
	Kind       keys.Kind
	Key, Value []byte
	End        []byte
	Seq        uint64
}

// History is a sequence of writes, oldest first, and the model that they make:
// a plain map. Merge operands are joined with commas, as StringAppend does.
type History struct {
	Order keys.Order
	Ops   []Op
}

// Shape tunes Random.
type Shape struct {
	Ops      int
	Keys     int // size of the key space
	Deletes  int // per cent, as are the others
	Singles  int
	Merges   int
	Ranges   int
	Entities int
	Timed    int
}

// Random makes a history. Single deletes keep to their contract: they follow
// exactly one put of a key that was deleted or never written before, with
// nothing else in between.
func Random(rng *rand.Rand, order keys.Order, s Shape) *History {
	h := &History{Order: order}
	const (
		untouched = iota // absent for all that lies below
		putOnce          // one put above nothing
		dirty
	)
	state := make(map[string]int)
	for i := range s.Ops {
		op := Op{Seq: uint64(i + 1), Key: randomKey(rng, s.Keys), Value: fmt.Appendf(nil, "v%d", i+1)}
		st := state[string(op.Key)]
		roll := rng.IntN(100)
		switch {
		case roll < s.Ranges:
			op.Kind, op.Value = keys.KindRangeDelete, nil
			op.End = randomKey(rng, s.Keys)
			if order.Compare(op.Key, op.End) > 0 {
				op.Key, op.End = op.End, op.Key
			}
			if bytes.Equal(op.Key, op.End) {
				continue
			}
			for k := range state {
				if order.Compare([]byte(k), op.Key) >= 0 && order.Compare([]byte(k), op.End) < 0 {
					state[k] = dirty // what a range delete leaves is no clean ground
				}
			}
			h.Ops = append(h.Ops, op)
			continue
		case roll < s.Ranges+s.Singles:
			if st != putOnce {
				op.Kind = keys.KindValue
				break
			}
			op.Kind, op.Value = keys.KindSingleDelete, nil
		case roll < s.Ranges+s.Singles+s.Deletes:
			op.Kind, op.Value = keys.KindDelete, nil
		case roll < s.Ranges+s.Singles+s.Deletes+s.Merges:
			op.Kind = keys.KindMerge
		case roll < s.Ranges+s.Singles+s.Deletes+s.Merges+s.Entities:
			op.Kind = keys.KindEntity
			cols := []entity.Column{{Name: []byte("x"), Value: []byte("other")}}
			if rng.IntN(3) > 0 {
				cols = slices.Insert(cols, 0, entity.Column{Value: op.Value})
			}
			op.Value, _ = entity.Append(nil, cols)
		case roll < s.Ranges+s.Singles+s.Deletes+s.Merges+s.Entities+s.Timed:
			op.Kind = keys.KindValuePreferredSeqno
			op.Value = binary.LittleEndian.AppendUint64(op.Value, uint64(i))
		default:
			op.Kind = keys.KindValue
		}
		switch op.Kind {
		case keys.KindSingleDelete:
			state[string(op.Key)] = untouched
		case keys.KindValue, keys.KindEntity, keys.KindValuePreferredSeqno:
			if st == untouched {
				state[string(op.Key)] = putOnce
			} else {
				state[string(op.Key)] = dirty
			}
		default:
			state[string(op.Key)] = dirty
		}
		h.Ops = append(h.Ops, op)
	}
	return h
}

// randomKey makes keys with shared prefixes of two bytes, some just the prefix.
func randomKey(rng *rand.Rand, n int) []byte {
	i := rng.IntN(n)
	key := fmt.Appendf(nil, "%c%c%02d", 'a'+i%3, 'a'+(i/3)%3, i/9)
	if i%7 == 0 {
		return key[:2+i%3]
	}
	return key
}

// Pair is what a reader sees.
type Pair struct {
	Key, Value []byte
	Entity     bool
}

// At is the model's content at seq, sorted.
func (h *History) At(seq uint64) []Pair {
	content := make(map[string]Pair)
	for _, op := range h.Ops {
		if op.Seq > seq {
			break
		}
		k := string(op.Key)
		switch op.Kind {
		case keys.KindDelete, keys.KindSingleDelete:
			delete(content, k)
		case keys.KindRangeDelete:
			for key := range content {
				if h.Order.Compare([]byte(key), op.Key) >= 0 && h.Order.Compare([]byte(key), op.End) < 0 {
					delete(content, key)
				}
			}
		case keys.KindMerge:
			p, ok := content[k]
			v := op.Value
			if ok {
				v = slices.Concat(p.Value, []byte(","), op.Value)
			}
			content[k] = Pair{Key: op.Key, Value: v, Entity: p.Entity}
		case keys.KindEntity:
			v, err := entity.Default(op.Value)
			if err != nil {
				panic(err)
			}
			content[k] = Pair{Key: op.Key, Value: v, Entity: true}
		case keys.KindValuePreferredSeqno:
			content[k] = Pair{Key: op.Key, Value: op.Value[:len(op.Value)-8]}
		default:
			content[k] = Pair{Key: op.Key, Value: op.Value}
		}
	}
	pairs := make([]Pair, 0, len(content))
	for _, p := range content {
		pairs = append(pairs, p)
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return h.Order.Compare(a.Key, b.Key) })
	return pairs
}

// Run is a sorted run: entries in order, and range tombstones.
type Run struct {
	Entries    []Entry
	Tombstones []table.Tombstone
}

// Runs cuts the history into n runs by age, newest first.
func (h *History) Runs(rng *rand.Rand, n int) []Run {
	cuts := make([]int, n-1)
	for i := range cuts {
		cuts[i] = rng.IntN(len(h.Ops) + 1)
	}
	slices.Sort(cuts)
	cuts = append(cuts, len(h.Ops))
	runs := make([]Run, 0, n)
	from := 0
	for _, to := range cuts {
		var r Run
		for _, op := range h.Ops[from:to] {
			if op.Kind == keys.KindRangeDelete {
				r.Tombstones = append(r.Tombstones, table.Tombstone{Start: op.Key, End: op.End, Seq: op.Seq})
				continue
			}
			r.Entries = append(r.Entries, Entry{op.Key, keys.Pack(op.Seq, op.Kind), op.Value})
		}
		Sort(h.Order, r.Entries)
		runs = append(runs, r)
		from = to
	}
	slices.Reverse(runs)
	return runs
}

// String lists the writes, for a failing test's message.
func (h *History) String() string {
	var b strings.Builder
	for _, op := range h.Ops {
		if op.Kind == keys.KindRangeDelete {
			fmt.Fprintf(&b, "[%s,%s)#%d,RANGEDEL\n", op.Key, op.End, op.Seq)
			continue
		}
		fmt.Fprintln(&b, Entry{op.Key, keys.Pack(op.Seq, op.Kind), op.Value})
	}
	return b.String()
}

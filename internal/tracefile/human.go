package tracefile

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// HumanColumns names the columns of AppendLine.
var HumanColumns = [...]string{"access_time_us", "block_id", "block_type", "block_size", "cf_id", "cf_name", "level", "sst_number", "caller",
	"no_insert", "get_id", "get_key_id", "referenced_data_size", "is_cache_hit", "referenced_key_exists", "keys_in_block", "table_id",
	"sequence_number", "block_key_size", "referenced_key_size", "block_offset"}

// Human writes accesses as RocksDB's analyzer does for people: a line of 21 numbers and
// names, separated by commas (fact sheet: trace-files, section 2.2). It remembers every
// block, and every key that a Get asked for, in 8 to 16 bytes each plus the map's own.
type Human struct {
	blocks map[blockName]uint64
	gets   map[string]uint64
}

type blockName struct {
	family string
	file   uint64
	typ    Type
	key    string
}

// AppendLine appends the line of an access.
func (h *Human) AppendLine(dst []byte, a *BlockAccess) []byte {
	if h.blocks == nil {
		h.blocks, h.gets = map[blockName]uint64{}, map[string]uint64{}
	}
	name := blockName{string(a.Name), a.File, a.Type, string(a.BlockKey)}
	block := h.blocks[name]
	if block == 0 {
		block = uint64(len(h.blocks)) + 1
		h.blocks[name] = block
	}
	user, trailer, ok := keys.Split(a.ReferencedKey)
	var getKey, tableID, sequence uint64
	if a.Caller == table.CallerGet && ok {
		if getKey = h.gets[string(user)]; getKey == 0 {
			getKey = uint64(len(h.gets)) + 1
			h.gets[string(user)] = getKey
		}
	}
	if a.Caller.PointRead() {
		if len(a.ReferencedKey) >= 4 {
			tableID = uint64(binary.LittleEndian.Uint32(a.ReferencedKey)) + 1
		}
		if a.FromSnapshot && ok {
			sequence = 1 + keys.Seq(trailer)
		}
	}
	number := func(v uint64) {
		dst = strconv.AppendUint(dst, v, 10)
		dst = append(dst, ',')
	}
	number(a.Micros)
	number(block)
	number(uint64(a.Type))
	number(a.Size)
	number(a.Family)
	dst = append(append(dst, a.Name...), ',')
	number(uint64(a.Level))
	number(a.File)
	number(uint64(a.Caller))
	number(uint64(flagByte(a.NoInsert)))
	number(a.GetID)
	number(getKey)
	number(a.DataSize)
	number(uint64(flagByte(a.Hit)))
	number(uint64(flagByte(a.KeyExists)))
	number(a.KeyCount)
	number(tableID)
	number(sequence)
	number(uint64(len(a.BlockKey)))
	number(uint64(len(a.ReferencedKey)))
	return append(strconv.AppendUint(dst, lastVarint(a.BlockKey), 10), '\n')
}

// lastVarint reads a block key of RocksDB 6 as varints, of which the last is the
// block's offset. In later keys it is noise.
func lastVarint(key []byte) (v uint64) {
	for len(key) > 0 {
		w, n := binary.Uvarint(key)
		if n <= 0 {
			break
		}
		v, key = w, key[n:]
	}
	return v
}

// ParseLine reads a line of AppendLine: the columns as numbers, and the family's name.
func ParseLine(line string) (columns [len(HumanColumns)]uint64, family string, err error) {
	at := 0
	for i := range columns {
		end := at
		for end < len(line) && line[end] != ',' {
			end++
		}
		switch {
		case i == 5:
			family = line[at:end]
		default:
			if columns[i], err = strconv.ParseUint(line[at:end], 10, 64); err != nil {
				return columns, family, fmt.Errorf("column %d (%s): expected a number, found %.40q", i+1, HumanColumns[i], line[at:end])
			}
		}
		if (end == len(line)) != (i == len(columns)-1) {
			return columns, family, fmt.Errorf("expected %d columns, found %.80q", len(columns), line)
		}
		at = end + 1
	}
	return columns, family, nil
}

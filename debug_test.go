package flatrock

import (
	"fmt"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
	"github.com/flatrock-db/flatrock/internal/table"
)

// entriesOf lists every internal entry of a key, source by source, for failure messages.
func entriesOf(cf *ColumnFamily, key []byte) string {
	var b strings.Builder
	s, reader := cf.acquire()
	defer s.release(reader)
	list := func(name string, it table.Iterator) {
		for ok := it.SeekGE(key, keys.Pack(keys.MaxSeq, keys.KindSeek)); ok && string(it.UserKey()) == string(key); ok = it.Next() {
			fmt.Fprintf(&b, "  %s: #%d %v %.40q\n", name, keys.Seq(it.Trailer()), keys.KindOf(it.Trailer()), it.Value())
		}
		it.Close()
	}
	list("active", s.active.mem.NewIterator())
	for i, m := range s.immutables {
		list(fmt.Sprintf("immutable %d", i), m.mem.NewIterator())
	}
	for l, level := range s.files.levels {
		for _, r := range level {
			m := r.handle.meta
			fmt.Fprintf(&b, " L%d file %d epoch %d seqs %d..%d\n", l, m.Number, m.EpochNumber, m.SmallestSeq, m.LargestSeq)
			list(fmt.Sprintf("L%d file %d", l, r.handle.meta.Number), r.handle.reader().NewIterator(table.IterOptions{}))
		}
	}
	return b.String()
}

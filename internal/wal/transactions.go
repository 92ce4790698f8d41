package wal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// Prepared is a transaction whose prepared section was read and whose commit or
// rollback was not. It owns its bytes.
type Prepared struct {
	XID []byte
	// Log is the number of the log that holds the section. The log must be kept
	// until the transaction ends.
	Log uint64
	// Seq is the sequence number of the batch with the section. The operations
	// have no numbers before the commit.
	Seq   uint64
	Count uint32 // counting operations

	records []byte
}

// Ops walks over the operations of the section.
func (p *Prepared) Ops() Decoder { return decodeRecords(p.records) }

// Batch appends the section's operations to b, as a batch of their own.
func (p *Prepared) Batch(b *Batch) error {
	return b.Append(&Batch{rep: slices.Concat(emptyHeader[:], p.records), count: p.Count})
}

// stamp overwrites the timestamps at the ends of the section's keys.
func (p *Prepared) stamp(ts []byte, size func(cf uint32) int) error {
	var op Op
	d := p.Ops()
	for d.Next(&op) {
		if !op.Counts() || size(op.CF) == 0 {
			continue
		}
		if n := size(op.CF); n != len(ts) || n > len(op.Key) {
			return keys.Corruptf(batchName, -1, "expected a commit timestamp of %d bytes for column family %d, found %d bytes and a key of %d", n, op.CF, len(ts), len(op.Key))
		}
		// op.Key lies in p.records, which p owns.
		copy(op.Key[len(op.Key)-len(ts):], ts)
		if op.Kind == keys.KindRangeDelete && len(op.Value) >= len(ts) {
			copy(op.Value[len(op.Value)-len(ts):], ts)
		}
	}
	return d.Err()
}

// Transactions keeps prepared sections by name until they are committed or rolled
// back. The zero value is empty. Not safe for concurrent use.
type Transactions struct {
	prepared map[string]*Prepared
}

// Prepare remembers a section. A name that is prepared already is an error.
func (t *Transactions) Prepare(p *Prepared) error {
	if _, ok := t.prepared[string(p.XID)]; ok {
		return keys.Corruptf(batchName, -1, "expected transaction %q to be prepared once, found it prepared again", p.XID)
	}
	if t.prepared == nil {
		t.prepared = make(map[string]*Prepared)
	}
	t.prepared[string(p.XID)] = p
	return nil
}

// Take removes and returns the section of xid; nil when there is none, as when its
// log was obsolete already.
func (t *Transactions) Take(xid []byte) *Prepared {
	p := t.prepared[string(xid)]
	delete(t.prepared, string(xid))
	return p
}

// Open lists the transactions that are still prepared, by log and name.
func (t *Transactions) Open() []*Prepared {
	var open []*Prepared
	for _, p := range t.prepared {
		open = append(open, p)
	}
	slices.SortFunc(open, func(a, b *Prepared) int {
		if a.Log != b.Log {
			return int(int64(a.Log) - int64(b.Log))
		}
		return bytes.Compare(a.XID, b.XID)
	})
	return open
}

// String lists the names, for logs.
func (t *Transactions) String() string {
	var names []string
	for _, p := range t.Open() {
		names = append(names, fmt.Sprintf("%q", p.XID))
	}
	return strings.Join(names, " ")
}

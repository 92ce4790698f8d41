package flatrock

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/flatrock-db/flatrock/numa"
	"github.com/flatrock-db/flatrock/plaintable"
)

// PlacementReport says on which NUMA nodes a database's memory lies, structure by
// structure. Remote of a row, or of the whole, is the share of accesses that leave
// the node of a reader that reads all of it evenly.
type PlacementReport struct {
	// Nodes are the machine's, ascending.
	Nodes []int
	// Report has a row for each structure that holds memory: memtables, plain tables
	// (resident, mapped, indexes), and the block cache. Rows that are copies, one per
	// node, are read by each node's own readers.
	numa.Report
}

// String is a table for people: bytes on each node, and each node's remote share.
func (r *PlacementReport) String() string {
	var b strings.Builder
	if len(r.Nodes) == 1 {
		fmt.Fprintf(&b, "This machine has one NUMA node (%d): all memory is local to every reader.\n", r.Nodes[0])
	}
	b.WriteString(r.Format(r.Nodes))
	return b.String()
}

// placementSample is how many pages of a range are asked about: all of 256 MiB.
const placementSample = 1 << 16

// Placement looks where the memory of the database is now: of ranges over 256 MiB it
// asks about 65,536 pages evenly spread, some 7 ms a range. It blocks
// no reads or writes, but keeps the memtables and files of the moment alive.
//
// Mapped files count as far as this process has their pages mapped. Where the kernel
// tells nothing (systems other than Linux, or kernels without NUMA) everything is on the
// one node.
func (db *DB) Placement() (*PlacementReport, error) {
	t := db.placed.topology
	if t == nil {
		var err error
		if t, err = numa.Discover(); err != nil {
			return nil, err
		}
	}
	r := &PlacementReport{}
	for _, n := range t.Nodes {
		r.Nodes = append(r.Nodes, n.ID)
	}
	for _, cf := range db.ColumnFamilies() {
		if err := cf.addPlacement(r); err != nil && !errors.Is(err, ErrColumnFamilyDropped) {
			return nil, err
		}
	}
	if db.cache == nil {
		return r, nil
	}
	var err error
	db.cache.EachMemory(func(b []byte) {
		err = errors.Join(err, r.add("block cache", b, false))
	})
	return r, err
}

// partNames are the rows of plain tables.
var partNames = map[plaintable.Part]string{
	plaintable.PartMapped:   "plain tables, mapped",
	plaintable.PartResident: "plain tables, resident",
	plaintable.PartIndex:    "plain table indexes",
}

// addPlacement adds the memtables and files that the family has now.
func (cf *ColumnFamily) addPlacement(r *PlacementReport) (err error) {
	s, reader, err := cf.enter()
	if err != nil {
		return err
	}
	defer s.release(reader)
	for _, m := range append([]*memState{s.active}, s.immutables...) {
		if err := r.add("memtables", m.mem.Memory(), false); err != nil {
			return err
		}
	}
	for _, level := range s.files.levels {
		for _, f := range level {
			if f.handle.plain == nil {
				continue
			}
			f.handle.plain.EachMemory(func(part plaintable.Part, b []byte, replicated bool) {
				err = errors.Join(err, r.add(partNames[part], b, replicated))
			})
		}
	}
	return err
}

// add asks where the range is and adds it to a row.
func (r *PlacementReport) add(row string, b []byte, copies bool) error {
	if len(b) == 0 {
		return nil
	}
	p, err := numa.SamplePlacement(b, placementSample)
	switch {
	case errors.Is(err, numa.ErrRange):
		return nil // not mapped memory: a file system of the caller's holds it elsewhere
	case errors.Is(err, numa.ErrNotSupported), len(r.Nodes) == 1 && errors.Is(err, numa.ErrNotPermitted):
		page := int64(os.Getpagesize())
		n := (int64(len(b)) + page - 1) / page
		p = numa.Placement{PageSize: page, Pages: n, ByNode: map[int]int64{r.Nodes[0]: n}}
	case err != nil:
		return fmt.Errorf("where the %s are: %w", row, err)
	}
	if copies {
		r.AddCopies(row, p)
	} else {
		r.Add(row, p)
	}
	return nil
}

package flatrock

import "fmt"

// atOneMoment returns ro with what it takes for reads of several families to see the same
// moment, and what ends it. The states that are taken in between keep what they need.
func (db *DB) atOneMoment(ro *ReadOptions) (*ReadOptions, func(), error) {
	var o ReadOptions
	if ro != nil {
		o = *ro
	}
	switch {
	case o.Snapshot != nil:
		return &o, func() {}, nil
	case db.secondary != nil: // it moves on only in a catch-up
		db.secondary.mu.Lock()
		return &o, db.secondary.mu.Unlock, nil
	}
	s, err := db.NewSnapshot()
	if err != nil {
		return nil, nil, err
	}
	o.Snapshot = s
	return &o, s.Release, nil
}

// own returns cf, or the default family for nil, if it belongs to db.
func (db *DB) own(cf *ColumnFamily) (*ColumnFamily, error) {
	switch {
	case cf == nil:
		return db.defaultCF, nil
	case cf.db != db:
		return nil, fmt.Errorf("%w: column family %q belongs to another database", ErrInvalidArgument, cf.name)
	}
	return cf, nil
}

// MultiGetFamilies is MultiGet over families: keys[i] is read from families[i], nil for the
// default one, all of them at the same moment, so that a batch over several families shows
// in all or in none. RocksDB: MultiGet with a column family for each key.
func (db *DB) MultiGetFamilies(ro *ReadOptions, families []*ColumnFamily, keys [][]byte, results []GetResult) ([]GetResult, error) {
	if len(families) != len(keys) {
		return results[:0], fmt.Errorf("%w: %d column families for %d keys", ErrInvalidArgument, len(families), len(keys))
	}
	groups := map[*ColumnFamily][]int{}
	var order []*ColumnFamily
	for i, cf := range families {
		cf, err := db.own(cf)
		if err != nil {
			return results[:0], err
		}
		if groups[cf] == nil {
			order = append(order, cf)
		}
		groups[cf] = append(groups[cf], i)
	}
	if len(order) == 1 {
		return order[0].MultiGet(ro, keys, results)
	}
	if n := len(keys); n <= cap(results) {
		results = results[:n]
	} else {
		results = append(results[:cap(results)], make([]GetResult, n-cap(results))...)
	}
	at, end, err := db.atOneMoment(ro)
	if err != nil {
		return results[:0], err
	}
	defer end()
	some, found := make([][]byte, 0, len(keys)), make([]GetResult, 0, len(keys))
	for _, cf := range order {
		some, found = some[:0], found[:0]
		for _, i := range groups[cf] {
			some, found = append(some, keys[i]), append(found, results[i]) // with the memory of its value
		}
		if found, err = cf.MultiGet(at, some, found); err != nil {
			return results[:0], err
		}
		for j, i := range groups[cf] {
			results[i] = found[j]
		}
	}
	return results, nil
}

package manifest

import (
	"maps"
	"slices"
)

// Snapshot returns the edits that lead from nothing to s, in RocksDB's
// arrangement: the database id if asked for, the tracked WALs, then for each
// family one edit that names it and one that lists its files. Counters such as
// the next file number are not among them.
func (s *State) Snapshot(withDBID bool) []*VersionEdit {
	var edits []*VersionEdit
	if withDBID && s.DBID != "" {
		edits = append(edits, &VersionEdit{DBID: Some(s.DBID)})
	}
	if len(s.WALs) > 0 {
		e := new(VersionEdit)
		for _, n := range slices.Sorted(maps.Keys(s.WALs)) {
			e.WALAdditions = append(e.WALAdditions, WALAddition{n, s.WALs[n]})
		}
		edits = append(edits, e)
	}
	if s.MinTrackedWAL > 0 {
		edits = append(edits, &VersionEdit{WALDeletion: Some(s.MinTrackedWAL)})
	}
	for _, f := range s.Families {
		edits = append(edits, f.nameEdit(), s.filesEdit(f))
	}
	return edits
}

func (f *ColumnFamily) nameEdit() *VersionEdit {
	e := &VersionEdit{ColumnFamily: f.ID, PersistTimestamps: f.PersistTimestamps}
	if f.Comparator != "" {
		e.Comparator = Some(f.Comparator)
	}
	if f.ID != 0 {
		e.AddColumnFamily = Some(f.Name)
	}
	return e
}

func (s *State) filesEdit(f *ColumnFamily) *VersionEdit {
	e := &VersionEdit{
		ColumnFamily: f.ID, LogNumber: Some(f.LogNumber), LastSeq: Some(s.LastSeq),
		FullHistoryTsLow: f.FullHistoryTsLow, Unknown: f.Unknown,
	}
	if f.Features != 0 {
		e.Features = Some(f.Features)
	}
	if f.ID == 0 && s.MinLogNumberToKeep != 0 {
		e.MinLogNumberToKeep = Some(s.MinLogNumberToKeep)
	}
	for _, level := range slices.Sorted(maps.Keys(f.CompactCursors)) {
		e.CompactCursors = append(e.CompactCursors, CompactCursor{level, f.CompactCursors[level]})
	}
	for level, files := range f.Version.Levels {
		for _, m := range files {
			e.NewFiles = append(e.NewFiles, NewFile{level, m})
		}
	}
	for _, b := range f.Version.Blobs {
		e.BlobAdditions = append(e.BlobAdditions, b.BlobAddition)
		if b.GarbageCount > 0 || b.GarbageBytes > 0 {
			e.BlobGarbages = append(e.BlobGarbages, BlobGarbage{Number: b.Number, Count: b.GarbageCount, Bytes: b.GarbageBytes})
		}
	}
	return e
}

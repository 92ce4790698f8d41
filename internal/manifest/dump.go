package manifest

import (
	"bufio"
	"fmt"
	"io"
	"math"

	"github.com/flatrock-db/flatrock/internal/keys"
)

// DumpStyle adjusts the text of Dump. The zero value is what Dump writes.
type DumpStyle struct {
	// PlainKeys writes user keys as they are instead of in hex.
	PlainKeys bool
	// PublicIDs adds the public form of unique ids, as --verbose does.
	PublicIDs bool
	// VersionNumber, if set, gives the number of the version of Families[i].
	VersionNumber func(i int) int
}

func (d DumpStyle) key(userKey []byte, trailer uint64) string {
	if d.PlainKeys {
		return fmt.Sprintf("'%s' seq:%d, type:%d", userKey, keys.Seq(trailer), keys.KindOf(trailer))
	}
	return internalKeyText(userKey, trailer)
}

func (d DumpStyle) bounds(f *FileMetadata) string {
	return fmt.Sprintf("[%s .. %s]", d.key(f.SmallestKey, f.SmallestTrailer), d.key(f.LargestKey, f.LargestTrailer))
}

// Dump writes the edit the way RocksDB's `ldb manifest_dump --hex --verbose`
// does, but for the public form of unique ids, which it leaves out.
func (e *VersionEdit) Dump(w io.Writer) error { return e.DumpStyled(w, DumpStyle{}) }

// DumpStyled is Dump in another style.
func (e *VersionEdit) DumpStyled(w io.Writer, style DumpStyle) error {
	b := bufio.NewWriter(w)
	line := func(format string, args ...any) { fmt.Fprintf(b, "  "+format+"\n", args...) }
	fmt.Fprintln(b, "VersionEdit {")
	if e.DBID.Set {
		line("DB ID: %s", e.DBID.Value)
	}
	if e.Comparator.Set {
		line("Comparator: %s", e.Comparator.Value)
	}
	if e.PersistTimestamps.Set {
		line("PersistUserDefinedTimestamps: %t", e.PersistTimestamps.Value)
	}
	dumpOptional(line, "LogNumber", e.LogNumber)
	dumpOptional(line, "PrevLogNumber", e.PrevLogNumber)
	dumpOptional(line, "NextFileNumber", e.NextFileNumber)
	dumpOptional(line, "MaxColumnFamily", e.MaxColumnFamily)
	dumpOptional(line, "MinLogNumberToKeep", e.MinLogNumberToKeep)
	dumpOptional(line, "LastSeq", e.LastSeq)
	for _, c := range e.CompactCursors {
		userKey, trailer, _ := keys.Split(c.Key)
		line("CompactCursor: %d %s", c.Level, style.key(userKey, trailer))
	}
	for _, f := range e.DeletedFiles {
		line("DeleteFile: %d %d", f.Level, f.Number)
	}
	for _, n := range e.NewFiles {
		line("AddFile: %d %s", n.Level, n.Meta.dump(style))
	}
	for i := range e.BlobAdditions {
		a := &e.BlobAdditions[i]
		line("BlobFileAddition: blob_file_number: %d total_blob_count: %d total_blob_bytes: %d checksum_method: %s checksum_value: %X",
			a.Number, a.Count, a.Bytes, a.ChecksumMethod, a.ChecksumValue)
	}
	for i := range e.BlobGarbages {
		g := &e.BlobGarbages[i]
		line("BlobFileGarbage: blob_file_number: %d garbage_blob_count: %d garbage_blob_bytes: %d", g.Number, g.Count, g.Bytes)
	}
	for _, a := range e.WALAdditions {
		size := uint64(math.MaxUint64) // not synced
		if a.SyncedSize.Set {
			size = a.SyncedSize.Value
		}
		line("WalAddition: log_number: %d synced_size_in_bytes: %d", a.Number, size)
	}
	if e.WALDeletion.Set {
		line("WalDeletion: log_number: %d", e.WALDeletion.Value)
	}
	line("ColumnFamily: %d", e.ColumnFamily)
	if e.AddColumnFamily.Set {
		line("ColumnFamilyAdd: %s", e.AddColumnFamily.Value)
	}
	if e.DropColumnFamily {
		line("ColumnFamilyDrop")
	}
	if e.AtomicGroup.Set {
		line("AtomicGroup: %d entries remains", e.AtomicGroup.Value)
	}
	if e.FullHistoryTsLow != nil {
		line("FullHistoryTsLow: %X", e.FullHistoryTsLow)
	}
	if e.LastCompactedManifestSize.Set {
		line("LastCompactedManifestFileSize: %d", e.LastCompactedManifestSize.Value)
	}
	if e.Features.Set {
		line("FlatrockFeatures: %#x", uint64(e.Features.Value))
	}
	for _, u := range e.Unknown {
		line("Unknown tag %d: %X", u.Tag, u.Value)
	}
	fmt.Fprintln(b, "}")
	return b.Flush()
}

func dumpOptional[T uint32 | uint64](line func(string, ...any), name string, v Optional[T]) {
	if v.Set {
		line("%s: %d", name, v.Value)
	}
}

// dump is one line. Fields that RocksDB 7.8 does not know appear only in files that have an epoch number.
func (f *FileMetadata) dump(style DumpStyle) string {
	s := fmt.Sprintf("%d %d %s .. %s", f.Number, f.Size,
		style.key(f.SmallestKey, f.SmallestTrailer), style.key(f.LargestKey, f.LargestTrailer))
	if f.OldestBlobNumber != 0 {
		s += fmt.Sprintf(" blob_file:%d", f.OldestBlobNumber)
	}
	s += fmt.Sprintf(" oldest_ancester_time:%d file_creation_time:%d", f.OldestAncestorTime, f.FileCreationTime)
	if f.EpochNumber != 0 {
		s += fmt.Sprintf(" epoch_number:%d", f.EpochNumber)
	}
	function := f.ChecksumFunc
	if function == "" {
		function = "Unknown"
	}
	s += fmt.Sprintf(" file_checksum:%X file_checksum_func_name: %s", f.Checksum, function)
	if f.Temperature != 0 {
		s += fmt.Sprintf(" temperature: %d", f.Temperature)
	}
	if f.UniqueID != nil {
		s += " unique_id(internal): " + formatUniqueID(f.UniqueID)
		if style.PublicIDs {
			s += " public_unique_id: " + PublicUniqueID(f.UniqueID)
		}
	}
	if f.EpochNumber != 0 {
		s += fmt.Sprintf(" tail size: %d User-defined timestamps persisted: %t", f.TailSize, !f.TimestampsStripped)
	}
	return s
}

// Dump writes the state the way RocksDB's `ldb manifest_dump --hex` does. Versions
// carry no number there, which stands for how many were made before.
func (s *State) Dump(w io.Writer) error { return s.DumpStyled(w, DumpStyle{}) }

// DumpStyled is Dump in another style.
func (s *State) DumpStyled(w io.Writer, style DumpStyle) error {
	b := bufio.NewWriter(w)
	for i, f := range s.Families {
		fmt.Fprintf(b, "--------------- Column family \"%s\"  (ID %d) --------------\n", f.Name, f.ID)
		fmt.Fprintf(b, "log number: %d\n", f.LogNumber)
		fmt.Fprintf(b, "comparator: %s\n", f.Comparator)
		if f.Version != nil {
			number := ""
			if style.VersionNumber != nil {
				number = fmt.Sprintf(" version# %d ---", style.VersionNumber(i))
			}
			f.Version.dump(b, style, number)
		}
	}
	fmt.Fprintf(b, "next_file_number %d last_sequence %d  prev_log_number %d max_column_family %d min_log_number_to_keep %d\n",
		s.NextFileNumber, s.LastSeq, s.PrevLogNumber, s.MaxColumnFamily, s.MinLogNumberToKeep)
	return b.Flush()
}

func (v *Version) dump(b *bufio.Writer, style DumpStyle, number string) {
	for level, files := range v.Levels {
		fmt.Fprintf(b, "--- level %d ---%s\n", level, number)
		for _, f := range files {
			fmt.Fprintf(b, " %d:%d[%d .. %d]%s", f.Number, f.Size, f.SmallestSeq, f.LargestSeq, style.bounds(f))
			if f.OldestBlobNumber != 0 {
				fmt.Fprintf(b, " blob_file:%d", f.OldestBlobNumber)
			}
			fmt.Fprintln(b)
		}
	}
	if len(v.Blobs) > 0 {
		fmt.Fprintf(b, "--- blob files ---%s\n", number)
	}
	for _, f := range v.Blobs {
		fmt.Fprintf(b, "blob_file_number: %d total_blob_count: %d total_blob_bytes: %d checksum_method: %s checksum_value: %X linked_ssts: {",
			f.Number, f.Count, f.Bytes, f.ChecksumMethod, f.ChecksumValue)
		for _, n := range f.Linked {
			fmt.Fprintf(b, " %d", n)
		}
		fmt.Fprintf(b, " } garbage_blob_count: %d garbage_blob_bytes: %d\n", f.GarbageCount, f.GarbageBytes)
	}
}

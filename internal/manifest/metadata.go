package manifest

import (
	"encoding/binary"

	"github.com/flatrock-db/flatrock/internal/coding"
	"github.com/flatrock-db/flatrock/internal/keys"
)

// FileMetadata describes one table file. It is immutable once an edit that adds
// it is applied or appended, and may be shared by any number of versions. Byte slices are owned by it.
type FileMetadata struct {
	Number uint64
	PathID uint8  // index into db_paths, below 4
	Size   uint64 // exact size in bytes

	// Bounds, range tombstones included. A file whose largest key is the end of a
	// range tombstone has the trailer Pack(MaxSeq, KindRangeDelete) there: the
	// user key itself is outside the file.
	SmallestKey, LargestKey         []byte
	SmallestTrailer, LargestTrailer uint64
	SmallestSeq, LargestSeq         uint64

	// EpochNumber orders L0 files by age, larger is newer; 0 is unknown (files from before
	// RocksDB 7.10). Recover infers what is missing.
	EpochNumber uint64
	// UniqueID is what UniqueID computed, 16 bytes (24 in old files), or nil: not verified.
	UniqueID []byte

	OldestBlobNumber             uint64 // 0: refers to no blob file
	OldestAncestorTime           uint64 // unix seconds, 0 unknown
	FileCreationTime             uint64 // unix seconds, 0 unknown
	CompensatedRangeDeletionSize uint64
	TailSize                     uint64 // bytes after the data blocks, 0 unknown
	Checksum                     []byte // whole-file checksum
	ChecksumFunc                 string // empty: none. RocksDB 7.8 writes "Unknown" with an empty checksum
	Temperature                  uint8
	MarkedForCompaction          bool
	TimestampsStripped           bool // user-defined timestamps are not persisted in the file
	MinTimestamp, MaxTimestamp   []byte
	OpenMetadata                 []byte  // RocksDB 11.8's file open metadata, opaque
	Unknown                      []Field // custom fields of newer writers, safe to ignore
}

// sentinelTrailer marks a largest key that the file does not reach.
const sentinelTrailer = keys.MaxSeq<<8 | uint64(keys.KindRangeDelete)

// LargestIsExclusive reports whether LargestKey is the end of a range tombstone
// and so outside the file.
func (f *FileMetadata) LargestIsExclusive() bool { return f.LargestTrailer == sentinelTrailer }

// endsBefore reports whether every key of f sorts before (userKey, trailer).
func (f *FileMetadata) endsBefore(o keys.Order, userKey []byte, trailer uint64) bool {
	c := o.Compare(f.LargestKey, userKey)
	if c != 0 {
		return c < 0
	}
	return f.LargestTrailer == sentinelTrailer || f.LargestTrailer > trailer
}

// OverlapsRange reports whether f may hold a user key in [smallest, largest];
// nil leaves that side open. An empty user key bound must be given as []byte{}.
func (f *FileMetadata) OverlapsRange(o keys.Order, smallest, largest []byte) bool {
	if largest != nil && o.Compare(f.SmallestKey, largest) > 0 {
		return false
	}
	if smallest == nil {
		return true
	}
	c := o.Compare(f.LargestKey, smallest)
	return c > 0 || c == 0 && !f.LargestIsExclusive()
}

// Tags of the custom fields of a new file.
const (
	fileTerminate           = 1
	fileNeedCompaction      = 2
	fileMinLogNumberToKeep  = 3
	fileOldestBlob          = 4
	fileOldestAncestorTime  = 5
	fileCreationTime        = 6
	fileChecksum            = 7
	fileChecksumFunc        = 8
	fileTemperature         = 9
	fileMinTimestamp        = 10
	fileMaxTimestamp        = 11
	fileUniqueID            = 12
	fileEpochNumber         = 13
	fileCompensatedRangeDel = 14
	fileTailSize            = 15
	fileTimestampsPersisted = 16
	fileOpenMetadata        = 17
	filePathID              = 65

	fileUnsafeToIgnore = 64 // bit of a tag
	maxPaths           = 4
)

// appendNewFile appends the fields of tag 103, the tag itself left to the
// caller. minLog, when set, is repeated inside the file's custom fields, where
// RocksDB 5.16 to 6 looks for it.
func (f *FileMetadata) appendNewFile(dst []byte, level int, minLog Optional[uint64]) []byte {
	dst = coding.AppendUvarint(dst, uint64(level))
	dst = coding.AppendUvarint(dst, f.Number)
	dst = coding.AppendUvarint(dst, f.Size)
	dst = appendInternalKey(dst, f.SmallestKey, f.SmallestTrailer)
	dst = appendInternalKey(dst, f.LargestKey, f.LargestTrailer)
	dst = coding.AppendUvarint(dst, f.SmallestSeq)
	dst = coding.AppendUvarint(dst, f.LargestSeq)

	dst = appendUvarintField(dst, fileOldestAncestorTime, f.OldestAncestorTime)
	dst = appendUvarintField(dst, fileCreationTime, f.FileCreationTime)
	if f.EpochNumber != 0 {
		dst = appendUvarintField(dst, fileEpochNumber, f.EpochNumber)
	}
	if f.ChecksumFunc != "" {
		dst = appendField(dst, fileChecksum, f.Checksum)
		dst = appendField(dst, fileChecksumFunc, []byte(f.ChecksumFunc))
	}
	if f.PathID != 0 {
		dst = append(dst, filePathID, 1, f.PathID)
	}
	if f.Temperature != 0 {
		dst = append(dst, fileTemperature, 1, f.Temperature)
	}
	if f.MarkedForCompaction {
		dst = append(dst, fileNeedCompaction, 1, 1)
	}
	if minLog.Set {
		dst = append(dst, fileMinLogNumberToKeep, 8)
		dst = binary.LittleEndian.AppendUint64(dst, minLog.Value)
	}
	if f.OldestBlobNumber != 0 {
		dst = appendUvarintField(dst, fileOldestBlob, f.OldestBlobNumber)
	}
	if f.MinTimestamp != nil {
		dst = appendField(dst, fileMinTimestamp, f.MinTimestamp)
	}
	if f.MaxTimestamp != nil {
		dst = appendField(dst, fileMaxTimestamp, f.MaxTimestamp)
	}
	if f.UniqueID != nil {
		dst = appendField(dst, fileUniqueID, f.UniqueID)
	}
	if f.CompensatedRangeDeletionSize != 0 {
		dst = appendUvarintField(dst, fileCompensatedRangeDel, f.CompensatedRangeDeletionSize)
	}
	if f.TailSize != 0 {
		dst = appendUvarintField(dst, fileTailSize, f.TailSize)
	}
	if f.TimestampsStripped {
		dst = append(dst, fileTimestampsPersisted, 1, 0)
	}
	if f.OpenMetadata != nil {
		dst = appendField(dst, fileOpenMetadata, f.OpenMetadata)
	}
	for _, u := range f.Unknown {
		dst = appendField(dst, u.Tag, u.Value)
	}
	return append(dst, fileTerminate)
}

// newFileForm is the generation of a new-file tag.
type newFileForm uint8

const (
	newFile1 newFileForm = iota // tag 7: no sequence numbers
	newFile2                    // tag 100
	newFile3                    // tag 102: path id after the number
	newFile4                    // tag 103: custom fields
)

// newFile reads a level and the metadata that follows it. minLog is custom
// field 3, which belongs to the edit.
func (d *decoder) newFile(form newFileForm) (nf NewFile, minLog Optional[uint64]) {
	f := new(FileMetadata)
	nf = NewFile{Level: d.level(), Meta: f}
	f.Number = d.fileNumber("file number")
	if form == newFile3 {
		p := d.uvarint32("path id")
		if p >= maxPaths {
			d.fail("expected a path id below %d, found %d", maxPaths, p)
			return nf, minLog
		}
		f.PathID = uint8(p)
	}
	f.Size = d.uvarint64("file size")
	f.SmallestKey, f.SmallestTrailer = d.internalKey("smallest key")
	f.LargestKey, f.LargestTrailer = d.internalKey("largest key")
	if form != newFile1 {
		f.SmallestSeq = d.seq("smallest sequence number")
		f.LargestSeq = d.seq("largest sequence number")
	}
	if form == newFile4 {
		minLog = d.fileCustomFields(f)
	}
	return nf, minLog
}

func (d *decoder) fileCustomFields(f *FileMetadata) (minLog Optional[uint64]) {
	for d.err == nil {
		tag := d.uvarint32("new-file4 custom field tag")
		if d.err != nil || tag == fileTerminate {
			break
		}
		v := d.str("new-file4 custom field")
		if d.err != nil {
			break
		}
		switch tag {
		case fileNeedCompaction:
			f.MarkedForCompaction = d.oneByte(v, "need compaction") == 1
		case fileMinLogNumberToKeep:
			if len(v) != 8 {
				d.fail("expected min log number to keep in 8 bytes, found %d", len(v))
				break
			}
			minLog = Some(binary.LittleEndian.Uint64(v))
			if minLog.Value > maxFileNumber {
				d.fail("expected min log number to keep of at most %d, found %d", uint64(maxFileNumber), minLog.Value)
			}
		case fileOldestBlob:
			f.OldestBlobNumber = d.wholeUvarint(v, "oldest blob file number")
		case fileOldestAncestorTime:
			f.OldestAncestorTime = d.wholeUvarint(v, "oldest ancestor time")
		case fileCreationTime:
			f.FileCreationTime = d.wholeUvarint(v, "file creation time")
		case fileChecksum:
			f.Checksum = clone(v)
		case fileChecksumFunc:
			f.ChecksumFunc = string(v)
		case fileTemperature:
			f.Temperature = d.oneByte(v, "temperature")
		case fileMinTimestamp:
			f.MinTimestamp = clone(v)
		case fileMaxTimestamp:
			f.MaxTimestamp = clone(v)
		case fileUniqueID:
			if len(v) != 16 && len(v) != 24 {
				d.fail("expected a unique id of 16 or 24 bytes, found %d", len(v))
				break
			}
			f.UniqueID = clone(v)
		case fileEpochNumber:
			f.EpochNumber = d.wholeUvarint(v, "epoch number")
		case fileCompensatedRangeDel:
			f.CompensatedRangeDeletionSize = d.wholeUvarint(v, "compensated range deletion size")
		case fileTailSize:
			f.TailSize = d.wholeUvarint(v, "tail size")
		case fileTimestampsPersisted:
			f.TimestampsStripped = d.oneByte(v, "user-defined timestamps persisted") == 0
		case fileOpenMetadata:
			f.OpenMetadata = clone(v)
		case filePathID:
			f.PathID = d.oneByte(v, "path id")
			if f.PathID >= maxPaths {
				d.fail("expected a path id below %d, found %d", maxPaths, f.PathID)
			}
		default:
			if tag&fileUnsafeToIgnore != 0 {
				d.fail("expected a custom field of a new file that is known or safe to ignore, found tag %d", tag)
				break
			}
			f.Unknown = append(f.Unknown, Field{tag, clone(v)})
		}
	}
	return minLog
}

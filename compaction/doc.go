// Package compaction decides what to merge and runs the merge.
//
// A picker (Pick, Manual.Next, PickFiles) is a pure function from a version to a Choice. Run
// turns inputs into output files; a flush is a Run whose one input is a
// memtable. Neither schedules, locks the DB or installs its result: the root
// does.
//
// # What Run keeps
//
// Snapshots, in ascending order, cut the sequence numbers into stripes: two
// entries of a user key are in one stripe if no snapshot sees one without the
// other. For each user key, newest entry first, the rules are:
//
//	K1 Of a stripe only the newest entry is kept, as nobody can see the others. A
//	   single delete right beneath a value is kept as well: when a newer single
//	   delete takes the value away (K4), this one must still hide what is deeper.
//	K2 An entry under a range tombstone of its own stripe is dropped, and so are
//	   those of its stripe that are older.
//	K3 Merge operands of a stripe are merged onto a value or delete of the same
//	   stripe. Without one they are combined as far as the operator can, and at
//	   the end of the key merged onto nothing if nothing lies deeper. What the
//	   operator refuses is kept as it is, with what is beneath: nothing is lost.
//	K4 A single delete and the value right below it in its stripe both go.
//	K5 Deletes at the old end of a key go if nothing lies deeper.
//	K6 At the bottom, the sequence number of the oldest entry of a key becomes
//	   zero if every snapshot sees the entry.
//	K7 Of the range tombstones over a span, the newest of each stripe is kept;
//	   one that every snapshot sees goes if nothing lies deeper.
//
// An output file ends only between two user keys. Range tombstones that span the
// cut are cut there too.
package compaction

// Package mutation puts known bugs into the engine, one at a time, to prove that the
// stress harnesses find them. Only a build with the tag flatrock_mutations can do
// that; without it On is false to the compiler, and what it guards is not compiled.
package mutation

// Kind is a bug. Its text is the value of FLATROCK_MUTATION that switches it on.
type Kind string

// Env is the variable that names the bug to have.
const Env = "FLATROCK_MUTATION"

// The bugs.
const (
	SkipWALSync           Kind = "skip-wal-sync"           // a sync write does not sync the log
	SkipClosedLogSync     Kind = "skip-closed-log-sync"    // nor the logs before the current one
	SkipDirectorySync     Kind = "skip-directory-sync"     // new tables' names are not synced
	SkipLogDirectorySync  Kind = "skip-log-directory-sync" // new logs' names are not synced
	SkipManifestSync      Kind = "skip-manifest-sync"      // edits are not synced
	LoseLogRecord         Kind = "lose-log-record"         // one group of 64 is not logged
	DropTombstoneEarly    Kind = "drop-tombstone-early"    // compactions drop deletes above older values
	ForgetSnapshot        Kind = "forget-snapshot"         // compactions do not know the newest snapshot
	StaleSnapshot         Kind = "stale-snapshot"          // a snapshot does not show the newest write before it
	PublishEarly          Kind = "publish-early"           // writes are visible before all of them are inserted
	FlipEdits             Kind = "flip-edits"              // two edits change places in the MANIFEST
	IgnoreChecksum        Kind = "ignore-checksum"         // blocks are not verified
	ForgetRangeTombstones Kind = "forget-range-tombstones" // range deletes below level 0 hide nothing
	ReuseArenaEarly       Kind = "reuse-arena-early"       // memtables are freed while somebody reads them
	DeleteLogsEarly       Kind = "delete-logs-early"       // logs go before the edit that allows it
)

// Kinds are all bugs.
var Kinds = []Kind{
	SkipWALSync, SkipClosedLogSync, SkipDirectorySync, SkipLogDirectorySync, SkipManifestSync, LoseLogRecord, DropTombstoneEarly,
	ForgetSnapshot, StaleSnapshot, PublishEarly, FlipEdits, IgnoreChecksum, ForgetRangeTombstones, ReuseArenaEarly, DeleteLogsEarly,
}

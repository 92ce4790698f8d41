// Package mmapfs is the only door to the operating system's files and memory.
//
// Files: [FS] and [File] with three implementations. [OS] is the machine's; [MemFS] keeps everything in memory and
// knows what a crash would lose; [FaultFS] wraps another and makes the n-th operation fail.
//
// Memory: [Mapping] reads a file through mmap under a [Memory] policy, [WriteMapping] appends to a log through one,
// and [Arena] is zeroed memory outside the Go heap that never moves.
//
// # What may go wrong with a mapping, and what is done about it
//
//   - A page that cannot be read (an I/O error, a file truncated by somebody else) is SIGBUS. Every read of a
//     file-backed mapping runs between [Guard] and [Unguard], which turn the fault into a [FaultError] that names the
//     file and the offset.
//   - A page that is not in memory blocks the goroutine together with its P. The policies populate, lock and resident
//     read the file when it is opened, in a system call, which gives the P away.
//   - A mapped write into a hole of a full disk is SIGBUS. [File.MapWrite] reserves the blocks first, works only where
//     the reservation is for good, and its writes run under the guard as well.
//   - Unmapping under a reader's feet kills the process. Whoever closes a mapping or frees an arena must know that
//     nobody reads it any more; the read state of the root package does.
//
// Only anonymous memory and tmpfs can be huge pages, and a NUMA placement has an effect on anonymous memory alone: so
// [Placement] is applied to arenas and to [MemoryResident], and ignored for the other policies.
//
// Linux gets all of it. Elsewhere the fallbacks are plain: slower, never wrong.
package mmapfs

// Package numa places threads and memory on the nodes of a NUMA machine, and
// measures where they are.
//
// A node is a group of CPUs and the memory near them. Reading the memory of
// another node costs more (a distance of 20 or 21 against 10 is common), and
// Go's scheduler does not know: a goroutine runs on whatever thread steals it,
// and a thread on whatever CPU the kernel picks. This package therefore works
// on threads and on mapped memory, never on goroutines or on the Go heap:
//
//	topology    Discover: nodes, CPUs, memory, huge pages, distances, what this process may use
//	threads     Pin, PinNode, SetThreadPolicy (each with a release), Current, Locator
//	memory      Bind, Interleave, Prefer, Apply on ranges; RangePolicy reads back
//	files       Populate: the pages of a mapped file land where the populating thread's policy says
//	measurement PlacementOf, SamplePlacement, Report
//	migration   Migrate moves the pages that exist
//	services    Pool (pinned workers), Shards (key to node), PerNode and Replicate (a copy per node)
//
// # What the kernel ignores in silence
//
// Each of these succeeds as a system call and does nothing, or less than was
// asked. Here each is an error:
//
//   - A policy on a mapping of an ordinary file (ext4, xfs, …): pages of the
//     page cache follow the policy of the thread that faults them in, never that
//     of the mapping. ErrIgnored. Use Populate, or a copy in anonymous memory
//     (Replicate), or tmpfs and memfd, whose mappings do follow their policy.
//   - Nodes that the process may not use (cpuset) or that have no memory are
//     dropped from a policy. ErrNode, before anything has changed.
//   - CPUs that are offline or outside the cpuset are dropped from an affinity
//     mask. ErrCPU, with the old mask back in place.
//   - Pages that cannot move (mapped by another process too, or pinned) stay
//     where they are. ErrMisplaced, with the count.
//   - A policy binds pages that are yet to be allocated. Without MoveOwn or
//     MoveAll the pages that exist stay; that is asked for, hence no error, and
//     PlacementOf shows it.
//
// # Where there are no nodes
//
// On systems other than Linux, and on Linux kernels without NUMA, Discover
// returns one pseudo-node, number 0, with every CPU. Calls that are satisfied by
// having one node succeed and do nothing (PinNode(0), Bind(b, Leave, 0), a Pool);
// calls that need the kernel (Pin, Current, PlacementOf, Migrate to a node) return
// ErrNotSupported. Each function says which it is.
//
// # Permissions
//
// All of it works without privileges, save MoveAll (CAP_SYS_NICE). A container's
// seccomp profile may forbid the memory calls; Docker's default one does without
// CAP_SYS_NICE. That is ErrNotPermitted, and the text says so.
package numa

// Package stress runs random operations against a database from many goroutines,
// takes the database down in every way that there is, and proves after each that
// every key holds what it must.
//
// # What is checked
//
// Every batch that a worker writes also sets a counter of that worker in each
// family that it touches. So any consistent view of the database, be it a
// snapshot held for a while, an iterator, or what a crash left, says by its
// counters exactly which batches it holds: of each worker those up to some
// number. That set is the view's cut, and from it and the trace of what was written
// every key's value follows. A view is right when
//
//	S1 all families agree on the cut (a batch is there whole or not at all);
//	S2 every key holds the value of the last batch of the cut that wrote it;
//	S3 the cut is closed backwards in time: where a batch is missing, nothing
//	   that began after it had returned is there: what is lost is a suffix;
//	S4 what had to survive is there: all that was acknowledged before a kill, all
//	   that a sync covered before a loss of power, all that had returned
//	   before a snapshot was taken;
//	S5 a batch that failed is not visible, and may be there after a reopen only as the last of its worker.
//
// In a round whose writes go without a log S1 and S3 hold for each family by itself.
//
// # The harnesses
//
// Live runs rounds with clean ends in between, BlackBox kills a child process at
// random times, White box is BlackBox with a build that kills itself at named steps
// (build tag flatrock_killpoints), Faults fails file operations with odds, flips
// bits in reads and fills the disk, PowerLoss crashes an in-memory file system.
// All options are drawn again for each round. A seed decides options and
// operations; how goroutines interleave it cannot.
package stress

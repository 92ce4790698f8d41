package mmapfs

import (
	"runtime/debug"
	"slices"
	"sync"
)

// Guard makes a memory fault of this goroutine a panic until Unguard, instead of the end of the process.
// Every read of a file-backed mapping runs so:
//
//	func (r *Reader) get(...) (v []byte, err error) {
//		old := mmapfs.Guard()
//		defer mmapfs.Unguard(old, &err)
//		...
//	}
//
// Guards nest. Together with Unguard it costs a few nanoseconds and allocates nothing.
func Guard() (old bool) { return debug.SetPanicOnFault(true) }

// Unguard ends a Guard. It must be deferred directly, or it cannot recover. A fault whose address lies in a mapping
// of this package becomes a *FaultError in *err; any other panic goes on.
func Unguard(old bool, err *error) {
	r := recover()
	debug.SetPanicOnFault(old)
	if r != nil {
		unguardPanic(r, err)
	}
}

//go:noinline
func unguardPanic(r any, err *error) {
	// The runtime's errors for a fault under SetPanicOnFault have an Addr method; a nil dereference does not.
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		if fe := mappings.find(f.Addr()); fe != nil {
			*err = fe
			return
		}
	}
	panic(r)
}

// registry knows which file lies at which address. It is asked only after a fault.
type registry struct {
	mu     sync.Mutex
	ranges []addressRange // by base, disjoint
}

type addressRange struct {
	base, size uintptr
	file       string
	offset     int64 // of base in file
}

// mappings are those of the process, as addresses are.
var mappings registry

func (r *registry) search(addr uintptr) (int, bool) {
	return slices.BinarySearchFunc(r.ranges, addr, func(x addressRange, a uintptr) int {
		switch {
		case a < x.base:
			return 1
		case a-x.base >= x.size:
			return -1
		}
		return 0
	})
}

func (r *registry) add(b []byte, file string, offset int64) {
	base := addressOf(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.search(base)
	r.ranges = slices.Insert(r.ranges, i, addressRange{base, uintptr(len(b)), file, offset})
}

func (r *registry) remove(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i, ok := r.search(addressOf(b)); ok {
		r.ranges = slices.Delete(r.ranges, i, i+1)
	}
}

func (r *registry) find(addr uintptr) *FaultError {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.search(addr)
	if !ok {
		return nil
	}
	x := &r.ranges[i]
	return &FaultError{File: x.file, Offset: x.offset + int64(addr-x.base)}
}

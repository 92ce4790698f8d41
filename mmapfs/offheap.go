package mmapfs

import "sync"

// Usage counts the memory outside the Go heap that this process got from this package, in bytes.
type Usage struct {
	Mapped        int64                 // files mapped for reading or writing: page cache, not all of it in memory
	Locked        int64                 // the part of Mapped that is locked into memory
	Resident      int64                 // copies of files made by MemoryResident
	ArenaReserved int64                 // address space of all arenas
	ArenaUsed     int64                 // the part of ArenaReserved that is handed out
	Arenas        map[string]ArenaUsage // by ArenaOptions.Name
}

// ArenaUsage counts the arenas of one name.
type ArenaUsage struct {
	Count          int
	Reserved, Used int64
}

// OffHeap returns the usage now. Safe for concurrent use.
func OffHeap() Usage {
	usage.mu.Lock()
	defer usage.mu.Unlock()
	u := usage.totals
	u.Arenas = make(map[string]ArenaUsage)
	for a := range usage.arenas {
		n := u.Arenas[a.name]
		n.Count++
		n.Reserved += a.Reserved()
		n.Used += a.Used()
		u.Arenas[a.name] = n
		u.ArenaReserved += a.Reserved()
		u.ArenaUsed += a.Used()
	}
	return u
}

// accounting is the process's, as its address space is.
type accounting struct {
	mu     sync.Mutex
	totals Usage
	arenas map[*Arena]struct{}
}

var usage = accounting{arenas: make(map[*Arena]struct{})}

func (u *accounting) addArena(a *Arena) {
	u.mu.Lock()
	u.arenas[a] = struct{}{}
	u.mu.Unlock()
}

func (u *accounting) removeArena(a *Arena) {
	u.mu.Lock()
	delete(u.arenas, a)
	u.mu.Unlock()
}

func (u *accounting) add(mapped, locked, resident int64) {
	u.mu.Lock()
	u.totals.Mapped += mapped
	u.totals.Locked += locked
	u.totals.Resident += resident
	u.mu.Unlock()
}

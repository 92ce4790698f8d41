//go:build amd64 && linux && !race

package mmapfs

// PlainStores tells that an ordinary store may announce something to another goroutine: the
// processor keeps its stores in order and after the loads before them, so that all that is
// missing is the barrier between the store and a later load, which FenceAll
// supplies from the other side. The race detector, which knows nothing of that, sees
// atomic stores instead.
const PlainStores = true

package cachesim

import "slices"

// Distances finds reuse distances: how many bytes of other blocks were accessed since the
// last access of a block. Its memory is bounded: it begins with all blocks, and when there are
// too many keeps those alone whose hash is below a threshold, which it halves.
type Distances struct {
	max       int
	threshold uint64
	blocks    map[uint64]*Reuse
	order     []uint64 // blocks by position; 0 where there is none
	sums      []int64  // a Fenwick tree over the sizes by position
	next      int
	bytes     int64
}

// Reuse is what is known of a block.
type Reuse struct {
	pos      int
	size     int64
	Accesses uint64
	Index    uint64 // of the last access, among all
	Micros   uint64 // of it
	GapIndex uint64 // before that one
	GapTime  uint64
}

// NewDistances keeps at most so many blocks.
func NewDistances(maxBlocks int) *Distances {
	d := &Distances{max: max(maxBlocks, 16), threshold: ^uint64(0), blocks: map[uint64]*Reuse{}}
	d.resize(1 << 10)
	return d
}

// Every is of how many blocks those that are kept are one.
func (d *Distances) Every() float64 { return float64(^uint64(0)) / float64(d.threshold) }

// Kept reports whether a block is among those that are followed.
func (d *Distances) Kept(block uint64) bool { return Mix(block) <= d.threshold }

// Blocks is how many blocks have been seen, estimated from those that were kept.
func (d *Distances) Blocks() float64 { return float64(len(d.blocks)) * d.Every() }

// Bytes is the size of the blocks that have been seen, likewise.
func (d *Distances) Bytes() float64 { return float64(d.bytes) * d.Every() }

// Access notes an access of a block that is kept. distance is the bytes accessed since its last
// one, itself included, scaled up to all blocks; at its first access it is -1. r is
// its state before this access, to be changed by the caller.
func (d *Distances) Access(block uint64, size int64) (r *Reuse, distance int64) {
	size = max(size, 1)
	r = d.blocks[block]
	distance = -1
	if r != nil {
		distance = int64(float64(d.bytes-d.sum(r.pos-1)) * d.Every())
		d.add(r.pos, -r.size)
		d.order[r.pos] = 0
		d.bytes -= r.size
	} else {
		r = new(Reuse)
		d.blocks[block] = r
	}
	if d.next == len(d.order) {
		d.compact()
	}
	r.pos, r.size = d.next, size
	d.order[d.next] = block
	d.next++
	d.add(r.pos, size)
	d.bytes += size
	if len(d.blocks) > d.max {
		d.thin()
	}
	return r, distance
}

// sum is the sizes at positions up to pos.
func (d *Distances) sum(pos int) (n int64) {
	for i := pos + 1; i > 0; i -= i & -i {
		n += d.sums[i]
	}
	return n
}

func (d *Distances) add(pos int, n int64) {
	for i := pos + 1; i < len(d.sums); i += i & -i {
		d.sums[i] += n
	}
}

func (d *Distances) resize(n int) {
	d.order, d.sums = make([]uint64, n), make([]int64, n+1)
}

// compact numbers the positions anew, without gaps, in twice the room.
func (d *Distances) compact() {
	live := make([]*Reuse, 0, len(d.blocks))
	names := make(map[*Reuse]uint64, len(d.blocks))
	for b, r := range d.blocks {
		if r.size > 0 && r.pos < d.next && d.order[r.pos] == b {
			live = append(live, r)
			names[r] = b
		}
	}
	slices.SortFunc(live, func(a, b *Reuse) int { return a.pos - b.pos })
	d.resize(max(1<<10, 2*len(live)+2))
	for i, r := range live {
		r.pos = i
		d.order[i] = names[r]
		d.add(i, r.size)
	}
	d.next = len(live)
}

// thin halves the threshold and drops what lies above.
func (d *Distances) thin() {
	d.threshold /= 2
	for b, r := range d.blocks {
		if !d.Kept(b) {
			d.bytes -= r.size
			delete(d.blocks, b)
		}
	}
	d.compact()
}

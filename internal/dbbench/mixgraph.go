package dbbench

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	flatrock "github.com/flatrock-db/flatrock"
)

// mixFlags describe mixgraph: the workloads of Cao, Dong, Vemuri and Du (FAST 2020),
// fitted to distributions.
type mixFlags struct {
	accesses                      int64
	getRatio, putRatio, seekRatio float64
	maxScan, maxValue             int64

	rangeCount                     int64
	rangeA, rangeB, rangeC, rangeD float64
	keyA, keyB                     float64
	valueK, valueTheta, valueSigma float64
	iterK, iterTheta, iterSigma    float64

	sine                       bool
	sineInterval               uint64 // milliseconds
	sineNoise                  float64
	sineA, sineB, sineC, sineD float64
}

// defaultMix is db_bench's.
func defaultMix() mixFlags {
	return mixFlags{
		accesses: -1, getRatio: 1, maxScan: 10000, maxValue: 1024, rangeCount: 1,
		valueK: 0.2615, valueSigma: 25.45, iterK: 2.517, iterSigma: 14.236,
		sineInterval: 10000, sineA: 1, sineB: 1, sineD: 1,
	}
}

// pareto draws from the generalised Pareto distribution.
func pareto(u, theta, k, sigma float64) float64 {
	if k == 0 {
		return theta - sigma*math.Log(u)
	}
	return theta + sigma*(math.Pow(u, -k)-1)/k
}

// mixKeys draws keys. With key ranges, a range is drawn by its share, which falls as
// a sum of two exponentials over the ranges, in an order of its own; in the range, or in
// all keys, a power law says how popular a key is, and where it lies is scattered.
type mixKeys struct {
	f     *mixFlags
	rng   *rand.Rand
	num   uint64
	upTo  []float64 // shares up to each range, the last is 1
	place []int     // of each range
	size  uint64
}

func newMixKeys(f *mixFlags, num uint64, rng *rand.Rand, seed uint64) *mixKeys {
	m := &mixKeys{f: f, rng: rng, num: num}
	n := max(f.rangeCount, 1)
	if n > 1<<24 || f.rangeA == 0 && f.rangeB == 0 && f.rangeC == 0 && f.rangeD == 0 {
		return m
	}
	sum := 0.0
	for i := range n {
		x := float64(i + 1)
		sum += max(f.rangeA*math.Exp(f.rangeB*x)+f.rangeC*math.Exp(f.rangeD*x), 0)
		m.upTo = append(m.upTo, sum)
	}
	for i := range m.upTo {
		m.upTo[i] /= sum
	}
	// All threads agree on where the ranges lie.
	m.place = rand.New(rand.NewPCG(seed, 1)).Perm(int(n))
	m.size = max(num/uint64(n), 1)
	return m
}

func (m *mixKeys) draw() uint64 {
	if m.upTo == nil {
		if m.f.keyA == 0 || m.f.keyB == 0 {
			return m.rng.Uint64N(m.num)
		}
		return m.power(m.num)
	}
	i, _ := slices.BinarySearch(m.upTo, m.rng.Float64())
	start := uint64(m.place[min(i, len(m.place)-1)]) * m.size
	if m.f.keyA == 0 || m.f.keyB == 0 {
		return (start + m.rng.Uint64N(m.size)) % m.num
	}
	return (start + m.power(m.size)) % m.num
}

// power is a number below n whose popularity follows the power law.
func (m *mixKeys) power(n uint64) uint64 {
	rank := math.Pow(m.rng.Float64()/m.f.keyA, 1/m.f.keyB)
	// Ranks that are near are not neighbours.
	x := uint64(min(max(rank, 0), 1<<62)) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	return x * 0xBF58476D1CE4E5B9 >> 1 % n
}

// sinePace is a rate that follows a sine, set anew every interval.
type sinePace struct {
	f     *mixFlags
	rng   *rand.Rand
	share float64 // of the rate, that this thread has
	start time.Time
	until time.Time
	pace  *pacer
	halt  <-chan struct{}
}

// sineAt is the rate after so many seconds.
func (f *mixFlags) sineAt(x float64) float64 { return f.sineA*math.Sin(f.sineB*x+f.sineC) + f.sineD }

func (s *sinePace) take() {
	now := time.Now()
	if now.After(s.until) {
		x := now.Sub(s.start).Seconds()
		rate := s.f.sineAt(x)
		rate *= 1 + s.f.sineNoise*(2*s.rng.Float64()-1)
		s.pace = newPacer(max(rate*s.share, 1e-3), s.halt)
		s.until = now.Add(time.Duration(max(s.f.sineInterval, 1)) * time.Millisecond)
	}
	s.pace.take(1)
}

func mixGraph(t *thread) error {
	f := &t.c.mix
	total := f.getRatio + f.putRatio + f.seekRatio
	if total <= 0 {
		return errors.New("--mix_get_ratio, --mix_put_ratio and --mix_seek_ratio: want one above zero")
	}
	getUpTo, putUpTo := f.getRatio/total, (f.getRatio+f.putRatio)/total
	keys := newMixKeys(f, t.keyCount(), t.rng, t.seed)
	values := newValueSource(t.c, t.rng, max(f.maxValue, 1))
	sine := &sinePace{f: f, rng: t.rng, share: 1 / float64(t.p.threads), start: time.Now(), halt: t.halted}
	var value []byte
	var gets, puts, seeks, reads, found, valueBytes, scanned, size int64
	loop := t.count(true, orNum(f.accesses, t.c.readWritesEach()))
	for !loop.done(1) {
		if f.sine {
			sine.take()
		}
		t.setKey(keys.draw())
		u := t.rng.Float64()
		switch {
		case u < getUpTo:
			gets++
			reads++
			t.readPace.take(1)
			v, err := t.cf.Get(t.ro, t.key, value[:0])
			if err == nil {
				value = v
				found++
				size += int64(len(t.key) + len(v))
				valueBytes += int64(len(v))
			} else if !errors.Is(err, flatrock.ErrNotFound) {
				return err
			}
			t.stats.finished(1, opRead)
		case u < putUpTo:
			puts++
			n := int64(pareto(1-t.rng.Float64(), f.valueTheta, f.valueK, f.valueSigma))
			if n < 0 {
				n = 10
			}
			v := values.sized(int(min(n, f.maxValue)))
			t.writePace.take(int64(len(t.key) + len(v)))
			if err := t.cf.Put(t.wo, t.key, v); err != nil {
				return err
			}
			size += int64(len(t.key) + len(v))
			valueBytes += int64(len(v))
			t.stats.finished(1, opWrite)
		default:
			seeks++
			reads++
			n := int64(pareto(1-t.rng.Float64(), f.iterTheta, f.iterK, f.iterSigma)) % max(f.maxScan, 1)
			it, err := t.cf.NewIterator(t.ro)
			if err != nil {
				return err
			}
			ok := it.SeekGE(t.key)
			if ok && bytes.Equal(it.Key(), t.key) {
				found++
			}
			for ; ok && n > 0; n-- {
				size += int64(len(it.Key()) + len(it.Value()))
				scanned++
				ok = it.Next()
			}
			if err := it.Close(); err != nil {
				return err
			}
			t.stats.finished(1, opSeek)
		}
	}
	t.stats.bytes = size
	average := func(sum, n int64) float64 { return float64(sum) / float64(max(n, 1)) }
	t.stats.message = fmt.Sprintf("( Gets:%d Puts:%d Seek:%d, reads %d in %d found, avg size: %.1f value, %.1f scan)",
		gets, puts, seeks, found, reads, average(valueBytes, gets+puts), average(scanned, seeks))
	return nil
}

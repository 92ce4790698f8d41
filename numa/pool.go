package numa

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// PoolOptions shape a Pool. The zero value is usable.
type PoolOptions struct {
	// Nodes get workers. Empty means each node where this process may run threads.
	Nodes []int

	// Workers is how many each node gets. Zero means one for each physical core
	// that the process may use there: hyper-threads of a core share its caches and
	// its misses in flight, so that a second one per core helps less than the first.
	Workers int

	// Queue is how many functions may wait on each node, besides those running.
	// Zero means 64 for each worker; NoQueue means that a function is only taken
	// by a worker that is free.
	Queue int

	// OnPanic is told of panics in functions given to Go and TryGo, on the worker's
	// goroutine; it must not panic. Nil keeps the first 16 for Close to return.
	OnPanic func(*PanicError)
}

// NoQueue is PoolOptions.Queue for a queue of no length.
const NoQueue = -1

// keptPanics bounds what a pool remembers for Close.
const keptPanics = 16

// PanicError is a panic of a function that ran on a node's thread.
type PanicError struct {
	Node  int
	Value any    // what panic was given
	Stack []byte // of the goroutine, as debug.Stack writes it
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("numa: panic on node %d: %v", e.Node, e.Value)
}

// Unwrap returns the panic's value if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// errGoexit is the answer to Do when the function ended its goroutine.
var errGoexit = errors.New("numa: the function ended its goroutine (runtime.Goexit)")

// Pool runs functions on workers that stay on a node: each worker is a goroutine
// locked to a thread, which is pinned to the node's CPUs and prefers its memory.
//
// More pinned workers than CPUs, or than a control group's quota (Topology.Limits),
// queue behind each other. Safe for concurrent use.
type Pool struct {
	nodes   []int // ascending
	queues  map[int]*queue
	onPanic func(*PanicError)
	closing chan struct{} // closed when Close begins
	once    sync.Once
	workers sync.WaitGroup

	mu     sync.Mutex
	errs   []error // first panics of Go, and threads that could not be released
	closed error
}

// queue belongs to one node, so that senders to different nodes share nothing.
//
// Invariant: work is closed only under mu held for writing, after closing; a
// sender holds mu for reading from before it looks at closing until it has sent.
// Hence nothing is sent to a closed channel, and nothing is accepted and not run.
type queue struct {
	mu   sync.RWMutex
	work chan func()
	_    [64]byte // of one node's senders, not of another's
}

// NewPool starts the workers and returns when all are pinned. ErrNode if a node
// has no CPU that this process may use; no worker is left then.
func NewPool(t *Topology, o PoolOptions) (*Pool, error) {
	nodes := normal(o.Nodes)
	if len(nodes) == 0 {
		nodes = t.CPUNodes()
	}
	if o.Workers < 0 || o.Queue < NoQueue {
		return nil, fmt.Errorf("numa: pool: expected Workers of at least 0 and Queue of at least -1, found %d and %d", o.Workers, o.Queue)
	}
	p := &Pool{nodes: nodes, queues: map[int]*queue{}, onPanic: o.OnPanic, closing: make(chan struct{})}
	var started []chan error
	for _, node := range nodes {
		workers := o.Workers
		if workers == 0 {
			workers = max(1, t.allowedCores(node))
		}
		length := o.Queue
		switch length {
		case 0:
			length = 64 * workers
		case NoQueue:
			length = 0
		}
		q := &queue{work: make(chan func(), length)}
		p.queues[node] = q
		for range workers {
			up := make(chan error, 1)
			started = append(started, up)
			p.workers.Add(1)
			go p.worker(t, node, q, up)
		}
	}
	var errs []error
	for _, up := range started {
		errs = append(errs, <-up)
	}
	if err := errors.Join(errs...); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// allowedCores is the number of physical cores of a node with a usable CPU.
func (t *Topology) allowedCores(node int) int {
	n := t.Node(node)
	if n == nil {
		return 0
	}
	var count int
	for _, core := range n.Cores {
		if len(intersect(core, t.AllowedCPUs)) > 0 {
			count++
		}
	}
	return count
}

// worker runs q's functions until q is closed and empty. up is told once whether
// the first worker of the place could be pinned.
//
// A function that ends its goroutine takes the thread along, still pinned: the
// runtime ends it, and a new worker takes the place. If that one cannot be pinned
// any more (the CPUs went offline), it runs unpinned, which is slower and still
// keeps the promise that what was accepted runs.
func (p *Pool) worker(t *Topology, node int, q *queue, up chan<- error) {
	release, err := t.settleOn(node)
	if up != nil {
		up <- err
		if err != nil {
			p.workers.Done()
			return
		}
	} else if err != nil {
		p.keep(err)
		release = func() error { return nil }
	}
	drained := false
	defer func() {
		if !drained {
			go p.worker(t, node, q, nil)
			return
		}
		if err := release(); err != nil {
			p.keep(err)
		}
		p.workers.Done()
	}()
	for f := range q.work {
		p.run(node, f)
	}
	drained = true
}

// settleOn is settle for a node that must have CPUs itself.
func (t *Topology) settleOn(node int) (Release, error) {
	if len(t.AllowedOn(node)) == 0 {
		return nil, fmt.Errorf("numa: pool on node %d: it has no cpu that this process may use: %w", node, ErrNode)
	}
	return t.settle(node)
}

// run calls f and turns its panic into an error.
func (p *Pool) run(node int, f func()) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err := &PanicError{Node: node, Value: v, Stack: debug.Stack()}
		if p.onPanic != nil {
			p.onPanic(err)
			return
		}
		p.keep(err)
	}()
	f()
}

func (p *Pool) keep(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errs) < keptPanics {
		p.errs = append(p.errs, err)
	}
}

// Nodes are those with workers, ascending. Borrowed: do not change.
func (p *Pool) Nodes() []int { return p.nodes }

// Waiting is the number of functions in a node's queue that no worker has taken.
func (p *Pool) Waiting(node int) int {
	if q := p.queues[node]; q != nil {
		return len(q.work)
	}
	return 0
}

// Go gives f to a worker of the node; it waits while the queue is full. A worker
// that waits so for its own node can wait for ever: use TryGo there. f's panic
// goes to PoolOptions.OnPanic, or to Close. Errors: ErrClosed, ErrNode.
func (p *Pool) Go(node int, f func()) error { return p.send(context.Background(), node, f) }

// TryGo is Go that returns ErrFull rather than wait.
func (p *Pool) TryGo(node int, f func()) error {
	q, err := p.enter(node)
	if err != nil {
		return err
	}
	defer q.mu.RUnlock()
	select {
	case q.work <- f:
		return nil
	default:
		return fmt.Errorf("numa: pool on node %d: %w", node, ErrFull)
	}
}

// Do runs f on a worker of the node, waits, and returns f's error, or its panic as
// a *PanicError. ctx ends the waiting for a place in the queue, with ctx's error,
// and not f, which sees to its own end. Errors as for Go.
func (p *Pool) Do(ctx context.Context, node int, f func() error) error {
	done := make(chan error, 1)
	err := p.send(ctx, node, func() {
		err := errGoexit // stays if f ends the goroutine
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Node: node, Value: v, Stack: debug.Stack()}
			}
			done <- err
		}()
		err = f()
	})
	if err != nil {
		return err
	}
	return <-done
}

func (p *Pool) send(ctx context.Context, node int, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q, err := p.enter(node)
	if err != nil {
		return err
	}
	defer q.mu.RUnlock()
	select {
	case q.work <- f:
		return nil
	case <-p.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter returns the node's queue locked for a sender.
func (p *Pool) enter(node int) (*queue, error) {
	q := p.queues[node]
	if q == nil {
		return nil, fmt.Errorf("numa: pool: node %d has no workers: %w", node, ErrNode)
	}
	q.mu.RLock()
	select {
	case <-p.closing:
		q.mu.RUnlock()
		return nil, ErrClosed
	default:
		return q, nil
	}
}

// Close refuses new functions, lets those accepted run, waits for the workers, and
// puts their threads back. It returns the panics that were kept. Calls after the
// first wait too and return the same. A worker must not call it.
func (p *Pool) Close() error {
	p.once.Do(func() {
		close(p.closing)
		for _, q := range p.queues {
			q.mu.Lock() // waits for senders to leave; closing has woken them
			close(q.work)
			q.mu.Unlock()
		}
		p.workers.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.closed = errors.Join(p.errs...)
	})
	return p.closed
}

package numa

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func newPool(t testing.TB, o PoolOptions) *Pool {
	t.Helper()
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPool(topology, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPoolHasWorkersOnEachNode(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, PoolOptions{})
	if !slices.Equal(p.Nodes(), topology.CPUNodes()) {
		t.Errorf("workers on %v, want %v", p.Nodes(), topology.CPUNodes())
	}
	for _, node := range p.Nodes() {
		for range 10 {
			err := p.Do(context.Background(), node, func() error {
				_, on, err := Current()
				if errors.Is(err, ErrNotSupported) {
					return nil
				}
				if on != node {
					return fmt.Errorf("runs on node %d: %w", on, err)
				}
				return err
			})
			if err != nil {
				t.Errorf("on node %d: %v", node, err)
			}
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPoolRunsAllThatItAccepts(t *testing.T) {
	p := newPool(t, PoolOptions{Workers: 3, Queue: 2})
	var ran, accepted atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := 0; ; j++ {
				node := p.Nodes()[(i+j)%len(p.Nodes())]
				var err error
				switch j % 3 {
				case 0:
					err = p.Go(node, func() { ran.Add(1) })
				case 1:
					err = p.TryGo(node, func() { ran.Add(1) })
				default:
					err = p.Do(context.Background(), node, func() error { ran.Add(1); return nil })
				}
				switch {
				case err == nil:
					if accepted.Add(1) == 2000 {
						close(stop) // senders are still at it when Close comes
					}
				case errors.Is(err, ErrClosed):
					return
				case !errors.Is(err, ErrFull):
					t.Error(err)
					return
				}
			}
		}()
	}
	<-stop
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if ran.Load() != accepted.Load() {
		t.Errorf("%d ran, %d were accepted", ran.Load(), accepted.Load())
	}
	node := p.Nodes()[0]
	for _, err := range []error{p.Go(node, func() {}), p.TryGo(node, func() {}), p.Do(context.Background(), node, func() error { return nil })} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want ErrClosed", err)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// blocked is a pool of one worker a node, whose worker on the first node waits.
func blocked(t *testing.T, queue int) (p *Pool, node int, unblock func()) {
	t.Helper()
	p = newPool(t, PoolOptions{Workers: 1, Queue: queue})
	node = p.Nodes()[0]
	running, wait := make(chan struct{}), make(chan struct{})
	if err := p.Go(node, func() { close(running); <-wait }); err != nil {
		t.Fatal(err)
	}
	<-running
	return p, node, func() { close(wait) }
}

func TestQueueIsBounded(t *testing.T) {
	for _, length := range []int{NoQueue, 1, 5} {
		p, node, unblock := blocked(t, length)
		var ran atomic.Int64
		fits := max(0, length)
		for range fits {
			if err := p.TryGo(node, func() { ran.Add(1) }); err != nil {
				t.Fatal(err)
			}
		}
		if p.Waiting(node) != fits {
			t.Errorf("%d wait, want %d", p.Waiting(node), fits)
		}
		if err := p.TryGo(node, func() { ran.Add(1) }); !errors.Is(err, ErrFull) {
			t.Errorf("queue of %d: %v, want ErrFull", length, err)
		}
		// Waiting for a place ends with the context.
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- p.Do(ctx, node, func() error { ran.Add(1); return nil }) }()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Do under a cancelled context: %v", err)
		}
		// And with Close, which lets run what waits.
		go func() { done <- p.Go(node, func() { ran.Add(1) }) }()
		go func() { done <- p.Close() }()
		<-p.closing
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("Go while Close begins: %v, want ErrClosed", err)
		}
		unblock()
		if err := <-done; err != nil {
			t.Errorf("Close: %v", err)
		}
		if int(ran.Load()) != fits {
			t.Errorf("%d ran, %d were accepted", ran.Load(), fits)
		}
	}
}

func TestPanicBecomesAnErrorAndTheWorkerLivesOn(t *testing.T) {
	p := newPool(t, PoolOptions{Workers: 1})
	node := p.Nodes()[0]
	cause := errors.New("the cause")
	err := p.Do(context.Background(), node, func() error { panic(cause) })
	var panicked *PanicError
	if !errors.As(err, &panicked) || !errors.Is(err, cause) || panicked.Node != node ||
		!strings.Contains(string(panicked.Stack), "TestPanicBecomesAnError") {
		t.Errorf("Do of a panic: %v", err)
	}
	for i := range keptPanics + 5 {
		if err := p.Go(node, func() { panic(i) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Do(context.Background(), node, func() error { return cause }); err != cause {
		t.Errorf("Do = %v, want the function's error", err)
	}
	err = p.Close()
	if !errors.As(err, &panicked) || panicked.Value != 0 || panicked.Unwrap() != nil {
		t.Errorf("Close = %v, want the first panic of Go", err)
	}
	if n := strings.Count(err.Error(), "panic on node"); n != keptPanics {
		t.Errorf("Close returns %d panics, want the first %d", n, keptPanics)
	}
	if again := p.Close(); again == nil || again.Error() != err.Error() {
		t.Errorf("second Close = %v, want the same", again)
	}
}

func TestOnPanicGetsEachPanic(t *testing.T) {
	var seen atomic.Int64
	p := newPool(t, PoolOptions{Workers: 2, OnPanic: func(e *PanicError) { seen.Add(int64(e.Value.(int))) }})
	for range 40 {
		if err := p.Go(p.Nodes()[0], func() { panic(1) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close = %v; the panics went to OnPanic", err)
	}
	if seen.Load() != 40 {
		t.Errorf("OnPanic saw %d panics, want 40", seen.Load())
	}
}

// runtime.Goexit ends the worker's goroutine, and with it its thread.
func TestWorkerThatEndsIsReplaced(t *testing.T) {
	p := newPool(t, PoolOptions{Workers: 1})
	for _, node := range p.Nodes() {
		for range 3 {
			if err := p.Do(context.Background(), node, func() error { runtime.Goexit(); return nil }); err != errGoexit {
				t.Errorf("Do = %v, want %v", err, errGoexit)
			}
			if err := p.Go(node, runtime.Goexit); err != nil {
				t.Error(err)
			}
		}
		if err := p.Do(context.Background(), node, func() error { return nil }); err != nil {
			t.Errorf("after its workers ended: %v", err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestPoolRefusesWhatCannotBe(t *testing.T) {
	topology, err := Discover()
	if err != nil {
		t.Fatal(err)
	}
	nodes := topology.CPUNodes()
	if _, err := NewPool(topology, PoolOptions{Nodes: append(slices.Clone(nodes), maxNodes-1)}); !errors.Is(err, ErrNode) {
		t.Errorf("a node that does not exist: %v, want ErrNode", err)
	}
	for _, o := range []PoolOptions{{Workers: -1}, {Queue: -2}} {
		if _, err := NewPool(topology, o); err == nil {
			t.Errorf("NewPool(%+v) succeeded", o)
		}
	}
	p := newPool(t, PoolOptions{})
	defer p.Close()
	if err := p.Go(maxNodes-1, func() {}); !errors.Is(err, ErrNode) {
		t.Errorf("Go on a node without workers: %v, want ErrNode", err)
	}
	if p.Waiting(maxNodes-1) != 0 {
		t.Error("functions wait on a node without workers")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Do(ctx, nodes[0], func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Do under a context that is over: %v", err)
	}
}

func BenchmarkPoolDo(b *testing.B) {
	p := newPool(b, PoolOptions{Workers: 1})
	defer p.Close()
	node := p.Nodes()[0]
	for range b.N {
		if err := p.Do(context.Background(), node, func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

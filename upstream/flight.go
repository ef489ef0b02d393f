package upstream

import (
	"context"
	"fmt"
	"sync"
)

// flights shares work among those who want the same at the same time. The work
// goes on while somebody waits for it, whoever began it, and is cancelled when
// the last one leaves.
type flights[K comparable, T any] struct {
	running *sync.WaitGroup

	mu  sync.Mutex
	all map[K]*flight[T]
}

type flight[T any] struct {
	waiters int // guarded by flights.mu
	cancel  context.CancelFunc
	done    chan struct{}
	value   T // set before done is closed, like err
	err     error
}

func newFlights[K comparable, T any](running *sync.WaitGroup) *flights[K, T] {
	return &flights[K, T]{running: running, all: map[K]*flight[T]{}}
}

// do returns what work returns, here or in the flight that is on already. When
// ctx ends first the error wraps ctx.Err().
func (f *flights[K, T]) do(ctx context.Context, key K, work func(context.Context) (T, error)) (T, error) {
	fl := f.join(ctx, key, work)
	select {
	case <-fl.done:
		return fl.value, fl.err
	case <-ctx.Done():
		f.leave(key, fl)
		var none T
		return none, fmt.Errorf("upstream call: %w", ctx.Err())
	}
}

func (f *flights[K, T]) join(ctx context.Context, key K, work func(context.Context) (T, error)) *flight[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl := f.all[key]
	if fl == nil {
		fl = f.start(ctx, key, work)
	}
	fl.waiters++
	return fl
}

func (f *flights[K, T]) start(ctx context.Context, key K, work func(context.Context) (T, error)) *flight[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	fl := &flight[T]{cancel: cancel, done: make(chan struct{})}
	f.all[key] = fl
	f.running.Go(func() {
		defer cancel()
		fl.value, fl.err = work(ctx)
		f.forget(key, fl)
		close(fl.done)
	})
	return fl
}

func (f *flights[K, T]) forget(key K, fl *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(key, fl)
}

// leave also takes a flight without waiters out of the table, so that nobody
// joins one that is being cancelled.
func (f *flights[K, T]) leave(key K, fl *flight[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiters--; fl.waiters == 0 {
		fl.cancel()
		f.remove(key, fl)
	}
}

func (f *flights[K, T]) remove(key K, fl *flight[T]) {
	if f.all[key] == fl {
		delete(f.all, key)
	}
}

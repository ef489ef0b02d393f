package upstream

import "context"

// Pending is what comes of a request that is out. To wait and to read are two steps,
// since a call may take hours: who waits at the bottom of its stack keeps little of one.
type Pending[T any] struct {
	// Wait returns when Outcome has something to read, as far as that can be told.
	Wait func()
	// Outcome waits for what is missing. It is to be called once.
	Outcome func() (T, error)
}

// Later is what f does, all of it in the second step.
func Later[T any](f func() (T, error)) Pending[T] {
	return Pending[T]{Wait: func() {}, Outcome: f}
}

// Failed is for what could not be sent.
func Failed[T any](err error) Pending[T] {
	return Later(func() (none T, _ error) { return none, err })
}

// Then is p with its outcome given to f.
func Then[T, U any](p Pending[T], f func(T, error) (U, error)) Pending[U] {
	return Pending[U]{Wait: p.Wait, Outcome: func() (U, error) { return f(p.Outcome()) }}
}

// underway is a Pending within this package. Both steps are methods of what was made
// for the request anyway, and the context is given to the second one again.
type underway[T any] interface {
	wait()
	outcome(ctx context.Context) (T, error)
}

// inTurn does all of it in the second step.
type inTurn[T any] func(context.Context) (T, error)

func (f inTurn[T]) wait() {}

func (f inTurn[T]) outcome(ctx context.Context) (T, error) { return f(ctx) }

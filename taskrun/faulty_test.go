package taskrun

import (
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"taskgate/taskroute"
)

// mood is how a faulty store takes its calls.
type mood int

const (
	works    mood = iota
	down          // nothing is done
	mute          // what was asked is done, but the reply is lost
	hangs         // nothing is done until the caller gives up
	late          // like hangs, but a write is done all the same, once the mood changes
	stubborn      // done once the mood changes, though the caller may have given up by then
)

var errDown = errors.New("the store is down")

// faulty is a Backend with moods, for all operations or for some.
type faulty struct {
	taskroute.Backend

	mu      sync.Mutex
	mood    map[string]mood
	changed chan struct{} // closed with the next change of mood
	asked   map[string]int
	silent  bool // heartbeats tell of no change
	talks   bool // replicas learn of each other's writes
	ears    []func(id string)
}

func newFaulty(b taskroute.Backend) *faulty {
	return &faulty{Backend: b, mood: map[string]mood{}, changed: make(chan struct{}), asked: map[string]int{}}
}

var operations = []string{"create", "get", "replace", "orphans", "heartbeat", "retire", "count"}

// set changes the mood for the operations, for all when none is named.
func (f *faulty) set(m mood, ops ...string) {
	if len(ops) == 0 {
		ops = operations
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, op := range ops {
		f.mood[op] = m
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// count is how often the operation was asked for.
func (f *faulty) count(op string) int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[op]
}

func (f *faulty) enter(op string) (mood, chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[op]++
	return f.mood[op], f.changed
}

func (f *faulty) do(ctx context.Context, op string, work func(context.Context) error) error {
	switch m, changed := f.enter(op); m {
	case down:
		return errDown
	case mute:
		if err := work(ctx); err != nil {
			return err
		}
		return errDown
	case stubborn:
		<-changed
		return work(context.WithoutCancel(ctx))
	case late:
		if op == "create" || op == "replace" {
			go func() {
				<-changed
				_ = work(context.WithoutCancel(ctx))
			}()
		}
		fallthrough
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	return work(ctx)
}

func (f *faulty) Create(ctx context.Context, d taskroute.Doc, nonce string) error {
	return f.do(ctx, "create", func(ctx context.Context) error { return f.Backend.Create(ctx, d, nonce) })
}

func (f *faulty) Get(ctx context.Context, id string, parts ...taskroute.Part) (d taskroute.Doc, err error) {
	err = f.do(ctx, "get", func(ctx context.Context) error {
		d, err = f.Backend.Get(ctx, id, parts...)
		return err
	})
	return d, err
}

func (f *faulty) Replace(ctx context.Context, prev uint64, d taskroute.Doc, nonce string) error {
	return f.do(ctx, "replace", func(ctx context.Context) error {
		err := f.Backend.Replace(ctx, prev, d, nonce)
		if err == nil {
			f.tell(d.ID)
		}
		return err
	})
}

// Hints implements taskroute.Backend.
func (f *faulty) Hints(ctx context.Context, hear func(id string)) error {
	f.mu.Lock()
	f.ears = append(f.ears, hear)
	f.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (f *faulty) tell(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.talks {
		return
	}
	for _, hear := range f.ears {
		hear(id)
	}
}

func (f *faulty) Orphans(ctx context.Context, cursor string, limit int) (o []taskroute.Orphan, next string, err error) {
	err = f.do(ctx, "orphans", func(ctx context.Context) error {
		o, next, err = f.Backend.Orphans(ctx, cursor, limit)
		return err
	})
	return o, next, err
}

func (f *faulty) Heartbeat(ctx context.Context, holder string, lease time.Duration) (changed []string, err error) {
	err = f.do(ctx, "heartbeat", func(ctx context.Context) error {
		changed, err = f.Backend.Heartbeat(ctx, holder, lease)
		return err
	})
	if f.silent {
		changed = nil
	}
	return changed, err
}

func (f *faulty) Retire(ctx context.Context, holder string) error {
	return f.do(ctx, "retire", func(ctx context.Context) error { return f.Backend.Retire(ctx, holder) })
}

func (f *faulty) Owned(ctx context.Context, owner, cursor string, limit int) (ids []string, next string, err error) {
	err = f.do(ctx, "owned", func(ctx context.Context) error {
		ids, next, err = f.Backend.Owned(ctx, owner, cursor, limit)
		return err
	})
	return ids, next, err
}

package boltstore

import (
	"context"
	"errors"
	"runtime"

	"go.etcd.io/bbolt"
)

var errClosed = errors.New("task store is closed")

// committer is the one writer of the file. It takes all changes that wait while
// a commit is under way into the next one, so that they share its two syncs; a
// change that comes alone waits for nothing.
type committer struct {
	db      *bbolt.DB
	queue   chan *change
	closing chan struct{}
	done    chan struct{}
}

// change is one caller's wish. apply reads, then either refuses with an error
// or writes. An error after it has written undoes the whole transaction.
type change struct {
	ctx    context.Context
	apply  func(*bbolt.Tx) error
	result chan error // holds one
}

// maxBatch bounds the changes in one commit, and so the time it takes.
const maxBatch = 512

func newCommitter(db *bbolt.DB) *committer {
	c := &committer{db: db, queue: make(chan *change), closing: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

// stop ends the writer after the commit under way.
func (c *committer) stop() {
	close(c.closing)
	<-c.done
}

// do has apply committed and synced. When ctx ends first the outcome is unknown.
func (c *committer) do(ctx context.Context, apply func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch := &change{ctx: ctx, apply: apply, result: make(chan error, 1)}
	select {
	case c.queue <- ch:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closing:
		return errClosed
	}
	select {
	case err := <-ch.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *committer) run() {
	defer close(c.done)
	for {
		select {
		case first := <-c.queue:
			c.commit(c.waiting(first))
		case <-c.closing:
			return
		}
	}
}

// waiting is first and whatever else waits. It lets the callers that the last
// commit has woken come back before it looks, as long as some do: else they would
// just miss it, and would wait for two commits.
func (c *committer) waiting(first *change) []*change {
	batch := []*change{first}
	for before := 0; before < len(batch) && len(batch) < maxBatch; {
		before = len(batch)
		runtime.Gosched()
		batch = c.drain(batch)
	}
	return batch
}

// drain adds what waits at this moment.
func (c *committer) drain(batch []*change) []*change {
	for len(batch) < maxBatch {
		select {
		case next := <-c.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// commit applies the batch in one transaction. A change that fails in the middle
// must not take the others with it: then each gets a transaction of its own.
func (c *committer) commit(batch []*change) {
	refused := make([]error, len(batch))
	broken := false
	err := c.db.Update(func(tx *bbolt.Tx) error {
		for i, ch := range batch {
			if refused[i] = ch.ctx.Err(); refused[i] == nil {
				refused[i] = ch.apply(tx)
			}
			if refused[i] != nil && !isRefusal(refused[i]) {
				broken = true
				return refused[i]
			}
		}
		return nil
	})
	if broken && len(batch) > 1 {
		for i := range batch {
			c.commit(batch[i : i+1])
		}
		return
	}
	for i, ch := range batch {
		if err != nil {
			ch.result <- err
			continue
		}
		ch.result <- refused[i]
	}
}

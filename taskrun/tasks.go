package taskrun

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// Get is tasks/get.
func (r *Runner) Get(ctx context.Context, owner taskroute.Owner, id string) (*taskroute.Record, error) {
	by := taskroute.By{Owner: owner, Kind: taskroute.Task}
	rec, err := r.get(ctx, by, id)
	if err != nil || !rec.Overdue(r.opts.Now()) {
		return rec, err
	}
	if err := r.expireParked(ctx, id); err != nil && !final(err) {
		return nil, err
	}
	return r.get(ctx, by, id)
}

// listPage is how many tasks a page of List has.
const listPage = 50

// List pages through the tasks that are the owner's own.
func (r *Runner) List(ctx context.Context, owner taskroute.Owner, cursor string) (tasks []*taskroute.Record, next string, err error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Tasks(ctx, owner, cursor, listPage)
}

// Watch tells when tasks may have changed; whoever asks reads them by Get.
func (r *Runner) Watch(ids ...string) *taskroute.Watcher { return r.store.Watch(ids...) }

func (r *Runner) get(ctx context.Context, by taskroute.By, id string) (*taskroute.Record, error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Get(ctx, by, id)
}

// Revisions tells at which revision each task is; 0: there is none. It is one
// round trip, for who has read the tasks before and looks whether they are new.
func (r *Runner) Revisions(ctx context.Context, ids []string) ([]uint64, error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Revisions(ctx, ids)
}

// Update is tasks/update: it takes the answers that are wanted and ignores the
// others. It is visible at the next Get.
func (r *Runner) Update(ctx context.Context, owner taskroute.Owner, id string, responses wire.Object) error {
	by := taskroute.By{Owner: owner, Kind: taskroute.Task}
	rec, err := r.update(ctx, by, id, func(rec *taskroute.Record) error {
		_, err := rec.Answer(responses, r.opts.Now())
		return err
	})
	if errors.Is(err, taskroute.ErrTerminal) {
		return nil
	}
	if err == nil {
		if rec.State.Owner != owner { // shared: the call stays its owner's, and is not made in another's name
			ctx = upstream.WithCredentials(ctx, nil)
		}
		r.resumeIfParked(ctx, rec)
	}
	return err
}

func (r *Runner) update(ctx context.Context, by taskroute.By, id string, change func(*taskroute.Record) error) (*taskroute.Record, error) {
	ctx, cancel := r.briefly(ctx)
	defer cancel()
	return r.store.Update(ctx, by, id, change)
}

// Cancel is tasks/cancel: the wish is durable when it returns nil (contract 8).
func (r *Runner) Cancel(ctx context.Context, owner taskroute.Owner, id string) error {
	return r.cancel(ctx, taskroute.By{Owner: owner, Kind: taskroute.Task}, id)
}

func (r *Runner) cancel(ctx context.Context, by taskroute.By, id string) error {
	_, err := r.update(ctx, by, id, func(rec *taskroute.Record) error {
		return rec.RequestCancel(r.opts.Now())
	})
	if errors.Is(err, taskroute.ErrTerminal) {
		return nil
	}
	return err
}

// resumeIfParked goes on with a record that nobody holds and that has all its
// answers, with the credentials of the client that gave the last one. Should it
// fail, or this process die, a later rescue does it.
func (r *Runner) resumeIfParked(ctx context.Context, rec *taskroute.Record) {
	if rec.State.Status != taskroute.Working || rec.State.Holder != "" {
		return
	}
	ctx = context.WithoutCancel(ctx) // with the client's credentials, for the upstream
	r.busy.Go(func() {
		if err := r.proceed(ctx, rec.ID, 0); err != nil && !final(err) {
			r.log.Warn("an answered task was not taken up; a rescue will", zap.Error(err))
		}
	})
}

package taskrun

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"taskgate/taskroute"
	"taskgate/upstream"
	"taskgate/wire"
)

// A held call is one whose question went out as an InputRequiredResult. The
// requestState is the record's id, which nobody can guess, and a ticket that is
// good for one retry of the same call by the same owner. All of it is checked
// against the record, so no key has to be shared between replicas.
const statePrefix = "tg."

func requestState(id, ticket string) string { return statePrefix + id + "." + ticket }

// OwnsState tells whether a requestState is one of ours, not an upstream's.
func OwnsState(state string) bool { return strings.HasPrefix(state, statePrefix) }

// ErrBadState: the requestState is not, or no longer, good for this request.
var ErrBadState = errors.New("invalid or expired requestState")

// issueTicket makes a ticket for the next retry; what was out before is void.
func issueTicket(rec *taskroute.Record, c *Call) string {
	ticket := rand.Text()
	rec.Issue(ticket + "." + c.fingerprint())
	return ticket
}

// fingerprint stands for what a retry must repeat: tool and arguments.
func (c *Call) fingerprint() string {
	args := jsontext.Value(append(wire.Raw(nil), c.Params.Get("arguments")...))
	if len(args) > 0 && args.Canonicalize() != nil {
		args = jsontext.Value(c.Params.Get("arguments"))
	}
	sum := sha256.Sum256(append([]byte(c.Upstream+"\x00"+c.Tool+"\x00"), args...))
	return hex.EncodeToString(sum[:16])
}

// Resume goes on with a held call: it hands the answers over and waits for what
// comes next. Errors: ErrBadState, and those of Call.
func (r *Runner) Resume(ctx context.Context, c Call, state string, responses wire.Object) (Outcome, error) {
	id, ticket, ok := strings.Cut(strings.TrimPrefix(state, statePrefix), ".")
	if !ok {
		return Outcome{}, ErrBadState
	}
	by := taskroute.By{Owner: c.Owner, Kind: taskroute.Held}
	rec, err := r.store.Update(ctx, by, id, func(rec *taskroute.Record) error {
		if !rec.Redeem(ticket + "." + c.fingerprint()) {
			return ErrBadState
		}
		_, err := rec.Answer(responses, r.opts.Now())
		return err
	})
	switch {
	case errors.Is(err, taskroute.ErrMalformed), errors.Is(err, taskroute.ErrNotFound), errors.Is(err, taskroute.ErrExpired):
		return Outcome{}, ErrBadState
	case err != nil && !errors.Is(err, taskroute.ErrTerminal):
		return Outcome{}, err
	}
	return r.await(ctx, &c, by, rec.ID)
}

// await waits for the next thing to tell the client of a held call. Its run
// goes on in the background, here or at another replica.
func (r *Runner) await(ctx context.Context, c *Call, by taskroute.By, id string) (Outcome, error) {
	watch := r.store.Watch(id)
	defer watch.Stop()
	recheck := time.NewTicker(r.opts.Recheck)
	defer recheck.Stop()
	promote := time.NewTimer(max(c.Decision.PromoteAfter, time.Millisecond))
	defer promote.Stop()
	if !c.mayBecomeTask() {
		promote.Stop()
	}
	for {
		out, err := r.heldOutcome(ctx, c, by, id)
		if err != nil || out != (Outcome{}) {
			return out, err
		}
		select {
		case <-watch.Changed():
		case <-recheck.C:
		case <-promote.C:
			rec, err := r.store.Update(ctx, by, id, func(rec *taskroute.Record) error { return rec.Promote(r.opts.Now()) })
			if err == nil {
				return Outcome{Task: rec}, nil
			}
		case <-ctx.Done():
			r.hangUp(ctx, by, id)
			return Outcome{}, context.Cause(ctx)
		}
	}
}

// heldOutcome is what the record has to tell; empty when it is still working.
func (r *Runner) heldOutcome(ctx context.Context, c *Call, by taskroute.By, id string) (Outcome, error) {
	rec, err := r.store.Get(ctx, by, id)
	if err != nil {
		return Outcome{}, err
	}
	switch rec.State.Status {
	case taskroute.Completed, taskroute.Failed:
		return Outcome{Reply: &upstream.Reply{Result: rec.Outcome.Result, Error: rec.Outcome.Error}}, nil
	case taskroute.Cancelled:
		return Outcome{}, errCancelled
	case taskroute.InputRequired:
		return r.askAgain(ctx, c, by, id)
	}
	return Outcome{}, nil
}

// askAgain is empty, too, when the record has gone on since it was read: the
// watch tells of that.
func (r *Runner) askAgain(ctx context.Context, c *Call, by taskroute.By, id string) (Outcome, error) {
	var ticket string
	asks := false
	rec, err := r.store.Update(ctx, by, id, func(rec *taskroute.Record) error {
		if asks = rec.State.Status == taskroute.InputRequired; asks {
			ticket = issueTicket(rec, c)
		}
		return nil
	})
	if err != nil || !asks {
		return Outcome{}, err
	}
	return Outcome{Input: &InputRequired{Requests: rec.PendingInputs(), State: requestState(id, ticket)}}, nil
}

// hangUp: a client that leaves while it waits cancels the call, as it would
// have before the question.
func (r *Runner) hangUp(ctx context.Context, by taskroute.By, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.StoreTimeout)
	defer cancel()
	if err := r.cancel(ctx, by, id); err != nil {
		r.log.Warn("a client hung up and its held call could not be cancelled")
	}
}

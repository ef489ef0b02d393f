package taskrun

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

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

// openTicket is the ticket that is out already, for who shares the call, else a
// new one: whoever answers first uses it up.
func openTicket(rec *taskroute.Record, c *Call) string {
	if ticket, _, ok := strings.Cut(rec.Input.Ticket, "."); ok && c.isShared() {
		return ticket
	}
	return issueTicket(rec, c)
}

// fingerprint stands for what a retry must repeat: tool and arguments, whatever
// the order of their members.
func (c *Call) fingerprint() string {
	parts := []string{c.Upstream, c.Tool, string(c.canonicalArguments())}
	if c.Method != "" {
		parts = append(parts, c.Method)
	}
	return digest(parts...)
}

// canonicalArguments have their members in order and nothing between; numbers
// stay as they were written.
func (c *Call) canonicalArguments() wire.Raw {
	args := jsontext.Value(append(wire.Raw(nil), c.Params.Get("arguments")...))
	rawNumbers := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	if len(args) > 0 && args.Canonicalize(rawNumbers...) != nil {
		return c.Params.Get("arguments")
	}
	return wire.Raw(args)
}

// digest stands for parts: each begins with its length, so that none can pass
// for another's end.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Resume goes on with a held call: it hands the answers over and waits for what
// comes next. Errors: ErrBadState, ErrStore, and those of Call.
func (r *Runner) Resume(ctx context.Context, c Call, state string, responses wire.Object) (Outcome, error) {
	id, ticket, ok := strings.Cut(strings.TrimPrefix(state, statePrefix), ".")
	if !ok {
		return Outcome{}, ErrBadState
	}
	h := r.heldBy(&c, id)
	if err := h.redeem(ctx, ticket, responses); err != nil && !errors.Is(err, taskroute.ErrTerminal) {
		return Outcome{}, err
	}
	return h.await(ctx)
}

// Abandon gives up a held call whose client will not come back: its upstream is
// told to stop, unless others share the call. A state that is not ours names
// nothing that runs.
func (r *Runner) Abandon(ctx context.Context, owner taskroute.Owner, state string) error {
	id, _, ok := strings.Cut(strings.TrimPrefix(state, statePrefix), ".")
	if !ok || !OwnsState(state) || !taskroute.ValidID(id) {
		return nil
	}
	rec, err := r.load(ctx, id)
	if err != nil {
		return ignoreUnknown(err)
	}
	if call, err := callOf(rec); err != nil || call.isShared() {
		return err
	}
	return ignoreUnknown(r.cancel(ctx, taskroute.By{Owner: owner, Kind: taskroute.Held}, id))
}

func ignoreUnknown(err error) error {
	if unknown(err) {
		return nil
	}
	return err
}

// unknown tells that there is no such held call, for whoever asks.
func unknown(err error) bool {
	return errors.Is(err, taskroute.ErrMalformed) || errors.Is(err, taskroute.ErrNotFound) || errors.Is(err, taskroute.ErrExpired)
}

// held is a held call whose client is back and waits.
type held struct {
	r    *Runner
	call *Call
	by   taskroute.By
	id   string
}

// redeem takes the ticket back and hands the answers over. From here on the
// call goes on under the decision that it began with (contract 11).
func (h *held) redeem(ctx context.Context, ticket string, responses wire.Object) error {
	if !taskroute.ValidID(h.id) {
		return ErrBadState
	}
	rec, err := h.r.load(ctx, h.id)
	if err != nil {
		return redeemError(err)
	}
	answered, err := h.r.update(ctx, h.by, h.id, func(rec *taskroute.Record) error {
		if !rec.Redeem(ticket + "." + h.call.fingerprint()) {
			return ErrBadState
		}
		_, err := rec.Answer(responses, h.r.opts.Now())
		return err
	})
	if err != nil {
		return redeemError(err)
	}
	h.r.resumeIfParked(ctx, answered)
	began, err := callOf(rec)
	if err == nil {
		h.call.Decision = began.Decision
	}
	return err
}

func redeemError(err error) error {
	switch {
	case unknown(err), errors.Is(err, ErrBadState):
		return ErrBadState
	case errors.Is(err, taskroute.ErrTerminal):
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// await waits for the next thing to tell the client of a held call. Its run
// goes on in the background, here or at another replica; while the store is
// away it goes on too.
func (h *held) await(ctx context.Context) (Outcome, error) {
	watch := h.r.store.Watch(h.id)
	defer watch.Stop()
	recheck := time.NewTicker(h.r.opts.Recheck)
	defer recheck.Stop()
	promote := promoteTimer(h.call, h.call.Decision.PromoteAfter)
	defer promote.Stop()
	for {
		if out, told, err := h.outcome(ctx); told {
			return out, err
		}
		select {
		case <-watch.Changed():
		case <-recheck.C:
		case <-promote.C:
			rec, err := h.promote(ctx)
			if err == nil && ctx.Err() == nil {
				return Outcome{Task: rec}, nil
			}
			promote.Reset(h.r.opts.Recheck)
		case <-ctx.Done():
			if !h.call.isShared() {
				h.r.busy.Go(h.hangUp)
			}
			return Outcome{}, context.Cause(ctx)
		case <-h.r.quit:
			return Outcome{}, errShutdown
		}
	}
}

func (h *held) promote(ctx context.Context) (*taskroute.Record, error) {
	rec, err := h.r.update(ctx, h.by, h.id, func(rec *taskroute.Record) error { return rec.Promote(h.r.opts.Now()) })
	if err == nil {
		h.by.Kind = taskroute.Task
	}
	return rec, err
}

// outcome is what the record has to tell; told is false while there is nothing,
// or while the store does not say.
func (h *held) outcome(ctx context.Context) (out Outcome, told bool, err error) {
	rec, err := h.look(ctx)
	switch {
	case unknown(err):
		return Outcome{}, true, ErrBadState
	case err != nil:
		return Outcome{}, false, nil
	}
	switch rec.State.Status {
	case taskroute.Completed, taskroute.Failed:
		return Outcome{Reply: &upstream.Reply{Result: rec.Outcome.Result, Error: rec.Outcome.Error}}, true, nil
	case taskroute.Cancelled:
		return Outcome{}, true, errCancelled
	}
	switch asks := rec.State.Status == taskroute.InputRequired; {
	case h.by.Kind == taskroute.Task: // made one by us, or for somebody who shares the call
		return Outcome{Task: rec}, h.call.mayBecomeTask(), nil
	case asks && h.call.isShared() && h.call.asksIntoTask():
		rec, err := h.promote(ctx)
		return Outcome{Task: rec}, err == nil, nil
	case asks:
		return h.askAgain(ctx)
	}
	return Outcome{}, false, nil
}

// look reads the record as what it is by now.
func (h *held) look(ctx context.Context) (*taskroute.Record, error) {
	rec, err := h.r.get(ctx, h.by, h.id)
	if h.by.Kind == taskroute.Held && errors.Is(err, taskroute.ErrNotFound) {
		task := taskroute.By{Owner: h.by.Owner, Kind: taskroute.Task}
		if rec, err = h.r.get(ctx, task, h.id); err == nil {
			h.by = task
		}
	}
	return rec, err
}

func (h *held) askAgain(ctx context.Context) (out Outcome, told bool, err error) {
	select { // see gather
	case <-time.After(gatherFor):
	case <-ctx.Done():
	}
	var ticket string
	rec, err := h.r.update(ctx, h.by, h.id, func(rec *taskroute.Record) error {
		if rec.State.Status != taskroute.InputRequired {
			return errNothingToAsk
		}
		ticket = openTicket(rec, h.call)
		return nil
	})
	if err != nil {
		return Outcome{}, false, nil // the next look says more
	}
	return Outcome{Input: &InputRequired{Requests: rec.PendingInputs(), State: requestState(h.id, ticket)}}, true, nil
}

var errNothingToAsk = errors.New("the question was withdrawn")

// hangUp: a client that leaves while it waits cancels the call, as it would
// have before the question.
func (h *held) hangUp() {
	err := h.r.persist(context.Background(), time.Now().Add(time.Minute), func(ctx context.Context) error {
		return h.r.cancel(ctx, h.by, h.id)
	})
	if err != nil && !final(err) {
		h.r.log.Warn("a client hung up and its held call could not be cancelled", zap.Error(err))
	}
}

package taskroute

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"taskgate/wire"
)

// Errors of transitions. They leave the record as it was.
var (
	// ErrTerminal: the record is final (contract 5).
	ErrTerminal = errors.New("task has ended")
	// ErrFenced: the writer no longer holds the record (contract 6).
	ErrFenced = errors.New("task is held by another replica incarnation")
)

// NewRecord is a working record held by holder. The caller fills in Request.
func NewRecord(id string, owner Owner, kind Kind, holder string, now time.Time) *Record {
	now = now.UTC().Truncate(time.Millisecond)
	return &Record{
		ID: id,
		State: State{Owner: owner, Kind: kind, Status: Working, CreatedAt: now, UpdatedAt: now,
			Holder: holder, Epoch: 1, Attempts: 1},
		dirty: allParts,
	}
}

// HeldBy fails unless holder still holds the record at epoch.
func (r *Record) HeldBy(holder string, epoch int64) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	if r.State.Holder != holder || r.State.Epoch != epoch {
		return ErrFenced
	}
	return nil
}

// Complete ends the record with the upstream's result.
func (r *Record) Complete(result wire.Raw, now time.Time) error {
	return r.end(Completed, Outcome{Result: result}, "", now)
}

// Fail ends the record with a JSON-RPC error and a message for people.
func (r *Record) Fail(rpcError wire.Raw, message string, now time.Time) error {
	return r.end(Failed, Outcome{Error: rpcError}, message, now)
}

// Cancel ends the record as cancelled.
func (r *Record) Cancel(message string, now time.Time) error {
	return r.end(Cancelled, Outcome{}, message, now)
}

func (r *Record) end(s Status, o Outcome, message string, now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	r.State.Status, r.State.StatusMessage, r.State.Holder, r.State.Resume = s, message, "", nil
	r.Outcome = o
	// What was asked and answered is of no more use; the ticket still lets a
	// retry of a held call come for its outcome.
	r.Input = Input{Ticket: r.Input.Ticket, Unknown: r.Input.Unknown}
	r.touch(now, partInput|partOutcome)
	return nil
}

// RequestCancel records the owner's wish (contract 8). With nobody to run the
// call the record is cancelled at once, else its holder sees to it.
func (r *Record) RequestCancel(now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	if r.State.CancelledAt.IsZero() {
		r.State.CancelledAt = now.UTC().Truncate(time.Millisecond)
		r.touch(now, 0)
	}
	if r.State.Holder == "" {
		return r.Cancel("Cancelled before the upstream was called again.", now)
	}
	return nil
}

// Progress sets the message that a working record shows.
func (r *Record) Progress(message string, now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	if r.State.StatusMessage == message {
		return nil
	}
	r.State.StatusMessage = message
	r.touch(now, 0)
	return nil
}

// Keep notes how the running call can be found again. It is nothing that the
// owner sees.
func (r *Record) Keep(token wire.Raw) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	if token != nil && string(token) != string(r.State.Resume) {
		r.State.Resume = token
		r.dirty |= partState
	}
	return nil
}

// Ask adds questions and waits for input, if there are any. Each gets a key of
// ours, which it returns in order.
func (r *Record) Ask(qs []Question, now time.Time) ([]string, error) {
	if r.State.Status.Terminal() {
		return nil, ErrTerminal
	}
	keys := make([]string, len(qs))
	for i, q := range qs {
		r.State.Rounds++
		q.Key = fmt.Sprintf("q%d", r.State.Rounds)
		keys[i] = q.Key
		r.Input.Questions = append(r.Input.Questions, q)
	}
	r.waitIfPending()
	r.touch(now, partInput)
	return keys, nil
}

// Park is Ask for a modern upstream, whose call has ended with the question:
// nobody holds the record until the answers are in; without a question that is
// at once. state is its requestState, nil when it gave none.
func (r *Record) Park(qs []Question, state *string, now time.Time) error {
	if state != nil { // it carries what earlier rounds have told the upstream
		r.Input.Questions = nil
	}
	if _, err := r.Ask(qs, now); err != nil {
		return err
	}
	r.Input.State, r.Input.HasState = "", state != nil
	if state != nil {
		r.Input.State = *state
	}
	r.State.Holder, r.State.Resume = "", nil
	return nil
}

// Answer takes the answers to pending questions; others are ignored, as
// SEP-2663 wants. It reports whether any was taken.
func (r *Record) Answer(responses wire.Object, now time.Time) (bool, error) {
	if r.State.Status.Terminal() {
		return false, ErrTerminal
	}
	taken := false
	for i := range r.Input.Questions {
		q := &r.Input.Questions[i]
		if a := responses.Get(q.Key); a != nil && q.Pending() {
			q.Answer, taken = a, true
		}
	}
	if taken {
		r.waitIfPending()
		r.touch(now, partInput)
	}
	return taken, nil
}

// Withdraw takes a question back: its call went on without the answer.
func (r *Record) Withdraw(key string, now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	for i := range r.Input.Questions {
		if q := &r.Input.Questions[i]; q.Key == key && q.Pending() {
			q.Withdrawn = true
			r.waitIfPending()
			r.touch(now, partInput)
		}
	}
	return nil
}

// waitIfPending sets the status that the questions call for.
func (r *Record) waitIfPending() {
	r.State.Status = Working
	if slices.ContainsFunc(r.Input.Questions, Question.Pending) {
		r.State.Status = InputRequired
	}
}

// Delivered drops a question whose answer the upstream has had. It is stored
// with the next Ask; should that be lost, it only takes room.
func (r *Record) Delivered(key string) {
	r.Input.Questions = slices.DeleteFunc(r.Input.Questions, func(q Question) bool {
		return q.Key == key && q.Answer != nil
	})
}

// Claim makes holder the one who runs the call from here on.
func (r *Record) Claim(holder string, now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	r.State.Holder = holder
	r.State.Epoch++
	r.State.Attempts++
	r.touch(now, 0)
	return nil
}

// Reclaim hands the record to another incarnation of the same process: the call
// runs on and is not sent again.
func (r *Record) Reclaim(holder string, now time.Time) error {
	if err := r.Claim(holder, now); err != nil {
		return err
	}
	r.State.Attempts--
	return nil
}

// Restart is Claim for a call that is sent again from the beginning: what the
// lost attempt had asked is taken back.
func (r *Record) Restart(holder string, now time.Time) error {
	if err := r.Claim(holder, now); err != nil {
		return err
	}
	for i := range r.Input.Questions {
		r.Input.Questions[i].Withdrawn = true
	}
	r.State.Status, r.State.StatusMessage, r.State.Resume = Working, "", nil
	r.touch(now, partInput)
	return nil
}

// Promote turns a held record into a task that tasks/* know.
func (r *Record) Promote(now time.Time) error {
	if r.State.Status.Terminal() {
		return ErrTerminal
	}
	if r.State.Kind != Task {
		r.State.Kind = Task
		r.touch(now, 0)
	}
	return nil
}

// touch moves lastUpdatedAt, never backwards, and notes what must be written.
func (r *Record) touch(now time.Time, parts partSet) {
	if now = now.UTC().Truncate(time.Millisecond); now.After(r.State.UpdatedAt) {
		r.State.UpdatedAt = now
	}
	r.dirty |= parts | partState
}

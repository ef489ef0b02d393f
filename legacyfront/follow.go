package legacyfront

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"taskgate/wire"
)

// maxFollowed is how many tasks of a session are followed at a time: the latest.
const maxFollowed = 100

// Follow has the session's stream that belongs to no request tell of the task, until
// that has ended. It is a convenience, and its failure is only logged.
func (c *Call) Follow(ctx context.Context, taskID string) {
	err := c.f.change(ctx, c.s, func(st *state) {
		st.Tasks = append(st.Tasks, taskID)
		st.Tasks = st.Tasks[max(0, len(st.Tasks)-maxFollowed):]
	})
	if err != nil {
		c.f.opts.Log.Warn("a client is not told of its task on the session's stream", zap.Error(err))
	}
}

// follower tells on a session's stream of the tasks that the session has made. It is
// the modern front's subscriptions/listen for them, beside that for everything else,
// which goes on when there is another task.
type follower struct {
	l    *listener
	ids  chan []string     // capacity 1: the latest
	told map[string]string // what was said last, by id; of the one that listens
	// note is Extension.TaskNote.
	note func(task wire.Object) (note wire.Message, ended bool)
}

func newFollower(l *listener) *follower {
	return &follower{l: l, note: l.f.opts.Extend(l.s.Version).TaskNote, ids: make(chan []string, 1), told: map[string]string{}}
}

// follow is told of the tasks that have not been seen to end. It never blocks.
func (t *follower) follow(ids []string) {
	if t.note == nil {
		return
	}
	select {
	case <-t.ids: // nobody has looked at it yet
	default:
	}
	select {
	case t.ids <- ids:
	default: // somebody was as quick
	}
}

// run follows until ctx ends.
func (t *follower) run(ctx context.Context) {
	var followed []string
	stop := func() {}
	for {
		select {
		case ids := <-t.ids:
			if !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(followed, id) }) {
				continue // some have ended
			}
			stop()
			followed, stop = ids, t.listen(ctx, ids)
		case <-ctx.Done():
			stop()
			return
		}
	}
}

// listen follows the tasks until all have ended or stop is called.
func (t *follower) listen(ctx context.Context, ids []string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	filter := wire.Filter{TaskIDs: ids}
	msg := t.l.s.withTasks(wire.Message{ID: wire.Quote("tasks"), Method: "subscriptions/listen",
		Params: wire.Object{}.With("notifications", filter.Object().Bytes()).Bytes()})
	go func() {
		defer close(done)
		ask(ctx, t.l.v, msg, func(msg wire.Message) { t.heard(ctx, msg) })
	}()
	return func() {
		cancel()
		<-done
	}
}

// heard tells the client of a task's state, unless it knows that.
func (t *follower) heard(ctx context.Context, msg wire.Message) {
	if msg.Method != "notifications/tasks" {
		return
	}
	task, _ := wire.ParseObject(msg.Params) // the gateway's own
	id, _ := wire.String(task.Get("taskId"))
	note, ended := t.note(task)
	text := string(note.Params)
	if t.told[id] == text || !t.l.tell(note) {
		return
	}
	t.told[id] = text
	if !ended {
		return
	}
	delete(t.told, id)
	_ = t.l.f.change(ctx, t.l.s, func(st *state) { // if it fails, who listens next is told once more
		st.Tasks = slices.DeleteFunc(st.Tasks, func(other string) bool { return other == id })
	})
}

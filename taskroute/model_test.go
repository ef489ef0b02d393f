package taskroute_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"taskgate/internal/redistest"
	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/taskroute/memstore"
	"taskgate/taskroute/redisstore"
	"taskgate/wire"
)

// TestModel sends the same random operations to a store over each backend and to
// a model that is small enough to be seen through: all must tell the same.
func TestModel(t *testing.T) {
	redisURL := redistest.Start(t).URL()
	for seed := range uint64(12) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed, redisURL)
			for range 400 {
				m.step(t)
			}
		})
	}
}

// model is the reference, and the stores under test.
type model struct {
	rand   *rand.Rand
	clock  *clock
	stores map[string]*taskroute.Store
	ids    []string
	tasks  map[string]*modelTask
	log    []string
}

type modelTask struct {
	owner    taskroute.Owner
	kind     taskroute.Kind
	status   taskroute.Status
	message  string
	created  time.Time
	ttl      time.Duration
	holder   string
	epoch    int64
	revision uint64
	rounds   int
	pending  []string
	wish     bool // to be cancelled
	outcome  string
}

func newModel(t *testing.T, seed uint64, redisURL string) *model {
	t.Helper()
	m := &model{rand: rand.New(rand.NewPCG(seed, 1)), clock: newClock(), tasks: map[string]*modelTask{}}
	bolt, err := boltstore.Open(filepath.Join(t.TempDir(), "tasks.db"), m.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	redis, err := redisstore.Open(t.Context(), redisURL, redisstore.Options{Prefix: fmt.Sprint("seed", seed)})
	if err != nil {
		t.Fatal(err)
	}
	m.stores = map[string]*taskroute.Store{}
	for name, b := range map[string]taskroute.Backend{"memory": memstore.New(m.clock.now), "bolt": bolt, "redis": redis} {
		t.Cleanup(func() { _ = b.Close() })
		m.stores[name] = newStore(t, b, m.clock.now)
		for _, holder := range []string{"r1", "r2"} {
			if _, err := b.Heartbeat(t.Context(), holder, 1000*time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func pick[T any](m *model, from ...T) T { return from[m.rand.IntN(len(from))] }

// step does one random operation everywhere and compares.
func (m *model) step(t *testing.T) {
	t.Helper()
	switch n := m.rand.IntN(100); {
	case n < 12 || len(m.ids) == 0:
		m.create(t)
	case n < 40:
		m.get(t)
	case n < 85:
		m.change(t)
	case n < 90:
		m.clock.pass(pick(m, time.Second, 20*time.Second, 2*time.Minute))
	case n < 93:
		m.everywhere(t, "collect", func(s *taskroute.Store) string {
			_, err := s.Backend().Collect(t.Context(), m.clock.now())
			return fmt.Sprint(err)
		}, "<nil>")
	default:
		m.indexes(t)
	}
}

// everywhere runs do on each store and wants the same from all.
func (m *model) everywhere(t *testing.T, what string, do func(*taskroute.Store) string, want string) {
	t.Helper()
	m.log = append(m.log, what+" -> "+want)
	for name, s := range m.stores {
		if got := do(s); got != want {
			t.Fatalf("%s says:  %s\nwanted is: %s\nafter:\n%s", name, got, want, strings.Join(m.log, "\n"))
		}
	}
}

func (m *model) create(t *testing.T) {
	t.Helper()
	id := taskroute.NewID()
	x := &modelTask{
		owner: pick(m, ann, bob), kind: pick(m, taskroute.Task, taskroute.Task, taskroute.Held),
		status: taskroute.Working, created: m.clock.now().Truncate(time.Millisecond),
		ttl: pick(m, 0, time.Minute, time.Hour), holder: pick(m, "r1", "r1", "dead"), epoch: 1, revision: 1,
	}
	m.ids, m.tasks[id] = append(m.ids, id), x
	m.everywhere(t, "create "+id, func(s *taskroute.Store) string {
		r := taskroute.NewRecord(id, x.owner, x.kind, x.holder, x.created)
		r.State.TTL = x.ttl
		return fmt.Sprint(s.Create(t.Context(), r))
	}, "<nil>")
}

// askers are all who may ask for a task, and in what way.
func (m *model) asker() taskroute.By {
	return taskroute.By{Owner: pick(m, ann, bob), Kind: pick(m, taskroute.Task, taskroute.Task, taskroute.Held)}
}

func (m *model) get(t *testing.T) {
	t.Helper()
	id, by := pick(m, m.ids...), m.asker()
	if m.rand.IntN(20) == 0 {
		id = taskroute.NewID()
	}
	m.everywhere(t, fmt.Sprintf("get %s as %s %s", id, by.Owner, by.Kind), func(s *taskroute.Store) string {
		return told(s.Get(t.Context(), by, id))
	}, m.view(by, id))
}

// told is what a client could learn from the reply.
func told(r *taskroute.Record, err error) string {
	if err != nil {
		for _, known := range []error{
			taskroute.ErrNotFound, taskroute.ErrExpired, taskroute.ErrTerminal, taskroute.ErrFenced,
		} {
			if errors.Is(err, known) {
				return known.Error()
			}
		}
		return err.Error()
	}
	var pending []string
	for _, q := range r.PendingInputs() {
		pending = append(pending, q.Name)
	}
	return describe(r.State.Status, r.State.StatusMessage, r.Revision, pending, string(cmp.Or(string(r.Outcome.Result), string(r.Outcome.Error))))
}

func describe(status taskroute.Status, message string, revision uint64, pending []string, outcome string) string {
	return fmt.Sprintf("%s %q revision %d pending %q outcome %s", status, message, revision, pending, outcome)
}

func (x *modelTask) describe() string {
	return describe(x.status, x.message, x.revision, x.pending, x.outcome)
}

// view is what by should be told about id.
func (m *model) view(by taskroute.By, id string) string {
	x := m.tasks[id]
	switch {
	case x == nil || x.owner != by.Owner || x.kind != by.Kind:
		return taskroute.ErrNotFound.Error()
	case !m.expired(x):
		return x.describe()
	case x.kind == taskroute.Task && m.clock.now().Before(x.created.Add(x.ttl+tombstone)):
		return taskroute.ErrExpired.Error()
	}
	return taskroute.ErrNotFound.Error()
}

func (m *model) expired(x *modelTask) bool {
	return x.ttl != 0 && !m.clock.now().Before(x.created.Add(x.ttl))
}

// change is one transition, by the owner, the holder or the housekeeping.
func (m *model) change(t *testing.T) {
	t.Helper()
	id := pick(m, m.ids...)
	x, c := m.tasks[id], m.transition()
	switch m.rand.IntN(3) {
	case 0:
		by := m.asker()
		want := m.view(by, id)
		if want == x.describe() {
			want = x.apply(c)
		}
		m.everywhere(t, fmt.Sprintf("%s %s as %s %s", c.name, id, by.Owner, by.Kind), func(s *taskroute.Store) string {
			return told(s.Update(t.Context(), by, id, c.do))
		}, want)
	case 1:
		holder, epoch := pick(m, "r1", "dead", "r2"), pick(m, int64(1), x.epoch)
		var want string
		switch {
		case m.expired(x):
			want = taskroute.ErrNotFound.Error()
		case x.status.Terminal():
			want = taskroute.ErrTerminal.Error()
		case x.holder != holder || x.epoch != epoch:
			want = taskroute.ErrFenced.Error()
		default:
			want = x.apply(c)
		}
		m.everywhere(t, fmt.Sprintf("%s %s as holder %s at %d", c.name, id, holder, epoch), func(s *taskroute.Store) string {
			return told(s.UpdateHeld(t.Context(), id, holder, epoch, c.do))
		}, want)
	default:
		want := taskroute.ErrNotFound.Error()
		if !m.expired(x) {
			want = x.apply(c)
		}
		m.everywhere(t, fmt.Sprintf("%s %s as housekeeping", c.name, id), func(s *taskroute.Store) string {
			return told(s.UpdateAny(t.Context(), id, c.do))
		}, want)
	}
}

// modelChange is a transition of a record, and of the model's task; the latter
// says whether there is something to write.
type modelChange struct {
	name  string
	do    func(*taskroute.Record) error
	model func(*modelTask) bool
}

// apply does the change on the model and tells what the store should tell.
func (x *modelTask) apply(c modelChange) string {
	if x.status.Terminal() {
		return taskroute.ErrTerminal.Error()
	}
	if c.model(x) {
		x.revision++
	}
	return x.describe()
}

func (x *modelTask) end(s taskroute.Status, message, outcome string) bool {
	x.status, x.message, x.outcome, x.holder, x.pending = s, message, outcome, "", nil
	return true
}

// wait sets the status that the questions call for.
func (x *modelTask) wait() bool {
	x.status = taskroute.Working
	if len(x.pending) > 0 {
		x.status = taskroute.InputRequired
	}
	return true
}

func (x *modelTask) ask(n int) bool {
	for range n {
		x.rounds++
		x.pending = append(x.pending, fmt.Sprint("q", x.rounds))
	}
	return x.wait()
}

// take removes key from what is pending.
func (x *modelTask) take(key string) bool {
	i := slices.Index(x.pending, key)
	if i < 0 {
		return false
	}
	x.pending = slices.Delete(x.pending, i, i+1)
	return x.wait()
}

func (m *model) transition() modelChange {
	now, text := m.clock.now(), fmt.Sprint("text ", m.rand.IntN(3))
	key, n, holder := fmt.Sprint("q", 1+m.rand.IntN(6)), 1+m.rand.IntN(2), pick(m, "r2", "dead")
	return pick(m,
		modelChange{"complete", func(r *taskroute.Record) error { return r.Complete(wire.Raw(`{"a": 1}`), now) },
			func(x *modelTask) bool { return x.end(taskroute.Completed, "", `{"a": 1}`) }},
		modelChange{"fail", func(r *taskroute.Record) error { return r.Fail(wire.Raw(`{"code":7}`), "failed", now) },
			func(x *modelTask) bool { return x.end(taskroute.Failed, "failed", `{"code":7}`) }},
		modelChange{"cancel", func(r *taskroute.Record) error { return r.Cancel("cancelled", now) },
			func(x *modelTask) bool { return x.end(taskroute.Cancelled, "cancelled", "") }},
		modelChange{"request cancel", func(r *taskroute.Record) error { return r.RequestCancel(now) }, (*modelTask).requestCancel},
		modelChange{"progress " + text, func(r *taskroute.Record) error { return r.Progress(text, now) },
			func(x *modelTask) bool { changed := x.message != text; x.message = text; return changed }},
		modelChange{fmt.Sprint("ask ", n), func(r *taskroute.Record) error { _, err := r.Ask(make([]taskroute.Question, n), now); return err },
			func(x *modelTask) bool { return x.ask(n) }},
		modelChange{"park", func(r *taskroute.Record) error { return r.Park(make([]taskroute.Question, n-1), new(string), now) },
			func(x *modelTask) bool { x.holder, x.pending = "", nil; return x.ask(n - 1) }},
		modelChange{"answer " + key, func(r *taskroute.Record) error {
			_, err := r.Answer(wire.Object{}.With(key, wire.Raw(`1`)), now)
			return err
		}, func(x *modelTask) bool { return x.take(key) }},
		modelChange{"withdraw " + key, func(r *taskroute.Record) error { return r.Withdraw(key, now) },
			func(x *modelTask) bool { return x.take(key) }},
		modelChange{"claim for " + holder, func(r *taskroute.Record) error { return r.Claim(holder, now) },
			func(x *modelTask) bool { x.holder = holder; x.epoch++; return true }},
		modelChange{"promote", func(r *taskroute.Record) error { return r.Promote(now) },
			func(x *modelTask) bool { changed := x.kind != taskroute.Task; x.kind = taskroute.Task; return changed }},
	)
}

func (x *modelTask) requestCancel() bool {
	if x.holder == "" {
		return x.end(taskroute.Cancelled, "Cancelled before the upstream was called again.", "")
	}
	changed := !x.wish
	x.wish = true
	return changed
}

// indexes compares the hints, which have settled when nothing is under way. What
// has expired may be in them or not.
func (m *model) indexes(t *testing.T) {
	t.Helper()
	var orphans []string
	open := map[taskroute.Owner]int{}
	anyExpired := false
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		x := m.tasks[id]
		switch {
		case x.status.Terminal():
		case m.expired(x):
			anyExpired = true
		default:
			open[x.owner]++
			if x.holder == "dead" {
				orphans = append(orphans, id)
			}
		}
	}
	m.everywhere(t, "orphans", func(s *taskroute.Store) string { return fmt.Sprint(m.orphans(t, s)) }, fmt.Sprint(orphans))
	if anyExpired {
		return
	}
	m.everywhere(t, "count", func(s *taskroute.Store) string {
		a, err := s.Backend().Usage(t.Context(), ann.String())
		b, err2 := s.Backend().Usage(t.Context(), bob.String())
		return fmt.Sprint(a.Open, b.Open, errors.Join(err, err2))
	}, fmt.Sprint(open[ann], open[bob], nil))
}

func (m *model) orphans(t *testing.T, s *taskroute.Store) (ids []string) {
	t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		page, next, err := s.Backend().Orphans(t.Context(), cursor, 5)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			if !m.expired(m.tasks[o.ID]) {
				ids = append(ids, o.ID)
			}
		}
		cursor = next
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

package main

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"taskgate/taskroute"
	"taskgate/taskroute/memstore"
)

// model is a store of so many tasks that there is no room for them: those of one
// holder are alike until they change, and their ids are numbers. It counts what
// is asked of it. Like the one in Redis it pages through the tasks of the dead
// only, and no page has what has ended.
type model struct {
	*memstore.Store               // what is not asked for here
	each            int           // tasks of a holder
	roundTrip       time.Duration // what each operation takes

	beats, pages, gets, writes atomic.Int64

	mu      sync.Mutex
	holders []*holder
	byName  map[string]*holder
	changed map[int]taskroute.Doc // by number
}

// holder is a replica, with the tasks that it runs: each of them, from first on.
type holder struct {
	name  string
	first int
	until time.Time     // of its lease
	like  taskroute.Doc // what each of them is
	left  []int         // numbers of those that have not ended, in no order
	at    map[int]int   // where each is in left; nil: none has ended
}

func newModel(each int, roundTrip time.Duration) *model {
	return &model{Store: memstore.New(time.Now), each: each, roundTrip: roundTrip, byName: map[string]*holder{}, changed: map[int]taskroute.Doc{}}
}

// Heartbeat implements taskroute.Backend.
func (m *model) Heartbeat(_ context.Context, name string, lease time.Duration) ([]string, error) {
	m.beats.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.byName[name]
	switch {
	case h == nil:
		h = &holder{name: name, first: len(m.holders) * m.each}
		m.byName[name], m.holders = h, append(m.holders, h)
	case time.Now().After(h.until):
		return nil, taskroute.ErrConflict
	}
	h.until = time.Now().Add(lease)
	return nil, nil
}

// Create implements taskroute.Backend: it makes all the tasks of a holder, like
// this one.
func (m *model) Create(_ context.Context, d taskroute.Doc, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d.Revision = 1
	m.byName[d.Holder].like = d
	return nil
}

// Get implements taskroute.Backend.
func (m *model) Get(_ context.Context, id string, _ ...taskroute.Part) (taskroute.Doc, error) {
	m.gets.Add(1)
	time.Sleep(m.roundTrip)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.doc(numberOf(id)), nil
}

func (m *model) doc(n int) taskroute.Doc {
	d, ok := m.changed[n]
	if !ok {
		d = m.holders[n/m.each].like
	}
	d.ID = idOf(n)
	return d
}

// Replace implements taskroute.Backend.
func (m *model) Replace(_ context.Context, prev uint64, d taskroute.Doc, _ string) error {
	time.Sleep(m.roundTrip)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := numberOf(d.ID)
	old := m.doc(n)
	if old.Revision != prev {
		return taskroute.ErrConflict
	}
	m.writes.Add(1)
	for p, part := range d.Parts {
		if part == nil {
			d.Parts[p] = old.Parts[p]
		}
	}
	d.Revision = prev + 1
	m.changed[n] = d
	if !d.Open {
		m.holders[n/m.each].drop(n)
	}
	return nil
}

// Orphans implements taskroute.Backend. The cursor is a holder and a place in its
// list.
func (m *model) Orphans(_ context.Context, cursor string, limit int) (page []taskroute.Orphan, next string, err error) {
	m.pages.Add(1)
	time.Sleep(m.roundTrip)
	var at, place int
	if cursor != "" {
		if _, err := fmt.Sscan(cursor, &at, &place); err != nil {
			return nil, "", err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for ; at < len(m.holders); at, place = at+1, 0 {
		h := m.holders[at]
		if time.Now().Before(h.until) {
			continue
		}
		if h.list(min(m.each, orphans)); place < len(h.left) {
			end := min(place+limit, len(h.left))
			for _, n := range h.left[place:end] {
				page = append(page, taskroute.Orphan{ID: idOf(n), Holder: h.name})
			}
			return page, fmt.Sprint(at, " ", end), nil
		}
	}
	return nil, "", nil
}

// orphans are how many tasks of a replica are open when it dies.
const orphans = 2000

// list makes the list of a dead holder's tasks, when it is first asked for.
func (h *holder) list(each int) {
	if h.at != nil {
		return
	}
	h.at = make(map[int]int, each)
	for i := range each {
		h.left, h.at[h.first+i] = append(h.left, h.first+i), i
	}
}

// drop takes a task out of the list.
func (h *holder) drop(n int) {
	i, last := h.at[n], len(h.left)-1
	h.left[i], h.at[h.left[last]] = h.left[last], i
	h.left = h.left[:last]
	delete(h.at, n)
}

// open is how many tasks of a dead holder have not ended.
func (m *model) open(h *holder) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.at == nil {
		return orphans
	}
	return len(h.left)
}

// An id is a number in the form of the real ones.
func idOf(n int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:])
}

func numberOf(id string) int {
	b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(id)
	if err != nil {
		panic(err) // all ids are of idOf
	}
	return int(binary.BigEndian.Uint64(b))
}

package taskroute

import (
	"maps"
	"slices"
	"sync"
)

// Watcher tells that records may have changed, here or (by the backend's hints)
// elsewhere. It is a hint: read the records again, and again after a while even
// without one (contract 10).
type Watcher struct {
	hub     *watchers
	ids     []string
	hear    func(id string) // called under hub.mu
	changed chan struct{}   // capacity 1

	dirty map[string]struct{} // under hub.mu
}

// note is what most hear with.
func (w *Watcher) note(id string) {
	w.dirty[id] = struct{}{}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Changed receives after something may have changed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Take returns the ids that may have changed since the last call.
func (w *Watcher) Take() []string {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	ids := slices.Collect(maps.Keys(w.dirty))
	clear(w.dirty)
	return ids
}

// Stop releases the watcher.
func (w *Watcher) Stop() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, id := range w.ids {
		delete(w.hub.byID[id], w)
		if len(w.hub.byID[id]) == 0 {
			delete(w.hub.byID, id)
		}
	}
}

// watchers are those who wait for records to change, by id.
type watchers struct {
	mu   sync.Mutex
	byID map[string]map[*Watcher]struct{}
}

func newWatchers() *watchers { return &watchers{byID: map[string]map[*Watcher]struct{}{}} }

func (h *watchers) add(ids []string) *Watcher {
	w := &Watcher{hub: h, ids: ids, changed: make(chan struct{}, 1), dirty: map[string]struct{}{}}
	w.hear = w.note
	return h.enter(w)
}

func (h *watchers) enter(w *Watcher) *Watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range w.ids {
		if h.byID[id] == nil {
			h.byID[id] = map[*Watcher]struct{}{}
		}
		h.byID[id][w] = struct{}{}
	}
	return w
}

// wake tells who watches id, or everybody when id is "" because hints were
// lost. A watcher that has not yet looked needs no second wake.
func (h *watchers) wake(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id != "" {
		signal(h.byID[id], id)
		return
	}
	for id, set := range h.byID {
		signal(set, id)
	}
}

func signal(set map[*Watcher]struct{}, id string) {
	for w := range set {
		w.hear(id)
	}
}

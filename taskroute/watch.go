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
	changed chan struct{} // capacity 1
	hear    func()        // instead of changed and dirty; nil: there is none

	dirty map[string]struct{} // under hub.mu
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
	return h.enter(&Watcher{hub: h, ids: ids, changed: make(chan struct{}, 1), dirty: map[string]struct{}{}})
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
		if w.hear != nil {
			w.hear()
			continue
		}
		w.dirty[id] = struct{}{}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

package taskroute

import "sync"

// watchers are those who wait for records to change, by id.
type watchers struct {
	mu   *sync.Mutex
	byID map[string]map[chan struct{}]struct{}
}

func newWatchers() watchers {
	return watchers{mu: new(sync.Mutex), byID: map[string]map[chan struct{}]struct{}{}}
}

func (w watchers) add(id string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[id] == nil {
		w.byID[id] = map[chan struct{}]struct{}{}
	}
	w.byID[id][ch] = struct{}{}
	return ch, func() { w.remove(id, ch) }
}

func (w watchers) remove(id string, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byID[id], ch)
	if len(w.byID[id]) == 0 {
		delete(w.byID, id)
	}
}

// wake tells who watches id, or everybody when id is "" because hints were
// lost. A watcher that has not yet looked needs no second wake.
func (w watchers) wake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id != "" {
		signal(w.byID[id])
		return
	}
	for _, set := range w.byID {
		signal(set)
	}
}

func signal(set map[chan struct{}]struct{}) {
	for ch := range set {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

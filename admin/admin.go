// Package admin serves health, readiness, metrics and what is in flight, on a
// listener of its own that clients do not reach.
package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"taskgate/reqcoord"
)

// Handler serves the admin endpoints.
type Handler struct {
	mux      *http.ServeMux
	from     Sources
	draining atomic.Bool
}

// PolicyStatus is what /readyz says of the policy files.
type PolicyStatus struct {
	Hash      string    `json:"hash"`
	Rules     int       `json:"rules"`
	ChangedAt time.Time `json:"changedAt"`
	Error     string    `json:"error,omitempty"` // why the files that are there now do not hold
}

// Sources are what a Handler asks. All are required.
type Sources struct {
	Coord  *reqcoord.Coordinator
	Ping   func(context.Context) error // whether the store is there
	Policy func() PolicyStatus
	Tools  func() []Tool
	// Troubles is what is wrong with upstreams, by name.
	Troubles func() map[string]string
	Metrics  prometheus.Gatherer
}

// New returns a Handler.
func New(from Sources) *Handler {
	h := &Handler{mux: http.NewServeMux(), from: from}
	h.mux.HandleFunc("GET /healthz", h.health)
	h.mux.HandleFunc("GET /readyz", h.ready)
	h.mux.HandleFunc("GET /calls", h.calls)
	h.mux.HandleFunc("GET /tools", h.tools)
	h.mux.Handle("GET /metrics", promhttp.HandlerFor(from.Metrics, promhttp.HandlerOpts{}))
	h.mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	h.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	h.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return h
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Drain makes the replica not ready: no new requests are to come.
func (h *Handler) Drain() { h.draining.Store(true) }

// health says that the process serves.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"status": "ok"})
}

// pingTimeout bounds the question to the store.
const pingTimeout = 2 * time.Second

// ready says whether requests are welcome. A store that is away does not make
// the replica unready: calls still pass, and every replica has the same store.
// Nor does an upstream whose program keeps ending: there are others.
func (h *Handler) ready(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		reply(w, http.StatusServiceUnavailable, map[string]any{"status": "draining", "calls": h.from.Coord.Len()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pingTimeout)
	defer cancel()
	store := "ok"
	if err := h.from.Ping(ctx); err != nil {
		store = "unreachable: " + err.Error()
	}
	body := map[string]any{"status": "ok", "store": store, "policy": h.from.Policy()}
	if troubles := h.from.Troubles(); len(troubles) > 0 {
		body["upstreams"] = troubles
	}
	reply(w, http.StatusOK, body)
}

type call struct {
	Upstream string  `json:"upstream"`
	Method   string  `json:"method"`
	Tool     string  `json:"tool,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// calls lists what is in flight, without arguments and callers.
func (h *Handler) calls(w http.ResponseWriter, _ *http.Request) {
	list := []call{}
	for _, c := range h.from.Coord.Snapshot() {
		list = append(list, call{Upstream: c.Upstream, Method: c.Method, Tool: c.Tool, Seconds: c.Age.Seconds()})
	}
	reply(w, http.StatusOK, map[string]any{"calls": list})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

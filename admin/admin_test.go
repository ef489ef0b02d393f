package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskgate/reqcoord"
)

func TestPages(t *testing.T) {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "turns_total"}))
	h := New(Sources{
		Coord: reqcoord.New(nil, time.Now), Ping: func(context.Context) error { return nil },
		Policy: func() PolicyStatus { return PolicyStatus{} }, Tools: func() []Tool { return nil },
		Troubles: func() map[string]string { return map[string]string{"up": "it keeps ending"} }, Metrics: metrics,
	})
	for path, want := range map[string]string{
		"/healthz":                       `"status":"ok"`,
		"/readyz":                        `"store":"ok","upstreams":{"up":"it keeps ending"}`,
		"/calls":                         `"calls":[]`,
		"/metrics":                       "turns_total 0",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/heap?gc=1&debug=1": "heap profile",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: HTTP %d without %q: %.200s", path, w.Code, want, w.Body)
		}
	}
	h.Drain()
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("draining: HTTP %d", w.Code)
	}
}

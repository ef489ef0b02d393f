package proxy

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"taskgate/wire"
)

type metrics struct {
	requests *counters[answerLabels]
	decided  *counters[decisionLabels]
	limited  *prometheus.CounterVec
	missing  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, q *quotas) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "taskgate_listen_streams", Help: "Open streams of subscriptions/listen."},
		func() float64 { return float64(q.streams.Taken()) })
	return &metrics{
		requests: newCounters[answerLabels](f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_requests_total", Help: "Answered requests by upstream, method, HTTP status and JSON-RPC error code (0: a result).",
		}, []string{"upstream", "method", "status", "code"})),
		decided: newCounters[decisionLabels](f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_decisions_total", Help: "Tool calls by the policy rule that decided them.",
		}, []string{"upstream", "rule"})),
		limited: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_limited_total", Help: "Requests refused with status 429, by reason (as data.reason of the error).",
		}, []string{"reason"}),
		missing: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_aggregate_missing_total", Help: "Lists of several upstreams in which this one is missing, or not whole.",
		}, []string{"upstream"}),
	}
}

// labels are those of one counter.
type labels interface {
	comparable
	values() []string
}

type answerLabels struct {
	upstream, method string
	status, code     int
}

func (l answerLabels) values() []string {
	return []string{l.upstream, l.method, strconv.Itoa(l.status), strconv.Itoa(l.code)}
}

type decisionLabels struct{ upstream, rule string }

func (l decisionLabels) values() []string { return []string{l.upstream, l.rule} }

// counters remember where each counter of a vector is. There are few: no client
// can fill a label.
type counters[L labels] struct {
	all *prometheus.CounterVec

	mu    sync.RWMutex
	known map[L]prometheus.Counter
}

func newCounters[L labels](all *prometheus.CounterVec) *counters[L] {
	return &counters[L]{all: all, known: map[L]prometheus.Counter{}}
}

func (c *counters[L]) count(l L) {
	c.mu.RLock()
	counter := c.known[l]
	c.mu.RUnlock()
	if counter == nil {
		counter = c.all.WithLabelValues(l.values()...)
		c.mu.Lock()
		c.known[l] = counter
		c.mu.Unlock()
	}
	counter.Inc()
}

// answered counts an answer. Methods come from clients, so unknown ones share a
// label.
func (m *metrics) answered(x *exchange, end ending) {
	l := answerLabels{status: end.status, code: end.rpc.Code}
	if x != nil {
		l.upstream, l.method = x.route.Name, wire.Label(x.msg.Method)
	}
	if end.status == http.StatusTooManyRequests {
		m.limited.WithLabelValues(reasonOf(&end.rpc)).Inc()
	}
	m.requests.count(l)
}

// reasonOf is the reason in the data of an error that was made here.
func reasonOf(e *wire.Error) string {
	reason, _ := wire.String(wire.Lookup(e.Data, "reason"))
	return reason
}

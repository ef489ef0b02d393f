package proxy

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"taskgate/wire"
)

type metrics struct {
	requests *prometheus.CounterVec
	decided  *prometheus.CounterVec
	limited  *prometheus.CounterVec
	missing  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, q *quotas) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "taskgate_listen_streams", Help: "Open streams of subscriptions/listen."},
		func() float64 { return float64(q.streams.Taken()) })
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_requests_total", Help: "Answered requests by upstream, method, HTTP status and JSON-RPC error code (0: a result).",
		}, []string{"upstream", "method", "status", "code"}),
		decided: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_decisions_total", Help: "Tool calls by the policy rule that decided them.",
		}, []string{"upstream", "rule"}),
		limited: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_limited_total", Help: "Requests refused with status 429, by reason (as data.reason of the error).",
		}, []string{"reason"}),
		missing: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_aggregate_missing_total", Help: "Lists of several upstreams in which this one is missing, or not whole.",
		}, []string{"upstream"}),
	}
}

// answered counts an answer. Methods come from clients, so unknown ones share a
// label.
func (m *metrics) answered(x *exchange, status int, err error) {
	up, method, code := "", "", 0
	if x != nil {
		up, method = x.route.Name, wire.Label(x.msg.Method)
	}
	if err != nil {
		rpc := rpcOf(err)
		code = rpc.Code
		if status == http.StatusTooManyRequests {
			m.limited.WithLabelValues(reasonOf(rpc)).Inc()
		}
	}
	m.requests.WithLabelValues(up, method, strconv.Itoa(status), strconv.Itoa(code)).Inc()
}

// reasonOf is the reason in the data of an error that was made here.
func reasonOf(e *wire.Error) string {
	data, _ := wire.ParseObject(e.Data)
	reason, _ := wire.String(data.Get("reason"))
	return reason
}

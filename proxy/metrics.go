package proxy

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	requests *prometheus.CounterVec
	decided  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_requests_total", Help: "Answered requests by upstream, method, HTTP status and JSON-RPC error code (0: a result).",
		}, []string{"upstream", "method", "status", "code"}),
		decided: f.NewCounterVec(prometheus.CounterOpts{
			Name: "taskgate_decisions_total", Help: "Tool calls by the policy rule that decided them.",
		}, []string{"upstream", "rule"}),
	}
}

// answered counts an answer. Methods come from clients, so unknown ones share a
// label.
func (m *metrics) answered(x *exchange, status int, err error) {
	up, method, code := "", "", 0
	if x != nil {
		up, method = x.route.Name, label(x.msg.Method)
	}
	if err != nil {
		code = codeOf(err)
	}
	m.requests.WithLabelValues(up, method, strconv.Itoa(status), strconv.Itoa(code)).Inc()
}

func label(method string) string {
	if method == "" || isStandard(method) {
		return method
	}
	return "other"
}

// isStandard tells the methods of the protocol and of SEP-2663.
func isStandard(method string) bool {
	switch method {
	case "server/discover", "tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/cancel",
		"subscriptions/listen", "prompts/list", "prompts/get", "resources/list", "resources/read",
		"resources/templates/list", "completion/complete":
		return true
	}
	return false
}

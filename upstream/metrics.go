package upstream

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one upstream.
type metrics struct {
	failures *prometheus.CounterVec // by kind
	probes   *prometheus.CounterVec // by verdict
	opened   prometheus.Counter
	lost     prometheus.Counter
	sessions prometheus.GaugeFunc
	ended    prometheus.Counter

	streams       prometheus.GaugeFunc
	streamsBroken prometheus.Counter
	unheard       prometheus.Counter
}

func newMetrics(sessions, streams func() int) *metrics {
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "taskgate", Subsystem: "upstream", Name: name, Help: help}
	}
	gauge := func(name, help string, value func() int) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "taskgate", Subsystem: "upstream", Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	return &metrics{
		failures: prometheus.NewCounterVec(counter("failures_total", "Requests that ended without a response."), []string{"kind"}),
		probes:   prometheus.NewCounterVec(counter("probes_total", "Probes of the protocol era."), []string{"verdict"}),
		opened:   prometheus.NewCounter(counter("sessions_opened_total", "Legacy sessions that were opened.")),
		lost:     prometheus.NewCounter(counter("sessions_lost_total", "Calls whose session the upstream did not know any more.")),
		sessions: gauge("sessions", "Legacy sessions that are open, or processes of a program.", sessions),
		ended:    prometheus.NewCounter(counter("processes_failed_total", "Processes that could not be started or have ended by themselves.")),

		streams:       gauge("listen_streams", "Streams that are listened to, or wait to be opened again.", streams),
		streamsBroken: prometheus.NewCounter(counter("listen_streams_broken_total", "Streams listened to that broke or could not be opened.")),
		unheard:       prometheus.NewCounter(counter("notifications_dropped_total", "Notifications that a slow listener had no room for.")),
	}
}

func (m *metrics) register(r prometheus.Registerer, upstream string) (unregister func(), err error) {
	r = prometheus.WrapRegistererWith(prometheus.Labels{"upstream": upstream}, r)
	all := []prometheus.Collector{m.failures, m.probes, m.opened, m.lost, m.sessions, m.ended, m.streams, m.streamsBroken, m.unheard}
	unregister = func() {
		for _, c := range all {
			r.Unregister(c)
		}
	}
	for i, c := range all {
		if err := r.Register(c); err != nil {
			all = all[:i]
			unregister()
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return unregister, nil
}

package taskrun

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"taskgate/reqcoord"
)

// metrics of this package. Labels are upstream names and statuses: bounded.
type metrics struct {
	created      *prometheus.CounterVec
	ended        *prometheus.CounterVec
	running      prometheus.Gauge
	joined       *prometheus.CounterVec
	unshared     prometheus.Counter
	refused      prometheus.Counter
	retries      prometheus.Counter
	unwritten    prometheus.Gauge
	dropped      prometheus.Counter
	fenced       prometheus.Counter
	rescued      prometheus.Counter
	reruns       prometheus.Counter
	resumed      prometheus.Counter
	handedOver   prometheus.Counter
	lapses       prometheus.Counter
	housekeeping prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, coord *reqcoord.Coordinator) *metrics {
	f := promauto.With(reg)
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "taskgate_" + name, Help: help})
	}
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "taskgate_calls_in_flight", Help: "Requests on their way to an upstream."},
		func() float64 { return float64(coord.Len()) })
	return &metrics{
		created:      f.NewCounterVec(prometheus.CounterOpts{Name: "taskgate_records_created_total", Help: "Calls that became a record, by kind: task or held."}, []string{"upstream", "kind"}),
		ended:        f.NewCounterVec(prometheus.CounterOpts{Name: "taskgate_records_ended_total", Help: "Records that this replica has ended, by final status."}, []string{"upstream", "status"}),
		running:      f.NewGauge(prometheus.GaugeOpts{Name: "taskgate_records_running", Help: "Records whose call this replica runs."}),
		joined:       f.NewCounterVec(prometheus.CounterOpts{Name: "taskgate_calls_joined_total", Help: "Calls that got the outcome of the same call, which had begun before."}, []string{"upstream"}),
		unshared:     counter("calls_not_deduped_total", "Calls that were sent without a look for the same call, because the store could not be asked or took no record."),
		refused:      counter("records_refused_total", "Calls that stayed synchronous because the store did not take their record."),
		retries:      counter("store_write_retries_total", "Writes to the store that had to be tried again."),
		unwritten:    f.NewGauge(prometheus.GaugeOpts{Name: "taskgate_outcomes_unwritten", Help: "Ends of calls that are being written, or wait for the store to be back."}),
		dropped:      counter("outcomes_dropped_total", "Ends of calls that could not be recorded any more."),
		fenced:       counter("runs_fenced_total", "Runs given up because their record had ended or was taken by another replica."),
		rescued:      counter("records_rescued_total", "Records of dead replicas that were ended here."),
		resumed:      counter("calls_resumed_total", "Calls of other replicas, or of an earlier start, that were found again at their upstream."),
		handedOver:   counter("records_handed_over_total", "Records that this replica left to others when it shut down."),
		reruns:       counter("calls_rerun_total", "Calls of dead replicas that policy let be sent again."),
		lapses:       counter("lease_lapses_total", "Times this replica's lease had lapsed before it was renewed."),
		housekeeping: counter("housekeeping_errors_total", "Failed turns of heartbeat, rescue or collection."),
	}
}

package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"taskgate/admin"
	"taskgate/config"
	"taskgate/policy"
)

// policyInterval is how often policy files are looked at without a sign that
// they have changed.
const policyInterval = 30 * time.Second

func newPolicy(cfg config.Config, log *zap.Logger) (*policy.Reloader, error) {
	return policy.NewReloader(cfg.Policy, policy.ReloaderOptions{
		Now: time.Now, Interval: policyInterval, Sees: policy.SeesOnly(cfg.PolicyHeaders), Log: log,
	})
}

// ReloadPolicy reads the policy files again; a wrong set changes nothing.
func (a *App) ReloadPolicy() { a.policy.Reload() }

func (a *App) policyStatus() admin.PolicyStatus {
	s := a.policy.Status()
	out := admin.PolicyStatus{Hash: s.Hash, Rules: s.Rules, ChangedAt: s.ChangedAt}
	if s.Err != nil {
		out.Error = s.Err.Error()
	}
	return out
}

// policyMetrics shows the state of policy in metrics.
func policyMetrics(reg prometheus.Registerer, r *policy.Reloader, pacer *policy.Pacer) {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{Name: "taskgate_policy_tools_measured", Help: "Tools whose pace is known, for what policy lets follow from it."},
		func() float64 { return float64(pacer.Len()) })
	gauge := func(name, help string, value func(policy.Status) float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "taskgate_policy_" + name, Help: help}, func() float64 { return value(r.Status()) })
	}
	gauge("loaded_timestamp_seconds", "When the policy that holds was loaded.", func(s policy.Status) float64 { return float64(s.ChangedAt.Unix()) })
	gauge("reload_ok", "1 when the files that are there now are those that hold.", func(s policy.Status) float64 {
		if s.Err != nil {
			return 0
		}
		return 1
	})
	gauge("reload_failures", "Attempts to load the policy files that failed since the start.", func(s policy.Status) float64 { return float64(s.Failures) })
}

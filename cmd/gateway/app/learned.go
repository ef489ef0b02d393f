package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskgate/admin"
	"taskgate/policy"
)

// observe takes in how long a call took. What no upstream lists is made up by a
// client, and would displace what is known of the tools that exist.
func (a *App) observe(upstream, tool string, took time.Duration) {
	if a.proxy.Lists(upstream, tool) {
		a.pacer.Observe(upstream, tool, took)
	}
}

// tools is what policy knows of the tools that upstreams list.
func (a *App) tools() []admin.Tool {
	listed := a.proxy.Tools()
	out := make([]admin.Tool, len(listed))
	for i, t := range listed {
		pace := a.pacer.Pace(t.Upstream, t.Name)
		out[i] = admin.Tool{
			Upstream: t.Upstream, Name: t.Name, Annotations: []byte(t.Annotations), TaskSupport: t.TaskSupport,
			Calls: pace.Calls, QuickSeconds: pace.Quick.Seconds(), UsualSeconds: pace.Usual.Seconds(), SlowSeconds: pace.Slow.Seconds(),
		}
	}
	return out
}

// maxPaces bounds the tools that metrics tell the pace of: the first by name of
// those that were measured.
const maxPaces = 200

// policyState is a prometheus.Collector of what has labels that come and go.
type policyState struct {
	policy *policy.Reloader
	tools  func() []admin.Tool

	info, failures, pace *prometheus.Desc
}

func newPolicyState(r *policy.Reloader, tools func() []admin.Tool) *policyState {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("taskgate_"+name, help, labels, nil)
	}
	return &policyState{
		policy: r, tools: tools,
		info:     desc("policy_info", "1, for the hash of the policy that holds.", "hash"),
		failures: desc("policy_condition_failures_total", "Conditions that could not be evaluated since the policy was loaded; their rules did not match.", "rule", "source"),
		pace:     desc("tool_pace_seconds", "How long the calls of a tool took of late, as promoteAfter: auto and pollInterval: adaptive follow it; of 200 tools at most.", "upstream", "tool", "quantile"),
	}
}

// Describe implements prometheus.Collector.
func (s *policyState) Describe(ch chan<- *prometheus.Desc) {
	ch <- s.info
	ch <- s.failures
	ch <- s.pace
}

// Collect implements prometheus.Collector.
func (s *policyState) Collect(ch chan<- prometheus.Metric) {
	set := s.policy.Set()
	ch <- prometheus.MustNewConstMetric(s.info, prometheus.GaugeValue, 1, set.Hash())
	for _, e := range set.EvalErrors() {
		ch <- prometheus.MustNewConstMetric(s.failures, prometheus.CounterValue, float64(e.Count), e.Rule, e.Source)
	}
	measured := 0
	for _, t := range s.tools() {
		if t.Calls == 0 {
			continue
		}
		if measured++; measured > maxPaces {
			return
		}
		for quantile, seconds := range map[string]float64{"0.1": t.QuickSeconds, "0.5": t.UsualSeconds, "0.9": t.SlowSeconds} {
			ch <- prometheus.MustNewConstMetric(s.pace, prometheus.GaugeValue, seconds, t.Upstream, t.Name, quantile)
		}
	}
}

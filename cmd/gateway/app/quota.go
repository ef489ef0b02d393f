package app

import (
	"taskgate/config"
	"taskgate/proxy"
	"taskgate/quota"
)

// newQuota is what callers may ask for. Where all of them are one principal, it
// has what all together have: there is nobody to protect from it.
func newQuota(cfg config.Config) proxy.Quota {
	l := cfg.Limits
	q := proxy.Quota{
		Requests:          quota.PerSecond(l.MaxRequestsPerSecond, l.MaxRequestsPerSecond),
		PrincipalRequests: quota.PerSecond(l.MaxRequestsPerSecondPerPrincipal, l.MaxRequestBurstPerPrincipal),

		Streams: l.MaxStreams, PrincipalStreams: l.MaxStreamsPerPrincipal, EarlyPolls: l.MaxEarlyPolls,
	}
	if len(cfg.Identity) == 0 {
		q.PrincipalRequests, q.PrincipalStreams = quota.Rate{}, l.MaxStreams
	}
	return q
}

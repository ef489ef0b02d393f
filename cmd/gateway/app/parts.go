package app

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/config"
	"taskgate/upstream"
)

// newCaller makes the connector to one upstream.
func newCaller(u config.Upstream, cfg config.Config, version string, keep *upkeep, log *zap.Logger, reg prometheus.Registerer) (upstream.Caller, error) {
	if len(u.Command) > 0 {
		return newCommand(u, version, log, reg)
	}
	header := http.Header{}
	for name, secret := range u.Headers {
		header.Set(name, secret.Value())
	}
	about := log.With(zap.String("upstream", u.Name))
	identify, err := newUpstreamAuth(u.Auth, keep, about)
	if err != nil {
		return nil, err
	}
	connect, err := newUpstreamTLS(u.TLS, keep, about)
	if err != nil {
		return nil, err
	}
	era := upstream.Era(u.Era)
	if u.Transport == config.TransportSSE {
		era = upstream.SSE
	}
	return upstream.NewHTTP(upstream.Options{
		Name: u.Name, URL: u.URL, Era: era, Header: header, Version: version,
		TLS: connect, AllowLinkLocal: u.AllowLinkLocal, Auth: identify, NeedsClient: needsClient(u.ForwardHeaders),
		MaxResponse: int64(u.Limits.MaxResponseBytes), MaxEvent: int(u.Limits.MaxResponseBytes),
		MaxSessions: u.Limits.MaxSessions, SessionIdle: u.Limits.SessionIdle, ConnectTimeout: cfg.Timeouts.Connect,
		Isolation: upstream.Isolation(u.Isolation), Cancel: upstream.Cancel(u.Cancel), Patience: u.Limits.QueueTimeout,
		Concurrency: u.Limits.Concurrency, Log: log, Metrics: reg, Now: time.Now,
	})
}

// newCommand makes the connector to a program on stdio.
func newCommand(u config.Upstream, version string, log *zap.Logger, reg prometheus.Registerer) (upstream.Caller, error) {
	return upstream.NewCommand(u.Command, upstream.Options{
		Name: u.Name, Era: upstream.Era(u.Era), Version: version, MaxEvent: int(u.Limits.MaxResponseBytes),
		MaxSessions: u.Limits.MaxSessions, SessionIdle: u.Limits.SessionIdle, InitializeTimeout: u.Limits.Start,
		Isolation: upstream.Isolation(u.Isolation), Cancel: upstream.Cancel(u.Cancel), Patience: u.Limits.QueueTimeout, Log: log, Metrics: reg, Now: time.Now,
	})
}

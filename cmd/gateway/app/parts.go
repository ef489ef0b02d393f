package app

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"taskgate/config"
	"taskgate/taskroute"
	"taskgate/taskroute/boltstore"
	"taskgate/taskroute/memstore"
	"taskgate/upstream"
)

// openStore opens the store that the configuration names.
func openStore(_ context.Context, cfg config.Config, _ *zap.Logger) (taskroute.Backend, error) {
	switch cfg.Store.Kind() {
	case config.StoreMemory:
		return memstore.New(time.Now), nil
	case config.StoreEmbedded:
		return boltstore.Open(string(cfg.Store), time.Now)
	}
	return nil, errors.New("not built yet")
}

// newCaller makes the connector to one upstream.
func newCaller(u config.Upstream, cfg config.Config, version string, log *zap.Logger, reg prometheus.Registerer) (upstream.Caller, error) {
	if len(u.Command) > 0 {
		return nil, errors.New("commands are not supported yet; give a URL")
	}
	header := http.Header{}
	for name, secret := range u.Headers {
		header.Set(name, secret.Value())
	}
	return upstream.NewHTTP(upstream.Options{
		Name: u.Name, URL: u.URL, Era: upstream.Era(u.Era), Header: header, Version: version,
		MaxResponse: int64(u.Limits.MaxResponseBytes), MaxEvent: int(u.Limits.MaxResponseBytes),
		MaxSessions: u.Limits.MaxSessions, SessionIdle: u.Limits.SessionIdle, ConnectTimeout: cfg.Timeouts.Connect,
		Concurrency: u.Limits.Concurrency, Log: log, Metrics: reg, Now: time.Now,
	})
}

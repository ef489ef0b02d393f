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
	"taskgate/taskroute/redisstore"
	"taskgate/upstream"
)

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, cfg config.Config, log *zap.Logger) (taskroute.Backend, error) {
	switch cfg.Store.Kind() {
	case config.StoreMemory:
		return memstore.New(time.Now), nil
	case config.StoreEmbedded:
		store, err := boltstore.Open(string(cfg.Store), time.Now)
		if err != nil {
			return nil, err // not store, which would be a Backend that is not nil
		}
		return store, nil
	}
	return openRedis(ctx, cfg, log)
}

// openRedis connects, and tells of settings that may lose tasks.
func openRedis(ctx context.Context, cfg config.Config, log *zap.Logger) (taskroute.Backend, error) {
	r := cfg.Redis
	store, err := redisstore.Open(ctx, string(cfg.Store), redisstore.Options{
		Prefix: r.Prefix, Username: r.Username, Password: r.Password.Value(),
		Addresses: r.Addresses, MasterName: r.MasterName, PoolSize: r.PoolSize, WaitReplicas: r.WaitReplicas, Timeout: cfg.Timeouts.Store,
	})
	if err != nil {
		return nil, err
	}
	findings, err := store.Report(ctx)
	if err != nil {
		log.Warn("the settings of Redis could not be looked at", zap.Error(err))
	}
	for _, f := range findings {
		level := zap.InfoLevel
		if f.Serious {
			level = zap.WarnLevel
		}
		log.Log(level, f.Text)
	}
	return store, nil
}

// newCaller makes the connector to one upstream.
func newCaller(u config.Upstream, cfg config.Config, version string, keep *upkeep, log *zap.Logger, reg prometheus.Registerer) (upstream.Caller, error) {
	if len(u.Command) > 0 {
		return newCommand(u, version, log)
	}
	header := http.Header{}
	for name, secret := range u.Headers {
		header.Set(name, secret.Value())
	}
	identify, err := newUpstreamAuth(u.Auth, keep, log.With(zap.String("upstream", u.Name)))
	if err != nil {
		return nil, err
	}
	return upstream.NewHTTP(upstream.Options{
		Name: u.Name, URL: u.URL, Era: upstream.Era(u.Era), Header: header, Version: version,
		Auth: identify, NeedsClient: needsClient(u.ForwardHeaders),
		MaxResponse: int64(u.Limits.MaxResponseBytes), MaxEvent: int(u.Limits.MaxResponseBytes),
		MaxSessions: u.Limits.MaxSessions, SessionIdle: u.Limits.SessionIdle, ConnectTimeout: cfg.Timeouts.Connect,
		Concurrency: u.Limits.Concurrency, Log: log, Metrics: reg, Now: time.Now,
	})
}

// newCommand makes the connector to a program on stdio.
func newCommand(u config.Upstream, version string, log *zap.Logger) (upstream.Caller, error) {
	if u.Era == config.EraModern {
		return nil, errors.New("era: a command is spoken to in the legacy era only; leave era out")
	}
	return upstream.NewCommand(upstream.CommandOptions{
		Name: u.Name, Command: u.Command, Version: version, MaxMessage: int(u.Limits.MaxResponseBytes),
		MaxProcesses: u.Limits.MaxSessions, Idle: u.Limits.SessionIdle, Log: log, Now: time.Now,
	})
}

package app

import (
	"context"
	"fmt"
	"net/http"

	"taskgate/config"
	"taskgate/obs"
	"taskgate/tracing"
	"taskgate/upstream"
)

// trace makes what spans are made with; without an endpoint there is nothing.
func (a *App) trace(cfg config.Tracing, version string) error {
	if cfg.Endpoint == "" {
		return nil
	}
	header := http.Header{}
	for name, secret := range cfg.Headers {
		header.Set(name, secret.Value())
	}
	var err error
	a.spans, err = obs.Tracing(obs.TracingOptions{
		Endpoint: cfg.Endpoint, SampleRatio: cfg.SampleRatio, Header: header, Service: cfg.ServiceName, Version: version,
		Log: a.log, Metrics: a.metrics,
	})
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	a.tracer = tracing.New(a.spans, func(upstream, tool string) bool { return a.proxy.Lists(upstream, tool) })
	return nil
}

// traced are the upstreams as calls reach them.
func (a *App) traced() map[string]upstream.Caller {
	out := map[string]upstream.Caller{}
	for name, u := range a.upstreams {
		out[name] = a.tracer.Caller(name, u)
	}
	return out
}

// flushSpans sends what is left of them. The gateway does not fail for a receiver
// that is away; its sender has said so.
func (a *App) flushSpans(ctx context.Context) {
	if a.spans == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	_ = a.spans.Shutdown(ctx)
}

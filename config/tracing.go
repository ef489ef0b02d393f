package config

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Tracing says where spans go (OpenTelemetry, OTLP over HTTP).
type Tracing struct {
	// Endpoint is the base URL of the receiver, to which /v1/traces is added; "":
	// nothing is traced.
	Endpoint string `yaml:"endpoint" env:"ENDPOINT"`
	// SampleRatio is the part of the traces that begin here and are kept, 0 to 1.
	SampleRatio float64 `yaml:"sampleRatio" env:"SAMPLE_RATIO"`
	// ServiceName is what the gateway is called in traces.
	ServiceName string `yaml:"serviceName" env:"SERVICE_NAME"`
	// Headers are sent to the receiver.
	Headers map[string]Secret `yaml:"headers" env:"-"`
}

// Variables of OpenTelemetry's own, which count where there is none of the
// gateway's.
const (
	otelEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otelService  = "OTEL_SERVICE_NAME"
)

func (l *loader) otelVariables() {
	t := &l.config.Tracing
	for name, field := range map[string]*string{otelEndpoint: &t.Endpoint, otelService: &t.ServiceName} {
		if v := strings.TrimSpace(l.environ[name]); v != "" {
			*field = v
		}
	}
}

func (v *validator) tracing(c Config) {
	t := c.Tracing
	if !(t.SampleRatio >= 0 && t.SampleRatio <= 1) {
		v.problem("tracing.sampleRatio", "%v is not a part of all traces; write a number from 0 to 1", t.SampleRatio)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		if !httpguts.ValidHeaderFieldName(name) {
			v.problem("tracing.headers."+name, "%q is not a header name", name)
		}
	}
	if t.Endpoint == "" {
		return
	}
	if u, err := url.Parse(t.Endpoint); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		v.problem("tracing.endpoint", "is not the base URL of an OTLP receiver; write one such as http://127.0.0.1:4318 (in the file or in %s), and what it wants to know of you in tracing.headers", otelEndpoint)
	}
	for i, up := range c.Upstreams {
		for j, f := range up.ForwardHeaders {
			if to := http.CanonicalHeaderKey(f.To()); to == "Traceparent" || to == "Tracestate" {
				v.problem(item(item("upstreams", i)+".forwardHeaders", j), "%s is set by tracing, for the gateway's own span; remove it", to)
			}
		}
	}
}

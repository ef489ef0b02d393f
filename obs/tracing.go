package obs

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// TracingOptions say where spans go.
type TracingOptions struct {
	// Endpoint is the base URL of an OTLP receiver that speaks HTTP with
	// protobuf, without "/v1/traces".
	Endpoint string
	// SampleRatio is the part, from 0 to 1, of the traces that begin here and are
	// kept. One that a client began is kept if the client keeps it.
	SampleRatio float64
	// Header is sent along.
	Header http.Header
	// Service and Version say who made the spans.
	Service string
	Version string

	Log     *zap.Logger
	Metrics prometheus.Registerer
}

// Limits of the export. What waits for a receiver that is away is bounded by the
// SDK's queue, of 2048 spans.
const (
	exportTimeout  = 10 * time.Second // of one batch, with all tries
	exportInterval = 2 * time.Second  // between batches
)

// Tracing returns what makes spans and sends them, in the background, to a
// receiver. Shutdown sends what is left. A receiver that is away costs spans,
// which are counted, and nothing else.
func Tracing(o TracingOptions) (*sdktrace.TracerProvider, error) {
	sender := &sender{
		client: &http.Client{Timeout: exportTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		url:    strings.TrimSuffix(o.Endpoint, "/") + "/v1/traces", header: o.Header, log: o.Log,
		lost: promauto.With(o.Metrics).NewCounter(prometheus.CounterOpts{
			Name: "taskgate_trace_spans_lost_total", Help: "Spans that the receiver of traces did not take.",
		}),
	}
	exporter, err := otlptrace.New(context.Background(), sender)
	if err != nil {
		return nil, fmt.Errorf("exporter: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(exportInterval), sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithSampler(sdktrace.ParentBased(asLinked{sdktrace.TraceIDRatioBased(o.SampleRatio)})),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))),
	), nil
}

// asLinked keeps a trace that begins with a link if the linked one is kept: of a
// task and the request that made it, either both can be seen or neither. For
// others the ratio holds.
type asLinked struct{ ratio sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s asLinked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	sampler := s.ratio
	if len(p.Links) > 0 {
		sampler = sdktrace.NeverSample()
		if p.Links[0].SpanContext.IsSampled() {
			sampler = sdktrace.AlwaysSample()
		}
	}
	return sampler.ShouldSample(p)
}

// Description implements sdktrace.Sampler.
func (s asLinked) Description() string { return "AsLinked{" + s.ratio.Description() + "}" }

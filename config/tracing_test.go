package config

import "testing"

// TestOpenTelemetryVariables: the standard ones count over the file, and the
// gateway's own over them.
func TestOpenTelemetryVariables(t *testing.T) {
	environ := []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318", "OTEL_SERVICE_NAME=edge"}
	for _, c := range []struct {
		environ []string
		want    Tracing
	}{
		{nil, Tracing{SampleRatio: 1, ServiceName: "taskgate"}},
		{environ, Tracing{Endpoint: "http://collector:4318", SampleRatio: 1, ServiceName: "edge"}},
		{append(environ, "TASKGATE_TRACING_ENDPOINT=http://own:4318", "TASKGATE_TRACING_SAMPLE_RATIO=0.25"),
			Tracing{Endpoint: "http://own:4318", SampleRatio: 0.25, ServiceName: "edge"}},
	} {
		got, err := Load("", c.environ, withUpstream)
		if err != nil {
			t.Fatal(err)
		}
		if got.Tracing.Endpoint != c.want.Endpoint || got.Tracing.SampleRatio != c.want.SampleRatio || got.Tracing.ServiceName != c.want.ServiceName {
			t.Errorf("%v: got %+v, want %+v", c.environ, got.Tracing, c.want)
		}
	}
}

package obs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// sender is an otlptrace.Client that POSTs spans (OTLP 1.x, OTLP/HTTP). The
// SDK's own, otlptracehttp, does the same and would make the program larger by
// the whole of gRPC, which it links and does not use.
type sender struct {
	client *http.Client
	url    string
	header http.Header
	log    *zap.Logger
	lost   prometheus.Counter
	failed atomic.Bool // the last batch was not taken
}

// Start implements otlptrace.Client.
func (s *sender) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (s *sender) Stop(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. It returns no error: the SDK would
// hand that to a handler which the whole process shares.
func (s *sender) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	err := s.upload(ctx, spans)
	if err != nil {
		s.lost.Add(float64(count(spans)))
	}
	switch before := s.failed.Swap(err != nil); {
	case err != nil && !before:
		s.log.Warn("spans were not taken; they are lost until the receiver of traces is back", zap.Error(err))
	case err == nil && before:
		s.log.Info("spans are taken again")
	}
	return nil
}

// upload sends a batch, and again while the receiver asks for that or is away.
// TracesData has the encoding of an ExportTraceServiceRequest, whose package
// needs gRPC.
func (s *sender) upload(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	for wait := 500 * time.Millisecond; ; wait *= 2 {
		again, err := s.post(ctx, body)
		if !again {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends a batch once. again tells a failure that may pass (OTLP/HTTP,
// Retryable Response Codes).
func (s *sender) post(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("export: %w", err)
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := s.client.Do(req)
	if err != nil {
		return true, fmt.Errorf("export: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again
	switch resp.StatusCode {
	case http.StatusOK:
		return false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("export: HTTP %d from %s", resp.StatusCode, req.URL.Redacted())
}

func count(spans []*tracepb.ResourceSpans) (n int) {
	for _, r := range spans {
		for _, s := range r.ScopeSpans {
			n += len(s.Spans)
		}
	}
	return n
}

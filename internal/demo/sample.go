package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sample is a server as there are many: it speaks 2025-11-25, in sessions,
// answers each call on the stream of that very call, and makes no tasks.
type sample struct {
	url    string
	server *http.Server
}

// startSample serves on a free port of this machine. pace is how long each part
// of a report takes.
func startSample(pace time.Duration) (*sample, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("sample server: %w", err)
	}
	tools := newTools(pace)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, nil)
	s := &sample{
		url:    "http://" + l.Addr().String() + "/mcp",
		server: &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = s.server.Serve(l) }() // ends by close
	return s, nil
}

// close breaks off what still runs.
func (s *sample) close() { _ = s.server.Close() }

func newTools(pace time.Duration) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sample", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "word_count", Description: "Count the words of a text. Quick."}, wordCount)
	mcp.AddTool(s, &mcp.Tool{Name: "generate_report", Description: "Write a report. Slow, and asks whether its outline is right."}, reporter{pace}.generate)
	return s
}

type textInput struct {
	Text string `json:"text" jsonschema:"the text"`
}

func wordCount(_ context.Context, _ *mcp.CallToolRequest, in textInput) (*mcp.CallToolResult, any, error) {
	return text(fmt.Sprintf("%d words", len(strings.Fields(in.Text)))), nil, nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

type reportInput struct {
	Topic string `json:"topic" jsonschema:"what the report is about"`
}

// reporter is the slow tool.
type reporter struct{ pace time.Duration }

// The parts of the work, before and after the question about the outline.
var (
	preparation = []string{"Looking for sources", "Reading the sources", "Drafting the outline"}
	chapters    = []string{"Causes", "History", "Measurements", "Outlook"}
)

func (r reporter) generate(ctx context.Context, req *mcp.CallToolRequest, in reportInput) (*mcp.CallToolResult, any, error) {
	work := progress{req: req, total: len(preparation) + len(chapters) + 1, pace: r.pace}
	for _, part := range preparation {
		if err := work.do(ctx, part); err != nil {
			return nil, nil, err
		}
	}
	approved, err := approve(ctx, req.Session, in.Topic)
	if err != nil {
		return nil, nil, err
	}
	if !approved {
		return text("The outline was not approved, so there is no report."), nil, nil
	}
	for _, chapter := range chapters {
		if err := work.do(ctx, "Writing: "+chapter); err != nil {
			return nil, nil, err
		}
	}
	if err := work.do(ctx, "Checking the references"); err != nil {
		return nil, nil, err
	}
	return text(report(in.Topic)), nil, nil
}

// progress reports the parts of the work as they begin.
type progress struct {
	req   *mcp.CallToolRequest
	total int
	pace  time.Duration
	done  int
}

func (p *progress) do(ctx context.Context, part string) error {
	p.done++
	if token := p.req.Params.GetProgressToken(); token != nil {
		err := p.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: float64(p.done), Total: float64(p.total),
			Message: fmt.Sprintf("%d/%d %s", p.done, p.total, part),
		})
		if err != nil {
			return fmt.Errorf("report progress: %w", err)
		}
	}
	select {
	case <-time.After(p.pace):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// approve asks in the middle of the call. A client that cannot be asked has
// nothing against the outline.
func approve(ctx context.Context, s *mcp.ServerSession, topic string) (bool, error) {
	if p := s.InitializeParams(); p == nil || p.Capabilities.Elicitation == nil {
		return true, nil
	}
	answer, err := s.Elicit(ctx, &mcp.ElicitParams{
		Message: fmt.Sprintf("Outline of %q: %s. Approve it?", topic, strings.Join(chapters, ", ")),
		RequestedSchema: &jsonschema.Schema{
			Type: "object", Required: []string{"approve"},
			Properties: map[string]*jsonschema.Schema{"approve": {Type: "boolean", Title: "Approve the outline"}},
		},
	})
	if err != nil {
		return false, fmt.Errorf("ask about the outline: %w", err)
	}
	return answer.Action == "accept" && answer.Content["approve"] == true, nil
}

func report(topic string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Report: %s\n", topic)
	for i, chapter := range chapters {
		fmt.Fprintf(&b, "%d. %s of %s: as expected.\n", i+1, chapter, topic)
	}
	return b.String()
}

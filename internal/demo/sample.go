package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
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
	s := &sample{
		url:    "http://" + l.Addr().String() + "/mcp",
		server: &http.Server{Handler: newServer(pace), ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = s.server.Serve(l) }() // ends by close
	return s, nil
}

// close breaks off what still runs.
func (s *sample) close() { _ = s.server.Close() }

func newServer(pace time.Duration) *server {
	return &server{sessions: map[string]*session{}, tools: []tool{
		{"word_count", "Count the words of a text. Quick.", "text", wordCount},
		{"generate_report", "Write a report. Slow, and asks whether its outline is right.", "topic", reporter{pace}.generate},
	}}
}

func wordCount(_ context.Context, c *call) (string, error) {
	return fmt.Sprintf("%d words", len(strings.Fields(c.argument))), nil
}

// reporter is the slow tool.
type reporter struct{ pace time.Duration }

// The parts of the work, before and after the question about the outline.
var (
	preparation = []string{"Looking for sources", "Reading the sources", "Drafting the outline"}
	chapters    = []string{"Causes", "History", "Measurements", "Outlook"}
)

func (r reporter) generate(ctx context.Context, c *call) (string, error) {
	work := work{call: c, total: len(preparation) + len(chapters) + 1, pace: r.pace}
	for _, part := range preparation {
		if err := work.do(ctx, part); err != nil {
			return "", err
		}
	}
	approved, err := approve(ctx, c)
	if err != nil {
		return "", err
	}
	if !approved {
		return "The outline was not approved, so there is no report.", nil
	}
	for _, chapter := range chapters {
		if err := work.do(ctx, "Writing: "+chapter); err != nil {
			return "", err
		}
	}
	return report(c.argument), work.do(ctx, "Checking the references")
}

// work reports its parts as they begin.
type work struct {
	call  *call
	total int
	pace  time.Duration
	done  int
}

func (w *work) do(ctx context.Context, part string) error {
	w.done++
	if err := w.call.progress(w.done, w.total, fmt.Sprintf("%d/%d %s", w.done, w.total, part)); err != nil {
		return fmt.Errorf("report progress: %w", err)
	}
	return sleep(ctx, w.pace)
}

// approve asks in the middle of the call. A client that cannot be asked has
// nothing against the outline.
func approve(ctx context.Context, c *call) (bool, error) {
	if !c.session.asks {
		return true, nil
	}
	action, content, err := c.ask(ctx, fmt.Sprintf("Outline of %q: %s. Approve it?", c.argument, strings.Join(chapters, ", ")), object{
		"type": "object", "required": []string{"approve"},
		"properties": object{"approve": object{"type": "boolean", "title": "Approve the outline"}},
	})
	if err != nil {
		return false, fmt.Errorf("ask about the outline: %w", err)
	}
	return action == "accept" && content["approve"] == true, nil
}

func report(topic string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Report: %s\n", topic)
	for i, chapter := range chapters {
		fmt.Fprintf(&b, "%d. %s of %s: as expected.\n", i+1, chapter, topic)
	}
	return b.String()
}

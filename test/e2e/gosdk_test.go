package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"taskgate/wire"
)

// goTaskParams and goTaskResult are the tasks/* messages as the Go SDK's custom
// methods want them.
type goTaskParams struct {
	mcp.ParamsBase
	TaskID         string         `json:"taskId"`
	InputResponses map[string]any `json:"inputResponses,omitempty"`
}

type goTaskResult struct {
	mcp.ResultBase
	Status         string                     `json:"status"`
	StatusMessage  string                     `json:"statusMessage"`
	PollIntervalMs int                        `json:"pollIntervalMs"`
	InputRequests  map[string]json.RawMessage `json:"inputRequests"`
	Result         *mcp.CallToolResult        `json:"result"`
	Error          json.RawMessage            `json:"error"`
}

// goSDKTask calls a tool with the Go SDK's client and sees the task through. The
// SDK knows no tasks, so tasks/* are custom methods and the handle reaches us by
// handleInMeta. Every question is answered with answer.
func goSDKTask(ctx context.Context, url, tool string, args, answer map[string]any) (*mcp.CallToolResult, error) {
	s, err := goSDKSession(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer s.Close()
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, fmt.Errorf("tools/call: %w", err)
	}
	id, ok := r.Meta["taskId"].(string)
	if !ok {
		return nil, errors.New("tools/call made no task")
	}
	for {
		task, err := callTask(ctx, s, "tasks/get", &goTaskParams{TaskID: id})
		if err != nil {
			return nil, err
		}
		switch task.Status {
		case wire.StatusCompleted:
			return task.Result, nil
		case wire.StatusFailed, wire.StatusCancelled:
			return nil, fmt.Errorf("task is %s: %s %s", task.Status, task.StatusMessage, task.Error)
		case wire.StatusInputRequired:
			answers := map[string]any{}
			for key := range task.InputRequests {
				answers[key] = map[string]any{"action": "accept", "content": answer}
			}
			if _, err := callTask(ctx, s, "tasks/update", &goTaskParams{TaskID: id, InputResponses: answers}); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("task is still %s: %w", task.Status, ctx.Err())
		case <-time.After(time.Duration(task.PollIntervalMs) * time.Millisecond):
		}
	}
}

func goSDKSession(ctx context.Context, url string) (*mcp.ClientSession, error) {
	caps := &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}}
	caps.AddExtension(wire.TasksExtension, nil)
	c := mcp.NewClient(&mcp.Implementation{Name: "go-sdk", Version: "0"}, &mcp.ClientOptions{Capabilities: caps})
	for _, m := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if err := mcp.AddSendingCustomMethod[*goTaskParams, *goTaskResult](c, m); err != nil {
			return nil, err
		}
	}
	return c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:   url,
		HTTPClient: &http.Client{Transport: handleInMeta{http.DefaultTransport}},
	}, nil)
}

func callTask(ctx context.Context, s *mcp.ClientSession, method string, p *goTaskParams) (*goTaskResult, error) {
	r, err := mcp.CallCustomMethod[*goTaskParams, *goTaskResult](ctx, s, method, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return r, nil
}

// handleInMeta copies the task's id from the answer to tools/call into the
// result's _meta, the only place where the SDK keeps what it does not know. It
// leaves Mcp-Name away on tasks/*, as the SDK does.
type handleInMeta struct{ next http.RoundTripper }

func (h handleInMeta) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(r)
	if err != nil || r.Header.Get(wire.HeaderMethod) != "tools/call" {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for line := range bytes.Lines(body) {
		data, isEvent := bytes.CutPrefix(line, []byte("data:"))
		if data = moveHandle(data); isEvent {
			data = append([]byte("data:"), data...)
		}
		lines = append(lines, data)
	}
	body = bytes.Join(lines, nil)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

func moveHandle(line []byte) []byte {
	m, err := wire.Decode(line)
	if err != nil || m.Result == nil {
		return line
	}
	result, parseErr := wire.ParseObject(m.Result)
	if parseErr != nil || result.Get("taskId") == nil {
		return line
	}
	m.Result = result.With("_meta", wire.Object{}.With("taskId", result.Get("taskId")).Bytes()).Bytes()
	ending := strings.Repeat("\n", bytes.Count(line, []byte("\n")))
	return append(m.Bytes(), ending...)
}

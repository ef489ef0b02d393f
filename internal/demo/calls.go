package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"taskgate/wire"
)

// callTool makes a tools/call and shows it.
func (s *story) callTool(ctx context.Context, tool string, arguments object) (reply, error) {
	shown, err := json.Marshal(arguments)
	if err != nil {
		return reply{}, fmt.Errorf("arguments: %w", err)
	}
	s.screen.sent("tools/call", tool+" "+string(shown))
	return s.client.send(ctx, "tools/call", tool, object{"name": tool, "arguments": arguments})
}

// startReport calls the slow tool, which must come back as a task.
func (s *story) startReport(ctx context.Context, topic string) (reply, error) {
	r, err := s.callTool(ctx, "generate_report", object{"topic": topic})
	if err != nil {
		return reply{}, err
	}
	if r.ResultType != wire.ResultTask {
		return reply{}, fmt.Errorf("generate_report: want a task, got %q", r.ResultType)
	}
	s.screen.got(fmt.Sprintf("after %s: task %s, %s", short(r.took), r.TaskID, r.Status))
	return r, nil
}

func (s *story) getTask(ctx context.Context, id string) (reply, error) {
	return s.client.send(ctx, "tasks/get", id, object{"taskId": id})
}

// poll shows the task as a bar until it no longer works.
func (s *story) poll(ctx context.Context, id string) (reply, error) {
	var done, total int
	for {
		r, err := s.getTask(ctx, id)
		if err != nil {
			return r, err
		}
		if n, of, ok := parts(r.StatusMessage); ok {
			done, total = n, of
		}
		text := r.StatusMessage
		if r.Status != wire.StatusWorking {
			text = ""
		}
		if r.Status == wire.StatusCompleted {
			done = total
		}
		s.screen.bar(done, total, fmt.Sprintf("%-14s %s", r.Status, text))
		if r.Status != wire.StatusWorking {
			return r, nil
		}
		if err := sleep(ctx, r.pollAfter()); err != nil {
			return r, err
		}
	}
}

// settled polls until the task no longer works.
func (s *story) settled(ctx context.Context, id string) (reply, error) {
	for {
		r, err := s.getTask(ctx, id)
		if err != nil || r.Status != wire.StatusWorking {
			return r, err
		}
		if err := sleep(ctx, r.pollAfter()); err != nil {
			return r, err
		}
	}
}

// parts reads the sample server's progress: "3/8 Drafting the outline".
func parts(message string) (done, total int, ok bool) {
	n, err := fmt.Sscanf(message, "%d/%d", &done, &total)
	return done, total, err == nil && n == 2
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// inspectorCommand is one that a reader can paste. The Inspector's command line
// cannot be asked, so the tool does not.
func inspectorCommand(endpoint string) string {
	return `   npx -y @modelcontextprotocol/inspector --cli --transport http --server-url ` + endpoint + ` \
     --protocol-era modern --method tools/call --tool-name generate_report --tool-arg topic=tides`
}

func curlCommand(endpoint string) string {
	return `   curl -s ` + endpoint + ` \
     -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
     -H 'MCP-Protocol-Version: ` + wire.Version + `' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: generate_report' \
     -d '` + curlBody() + `'`
}

func curlBody() string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"generate_report","arguments":{"topic":"tides"},"_meta":{
       "` + wire.MetaVersion + `":"` + wire.Version + `","` + wire.MetaClientInfo + `":{"name":"curl","version":"0"},
       "` + wire.MetaCapabilities + `":{"extensions":{"` + wire.TasksExtension + `":{}}}}}}`
}

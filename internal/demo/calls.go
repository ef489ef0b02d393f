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
func (s *story) poll(ctx context.Context, task reply) (reply, error) {
	s.screen.sent("tasks/get", fmt.Sprintf("%s, every %s", task.TaskID, short(task.pollAfter())))
	r, err := s.settled(ctx, task.TaskID, func(r reply) { s.screen.bar(fraction(r), r.Status+"  "+r.StatusMessage) })
	if err == nil {
		s.screen.bar(fraction(r), r.Status)
	}
	return r, err
}

// settled polls until the task no longer works, as often as the server wants.
func (s *story) settled(ctx context.Context, id string, working func(reply)) (reply, error) {
	for {
		r, err := s.getTask(ctx, id)
		if err != nil || r.Status != wire.StatusWorking {
			return r, err
		}
		working(r)
		if err := sleep(ctx, r.pollAfter()); err != nil {
			return r, err
		}
	}
}

// fraction reads the sample server's progress: "3/8 Drafting the outline".
func fraction(r reply) float64 {
	if r.Status == wire.StatusCompleted {
		return 1
	}
	var done, total int
	if n, err := fmt.Sscanf(r.StatusMessage, "%d/%d", &done, &total); err != nil || n < 2 {
		return 0
	}
	return float64(done) / float64(total)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// short writes a duration as people say it.
func short(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

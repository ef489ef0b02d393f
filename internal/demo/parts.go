package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"taskgate/wire"
)

// finished is a task that has come to its end.
type finished struct {
	id     string
	result json.RawMessage
}

// quickTool: a call that is answered soon is no task.
func (s *story) quickTool(ctx context.Context) error {
	s.screen.step(1, "A quick tool answers at once")
	r, err := s.callTool(ctx, "word_count", object{"text": "the tide waits for nobody"})
	if err != nil {
		return err
	}
	if r.ResultType != wire.ResultComplete {
		return fmt.Errorf("word_count: want a result, got %q", r.ResultType)
	}
	s.screen.got(fmt.Sprintf("after %s: %q", short(r.took), r.text()))
	return nil
}

// slowTool: a call that is not becomes a task, asks, and completes.
func (s *story) slowTool(ctx context.Context) error {
	s.screen.step(2, "A slow tool becomes a task")
	task, err := s.startReport(ctx, "tides")
	if err != nil {
		return err
	}
	s.screen.note("The request is over, the call runs on. The handle is on disk and good for " + task.keptFor() + ".")
	asked, err := s.poll(ctx, task)
	if err != nil {
		return err
	}
	if err := s.answer(ctx, asked); err != nil {
		return err
	}
	done, err := s.poll(ctx, task)
	if err != nil {
		return err
	}
	return s.completed(done)
}

// answer: the server asks in the middle of its call, and waits.
func (s *story) answer(ctx context.Context, task reply) error {
	if task.Status != wire.StatusInputRequired || len(task.InputRequests) != 1 {
		return fmt.Errorf("task: want one question, got status %s with %d", task.Status, len(task.InputRequests))
	}
	s.screen.step(3, "The server asks, the client answers")
	responses := object{}
	for key, q := range task.InputRequests {
		s.screen.got(fmt.Sprintf("%s %s: %s", key, q.Method, q.Params.Message))
		responses[key] = object{"action": "accept", "content": object{"approve": true}}
	}
	shown, err := json.Marshal(responses)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	s.screen.sent("tasks/update", string(shown))
	r, err := s.client.send(ctx, "tasks/update", task.TaskID, object{"taskId": task.TaskID, "inputResponses": responses})
	if err != nil {
		return err
	}
	s.screen.got("acknowledged after " + short(r.took))
	return nil
}

func (s *story) completed(task reply) error {
	if task.Status != wire.StatusCompleted {
		return fmt.Errorf("task: want it completed, got status %s: %s", task.Status, task.StatusMessage)
	}
	var result reply
	if err := json.Unmarshal(task.Result, &result); err != nil {
		return fmt.Errorf("result of the task: %w", err)
	}
	s.screen.got("completed, with the result that the server gave:")
	s.screen.quote(result.text())
	s.report = finished{task.TaskID, task.Result}
	return nil
}

// crash: what was promised outlives the process that promised it.
func (s *story) crash(ctx context.Context) error {
	s.screen.step(4, "The gateway crashes and comes back")
	running, err := s.startReport(ctx, "storms")
	if err != nil {
		return err
	}
	if err := s.killAndRestart(ctx); err != nil {
		return err
	}
	if err := s.stillThere(ctx); err != nil {
		return err
	}
	return s.honestlyFailed(ctx, running.TaskID)
}

func (s *story) killAndRestart(ctx context.Context) error {
	address, err := s.address()
	if err != nil {
		return err
	}
	s.screen.line(fmt.Sprintf("   $ kill -9 %d", s.gateway.pid()))
	if err := s.gateway.kill(); err != nil {
		return err
	}
	if _, err := s.getTask(ctx, s.report.id); err == nil {
		return errors.New("the gateway answers although it was killed")
	}
	s.screen.failed("nobody answers at " + address)
	if err := s.start(ctx, address); err != nil {
		return err
	}
	s.screen.line(fmt.Sprintf("   $ gateway serve --listen %s --store …   # process %d", address, s.gateway.pid()))
	return nil
}

func (s *story) stillThere(ctx context.Context) error {
	s.screen.sent("tasks/get", s.report.id)
	r, err := s.getTask(ctx, s.report.id)
	if err != nil {
		return err
	}
	if r.Status != wire.StatusCompleted || !bytes.Equal(r.Result, s.report.result) {
		return fmt.Errorf("finished task after the restart: want the same result, got status %s with %s", r.Status, r.Result)
	}
	s.screen.got(fmt.Sprintf("completed, the same %d bytes of result as before", len(r.Result)))
	return nil
}

// honestlyFailed: nobody knows how far the call came that the crash broke off.
func (s *story) honestlyFailed(ctx context.Context, id string) error {
	s.screen.sent("tasks/get", id)
	r, err := s.settled(ctx, id, func(reply) {})
	if err != nil {
		return err
	}
	if r.Status != wire.StatusFailed || r.Error == nil {
		return fmt.Errorf("task that ran during the crash: want it failed, got status %s", r.Status)
	}
	s.screen.failed(fmt.Sprintf("failed, %d: %s", r.Error.Code, r.Error.Message))
	s.screen.note("It is not lost, and it is not run a second time: nobody said that this would do no harm.")
	return nil
}

// Package tasks2025 is the tasks of 2025-11-25 (basic/utilities/tasks), an
// experimental feature of that revision alone, for its clients: the same records
// as those of SEP-2663, under other names. Nothing else of the gateway knows it.
package tasks2025

import (
	"context"
	"math"
	"strconv"
	"time"

	"taskgate/legacyfront"
	"taskgate/wire"
)

// Extend returns what adds the tasks to sessions of their revision. They can be
// listed only where callers are told apart (Task Isolation and Access Control).
func Extend(toldApart bool) func(version string) legacyfront.Extension {
	capability := wire.Object{}.With("cancel", wire.Raw(`{}`)).With("requests", wire.Raw(`{"tools":{"call":{}}}`))
	methods := map[string]legacyfront.Method{
		"tools/list":   listTools,
		"tools/call":   callTool,
		"tasks/get":    get,
		"tasks/result": result,
		"tasks/cancel": cancel,
	}
	if toldApart {
		capability = capability.With("list", wire.Raw(`{}`))
		methods["tasks/list"] = list
	}
	return func(version string) legacyfront.Extension {
		if version != wire.LegacyVersion {
			return legacyfront.Extension{}
		}
		return legacyfront.Extension{Capabilities: wire.Object{}.With("tasks", capability.Bytes()), Methods: methods, TaskNote: status}
	}
}

// listTools says of each tool whether it can be a task (tool-level negotiation).
func listTools(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	a := legacyfront.Forward(ctx, c)
	list, err := wire.ParseObject(a.Result)
	tools, notAList := wire.ParseArray(list.Get("tools"))
	if err != nil || notAList != nil {
		return a
	}
	for i, raw := range tools {
		tool, err := wire.ParseObject(raw)
		if err != nil {
			continue
		}
		execution := wire.Object{}.With("taskSupport", wire.Quote(c.TaskSupport(tool)))
		tools[i] = tool.With("execution", execution.Bytes()).Bytes()
	}
	a.Result = list.With("tools", wire.JoinArray(tools)).Bytes()
	return a
}

// callTool makes a task of a call that asks for one. A tool that must be a task
// and is not asked to be one is, to this revision, no method.
func callTool(ctx context.Context, c *legacyfront.Call) legacyfront.Answer {
	params := c.Params()
	if params.Get("task") == nil {
		return mustBeTask(legacyfront.Forward(ctx, c))
	}
	ttl, rpc := wantedTTL(params)
	if rpc != nil {
		return legacyfront.Fail(rpc)
	}
	a := c.AskForTask(ctx, params, ttl)
	if task, err := wire.ParseObject(a.Result); err == nil && wire.ResultType(a.Result) == wire.ResultTask {
		a.Result = wire.Object{}.With("task", flat(task).Bytes()).Bytes()
		id, _ := wire.String(task.Get("taskId"))
		c.Follow(ctx, id)
	}
	return a
}

func mustBeTask(a legacyfront.Answer) legacyfront.Answer {
	if a.Error == nil {
		return a
	}
	e := wire.ParseError(a.Error)
	if data, _ := wire.ParseObject(e.Data); e.Code == wire.CodeMissingCapability && string(data.Get("requiredCapabilities")) == string(wire.TasksRequired) {
		return legacyfront.Fail(wire.Errorf(wire.CodeMethodNotFound, "Method not found: this tool runs as a task only; call it with params.task"))
	}
	return a
}

// wantedTTL reads params.task. 0: the client does not say.
func wantedTTL(params wire.Object) (time.Duration, *wire.Error) {
	task, ok := params.Object("task")
	if !ok {
		return 0, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.task must be an object")
	}
	raw := task.Get("ttl")
	if raw == nil || string(raw) == "null" {
		return 0, nil
	}
	ms, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || ms < 1 {
		return 0, wire.Errorf(wire.CodeInvalidParams, "Invalid params: params.task.ttl must be a number of milliseconds, 1 or more")
	}
	return time.Duration(math.Min(ms, maxTTL)) * time.Millisecond, nil
}

// maxTTL, in milliseconds, is more than any policy grants and fits a Duration.
const maxTTL = float64(100*365*24*time.Hour) / float64(time.Millisecond)

// flat is a task of SEP-2663 under the names of this revision.
func flat(task wire.Object) wire.Object {
	out := wire.Object{}
	for _, name := range []string{"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt"} {
		if value := task.Get(name); value != nil {
			out = out.With(name, value)
		}
	}
	out = out.With("ttl", task.Get("ttlMs"))
	if poll := task.Get("pollIntervalMs"); poll != nil {
		out = out.With("pollInterval", poll)
	}
	return out
}

// status is the notification of a task's state.
func status(task wire.Object) (note wire.Message, ended bool) {
	return wire.Message{Method: "notifications/tasks/status", Params: flat(task).Bytes()}, isTerminal(statusOf(task))
}

func statusOf(task wire.Object) string {
	status, _ := wire.String(task.Get("status"))
	return status
}

func isTerminal(status string) bool {
	return status == wire.StatusCompleted || status == wire.StatusFailed || status == wire.StatusCancelled
}

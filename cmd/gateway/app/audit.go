package app

import (
	"os"

	"go.uber.org/zap"

	"taskgate/audit"
	"taskgate/config"
	"taskgate/taskroute"
	"taskgate/wire"
)

func openAudit(cfg config.Audit, log *zap.Logger) (*audit.Log, error) {
	failed := func(err error) { log.Error("an event was not audited", zap.Error(err)) }
	switch cfg.To {
	case "none":
		return nil, nil
	case "stderr":
		return audit.New(os.Stderr, failed), nil
	}
	return audit.Open(cfg.To, failed)
}

// taskEnded writes down what became of a task: its request was answered long ago.
// A held call has no task; its client comes back for the outcome.
func (a *App) taskEnded(r *taskroute.Record) {
	if r.State.Kind != taskroute.Task {
		return
	}
	e := audit.Event{
		Time: r.State.UpdatedAt, Kind: audit.TaskEnded, Tenant: r.State.Owner.Tenant, Subject: r.State.Owner.Subject,
		Upstream: r.State.Upstream, Tool: r.State.Tool, Task: audit.TaskHash(r.ID), Outcome: audit.Outcome(r.State.Status), // the same words
	}
	if r.Outcome.Error != nil {
		e.Code = wire.ParseError(r.Outcome.Error).Code
	}
	a.audit.Record(e)
}

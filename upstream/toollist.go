package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"taskgate/wire"
)

// toolList is what a session has listed of tools that run only as tasks
// (2025-11-25 basic/utilities/tasks#tool-level-negotiation).
type toolList struct {
	mu     sync.Mutex
	tools  map[string]bool // that it is so, by name of every tool
	listed time.Time
}

// listAgain is how long a list is good for a tool that is not on it.
const listAgain = time.Minute

// needsTask tells whether the call must ask for a task. Only servers that make
// them are asked what tools they have, once a session.
func (l *legacy) needsTask(ctx context.Context, s *session, header http.Header, r Request) bool {
	tool := toolOf(&r)
	if tool == "" || !s.makesTasks() {
		return false
	}
	needed, known := s.tools.look(tool, l.opts.Now())
	if known {
		return needed
	}
	_, err := l.listing.do(ctx, s, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.list(ctx, s, header)
	})
	if err != nil {
		s.tools.set(nil, l.opts.Now()) // the call itself will show what is wrong
		l.opts.Log.Debug("upstream did not list its tools", zap.String("upstream", l.opts.Name), LogError(err))
	}
	needed, _ = s.tools.look(tool, l.opts.Now())
	return needed
}

func (s *session) makesTasks() bool {
	capabilities, _ := wire.ParseObject(s.capabilities())
	tasks, _ := capabilities.Object("tasks")
	requests, _ := tasks.Object("requests")
	tools, _ := requests.Object("tools")
	_, ok := tools.Object("call")
	return ok
}

// look also knows that a tool is not there.
func (t *toolList) look(tool string, now time.Time) (needsTask, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	needsTask, known = t.tools[tool]
	return needsTask, known || !t.listed.IsZero() && now.Sub(t.listed) < listAgain
}

func (t *toolList) set(tools map[string]bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tools, t.listed = tools, now
}

// maxPages limits how far a list is followed.
const maxPages = 100

func (l *legacy) list(ctx context.Context, s *session, header http.Header) error {
	tools := map[string]bool{}
	var params wire.Object
	for range maxPages {
		a, err := l.errand(ctx, s, header, "tools/list", params)
		if err != nil {
			return err
		}
		if a.Error != nil {
			return fmt.Errorf("tools/list: error %d", wire.ParseError(a.Error).Code)
		}
		var page struct {
			Tools []struct {
				Name      string
				Execution struct{ TaskSupport string }
			}
			NextCursor wire.Raw
		}
		if err := json.Unmarshal(a.Result, &page); err != nil {
			return fmt.Errorf("tools/list: %w", err)
		}
		for _, tool := range page.Tools {
			tools[tool.Name] = tool.Execution.TaskSupport == "required"
		}
		if _, more := wire.String(page.NextCursor); !more {
			break
		}
		params = wire.Object{}.With("cursor", page.NextCursor)
	}
	s.tools.set(tools, l.opts.Now())
	return nil
}

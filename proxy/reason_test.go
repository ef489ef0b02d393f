package proxy

import (
	"context"
	"testing"

	"taskgate/policy"
	"taskgate/upstream"
	"taskgate/wire"
)

// Which rule decided is told beside what the upstream says in _meta, with the
// answer as with a task and a question, and only where the operator wants that.
func TestWhichRuleDecidedIsTold(t *testing.T) {
	answers := func(context.Context, upstream.Request, upstream.Handler) (upstream.Reply, error) {
		return result(`{"content":[],"_meta":{"their":1}}`), nil
	}
	asks := func(ctx context.Context, _ upstream.Request, h upstream.Handler) (upstream.Reply, error) {
		_, err := h.Ask(ctx, upstream.Question{ID: "1", Method: wire.MethodElicit, Params: wire.Raw(`{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}`)})
		return upstream.Reply{}, err
	}
	const ours = `"taskgate/policy":{"rule":"exports","source":"p.yaml:7"}`
	for name, c := range map[string]struct {
		adjust func(*setup)
		meta   string
	}{
		"an answer":  {func(s *setup) { s.up.call = answers }, `{"their":1,` + ours + `}`},
		"a task":     {func(s *setup) { s.up.call, s.decision.PromoteAfter = waits, 0 }, `{` + ours + `}`},
		"a question": {func(s *setup) { s.up.call, s.decision.Input = asks, policy.InputMRTR }, `{` + ours + `}`},
		"not wanted": {func(s *setup) { s.up.call, s.PolicyInMeta = answers, false }, `{"their":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, func(s *setup) {
				s.PolicyInMeta, s.decision.Rule, s.decision.Source = true, "exports", "p.yaml:7"
			}, c.adjust)
			r := g.ok(g.client("ann").CallTool(t.Context(), "tool", `{}`))
			check(t, "_meta", string(r.Result().Get("_meta")), c.meta)
		})
	}
}

package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"taskgate/admin"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

// TestWhatPolicyHasLearnedIsShown: measured are the tools that the upstream
// lists, and no name that a client makes up.
func TestWhatPolicyHasLearnedIsShown(t *testing.T) {
	quick := func(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("done"), nil }
	u := mcptest.NewLegacy(
		mcptest.Tool{Name: "quick", Definition: wire.Raw(`{"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"forbidden"}}`), Run: quick},
		mcptest.Tool{Name: "idle", Run: quick},
	)
	g := start(t, "adminListen: 127.0.0.1:0\nupstreams: [{name: u, url: \""+u.Start(t)+"\"}]\n",
		"rules:\n  - match: {tool: quick}\n    promoteAfter: auto\n  - {name: odd, match: {when: args.rows > 1}}\n")
	c := g.client(t, "/mcp", mcptest.TasksAndInput)
	const calls = 7
	for i := range calls {
		must(t)(c.CallTool(t.Context(), "quick", `{}`))
		must(t)(c.CallTool(t.Context(), fmt.Sprint("made-up-", i), `{}`))
	}

	var known admin.Tools
	if err := json.Unmarshal([]byte(page(t, g.AdminURL()+"/tools")), &known); err != nil {
		t.Fatal(err)
	}
	if len(known.Tools) != 2 || known.Policy == "" {
		t.Fatalf("the view tells %+v", known)
	}
	idle, measured := known.Tools[0], known.Tools[1]
	if idle.Name != "idle" || idle.Calls != 0 || idle.SlowSeconds != 0 {
		t.Errorf("of a tool that nobody called: %+v", idle)
	}
	if measured.Name != "quick" || measured.Upstream != "u" || measured.Calls != calls || measured.TaskSupport != "forbidden" || string(measured.Annotations) != `{"readOnlyHint":true}` {
		t.Errorf("of a tool that was called: %+v", measured)
	}
	if measured.QuickSeconds <= 0 || measured.SlowSeconds < measured.UsualSeconds || measured.UsualSeconds < measured.QuickSeconds {
		t.Errorf("its times: %+v", measured)
	}
	metrics := page(t, g.AdminURL()+"/metrics")
	for _, want := range []string{
		fmt.Sprintf("taskgate_policy_info{hash=%q} 1", known.Policy),
		`taskgate_policy_condition_failures_total{rule="odd",source="`,
		`taskgate_tool_pace_seconds{quantile="0.9",tool="quick",upstream="u"} `,
		"taskgate_policy_tools_measured 1\n",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, no := range []string{"made-up", `tool="idle"`} {
		if strings.Contains(metrics, no) {
			t.Errorf("metrics hold %s", no)
		}
	}
}

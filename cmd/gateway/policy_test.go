package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/internal/mcptest"
	"taskgate/wire"
)

func TestExplainKnowsTheConfiguration(t *testing.T) {
	var out bytes.Buffer
	c := explainCmd{policyFlags: policyFlags{Config: filepath.Join("..", "..", "config.example.yaml")}, Tool: "x", Upstream: "reports", Args: "{}", Principal: "a/b"}
	t.Setenv("REDIS_PASSWORD", "x")
	t.Setenv("REPORTS_API_KEY", "y")
	t.Setenv("REPORTS_CLIENT_SECRET", "z")
	t.Setenv("OTLP_AUTHORIZATION", "w")
	t.Setenv("TASKGATE_STORE_KEY", strings.Repeat("0", 64))
	cfg, _, err := c.load()
	if err != nil {
		t.Fatal(err)
	}
	limits := limitsOf(cfg, "reports")
	if len(limits) != 2 || limits[0].After != cfg.Upstreams[0].Limits.QueueTimeout || limits[1].After != cfg.Timeouts.Connect {
		t.Errorf("limits: %+v", limits)
	}
	c.Config = ""
	if err := c.Run(&out, io.Discard); err != nil || !strings.Contains(out.String(), "timeouts.connect     10s") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// TestHeadersThatPolicySees: with a configuration, a condition on a header that
// it does not list is an error, and one on another is given the header's value.
func TestHeadersThatPolicySees(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "rules: [{name: red, match: {when: 'headers[\"x-team\"] == \"red\"'}}]\n")
	bad := write("bad.yaml", "rules: [{match: {when: '\"x-batch\" in headers'}}]\n")
	cfg := write("config.yaml", "policy: ["+good+"]\npolicyHeaders: [X-Team]\nupstreams: [{name: u, url: http://127.0.0.1:1/mcp}]\n")
	for _, c := range []struct {
		flags policyFlags
		want  error
		text  string
	}{
		{policyFlags{Config: cfg}, nil, "errors: 0"},
		{policyFlags{Policy: []string{bad}}, nil, "errors: 0"},
		{policyFlags{Policy: []string{bad}, Config: cfg}, errFindings, `bad.yaml:1: error: rules[0].match.when: no condition sees the header "x-batch"`},
		{policyFlags{}, errNoPolicy, ""},
	} {
		var out bytes.Buffer
		err := (&checkCmd{policyFlags: c.flags}).Run(&out)
		if !errors.Is(err, c.want) || !strings.Contains(out.String(), c.text) {
			t.Errorf("%+v: got %q, %v", c.flags, out.String(), err)
		}
	}
	for value, rule := range map[string]string{"red": `"red"`, "blue": `"defaults"`} {
		var out bytes.Buffer
		c := explainCmd{policyFlags: policyFlags{Config: cfg}, Tool: "x", Upstream: "u", Args: "{}", Principal: "a/b", Header: map[string]string{"X-Team": value}}
		if err := c.Run(&out, io.Discard); err != nil || !strings.Contains(out.String(), "is decided by "+rule) {
			t.Errorf("%s: got %q, %v", value, out.String(), err)
		}
	}
}

// TestExplainOfARunningGateway: --live takes in what a gateway has measured, and
// tells when that gateway decides by something else.
func TestExplainOfARunningGateway(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte("defaults: {promoteAfter: auto}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	quick := mcptest.Tool{Name: "quick", Run: func(*mcptest.Call) (wire.Raw, *wire.Error) { return mcptest.Text("done"), nil }}
	cfg := config.Default()
	cfg.Listen, cfg.AdminListen, cfg.Store, cfg.Policy = "127.0.0.1:0", "127.0.0.1:0", "memory", []string{file}
	if err := cfg.SetUpstream(mcptest.NewModern(quick).Start(t)); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, "test", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	client := mcptest.NewClient(a.Endpoints()[0], mcptest.TasksAndInput)
	t.Cleanup(client.Close)
	for range 6 {
		if _, err := client.CallTool(t.Context(), "quick", `{}`); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tool       string
		policy     []string
		out, notes string
	}{
		{"quick", []string{file}, "measured      6 calls  of late;", ""},
		{"quick", nil, "promoteAfter  2s  ", "note: the gateway there has another policy ("},
		{"slow", []string{file}, "measured      0 calls", `note: the gateway there knows no tool "slow" of default`},
	} {
		var out, notes bytes.Buffer
		e := explainCmd{policyFlags: policyFlags{Policy: c.policy}, Tool: c.tool, Upstream: "default", Args: "{}", Principal: "a/b", Live: a.AdminURL()}
		if err := e.Run(&out, &notes); err != nil || !strings.Contains(out.String(), c.out) || !strings.HasPrefix(notes.String(), c.notes) || (c.notes == "" && notes.Len() > 0) {
			t.Errorf("%s: got %v\n%s\n%s", c.tool, err, &out, &notes)
		}
	}
	e := explainCmd{Tool: "quick", Args: "{}", Principal: "a/b", Live: a.Endpoints()[0]}
	if err := e.Run(io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "is this the adminListen of a gateway?") {
		t.Errorf("of an address that is no admin's: %v", err)
	}
}

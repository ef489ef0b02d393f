package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/policy"
)

// checkCmd checks policy files, and with an upstream their tool names too.
type checkCmd struct {
	Policy   []string      `help:"Policy file or directory of such; may be repeated." type:"path" required:"" placeholder:"FILE"`
	Upstream string        `help:"MCP server whose tools the patterns are held against." placeholder:"URL|COMMAND"`
	Name     string        `help:"What the policy calls that server." default:"default"`
	Timeout  time.Duration `help:"How long the server may take." default:"30s"`
}

var errFindings = errors.New("the policy has errors")

// Run prints every finding and fails when one is an error.
func (c *checkCmd) Run() error {
	var tools map[string][]policy.Tool
	if c.Upstream != "" {
		list, err := c.listTools()
		if err != nil {
			return fmt.Errorf("tools of %s: %w", c.Name, err)
		}
		tools = map[string][]policy.Tool{c.Name: list}
	}
	ok, err := policy.CheckFiles(os.Stdout, c.Policy, tools)
	if err == nil && !ok {
		err = errFindings
	}
	return err
}

func (c *checkCmd) listTools() ([]policy.Tool, error) {
	cfg := config.Default()
	if err := cfg.SetUpstream(c.Upstream); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	return app.ListTools(ctx, cfg, version)
}

// explainCmd says what policy makes of one call, and why.
type explainCmd struct {
	Policy     []string `help:"Policy file or directory of such; may be repeated. None: the built-in policy." type:"path" placeholder:"FILE"`
	Tool       string   `help:"The tool that is called." required:""`
	Upstream   string   `help:"The upstream's name." default:"default"`
	Args       string   `help:"The call's arguments." default:"{}" placeholder:"JSON"`
	Principal  string   `help:"Who calls, as tenant/subject." default:"default/anonymous"`
	Undeclared bool     `help:"The client does not declare the tasks extension."`
}

// Run prints the explanation.
func (c *explainCmd) Run() error {
	if !json.Valid([]byte(c.Args)) {
		return fmt.Errorf("--args is not JSON: %s", c.Args)
	}
	tenant, subject, ok := strings.Cut(c.Principal, "/")
	if !ok {
		return fmt.Errorf("--principal must be tenant/subject, not %q", c.Principal)
	}
	set, err := policy.Load(c.Policy)
	if err != nil {
		return err
	}
	q := policy.Query{Upstream: c.Upstream, Tool: c.Tool, Arguments: json.RawMessage(c.Args), Tenant: tenant, Subject: subject}
	return policy.Explain(set, q, !c.Undeclared).WriteText(os.Stdout)
}

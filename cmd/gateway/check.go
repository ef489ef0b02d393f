package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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

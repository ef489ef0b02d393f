package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"taskgate/cmd/gateway/app"
	"taskgate/config"
	"taskgate/policy"
)

// checkCmd checks policy files, and with an upstream their tool names too.
type checkCmd struct {
	policyFlags
	Upstream, Name string
	Timeout        time.Duration
}

func (c *checkCmd) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Check policy files.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	c.addTo(flags)
	flags.StringVar(&c.Upstream, "upstream", "", "MCP server whose tools the patterns are held against, as `URL|COMMAND`")
	flags.StringVar(&c.Name, "name", "default", "what the policy calls that server")
	flags.DurationVar(&c.Timeout, "timeout", 30*time.Second, "how long the server may take")
	return cmd
}

var (
	errFindings = errors.New("the policy has errors")
	errNoPolicy = errors.New("nothing to check: name policy files with --policy, or a configuration that does with --config")
)

// Run prints every finding and fails when one is an error.
func (c *checkCmd) Run(out io.Writer) error {
	cfg, sees, err := c.load()
	switch {
	case err != nil:
		return err
	case len(cfg.Policy) == 0:
		return errNoPolicy
	}
	var upstreams map[string]policy.Upstream
	if c.Upstream != "" {
		list, err := c.listTools()
		if err != nil {
			return fmt.Errorf("tools of %s: %w", c.Name, err)
		}
		upstreams = map[string]policy.Upstream{c.Name: {Tools: list, JobPrefix: upstreamOf(cfg, c.Name).JobPrefix}}
	}
	ok, err := policy.CheckFiles(out, cfg.Policy, sees, upstreams)
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

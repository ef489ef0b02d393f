package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"taskgate/config"
	"taskgate/policy"
)

// explainCmd says what policy makes of one call, and why.
type explainCmd struct {
	policyFlags
	Tool, Upstream, Args, Principal, Live string
	Header                                map[string]string
	Undeclared                            bool
}

func (c *explainCmd) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain", Short: "Say what policy makes of a call, and why.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.Run(cmd.OutOrStdout(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	c.addTo(flags)
	flags.StringVar(&c.Tool, "tool", "", "the tool that is called")
	flags.StringVar(&c.Upstream, "upstream", "default", "the upstream's name")
	flags.StringVar(&c.Args, "args", "{}", "the call's arguments, as `JSON`")
	flags.StringVar(&c.Principal, "principal", "default/anonymous", "who calls, as `TENANT/SUBJECT`")
	flags.Func("header", "`NAME=VALUE` of a request header that policy sees; may be repeated", c.addHeader)
	flags.StringVar(&c.Live, "live", "", "the adminListen, as `URL`, of a gateway that runs, for what it knows of the tool")
	flags.BoolVar(&c.Undeclared, "undeclared", false, "the client does not declare the tasks extension")
	required(cmd, "tool")
	return cmd
}

func (c *explainCmd) addHeader(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return fmt.Errorf("must be NAME=VALUE, not %q", s)
	}
	if c.Header == nil {
		c.Header = map[string]string{}
	}
	c.Header[name] = value
	return nil
}

// Run prints the explanation.
func (c *explainCmd) Run(out, notes io.Writer) error {
	cfg, sees, err := c.load()
	if err != nil {
		return err
	}
	set, err := policy.Load(cfg.Policy, sees)
	if err != nil {
		return err
	}
	q, err := c.query(sees)
	if err != nil {
		return err
	}
	if c.Live != "" {
		if err := askLive(c.Live, &q, set, notes); err != nil {
			return fmt.Errorf("--live: %w", err)
		}
	}
	return policy.Explain(set, q, !c.Undeclared, limitsOf(cfg, c.Upstream)...).WriteText(out)
}

// query is the call as policy sees it.
func (c *explainCmd) query(sees policy.Sees) (q policy.Query, err error) {
	if !json.Valid([]byte(c.Args)) {
		return q, fmt.Errorf("--args is not JSON: %s", c.Args)
	}
	tenant, subject, ok := strings.Cut(c.Principal, "/")
	if !ok {
		return q, fmt.Errorf("--principal must be tenant/subject, not %q", c.Principal)
	}
	return policy.Query{
		Upstream: c.Upstream, Tool: c.Tool, Arguments: json.RawMessage(c.Args),
		Tenant: tenant, Subject: subject, Headers: c.headers(sees),
	}, nil
}

// headers are those that policy sees of the call.
func (c *explainCmd) headers(sees policy.Sees) map[string]string {
	seen := map[string]string{}
	for name, value := range c.Header {
		if name = strings.ToLower(name); sees == nil || sees(name) {
			seen[name] = value
		}
	}
	return seen
}

// limitsOf are the time limits of the configuration between the gateway and the
// upstream of that name.
func limitsOf(cfg config.Config, upstream string) []policy.Limit {
	u := upstreamOf(cfg, upstream)
	return []policy.Limit{
		{Name: "limits.queueTimeout", After: u.Limits.QueueTimeout, Effect: "without a turn at the upstream for so long, " + policy.NotSent, Ends: true},
		{Name: "timeouts.connect", After: cfg.Timeouts.Connect, Effect: "without a connection to the upstream, " + policy.NotSent, Ends: true},
	}
}

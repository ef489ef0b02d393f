package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"taskgate/config"
	"taskgate/policy"
)

// explainCmd says what policy makes of one call, and why.
type explainCmd struct {
	policyFlags
	Tool       string            `help:"The tool that is called." required:""`
	Upstream   string            `help:"The upstream's name." default:"default"`
	Args       string            `help:"The call's arguments." default:"{}" placeholder:"JSON"`
	Principal  string            `help:"Who calls, as tenant/subject." default:"default/anonymous"`
	Header     map[string]string `help:"A request header that policy sees; may be repeated." placeholder:"NAME=VALUE"`
	Live       string            `help:"The adminListen of a gateway that runs, for what it knows of the tool." placeholder:"URL"`
	Undeclared bool              `help:"The client does not declare the tasks extension."`
}

// Run prints the explanation.
func (c *explainCmd) Run(k *kong.Kong) error {
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
		if err := askLive(c.Live, &q, set, k.Stderr); err != nil {
			return fmt.Errorf("--live: %w", err)
		}
	}
	return policy.Explain(set, q, !c.Undeclared, limitsOf(cfg, c.Upstream)...).WriteText(k.Stdout)
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

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"taskgate/config"
	"taskgate/policy"
)

// explainCmd says what policy makes of one call, and why.
type explainCmd struct {
	Policy     []string `help:"Policy file or directory of such; may be repeated. None: those of the configuration, else the built-in policy." type:"path" placeholder:"FILE"`
	Config     string   `help:"Configuration file, for the time limits beside those of policy; without it the defaults." type:"path" placeholder:"FILE"`
	Tool       string   `help:"The tool that is called." required:""`
	Upstream   string   `help:"The upstream's name." default:"default"`
	Args       string   `help:"The call's arguments." default:"{}" placeholder:"JSON"`
	Principal  string   `help:"Who calls, as tenant/subject." default:"default/anonymous"`
	Undeclared bool     `help:"The client does not declare the tasks extension."`
}

// Run prints the explanation.
func (c *explainCmd) Run(k *kong.Kong) error {
	if !json.Valid([]byte(c.Args)) {
		return fmt.Errorf("--args is not JSON: %s", c.Args)
	}
	tenant, subject, ok := strings.Cut(c.Principal, "/")
	if !ok {
		return fmt.Errorf("--principal must be tenant/subject, not %q", c.Principal)
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	set, err := policy.Load(cfg.Policy)
	if err != nil {
		return err
	}
	q := policy.Query{Upstream: c.Upstream, Tool: c.Tool, Arguments: json.RawMessage(c.Args), Tenant: tenant, Subject: subject}
	return policy.Explain(set, q, !c.Undeclared, limitsOf(cfg, c.Upstream)...).WriteText(k.Stdout)
}

// config is the configuration that the call would meet.
func (c *explainCmd) config() (config.Config, error) {
	cfg := config.Default()
	if c.Config != "" {
		var err error
		if cfg, err = config.Load(c.Config, os.Environ(), nil); err != nil {
			return cfg, err
		}
	}
	if len(c.Policy) > 0 {
		cfg.Policy = c.Policy
	}
	return cfg, nil
}

// limitsOf are the time limits of the configuration between the gateway and the
// upstream of that name.
func limitsOf(cfg config.Config, upstream string) []policy.Limit {
	var u config.Upstream
	u.SetDefaults()
	if i := slices.IndexFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == upstream }); i >= 0 {
		u = cfg.Upstreams[i]
	}
	const refused = "the client gets an error that says so, and nothing was sent"
	return []policy.Limit{
		{Name: "limits.queueTimeout", After: u.Limits.QueueTimeout, Effect: "without a turn at the upstream for so long, " + refused, Ends: true},
		{Name: "timeouts.connect", After: cfg.Timeouts.Connect, Effect: "without a connection to the upstream, " + refused, Ends: true},
	}
}
